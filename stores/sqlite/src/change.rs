//! Parts of write statements: assignments, the selection of the first match, upserts.

use super::render::{Form, Renderer, member};
use linchpin_core::filter::{Filter, Source};
use linchpin_core::store::{Assign, AssignValue, Order, Pick, layout};
use linchpin_core::{Error, Result, Value};
use linchpin_sql::replaced::ReplacedField;

/// An alias for the aggregate of other records. Names of tables and columns contain no spaces.
const AGGREGATE: &str = "\"linchpin figure\"";

impl Renderer<'_> {
    pub(super) fn assignments(&mut self, set: &[Assign]) -> Result<String> {
        let mut parts = Vec::with_capacity(set.len());
        for Assign { field, value } in set {
            if let Some(replaced) = ReplacedField::find(&self.replaced, *field).cloned() {
                parts.push(self.assigned_twice(&replaced, value)?);
                continue;
            }
            let column = self.column(*field)?;
            let list = format!("COALESCE({column}, '[]')");
            let new = match value {
                AssignValue::Set(source) => self.source(source, Form::Plain)?,
                AssignValue::Add(source) => format!(
                    "COALESCE({column}, 0) + {}",
                    self.source(source, Form::Plain)?
                ),
                AssignValue::Push { value, dedupe } => {
                    let value = self.source(value, Form::Plain)?;
                    let longer = format!("json_insert({list}, '$[#]', {value})");
                    let has =
                        format!("EXISTS (SELECT 1 FROM json_each({list}) WHERE value = {value})");
                    if *dedupe {
                        format!("CASE WHEN {has} THEN {list} ELSE {longer} END")
                    } else {
                        longer
                    }
                }
                AssignValue::AddItem(source) => format!(
                    "json_insert({list}, '$[#]', json({}))",
                    self.source(source, Form::Plain)?
                ),
                AssignValue::RemoveItem { key, id } => {
                    let (member, id) = (member(key), self.source(id, Form::Plain)?);
                    let others = format!(
                        "FROM json_each({list}) WHERE json_extract(value, {member}) IS NOT {id}"
                    );
                    format!("(SELECT json_group_array(json(value) ORDER BY key) {others})")
                }
                AssignValue::ChangeItem { key, id, members } => {
                    let (key_path, id) = (member(key), self.source(id, Form::Plain)?);
                    let mut changed = String::from("json_set(value");
                    for (name, source) in members {
                        changed.push_str(&format!(
                            ", {}, json({})",
                            member(name),
                            self.source(source, Form::Plain)?
                        ));
                    }
                    let item = format!(
                        "CASE WHEN json_extract(value, {key_path}) = {id} THEN {changed}) ELSE json(value) END"
                    );
                    format!("(SELECT json_group_array({item} ORDER BY key) FROM json_each({list}))")
                }
                AssignValue::Figure(_) => format!("{AGGREGATE}.{AGGREGATE}"),
                AssignValue::Pull(source) => {
                    let value = self.source(source, Form::Plain)?;
                    format!(
                        "(SELECT json_group_array(value ORDER BY key) FROM json_each({list}) WHERE value <> {value})"
                    )
                }
            };
            parts.push(format!("{column} = {new}"));
        }
        Ok(parts.join(", "))
    }

    /// An assignment to a field that also has an earlier column.
    fn assigned_twice(&mut self, replaced: &ReplacedField, value: &AssignValue) -> Result<String> {
        let AssignValue::Set(source) = value else {
            return self.column(replaced.field);
        };
        let new = self.source(source, Form::Plain)?;
        let given = match source {
            Source::Arg { index, .. } => Err(*index),
            Source::Value(value) => Ok(value.clone()),
            _ => return self.column(replaced.field),
        };
        let earlier = self.earlier(given, replaced);
        let (old, source) = self.earlier_columns(replaced);
        let column = &self.names()[replaced.field];
        Ok(format!(
            "{column} = {new}, {old} = {earlier}, {source} = {earlier}"
        ))
    }

    /// The parts of an update that stores an aggregate of other records: the `WITH` and `FROM`
    /// clauses, and the end of the condition.
    pub(super) fn figure(&mut self, set: &[Assign]) -> Result<Option<[String; 3]>> {
        let Some(figure) = set.iter().find_map(|a| a.value.figure()) else {
            return Ok(None);
        };
        let scope = self.table_of(figure.source);
        let select = self.over(figure.source, scope, |r| {
            r.aggregate(
                &figure.filter,
                &[],
                std::slice::from_ref(&figure.compute),
                1,
            )
        });
        let with = format!("WITH {AGGREGATE}({AGGREGATE}) AS ({}) ", select?);
        let (least, most) = &figure.within;
        let mut bound = |value: &Value| self.source(&Source::Value(value.clone()), Form::Plain);
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

    /// Renders an insert of one record. The insert also fills required columns that belong to no
    /// field.
    pub(super) fn insert(&mut self) -> String {
        let mut columns = self.names();
        let mut values: Vec<String> = (0..self.entity.fields.len())
            .map(|i| self.parameter(Err(i), Form::Plain))
            .collect();
        for replaced in self.replaced.clone() {
            let (old, source) = self.earlier_columns(&replaced);
            let earlier = self.earlier(Err(replaced.field), &replaced);
            columns.extend([old, source]);
            values.extend([earlier.clone(), earlier]);
        }
        let naming = self.naming;
        for filler in naming.fillers(self.entity) {
            columns.push(self.quote(&filler.column));
            values.push(self.parameter(Ok(filler.value.clone()), Form::Plain));
        }
        format!(
            "INSERT INTO {} ({}) VALUES ({})",
            self.table(),
            columns.join(", "),
            values.join(", ")
        )
    }

    pub(super) fn upsert(
        &mut self,
        keys: &[usize],
        filter: &Filter,
        set: &[Assign],
    ) -> Result<String> {
        let (insert, columns) = (self.insert(), self.columns());
        let first = self.column(
            *keys
                .first()
                .ok_or_else(|| Error::internal("an upsert without keys"))?,
        )?;
        // `DO UPDATE` needs an assignment, and `DO NOTHING` would return no row.
        let set = if set.is_empty() {
            format!("{first} = {first}")
        } else {
            self.assignments(set)?
        };
        let condition = self.filter(filter)?;
        let key_columns: Vec<String> = keys
            .iter()
            .map(|k| self.column(*k))
            .collect::<Result<_>>()?;
        let mut targets = vec![format!("({})", key_columns.join(", "))];
        let indexes = layout::upsert_indexes(self.entity, keys);
        if !indexes.is_empty() {
            targets.clear();
        }
        for index in &indexes {
            let keys: Vec<String> = index
                .keys
                .iter()
                .map(|k| self.column(k.field))
                .collect::<Result<_>>()?;
            targets.push(format!(
                "({}){}",
                keys.join(", "),
                self.index_condition(index)
            ));
        }
        let conflicts: Vec<String> = targets
            .iter()
            .map(|t| format!("ON CONFLICT {t} DO UPDATE SET {set} WHERE {condition}"))
            .collect();
        Ok(format!(
            "{insert} {} RETURNING {columns}",
            conflicts.join(" ")
        ))
    }

    /// The condition of a write: all matching records, or the first ones in an order.
    pub(super) fn picked(&mut self, filter: &Filter, pick: Option<&Pick>) -> Result<String> {
        let condition = self.filter(filter)?;
        let Some(pick) = pick else {
            return Ok(condition);
        };
        let (table, key) = (self.table(), self.column(self.entity.primary)?);
        let order = self.order(&pick.order)?;
        Ok(format!(
            "{key} IN (SELECT {key} FROM {table} WHERE {condition} ORDER BY {order} LIMIT {})",
            pick.limit
        ))
    }

    pub(super) fn order(&self, order: &[Order]) -> Result<String> {
        let key = |o: &Order| {
            Ok(format!(
                "{} {}",
                self.column(o.field)?,
                if o.desc { "DESC" } else { "ASC" }
            ))
        };
        Ok(order
            .iter()
            .map(key)
            .collect::<Result<Vec<_>>>()?
            .join(", "))
    }
}
