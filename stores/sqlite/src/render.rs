//! Renders plans to SQL text, once per statement.

use std::sync::Arc;

use linchpin_core::entity::{EntityDesc, FieldDesc, Kind, SoftDelete};
use linchpin_core::filter::{Filter, Linked, Op, Operand, Source};
use linchpin_core::store::layout::{self, StoredIndex};
use linchpin_core::store::{After, Plan, aggregate_kinds};
use linchpin_core::{Error, Result, Value};
use linchpin_sql::access::{self, AccessPath, Reach};
use linchpin_sql::names::Naming;
use linchpin_sql::replaced::ReplacedField;
use linchpin_sql::short_reads::ShortReads;

/// A rendered statement.
#[derive(Debug)]
pub(super) struct Native {
    /// The statement. It returns the columns of the entity.
    pub(super) sql: Box<str>,
    /// The same write without `RETURNING`, for calls that only count.
    pub(super) counting: Option<Box<str>>,
    /// Reads the record after a write of one record.
    pub(super) read_back: Option<ReadBack>,
    /// Checks whether the record that an upsert would update exists.
    pub(super) existing_check: Option<Box<Self>>,
    pub(super) binds: Box<[Bind]>,
    pub(super) runs: Runs,
    /// The history of short attempts on the caller's thread.
    pub(super) short_reads: ShortReads,
    /// The kinds of the result columns, if they differ from those of the entity.
    pub(super) columns: Option<Box<[Kind]>>,
    /// The fields that also have an earlier column.
    pub(super) replaced: Box<[ReplacedField]>,
    /// The names with which the statement is rendered.
    pub(super) naming: Arc<Naming>,
}

/// A read by key of a record that was just written.
///
/// For `RETURNING`, SQLite creates a temporary table, which costs more than a second lookup of the
/// record. The lookup is used only if there can be no other write between the write and the lookup.
#[derive(Debug)]
pub(super) struct ReadBack {
    pub(super) sql: Box<str>,
    pub(super) key: Bind,
}

/// The thread on which a statement runs.
#[derive(Debug)]
pub(super) enum Runs {
    /// On the writer thread.
    Writer,
    /// On the caller's thread: it examines at most one row.
    Inline,
    /// On the caller's thread if the limit is small: it examines at most that number of rows.
    Limited(Source),
    /// On the caller's thread if there are few values in a slot. For each value it examines at most
    /// `limit` rows; without a limit, one row.
    Keyed {
        values: usize,
        limit: Option<Source>,
    },
    /// On a thread of the [`Pool`](super::pool::Pool) for long reads, unless a short attempt
    /// succeeds.
    InPool,
}

/// The source of a parameter: a value, or the argument at a slot.
#[derive(Debug)]
pub(super) struct Bind {
    /// `Err` is the slot of an argument.
    pub(super) value: std::result::Result<Value, usize>,
    pub(super) form: Form,
    /// The field whose earlier value is bound instead of the value.
    pub(super) earlier: Option<Box<ReplacedField>>,
}

/// The form in which a value is bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Plain,
    /// Case-folded, as the right side of `$contains`.
    Folded,
}

