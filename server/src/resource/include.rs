//! Related records in a response. Each relation needs one further statement, whatever the number of
//! records.
//!
//! Rows are read as JSON with notes: the end of each row, and the keys that it contains. The
//! related records are inserted between the last member of a row and its closing brace. No JSON is
//! parsed.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use super::restriction::Included;
use super::{BoxFuture, Form, Outcome, Table};
use crate::entity::{Link, Relation, ScopeFrom};
use crate::filter::{Filter, Op, Operand, Source};
use crate::store::{Order, Plan, Projection, Rows};
use crate::validate::list_value;
use crate::{Cx, Error, Result, Value};

/// The relations that are included with the records of an entity.
#[derive(Debug, Default)]
pub struct Includes {
    /// Each relation once.
    pub relations: Vec<Include>,
}

/// A relation whose records are included.
#[derive(Debug)]
pub struct Include {
    /// The relation.
    pub relation: &'static Relation,
    /// The other entity.
    pub table: Arc<Table>,
    /// The fields of the related records in the response.
    pub projection: Arc<Projection>,
    /// The call, limited to the related records that it may read.
    pub cx: Cx,
    /// The relations that are included with the related records.
    pub inner: Includes,
}

/// The key by which related records are found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum RecordKey {
    Int(i64),
    Text(String),
}

impl RecordKey {
    fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Int(key) => Some(Self::Int(*key)),
            Value::Text(key) => Some(Self::Text(key.clone())),
            _ => None,
        }
    }

    fn value(&self) -> Value {
        match self {
            Self::Int(key) => Value::Int(*key),
            Self::Text(key) => Value::Text(key.clone()),
        }
    }
}

/// The JSON of related records, and the range of each key.
struct RelatedJson {
    json: Vec<u8>,
    ranges: BTreeMap<RecordKey, Range<usize>>,
    /// The JSON for keys without related records.
    none: &'static [u8],
}

impl RelatedJson {
    fn get(&self, key: Option<&RecordKey>) -> &[u8] {
        key.and_then(|key| self.ranges.get(key))
            .map_or(self.none, |at| &self.json[at.clone()])
    }
}

const NO_RECORD: &[u8] = b"null";
const NO_PAGE: &[u8] = b"{\"items\":[],\"nextCursor\":null,\"hasMore\":false}";

impl Includes {
    /// The fields of an entity's records that are needed to find related records.
    fn fields(&self, table: &Table) -> Vec<usize> {
        let own = |include: &Include| match include.relation.link {
            Link::BelongsTo { key, .. } => key,
            Link::HasMany { .. } => table.desc.primary,
        };
        self.relations.iter().map(own).collect()
    }

    /// The form in which an entity's records have to be read.
    pub fn form(&self, table: &Table, projection: &Arc<Projection>) -> Form {
        Form::Noted(Arc::clone(projection), self.fields(table).into())
    }

    /// Checks whether tenant and scope allow the caller to see the related records.
    ///
    /// # Errors
    /// 401 or 403.
    pub fn admit(&self) -> Result<()> {
        for include in &self.relations {
            include.table.admit(&include.cx, include.route().name())?;
            include.inner.admit()?;
        }
        Ok(())
    }

    /// Adds the related records to a response: to one record, a page or an array.
    ///
    /// # Errors
    /// If the store fails; `internal` if the records were not read in [`Includes::form`].
    pub async fn complete(
        &self,
        table: &Table,
        projection: &Projection,
        outcome: Outcome,
    ) -> Result<Outcome> {
        Ok(match outcome {
            Outcome::Record(rows) => Outcome::Record(self.rows(table, projection, rows).await?),
            Outcome::Page { rows, next_cursor } => Outcome::Page {
                rows: self.rows(table, projection, rows).await?,
                next_cursor,
            },
            Outcome::List(rows) => Outcome::List(self.rows(table, projection, rows).await?),
            other => other,
        })
    }

