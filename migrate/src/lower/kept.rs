//! Fields that get another type. While both binaries serve, the earlier column is kept up to date.

use linchpin_core::schema::{EntitySnapshot, FieldSnapshot};

use super::Lowering;
use super::fill::default_value;
use crate::data::FillValue;
use crate::own_sql;

/// The function that converts a new value to the earlier type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reverse {
    /// Its name.
    pub name: String,
    /// Whether it accepts null.
    pub takes_null: bool,
}

impl Lowering<'_> {
    /// Plans that the new binary keeps the earlier column of a field up to date. If that is not
    /// possible, sets the reason why both binaries cannot serve together.
    pub(super) fn keep_earlier_column(
        &mut self,
        (before, after): (&EntitySnapshot, &EntitySnapshot),
        was: (&str, &FieldSnapshot),
        is: (&str, &FieldSnapshot),
    ) {
        let key = (after.storage_name.clone(), is.0.to_owned());
        let Some(reverse) = self.link.reverses.get(&key) else {
            let reason = format!("`{}` gets another type", is.0);
            self.fence.get_or_insert(reason);
            return;
        };
        match self.obstacle((before, after), was, is, reverse) {
            Some(why) => {
                let reason = format!("`{}` gets another type, and {why}", is.0);
                self.fence.get_or_insert(reason);
            }
            None => self.reverses.push(reverse.name.clone()),
        }
    }

    /// The reason why the values of the field cannot be in two columns.
    fn obstacle(
        &self,
        (before, after): (&EntitySnapshot, &EntitySnapshot),
        (_, was): (&str, &FieldSnapshot),
        (name, is): (&str, &FieldSnapshot),
        reverse: &Reverse,
    ) -> Option<String> {
        let indexed = |entity: &EntitySnapshot, column: &str| {
            entity
                .table()
                .indexes
                .iter()
                .any(|index| index.reads(column))
        };
        if indexed(before, &was.column) || indexed(after, &is.column) {
            return Some("an index contains it".to_owned());
        }
        let computes = |field: &FieldSnapshot| {
            field.computed.as_ref().is_some_and(|computed| {
                computed.inputs.is_empty() || computed.inputs.iter().any(|input| input == name)
            })
        };
        if is.computed.is_some() || was.computed.is_some() || after.fields.values().any(computes) {
            return Some("a field is computed from it".to_owned());
        }
        let refers = after.checks.iter().any(|check| check.field == name);
        let counted = self.link.after.entities.values().any(|entity| {
            let mut counters = entity.counters.iter();
            counters.any(|counter| {
                (counter.target == after.storage_name && counter.field == name)
                    || (entity.storage_name == after.storage_name && counter.by == name)
            })
        });
        if refers || counted {
            return Some("a relation or a counter uses it".to_owned());
        }
        let new_default = default_value(is);
        if was.optional
            && !is.optional
            && !matches!(new_default, None | Some(FillValue::Literal(_)))
        {
            return Some("null gets a different default at each read".to_owned());
        }
        let has_earlier_literal = matches!(default_value(was), Some(FillValue::Literal(_)));
        if is.optional && !was.optional && !reverse.takes_null && !has_earlier_literal {
            return Some("null cannot be converted to the earlier type".to_owned());
        }
        let columns = [was.column.as_str(), is.column.as_str()];
        let tables = [before.storage_name.as_str(), after.storage_name.as_str()];
        if let Some(operation) =
            own_sql::operation_with_field(self.terrain.own_sql, tables, name, columns)
        {
            return Some(format!("the SQL of operation `{operation}` names it"));
        }
        (self.terrain.uses)(&after.storage_name, name)
    }
}