/// Renders a plan.
///
/// # Errors
/// If the plan contains a source that should be an argument.
pub(super) fn render(
    entity: &'static EntityDesc,
    plan: &Plan,
    naming: &Arc<Naming>,
) -> Result<Native> {
    let mut r = Renderer::new(entity, naming, '?', 0);
    let (mut aggregate_columns, mut read_back, mut existing_check) = (None, None, None);
    let table = r.table();
    let columns = r.columns();
    let (sql, counting, runs) = match plan {
        Plan::Insert => (r.insert(), None, Runs::Writer),
        Plan::Select {
            filter,
            order,
            after,
            limit,
        } => {
            let reach = access::reach(entity, filter, order);
            let (hint, runs) = match (reach, limit) {
                (Reach::One, _) => (String::new(), Runs::Inline),
                // A page number makes SQLite read all skipped rows.
                (Reach::Page(path), Some(_)) if matches!(after, Some(After::Count(_))) => {
                    (r.index_hint(&path), Runs::InPool)
                }
                (Reach::Page(path), Some(limit)) => {
                    (r.index_hint(&path), Runs::Limited(limit.clone()))
                }
                _ => (String::new(), Runs::InPool),
            };
            (
                r.select(&hint, filter, order, after.as_ref(), limit.as_ref())?,
                None,
                runs,
            )
        }
        Plan::Related {
            filter,
            field,
            values,
            order,
            limit,
        } => {
            let (sql, runs) = r.related(filter, (*field, *values), order, limit.as_ref())?;
            (sql, None, runs)
        }
        Plan::Chosen {
            filter,
            sql,
            order,
            limit,
        } => (
            r.chosen(filter, sql, order, limit.as_ref())?,
            None,
            Runs::InPool,
        ),
        // A transaction is the only writer, so no lock is needed.
        Plan::Exists { filter } | Plan::Hold { filter } => {
            let (hint, runs) = match access::reach(entity, filter, &[]) {
                Reach::One => (String::new(), Runs::Inline),
                Reach::Page(path) => (r.index_hint(&path), Runs::Inline),
                Reach::Scan => (String::new(), Runs::InPool),
            };
            (
                format!(
                    "SELECT 1 FROM {table}{hint} WHERE {} LIMIT 1",
                    r.filter(filter)?
                ),
                None,
                runs,
            )
        }
        // A transaction is the only writer, so no lock is needed.
        Plan::Lock { filter, pick } => {
            let key = r.column(entity.primary)?;
            (
                format!(
                    "SELECT {columns} FROM {table} WHERE {} ORDER BY {key}",
                    r.picked(filter, pick.as_ref())?
                ),
                None,
                Runs::InPool,
            )
        }
        Plan::Aggregate {
            filter,
            groups,
            by_value,
            compute,
            limit,
        } => {
            aggregate_columns = Some(aggregate_kinds(entity, groups, by_value, compute));
            (
                r.divided(filter, groups, by_value, compute, *limit)?,
                None,
                Runs::InPool,
            )
        }
        Plan::Update { filter, set, pick } => {
            let [with, from, within] = r.figure(set)?.unwrap_or_default();
            let set = r.assignments(set)?;
            let condition = r.picked(filter, pick.as_ref())?;
            let plain = format!("{with}UPDATE {table} SET {set}{from} WHERE {condition}{within}");
            if let (Some(key), None) = (access::key_of(entity, filter), pick) {
                let column = r.column(entity.primary)?;
                let value = match key {
                    Source::Arg { index, .. } => Err(*index),
                    Source::Value(value) => Ok(value.clone()),
                    other => {
                        return Err(Error::internal(format!(
                            "a plan contains {other:?} instead of an argument"
                        )));
                    }
                };
                let sql = format!("SELECT {columns} FROM {table} WHERE {column} = ?");
                read_back = Some(ReadBack {
                    sql: sql.into(),
                    key: Bind {
                        value,
                        form: Form::Plain,
                        earlier: None,
                    },
                });
            }
            (
                format!("{plain} RETURNING {columns}"),
                Some(plain),
                Runs::Writer,
            )
        }
        Plan::Delete { filter, pick } => {
            let plain = format!(
                "DELETE FROM {table} WHERE {}",
                r.picked(filter, pick.as_ref())?
            );
            (
                format!("{plain} RETURNING {columns}"),
                Some(plain),
                Runs::Writer,
            )
        }
        Plan::Upsert { keys, filter, set } => {
            existing_check = Some(Box::new(render(
                entity,
                &Plan::Exists {
                    filter: layout::upsert_match(entity, keys),
                },
                naming,
            )?));
            (r.upsert(keys, filter, set)?, None, Runs::Writer)
        }
    };
    let counting = counting.map(Into::into);
    Ok(Native {
        sql: sql.into(),
        counting,
        read_back,
        existing_check,
        binds: r.binds.into(),
        runs,
        short_reads: ShortReads::default(),
        columns: aggregate_columns,
        replaced: r.replaced,
        naming: Arc::clone(naming),
    })
}

/// A condition with literal values, for the application's own SQL that already has parameters `$1`
/// to `$before`.
///
/// # Errors
/// If the filter contains an argument.
pub(super) fn condition(
    entity: &'static EntityDesc,
    filter: &Filter,
    naming: &Naming,
    before: usize,
) -> Result<(String, Vec<Bind>)> {
    let mut r = Renderer::new(entity, naming, '$', before);
    Ok((r.filter(filter)?, r.binds))
}

