//! Parts of write statements: records, assignments, the selection of the first match, upserts.

use tokio_postgres::types::Type;

use super::error::PENDING;
use super::render::{Renderer, direction, earlier_columns, literal, quote, type_of_column};
use linchpin_core::entity::Kind;
use linchpin_core::filter::{Filter, Source};
use linchpin_core::store::{Assign, AssignValue, Order, Pick, layout};
use linchpin_core::{Error, Result, Value};
use linchpin_sql::replaced::ReplacedField;

/// An alias for the aggregate of other records. Names of tables and columns contain no spaces.
const AGGREGATE: &str = "\"linchpin figure\"";

impl Renderer<'_> {
    /// Renders `INSERT`. The statement returns the primary key if the database can generate it.
    pub(super) fn insert(&mut self) -> Result<String> {
        let record = self.record()?;
        let may_generate_key = matches!(self.entity.primary_field().kind, Kind::Integer);
        let returning = if may_generate_key {
            format!(" RETURNING {}", self.name(self.entity.primary)?)
        } else {
            String::new()
        };
        Ok(format!("{record}{returning}"))
    }

    /// Renders `INSERT INTO … VALUES …` with the first arguments, one per field.
    fn record(&mut self) -> Result<String> {
        let mut names = Vec::new();
        let mut values = Vec::new();
        for field in 0..self.entity.fields.len() {
            let integer_key = field == self.entity.primary
                && matches!(self.entity.primary_field().kind, Kind::Integer);
            // If the key is null, the sequence of the table generates it.
            if integer_key && self.slot_is_null(field) {
                continue;
            }
            names.push(self.written(field)?);
            let kind = self.kind(field);
            let value = self.parameter(Err(field), kind);
            values.push(self.with_pending_check(field, value));
        }
        for replaced in self.replaced.clone() {
            let (old, source) = earlier_columns(&replaced);
            let earlier = self.earlier(Err(replaced.field), &replaced);
            names.extend([old, source]);
            values.extend([earlier.clone(), earlier]);
        }
        let naming = self.naming;
        for filler in naming.fillers(self.entity) {
            names.push(quote(&filler.column));
            let kind = type_of_column(&filler.kind);
            values.push(self.parameter(Ok(filler.value.clone()), kind));
        }
        Ok(format!(
            "INSERT INTO {} ({}) VALUES ({})",
            self.table(),
            names.join(", "),
            values.join(", ")
        ))
    }

    pub(super) fn assignments(&mut self, set: &[Assign]) -> Result<String> {
        let mut parts = Vec::with_capacity(set.len());
        for Assign { field, value } in set {
            if let Some(replaced) = ReplacedField::find(&self.replaced, *field).cloned() {
                parts.push(self.assigned_twice(&replaced, value)?);
                continue;
            }
            let value = self.assigned(*field, value)?;
            let value = self.with_pending_check(*field, value);
            parts.push(format!("{} = {value}", self.name(*field)?));
        }
        Ok(parts.join(", "))
    }

    /// An assignment to a field that also has an earlier column.
    fn assigned_twice(&mut self, replaced: &ReplacedField, value: &AssignValue) -> Result<String> {
        let AssignValue::Set(source) = value else {
            return self.name(replaced.field);
        };
        let new = self.source(source, self.kind(replaced.field))?;
        let given = match source {
            Source::Arg { index, .. } => Err(*index),
            Source::Value(value) => Ok(value.clone()),
            _ => return self.name(replaced.field),
        };
        let earlier = self.earlier(given, replaced);
        let (old, source) = earlier_columns(replaced);
        let column = self.written(replaced.field)?;
        Ok(format!(
            "{column} = {new}, {old} = {earlier}, {source} = {earlier}"
        ))
    }

    /// Adds a check to a value for a column. While the constraint of the column still refuses
    /// values that the declaration allows, the statement itself raises an error for these values:
    /// see [`PENDING`].
    fn with_pending_check(&self, field: usize, value: String) -> String {
        let column = self.naming.column(self.entity, &self.entity.fields[field]);
        let Some(pending) = self.naming.pending(self.entity, column) else {
            return value;
        };
        let mut accepted = match &pending.values {
            Some(values) => {
                let values: Vec<String> = values.iter().map(|value| literal(value)).collect();
                format!("({value}) IN ({})", values.join(", "))
            }
            None => format!("({value}) IS NOT NULL"),
        };
        if pending.null {
            accepted = format!("({value}) IS NULL OR {accepted}");
        }
        // The text depends on the value. A constant text would be converted, and fail, while the
        // server plans the statement.
        let text = format!(
            "{} || COALESCE(LEFT(CAST({value} AS text), 0), '')",
            literal(&format!("{PENDING}{column}"))
        );
        format!(
            "CASE WHEN {accepted} THEN {value} ELSE CAST(CAST(CAST({text} AS bigint) AS text) AS {}) \
             END",
            self.kind(field).name()
        )
    }

    fn assigned(&mut self, field: usize, value: &AssignValue) -> Result<String> {
        let (column, kind) = (self.column(field)?, self.kind(field));
        let texts = format!("COALESCE({column}, '{{}}'::text[])");
        let items = format!("COALESCE({column}, '[]'::jsonb)");
        Ok(match value {
            AssignValue::Figure(_) => format!("{AGGREGATE}.{AGGREGATE}"),
            AssignValue::Set(source) => self.source(source, kind)?,
            AssignValue::Add(source) => {
                format!("COALESCE({column}, 0) + {}", self.source(source, kind)?)
            }
            AssignValue::Push { value, dedupe } => {
                let value = self.source(value, Type::TEXT)?;
                let longer = format!("array_append({texts}, {value})");
                if *dedupe {
                    format!("CASE WHEN {texts} @> ARRAY[{value}] THEN {texts} ELSE {longer} END")
                } else {
                    longer
                }
            }
            AssignValue::Pull(source) => format!(
                "array_remove({texts}, {})",
                self.source(source, Type::TEXT)?
            ),
            AssignValue::AddItem(source) => format!(
                "{items} || jsonb_build_array({})",
                self.source(source, Type::JSONB)?
            ),
            AssignValue::RemoveItem { key, id } => {
                let others = format!(
                    "WHERE e.v -> {} IS DISTINCT FROM {}",
                    literal(key),
                    self.source(id, Type::JSONB)?
                );
                rebuilt("e.v", &items, &others)
            }
            AssignValue::ChangeItem { key, id, members } => {
                let own = format!(
                    "e.v -> {} = {}",
                    literal(key),
                    self.source(id, Type::JSONB)?
                );
                let mut changed = Vec::with_capacity(members.len());
                for (name, source) in members {
                    changed.push(format!(
                        "{}, {}",
                        literal(name),
                        self.source(source, Type::JSONB)?
                    ));
                }
                rebuilt(
                    &format!(
                        "CASE WHEN {own} THEN e.v || jsonb_build_object({}) ELSE e.v END",
                        changed.join(", ")
                    ),
                    &items,
                    "",
                )
            }
        })
    }

    /// The parts of an update that stores an aggregate of other records: the `WITH` and `FROM`
    /// clauses, and the end of the condition.
    pub(super) fn figure(&mut self, set: &[Assign]) -> Result<Option<[String; 3]>> {
        let Some((field, figure)) = set.iter().find_map(|a| Some((a.field, a.value.figure()?)))
        else {
            return Ok(None);
        };
        let scope = quote(self.naming.table(figure.source));
        let select = self.over(figure.source, scope, |r| {
            r.aggregate(
                &figure.filter,
                &[],
                std::slice::from_ref(&figure.compute),
                1,
            )
        });
        let with = format!(
            "WITH {AGGREGATE}({AGGREGATE}) AS MATERIALIZED ({}) ",
            select?
        );
        let (kind, (least, most)) = (self.kind(field), &figure.within);
        let mut bound = |value: &Value| self.source(&Source::Value(value.clone()), kind.clone());
        let within = format!(
            "{AGGREGATE}.{AGGREGATE} BETWEEN {} AND {}",
            bound(least)?,
            bound(most)?
        );
        let null = if figure.optional {
            format!("{AGGREGATE}.{AGGREGATE} IS NULL OR ")
        } else {
            String::new()
        };
        Ok(Some([
            with,
            format!(" FROM {AGGREGATE}"),
            format!(" AND ({null}{within})"),
        ]))
    }

    pub(super) fn upsert(
        &mut self,
        keys: &[usize],
        filter: &Filter,
        set: &[Assign],
    ) -> Result<String> {
        let record = self.record()?;
        let target = self.target(keys)?;
        let first = *keys
            .first()
            .ok_or_else(|| Error::internal("an upsert without keys"))?;
        // `DO UPDATE` needs an assignment, and `DO NOTHING` would return no row.
        let set = if set.is_empty() {
            format!("{} = {}", self.name(first)?, self.column(first)?)
        } else {
            self.assignments(set)?
        };
        let condition = self.filter(filter)?;
        // `xmax` is 0 if no transaction has locked or replaced the row: this statement has created
        // it.
        Ok(format!(
            "{record} ON CONFLICT {target} DO UPDATE SET {set} WHERE {condition} RETURNING {}, (xmax = 0)",
            self.columns()
        ))
    }

    /// The unique index by which an upsert finds existing records.
    fn target(&mut self, keys: &[usize]) -> Result<String> {
        let names = |r: &Self, fields: &[usize]| -> Result<String> {
            Ok(fields
                .iter()
                .map(|f| r.name(*f))
                .collect::<Result<Vec<_>>>()?
                .join(", "))
        };
        for index in layout::upsert_indexes(self.entity, keys) {
            // A unique constraint with an optional tenant has two indexes. This is the one that
            // contains the record.
            let tenant = self
                .entity
                .tenant
                .map(|t| t.field)
                .filter(|t| self.entity.fields[*t].optional && !keys.contains(t));
            let tenant_is_null = match tenant {
                Some(tenant)
                    if index.null == Some(tenant)
                        || index.keys.iter().any(|k| k.field == tenant) =>
                {
                    self.slot_is_null(tenant)
                }
                _ => index.null.is_some(),
            };
            if tenant_is_null == index.null.is_some() {
                let fields: Vec<usize> = index.keys.iter().map(|k| k.field).collect();
                return Ok(format!(
                    "({}){}",
                    names(self, &fields)?,
                    self.index_condition(&index)
                ));
            }
        }
        Ok(format!("({})", names(self, keys)?))
    }

    /// The condition of a write: all matching records, or the first ones in an order.
    ///
    /// With `ARRAY(..)` the server selects the records once; with `IN (..)` it could repeat the
    /// selection for every row. A record that another transaction had locked is checked again after
    /// the wait. If it no longer matches, the next record is selected.
    pub(super) fn picked(&mut self, filter: &Filter, pick: Option<&Pick>) -> Result<String> {
        let condition = self.filter(filter)?;
        let Some(pick) = pick else {
            return Ok(condition);
        };
        let (table, key) = (self.table(), self.column(self.entity.primary)?);
        let order = self.order(&pick.order)?;
        let skip = if pick.waits { "" } else { " SKIP LOCKED" };
        let chosen = format!(
            "SELECT {key} FROM {table} WHERE {condition} ORDER BY {order} LIMIT {} FOR UPDATE{skip}",
            pick.limit
        );
        Ok(format!("{key} = ANY(ARRAY({chosen}))"))
    }

    pub(super) fn order(&self, order: &[Order]) -> Result<String> {
        let optional = |o: &Order| self.entity.fields.get(o.field).is_some_and(|f| f.optional);
        let key = |o: &Order| {
            Ok(format!(
                "{} {}",
                self.name(o.field)?,
                direction(optional(o), o.desc)
            ))
        };
        Ok(order
            .iter()
            .map(key)
            .collect::<Result<Vec<_>>>()?
            .join(", "))
    }
}

/// Builds a list of items again, in the same order.
fn rebuilt(item: &str, items: &str, condition: &str) -> String {
    let elements = format!("jsonb_array_elements({items}) WITH ORDINALITY AS e(v, n)");
    format!(
        "(SELECT COALESCE(jsonb_agg({item} ORDER BY e.n), '[]'::jsonb) FROM {elements} {condition})"
    )
}