    async fn rows(&self, table: &Table, projection: &Projection, mut rows: Rows) -> Result<Rows> {
        if rows.count == 0 && rows.json.is_empty() && rows.records.is_empty() {
            return Ok(rows);
        }
        // An override returned values; they are converted to JSON now.
        if !rows.records.is_empty() {
            let mut read = Rows::count().noting(self.fields(table).into());
            let mut json = Vec::with_capacity(512);
            for (n, record) in rows.records.iter().enumerate() {
                if n > 0 {
                    json.push(b',');
                }
                projection.write(&**record, &mut json);
                read.push(&**record);
                if let Some(note) = read.notes.as_mut().and_then(|notes| notes.rows.last_mut()) {
                    note.end = json.len();
                }
            }
            (rows.json, rows.notes) = (json, read.notes);
            rows.records.clear();
        }
        if rows.noted().is_empty() {
            return Err(Error::internal(
                "the records were read in a form that nothing can be included in",
            ));
        }
        let objects = self.insert_related(table, &rows, b",").await?;
        rows.json = objects.json;
        rows.notes = None;
        Ok(rows)
    }

    /// Inserts the related records into the rows. Returns the rows, separated by `between`, and the
    /// range of each row.
    async fn insert_related(&self, table: &Table, rows: &Rows, between: &[u8]) -> Result<Objects> {
        let fields = self.fields(table);
        let mut attached = Vec::with_capacity(self.relations.len());
        for (include, field) in self.relations.iter().zip(&fields) {
            let at = rows
                .noted_at(*field)
                .ok_or_else(|| Error::internal("a key was not noted"))?;
            let keys: Vec<Option<RecordKey>> = rows
                .noted()
                .iter()
                .map(|note| note.values.get(at).and_then(RecordKey::of))
                .collect();
            let distinct: BTreeSet<RecordKey> = keys.iter().flatten().cloned().collect();
            let found = include.read_related(distinct).await?;
            attached.push((include.relation.wire, keys, found));
        }
        let mut out = Objects {
            json: Vec::with_capacity(rows.json.len() * 2),
            at: Vec::with_capacity(rows.noted().len()),
        };
        let mut start = 0;
        for (n, note) in rows.noted().iter().enumerate() {
            if n > 0 {
                out.json.extend_from_slice(between);
            }
            let begin = out.json.len();
            // The closing brace follows the related records.
            let own = &rows.json[start..note.end.saturating_sub(1)];
            out.json.extend_from_slice(own);
            let mut comma = own.len() > 1;
            for (wire, keys, found) in &attached {
                if std::mem::replace(&mut comma, true) {
                    out.json.push(b',');
                }
                crate::json::write_str(wire, &mut out.json);
                out.json.push(b':');
                out.json.extend_from_slice(found.get(keys[n].as_ref()));
            }
            out.json.push(b'}');
            out.at.push(begin..out.json.len());
            // A comma separates rows.
            start = note.end + 1;
        }
        Ok(out)
    }
}

/// JSON objects, and the range of each in the text.
struct Objects {
    json: Vec<u8>,
    at: Vec<Range<usize>>,
}

impl Include {
    fn route(&self) -> Included {
        Included::of(self.relation)
    }

