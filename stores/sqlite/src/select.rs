//! Renders pages to SQL: an order, a position and a limit. The SQL reads only one range of an
//! index.

use std::fmt::Write;

use super::render::{Form, Renderer};
use linchpin_core::entity::Kind;
use linchpin_core::filter::{Filter, Op, Source};
use linchpin_core::store::{After, CustomSql, Order};
use linchpin_core::{Error, Result};
use linchpin_sql::access::{Fact, conjuncts, fixed_sort_keys};
use linchpin_sql::custom_sql::{Dialect, embedded};
use linchpin_sql::keyset::{Next, Stretch, stretches};

/// The conditions of a filter, with the classification of each.
struct Conditions<'a> {
    facts: Vec<Fact<'a>>,
    texts: Vec<String>,
}

impl Conditions<'_> {
    /// Joins all conditions except one, and further ones.
    fn all_except(&self, left_out: Option<usize>, further: &[String]) -> String {
        let own = self
            .texts
            .iter()
            .enumerate()
            .filter(|(i, _)| Some(*i) != left_out)
            .map(|(_, text)| text);
        let all: Vec<&str> = own.chain(further).map(String::as_str).collect();
        if all.is_empty() {
            "1".to_owned()
        } else {
            all.join(" AND ")
        }
    }
}