/// The condition of a partial index as statements write it.
#[cfg(test)]
pub(super) fn index_condition(entity: &'static EntityDesc, index: &StoredIndex) -> String {
    Renderer::new(entity, &Naming::default(), '?', 0).index_condition(index)
}

/// A name in SQL; doubling the quotes makes every name legal.
pub(super) fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A name in the application's own SQL, in backticks. If there is no such column, SQLite reads a
/// name in double quotes as a string, but never a name in backticks.
pub(super) fn name_only(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// The path of an item's member, as SQL text.
pub(super) fn member(key: &str) -> String {
    format!("'$.\"{}\"'", key.replace('\'', "''"))
}

pub(super) struct Renderer<'a> {
    pub(super) entity: &'static EntityDesc,
    pub(super) naming: &'a Naming,
    /// The qualifier of its columns: the name of its table.
    scope: String,
    /// The number of aliases used for other tables.
    links: usize,
    /// The character before the number of a parameter.
    mark: char,
    /// The number of parameters before those of this text.
    before: usize,
    /// The fields of its entity that also have an earlier column.
    pub(super) replaced: Box<[ReplacedField]>,
    binds: Vec<Bind>,
}

impl<'a> Renderer<'a> {
    fn new(entity: &'static EntityDesc, naming: &'a Naming, mark: char, before: usize) -> Self {
        let mut renderer = Self {
            entity,
            naming,
            scope: String::new(),
            links: 0,
            mark,
            before,
            replaced: naming.replaced_fields(entity),
            binds: Vec::new(),
        };
        renderer.scope = renderer.table();
        renderer
    }
}