    /// The related records of some keys.
    fn read_related(&self, keys: BTreeSet<RecordKey>) -> BoxFuture<'_, Result<RelatedJson>> {
        Box::pin(async move {
            let none = if let Link::BelongsTo { .. } = self.relation.link {
                NO_RECORD
            } else {
                NO_PAGE
            };
            let mut out = RelatedJson {
                json: Vec::new(),
                ranges: BTreeMap::new(),
                none,
            };
            if keys.is_empty() {
                return Ok(out);
            }
            let (table, cx) = (&self.table, &self.cx);
            let (field, order, _) = parts(self.relation, table);
            let noted = std::iter::once(field)
                .chain(order.iter().map(|o| o.field))
                .chain(self.inner.fields(table));
            let rows = Rows::json(&self.projection).noting(noted.collect());
            let mut rows = table
                .related(
                    cx,
                    self.relation,
                    keys.iter().map(RecordKey::value).collect(),
                    rows,
                )
                .await?;
            let groups = group(self.relation, &mut rows);
            let objects = self.inner.insert_related(table, &rows, b",").await?;
            for (key, members, more) in groups {
                let Some(first) = objects.at.get(members.start).map(|at| at.start) else {
                    continue;
                };
                let last = objects.at.get(members.end - 1).map_or(first, |at| at.end);
                let begin = out.json.len();
                if let Link::BelongsTo { .. } = self.relation.link {
                    out.json.extend_from_slice(&objects.json[first..last]);
                } else {
                    let next = if more {
                        Some(table.next_related(cx, self.relation, &key, &rows, members.end - 1)?)
                    } else {
                        None
                    };
                    crate::json::write_page(
                        &objects.json[first..last],
                        next.as_deref(),
                        &mut out.json,
                    );
                }
                out.ranges.insert(key, begin..out.json.len());
            }
            Ok(out)
        })
    }
}

/// Position of the field of a name.
pub(crate) fn field_of(table: &Table, name: &str) -> Option<usize> {
    table
        .desc
        .fields
        .iter()
        .position(|field| field.name == name)
}

/// The field of the other entity that is compared, the order of its records, and the maximum number
/// per key.
fn parts(relation: &Relation, table: &Table) -> (usize, Vec<Order>, Option<u32>) {
    match relation.link {
        Link::BelongsTo { .. } => (table.desc.primary, Vec::new(), None),
        // The field exists: the macro checks it at compile time, and start-up checks descriptors
        // that were written by hand.
        Link::HasMany { key, max } => (
            field_of(table, key).unwrap_or(table.desc.primary),
            table.order(table.desc.sort),
            Some(max),
        ),
    }
}

/// Groups the rows by key. Returns at most the maximum number of rows per key, and whether there
/// were more.
fn group(relation: &Relation, rows: &mut Rows) -> Vec<(RecordKey, Range<usize>, bool)> {
    let max = match relation.link {
        Link::BelongsTo { .. } => 1,
        Link::HasMany { max, .. } => max as usize,
    };
    let mut groups: Vec<(RecordKey, Range<usize>, bool)> = Vec::new();
    let (mut json, mut notes) = (
        Vec::with_capacity(rows.json.len()),
        Vec::with_capacity(rows.noted().len()),
    );
    let mut start = 0;
    let records = std::mem::take(&mut rows.records);
    let mut kept = Vec::with_capacity(records.len());
    let mut records = records.into_iter();
    for mut note in rows
        .notes
        .as_mut()
        .map(|notes| std::mem::take(&mut notes.rows))
        .unwrap_or_default()
    {
        let (object, record) = (start..note.end, records.next());
        start = note.end + 1;
        // The first noted field is the field that was compared.
        let Some(key) = note.values.first().and_then(RecordKey::of) else {
            continue;
        };
        match groups.last_mut().filter(|(of, ..)| *of == key) {
            Some((_, members, more)) if members.len() == max => {
                *more = true;
                continue;
            }
            Some((_, members, _)) => members.end += 1,
            None => groups.push((key, notes.len()..notes.len() + 1, false)),
        }
        if !object.is_empty() {
            if !json.is_empty() {
                json.push(b',');
            }
            json.extend_from_slice(&rows.json[object]);
        }
        note.end = json.len();
        notes.push(note);
        kept.extend(record);
    }
    (rows.json, rows.records) = (json, kept);
    if let Some(noted) = &mut rows.notes {
        noted.rows = notes;
    }
    groups
}

/// The records of a relation, and the cursor of the next page if there are more records.
type Group = (Vec<Box<[Value]>>, Option<String>);