impl Renderer<'_> {
    /// The records of a filter in an order, from a position, through an access path.
    pub(super) fn select(
        &mut self,
        index_hint: &str,
        filter: &Filter,
        order: &[Order],
        after: Option<&After>,
        limit: Option<&Source>,
    ) -> Result<String> {
        let table = self.table();
        let columns = self.columns();
        let found = conjuncts(filter);
        let facts: Vec<Fact<'_>> = found.iter().map(|f| Fact::of(f)).collect();
        // With two conditions for one end of a range, SQLite may choose the wrong one.
        let needed: Vec<usize> = (0..facts.len())
            .filter(|i| !facts[*i].implied(&facts))
            .collect();
        let texts = needed
            .iter()
            .map(|i| self.filter(found[*i]))
            .collect::<Result<_>>()?;
        let conditions = Conditions {
            facts: needed.iter().map(|i| facts[*i]).collect(),
            texts,
        };
        let fixed_sort_keys = fixed_sort_keys(&conditions.facts, order);

        let mut tail = String::new();
        if fixed_sort_keys < order.len() {
            // Writing to a String cannot fail.
            let _ = write!(tail, " ORDER BY {}", self.order(&order[fixed_sort_keys..])?);
        }
        let parts = match after {
            None => vec![conditions.all_except(None, &[])],
            Some(After::Keys(keys)) if order.is_empty() || order.len() != keys.len() => {
                return Err(Error::internal(format!(
                    "a position has {} keys, but its order has another number of fields",
                    keys.len()
                )));
            }
            Some(After::Keys(keys)) => {
                self.after_position(&conditions, order, keys, fixed_sort_keys)?
            }
            Some(After::Count(_)) => vec![conditions.all_except(None, &[])],
        };
        let limit = limit.map(|l| self.source(l, Form::Plain)).transpose()?;
        let mut limit = limit.map_or(String::new(), |l| format!(" LIMIT {l}"));
        if let Some(After::Count(slot)) = after {
            // SQL has no offset without a limit; a negative limit means no limit.
            let all = if limit.is_empty() { " LIMIT -1" } else { "" };
            limit = format!(
                "{limit}{all} OFFSET {}",
                self.parameter(Err(*slot), Form::Plain)
            );
        }
        let one = |part: &str| {
            format!("SELECT {columns} FROM {table}{index_hint} WHERE {part}{tail}{limit}")
        };
        Ok(match &parts[..] {
            [part] => one(part),
            // Each part reads a range of the index in order. Together they are one scan from the
            // start of the page.
            parts => {
                let parts: Vec<String> = parts
                    .iter()
                    .map(|p| format!("SELECT * FROM ({})", one(p)))
                    .collect();
                format!("{}{limit}", parts.join(" UNION ALL "))
            }
        })
    }

    /// The records of a filter with custom SQL for a further condition and the order.
    pub(super) fn chosen(
        &mut self,
        filter: &Filter,
        sql: &CustomSql,
        order: &[Order],
        limit: Option<&Source>,
    ) -> Result<String> {
        let (condition, mut by) = embedded(sql, self.entity, Dialect::Sqlite, &|field| {
            let column = self.naming.column_named(self.entity, field)?;
            Ok(self.quote(column))
        })?;
        // The parameters of the custom SQL come first.
        for slot in 0..sql.kinds.len() {
            self.parameter(Err(slot), Form::Plain);
        }
        let (table, columns) = (self.table(), self.columns());
        let filter = self.filter(filter)?;
        if !by.is_empty() && !order.is_empty() {
            by.push_str(", ");
        }
        by.push_str(&self.order(order)?);
        let limit = limit
            .map(|l| self.source(l, Form::Plain))
            .transpose()?
            .map_or(String::new(), |l| format!(" LIMIT {l}"));
        Ok(format!(
            "SELECT {columns} FROM {table} WHERE {filter} AND ({condition}) ORDER BY {by}{limit}"
        ))
    }

    /// The conditions of the records after a position. Each condition selects one part of the
    /// records, and the parts follow each other in the order.
    fn after_position(
        &mut self,
        conditions: &Conditions<'_>,
        order: &[Order],
        keys: &[Option<usize>],
        fixed_sort_keys: usize,
    ) -> Result<Vec<String>> {
        let mut parts = Vec::new();
        // A sort key with a fixed value is compared with the position once, not per record. If the
        // two values are equal, the next keys decide; otherwise all records are before or after the
        // position.
        let mut same: Vec<String> = Vec::new();
        for (key, slot) in order[..fixed_sort_keys].iter().zip(keys) {
            let (equal, beyond) = self.compare_fixed_value(conditions, *key, *slot)?;
            if let Some(beyond) = beyond {
                parts.push(conditions.all_except(None, &[&same[..], &[beyond]].concat()));
            }
            same.extend(equal);
        }
        let mut part = |left_out: Option<usize>, further: &[String]| {
            parts.push(conditions.all_except(left_out, &[&same[..], further].concat()));
        };
        let (order, keys) = (&order[fixed_sort_keys..], &keys[fixed_sort_keys..]);
        let (first, desc) = (order[0].field, order[0].desc);
        let position =
            |wanted: &dyn Fn(&Fact<'_>) -> bool| conditions.facts.iter().position(wanted);
        // A range on a key, or a not-null condition, excludes nulls.
        let bounded = |at: usize| {
            position(
                &|fact| matches!(fact, Fact::Range { field, .. } | Fact::Present { field } if *field == at),
            )
        };
        let entity = self.entity;
        let optional = |key: &Order| {
            entity.fields.get(key.field).is_some_and(|f| f.optional) && bounded(key.field).is_none()
        };
        // SQLite does not seek by a row value that contains the rowid, which is the case for an
        // integer primary key.
        let contains_rowid = order.iter().any(|o| o.field == entity.primary)
            && matches!(entity.primary_field().kind, Kind::Integer);
        let stretches = stretches(order, keys, optional, !contains_rowid);
        let stretches: Vec<Vec<String>> = stretches
            .iter()
            .map(|stretch| self.stretch(order, keys, stretch))
            .collect::<Result<_>>()?;
        match (
            keys[0],
            position(&|fact| fact.begins(first, desc)).map(|i| (i, conditions.facts[i])),
        ) {
            // The page begins at the position or at the bound, whichever is later in the order.
            (Some(slot), Some((bound, Fact::Range { op, value, .. }))) => {
                let (at, limit) = (
                    self.parameter(Err(slot), Form::Plain),
                    self.source(value, Form::Plain)?,
                );
                let (within, before) = match op {
                    Op::Gt => (">", "<="),
                    Op::Gte => (">=", "<"),
                    Op::Lt => ("<", ">="),
                    _ => ("<=", ">"),
                };
                for stretch in stretches {
                    part(
                        Some(bound),
                        &[&stretch[..], &[format!("{at} {within} {limit}")]].concat(),
                    );
                }
                part(None, &[format!("{at} {before} {limit}")]);
            }
            (slot, _) => {
                // The position already implies that the first key is not null.
                let present = slot.and_then(|_| {
                    position(&|fact| matches!(fact, Fact::Present { field } if *field == first))
                });
                for stretch in &stretches {
                    part(present, stretch);
                }
                if stretches.is_empty() {
                    part(None, &["0".to_owned()]);
                }
            }
        }
        Ok(parts)
    }

    /// Two conditions: the fixed value equals the value of the position, and the fixed value is
    /// after it. The first is `None` if it is always true, the second if it is never true.
    fn compare_fixed_value(
        &mut self,
        conditions: &Conditions<'_>,
        key: Order,
        slot: Option<usize>,
    ) -> Result<(Option<String>, Option<String>)> {
        let pinned = conditions.facts.iter().find_map(|f| match f {
            Fact::Pin { field, value, .. } if *field == key.field => Some(*value),
            _ => None,
        });
        let pinned = pinned
            .flatten()
            .map(|value| self.source(value, Form::Plain))
            .transpose()?;
        let position = slot.map(|slot| self.parameter(Err(slot), Form::Plain));
        Ok(match (pinned, position, key.desc) {
            (None, None, _) => (None, None),
            // Null is the smallest value.
            (None, Some(_), false) => (Some("0".to_owned()), None),
            (None, Some(_), true) => (Some("0".to_owned()), Some("1".to_owned())),
            (Some(pin), None, false) => (
                Some(format!("{pin} IS NULL")),
                Some(format!("{pin} IS NOT NULL")),
            ),
            (Some(pin), None, true) => (Some(format!("{pin} IS NULL")), None),
            (Some(pin), Some(at), false) => {
                (Some(format!("{pin} = {at}")), Some(format!("{pin} > {at}")))
            }
            (Some(pin), Some(at), true) => (
                Some(format!("{pin} = {at}")),
                Some(format!("({pin} < {at} OR {pin} IS NULL)")),
            ),
        })
    }

    /// The conditions of one range after a position. They form one index seek.
    fn stretch(
        &mut self,
        order: &[Order],
        keys: &[Option<usize>],
        stretch: &Stretch,
    ) -> Result<Vec<String>> {
        let mut conditions = Vec::with_capacity(stretch.equal + 1);
        for (key, slot) in order[..stretch.equal].iter().zip(keys) {
            let column = self.column(key.field)?;
            conditions.push(match slot {
                Some(slot) => format!("{column} = {}", self.parameter(Err(*slot), Form::Plain)),
                None => format!("{column} IS NULL"),
            });
        }
        let column = self.column(order[stretch.equal].field)?;
        conditions.push(match stretch.next {
            Next::All => return Ok(conditions),
            Next::Null => format!("{column} IS NULL"),
            Next::Present => format!("{column} IS NOT NULL"),
            Next::Beyond(count) => {
                let operator = if order[stretch.equal].desc { "<" } else { ">" };
                let run = stretch.equal..stretch.equal + count;
                let columns: Vec<String> = order[run.clone()]
                    .iter()
                    .map(|o| self.column(o.field))
                    .collect::<Result<_>>()?;
                let slot = |key: &Option<usize>| {
                    key.ok_or_else(|| Error::internal("a position holds a null among values"))
                };
                let values: Vec<String> = keys[run]
                    .iter()
                    .map(|k| Ok(self.parameter(Err(slot(k)?), Form::Plain)))
                    .collect::<Result<_>>()?;
                match (&columns[..], &values[..]) {
                    ([column], [value]) => format!("{column} {operator} {value}"),
                    _ => format!(
                        "({}) {operator} ({})",
                        columns.join(", "),
                        values.join(", ")
                    ),
                }
            }
        });
        Ok(conditions)
    }
}