impl Renderer<'_> {
    /// Quotes a name.
    pub(super) fn quote(&self, name: &str) -> String {
        if self.mark == '$' {
            name_only(name)
        } else {
            quote(name)
        }
    }

    /// The table of the entity.
    pub(super) fn table(&self) -> String {
        self.table_of(self.entity)
    }

    pub(super) fn table_of(&self, entity: &EntityDesc) -> String {
        self.quote(self.naming.table(entity))
    }

    fn column_of(&self, field: &FieldDesc) -> String {
        self.quote(self.naming.column(self.entity, field))
    }

    /// The clause that selects an access path into the table: `INDEXED BY ..`.
    ///
    /// The clause is written whenever the names of the indexes are known. Without it, SQLite would
    /// choose by the statistics of the last `ANALYZE`.
    pub(super) fn index_hint(&self, path: &AccessPath) -> String {
        let entity = self.entity;
        if !self.naming.knows_indexes(entity) {
            return String::new();
        }
        match (path, entity.primary_field().kind) {
            (AccessPath::Index(index), _) => format!(" INDEXED BY {}", quote(&index.name(entity))),
            // An integer key is the rowid: the table is stored in the order of the key.
            (AccessPath::Key, Kind::Integer) => " NOT INDEXED".to_owned(),
            (AccessPath::Key, _) => format!(
                " INDEXED BY {}",
                quote(&format!("sqlite_autoindex_{}_1", entity.storage_name))
            ),
        }
    }

    /// The condition that a record is not marked as deleted; `None` if deleted records are removed.
    fn live(&self) -> Option<String> {
        let soft_delete = self.entity.soft_delete?;
        let field = self.entity.fields.get(soft_delete.field())?;
        let column = self.column_of(field);
        Some(match soft_delete {
            SoftDelete::At(_) => format!("{column} IS NULL"),
            SoftDelete::Is(_, mark) => {
                // The name of a variant, fixed in the declaration.
                let mark = match mark() {
                    Value::Text(text) => text.replace('\'', "''"),
                    _ => String::new(),
                };
                format!(
                    "{column} {} '{mark}'",
                    if field.optional { "IS NOT" } else { "<>" }
                )
            }
        })
    }

    /// The condition of a partial index; empty if it contains all records.
    pub(super) fn index_condition(&self, index: &StoredIndex) -> String {
        let live = index.live.then(|| self.live()).flatten();
        let null = index
            .null
            .map(|field| format!("{} IS NULL", self.column_of(&self.entity.fields[field])));
        let conditions: Vec<String> = live.into_iter().chain(null).collect();
        if conditions.is_empty() {
            String::new()
        } else {
            format!(" WHERE {}", conditions.join(" AND "))
        }
    }

    /// Renders a part with the columns of another table, under an alias.
    pub(super) fn over<T>(
        &mut self,
        entity: &'static EntityDesc,
        scope: String,
        part: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let replaced = self.naming.replaced_fields(entity);
        let outer = (
            std::mem::replace(&mut self.entity, entity),
            std::mem::replace(&mut self.scope, scope),
            std::mem::replace(&mut self.replaced, replaced),
        );
        let rendered = part(self);
        (self.entity, self.scope, self.replaced) = outer;
        rendered
    }

    /// The condition that a related record exists. It is looked up by its key for each row, so that
    /// a page reads at most one record of the other table per row.
    fn linked(&mut self, linked: &Linked) -> Result<String> {
        let own = format!("{}.{}", self.scope, self.column(linked.field)?);
        self.links += 1;
        let (table, alias) = (
            self.table_of(linked.of),
            self.quote(&format!("linchpin {}", self.links)),
        );
        self.over(linked.of, alias.clone(), |r| {
            let at = r.column(linked.at)?;
            Ok(format!(
                "EXISTS (SELECT 1 FROM {table} AS {alias} WHERE {alias}.{at} = {own} AND {})",
                r.filter(&linked.filter)?
            ))
        })
    }

    /// The columns of a row, as [`SqliteRow`](super::row::SqliteRow) reads it.
    pub(super) fn columns(&self) -> String {
        let fields = self.entity.fields;
        let mut all: Vec<String> = fields.iter().map(|f| self.column_of(f)).collect();
        for replaced in &self.replaced {
            let (old, source) = self.earlier_columns(replaced);
            all.push(replaced.added([&self.column_of(&fields[replaced.field]), &old, &source]));
        }
        all.join(", ")
    }

    /// The columns of the fields.
    pub(super) fn names(&self) -> Vec<String> {
        let fields = self.entity.fields.iter();
        fields.map(|field| self.column_of(field)).collect()
    }

    /// The earlier column of a field, and the column with the copy of its value.
    pub(super) fn earlier_columns(&self, replaced: &ReplacedField) -> (String, String) {
        let columns = &replaced.columns;
        (self.quote(&columns.old), self.quote(&columns.source))
    }

    /// The column of a field that a statement compares or computes.
    pub(super) fn column(&self, field: usize) -> Result<String> {
        let fields = self.entity.fields;
        let field = fields
            .get(field)
            .ok_or_else(|| Error::internal("a plan names a field that does not exist"))?;
        self.naming.refuse_replaced(self.entity, field)?;
        Ok(self.column_of(field))
    }

    pub(super) fn parameter(
        &mut self,
        value: std::result::Result<Value, usize>,
        form: Form,
    ) -> String {
        self.bind(Bind {
            value,
            form,
            earlier: None,
        })
    }

    /// Adds a parameter with a value of a field, converted to the earlier type of the field.
    pub(super) fn earlier(
        &mut self,
        value: std::result::Result<Value, usize>,
        replaced: &ReplacedField,
    ) -> String {
        self.bind(Bind {
            value,
            form: Form::Plain,
            earlier: Some(Box::new(replaced.clone())),
        })
    }

    fn bind(&mut self, bind: Bind) -> String {
        self.binds.push(bind);
        format!("{}{}", self.mark, self.before + self.binds.len())
    }

    pub(super) fn source(&mut self, source: &Source, form: Form) -> Result<String> {
        match source {
            Source::Value(value) => Ok(self.parameter(Ok(value.clone()), form)),
            Source::Arg { index, .. } => Ok(self.parameter(Err(*index), form)),
            other => Err(Error::internal(format!(
                "a plan contains {other:?} instead of an argument"
            ))),
        }
    }

    pub(super) fn filter(&mut self, filter: &Filter) -> Result<String> {
        match filter {
            Filter::All(list) if list.is_empty() => Ok("1".to_owned()),
            Filter::Any(list) if list.is_empty() => Ok("0".to_owned()),
            Filter::All(list) => self.join(list, " AND "),
            Filter::Any(list) => self.join(list, " OR "),
            // This is the exact condition of the partial indexes, so that SQLite can use these
            // indexes.
            Filter::Cond { .. } if layout::is_live(self.entity, filter) => {
                Ok(self.live().unwrap_or_default())
            }
            Filter::Cond { field, op, value } => self.condition(*field, *op, value),
            Filter::Item {
                field,
                key,
                value,
                must_exist,
            } => {
                let (column, member) = (self.column(*field)?, member(key));
                let value = self.source(value, Form::Plain)?;
                let there = format!(
                    "EXISTS (SELECT 1 FROM json_each(COALESCE({column}, '[]')) WHERE json_extract(value, {member}) = {value})"
                );
                Ok(if *must_exist {
                    there
                } else {
                    format!("NOT {there}")
                })
            }
            Filter::Linked(linked) => self.linked(linked),
            Filter::Given(source) => {
                Ok(format!("{} IS NOT NULL", self.source(source, Form::Plain)?))
            }
        }
    }

    fn join(&mut self, list: &[Filter], operator: &str) -> Result<String> {
        let parts: Vec<String> = list.iter().map(|f| self.filter(f)).collect::<Result<_>>()?;
        Ok(if parts.len() == 1 {
            parts.concat()
        } else {
            format!("({})", parts.join(operator))
        })
    }

    // Two-valued logic: a comparison with null is false. SQL returns NULL, which counts as false,
    // because conditions are never negated here. `$ne` and `$nin` are true for null.
    fn condition(&mut self, field: usize, op: Op, value: &Operand) -> Result<String> {
        let column = self.column(field)?;
        let optional = self.entity.fields[field].optional;
        let one = match value {
            Operand::List(list) => return self.list(&column, op, list),
            Operand::One(source) => source,
        };
        let null = matches!(one, Source::Value(Value::Null));
        let nullable = matches!(one, Source::Arg { nullable: true, .. });
        Ok(match op {
            Op::Eq if null => format!("{column} IS NULL"),
            Op::Eq if nullable => format!("{column} IS {}", self.source(one, Form::Plain)?),
            Op::Eq => format!("{column} = {}", self.source(one, Form::Plain)?),
            Op::Ne if null => format!("{column} IS NOT NULL"),
            Op::Ne if nullable || optional => {
                format!("{column} IS NOT {}", self.source(one, Form::Plain)?)
            }
            Op::Ne => format!("{column} <> {}", self.source(one, Form::Plain)?),
            Op::Gt => format!("{column} > {}", self.source(one, Form::Plain)?),
            Op::Gte => format!("{column} >= {}", self.source(one, Form::Plain)?),
            Op::Lt => format!("{column} < {}", self.source(one, Form::Plain)?),
            Op::Lte => format!("{column} <= {}", self.source(one, Form::Plain)?),
            Op::In => format!(
                "{column} IN (SELECT value FROM json_each({}))",
                self.source(one, Form::Plain)?
            ),
            Op::Nin => {
                format!(
                    "({column} IS NULL OR {column} NOT IN (SELECT value FROM json_each({})))",
                    self.source(one, Form::Plain)?
                )
            }
            Op::Contains => format!(
                "linchpin_contains({column}, {})",
                self.source(one, Form::Folded)?
            ),
            Op::Shorter => format!(
                "json_array_length(COALESCE({column}, '[]')) < {}",
                self.source(one, Form::Plain)?
            ),
            Op::Longer => format!(
                "json_array_length(COALESCE({column}, '[]')) > {}",
                self.source(one, Form::Plain)?
            ),
            Op::Has => format!(
                "EXISTS (SELECT 1 FROM json_each({column}) WHERE value = {})",
                self.source(one, Form::Plain)?
            ),
        })
    }

    fn list(&mut self, column: &str, op: Op, list: &[Source]) -> Result<String> {
        let (each, with, empty) = match op {
            Op::In => ("IS", " OR ", "0"),
            Op::Nin => ("IS NOT", " AND ", "1"),
            _ => return Err(Error::internal("only $in and $nin accept lists")),
        };
        if list.is_empty() {
            return Ok(empty.to_owned());
        }
        let certain = |s: &Source| {
            matches!(s, Source::Value(v) if !v.is_null())
                || matches!(
                    s,
                    Source::Arg {
                        nullable: false,
                        ..
                    }
                )
        };
        if op == Op::In && list.iter().all(certain) {
            let values: Vec<String> = list
                .iter()
                .map(|s| self.source(s, Form::Plain))
                .collect::<Result<_>>()?;
            return Ok(format!("{column} IN ({})", values.join(", ")));
        }
        let parts: Vec<String> = list
            .iter()
            .map(|s| Ok(format!("{column} {each} {}", self.source(s, Form::Plain)?)))
            .collect::<Result<_>>()?;
        Ok(format!("({})", parts.join(with)))
    }
}