impl Table {
    /// A relation of the entity by its name, which the macro has generated.
    fn relation(&self, name: &str) -> Result<&'static Relation> {
        let found = self
            .desc
            .relations
            .iter()
            .find(|relation| relation.name == name);
        found.ok_or_else(|| {
            Error::internal(format!("`{}` has no relation `{name}`", self.desc.name))
        })
    }

    /// Reads the records of a relation for several keys, as values, in one statement.
    ///
    /// # Errors
    /// If the store fails; 401 or 403 if the caller lacks a value that the tenant or a scope of the
    /// other entity needs.
    pub(super) async fn related_values(
        &self,
        cx: &Cx,
        name: &str,
        keys: &[Value],
    ) -> Result<Vec<Group>> {
        let relation = self.relation(name)?;
        let other = self.sibling((relation.target)())?;
        let record_keys: Vec<Option<RecordKey>> = keys.iter().map(RecordKey::of).collect();
        let distinct: BTreeSet<RecordKey> = record_keys.iter().flatten().cloned().collect();
        let (field, order, _) = parts(relation, &other);
        let mut found = BTreeMap::new();
        if !distinct.is_empty() {
            let noted = std::iter::once(field).chain(order.iter().map(|o| o.field));
            let rows = Rows::records(other.desc).noting(noted.collect());
            let mut rows = other
                .related(
                    cx,
                    relation,
                    distinct.iter().map(RecordKey::value).collect(),
                    rows,
                )
                .await?;
            for (key, members, more) in group(relation, &mut rows) {
                let next = if more {
                    Some(other.next_related(cx, relation, &key, &rows, members.end - 1)?)
                } else {
                    None
                };
                found.insert(key, (rows.records[members].to_vec(), next));
            }
        }
        let group_of = |key: &Option<RecordKey>| {
            key.as_ref()
                .and_then(|key| found.get(key))
                .cloned()
                .unwrap_or_default()
        };
        Ok(record_keys.iter().map(group_of).collect())
    }

    /// Reads the records of this entity for the keys of another entity's relation, in one
    /// statement, with the row-level filter of the route that returns them. It reads one record
    /// more per key than the response contains, to find out whether there are more.
    async fn related(
        &self,
        cx: &Cx,
        relation: &Relation,
        keys: Vec<Value>,
        rows: Rows,
    ) -> Result<Rows> {
        let (field, order, max) = parts(relation, self);
        let mut args = vec![list_value(&keys)];
        let limit = max.map(|max| {
            args.push(Value::Int(i64::from(max) + 1));
            Source::Arg {
                index: 1,
                nullable: false,
            }
        });
        let route = Included::of(relation).name();
        let statement = self.shape(route, &[b'r', field as u8, u8::from(max.is_some())], || {
            Plan::Related {
                filter: Filter::TRUE,
                field,
                values: 0,
                order,
                limit,
            }
        })?;
        self.execute(cx, &statement, args, rows).rows().await
    }

    /// The cursor that continues the relation at the `list` route of this entity, filtered by the
    /// key.
    fn next_related(
        &self,
        cx: &Cx,
        relation: &Relation,
        key: &RecordKey,
        rows: &Rows,
        last: usize,
    ) -> Result<String> {
        let (field, order, _) = parts(relation, self);
        let missing = || Error::internal("a position was not noted");
        let note = rows.noted().get(last).ok_or_else(missing)?;
        let position = |o: &Order| {
            rows.noted_at(o.field)
                .and_then(|at| note.values.get(at))
                .cloned()
                .ok_or_else(missing)
        };
        let position = order.iter().map(position).collect::<Result<Vec<_>>>()?;
        let has_parent_path = self
            .desc
            .scope
            .iter()
            .any(|scope| scope.field == field && matches!(scope.from, ScopeFrom::Path(_)));
        if has_parent_path {
            let cx = cx.clone().within_value(self.desc, field, key.value());
            return self.seal(&cx, "list", Filter::TRUE, &order, &position);
        }
        let key_condition = Filter::cond(field, Op::Eq, Operand::One(Source::Value(key.value())));
        self.seal(
            cx,
            "list",
            Filter::All(vec![key_condition]),
            &order,
            &position,
        )
    }
}
