//! The conditions on the records that a call may touch.

use crate::entity::EntityDesc;
use crate::filter::{Filter, Op, Operand, Source};
use crate::store::Plan;
use crate::{Error, Result, Value};

/// Conditions on the records of one entity; every statement of a call includes them.
#[derive(Debug, PartialEq)]
pub(crate) struct CallConditions {
    /// The entity, by its storage name.
    entity: &'static str,
    /// The field and the value of each condition.
    conditions: Box<[(usize, Value)]>,
    /// Whether a refused record looks like a missing one: 404 instead of 403.
    hide: bool,
}

impl CallConditions {
    pub(crate) fn new(
        entity: &EntityDesc,
        conditions: impl IntoIterator<Item = (usize, Value)>,
        hide: bool,
    ) -> Self {
        Self {
            entity: entity.storage_name,
            conditions: conditions.into_iter().collect(),
            hide,
        }
    }

    /// Whether these are conditions on records of this entity.
    pub(crate) fn is_of(&self, entity: &EntityDesc) -> bool {
        self.entity == entity.storage_name
    }

    /// Field and value of each condition.
    pub(crate) fn conditions(&self) -> &[(usize, Value)] {
        &self.conditions
    }

    /// The fields of the conditions, and which of them must be null. Calls with another shape need
    /// another statement.
    pub(crate) fn shape(&self) -> Box<[u8]> {
        self.conditions
            .iter()
            .flat_map(|(field, value)| [*field as u8, u8::from(value.is_null())])
            .collect()
    }

    /// The plan with these conditions added; their values follow `base` other arguments.
    pub(crate) fn plan(&self, plan: &Plan, base: usize) -> Plan {
        let mut index = base;
        let mut all = Filter::TRUE;
        for (field, value) in &self.conditions {
            let source = if value.is_null() {
                Source::Value(Value::Null)
            } else {
                index += 1;
                Source::Arg {
                    index: index - 1,
                    nullable: false,
                }
            };
            all = all.and(Filter::cond(*field, Op::Eq, Operand::One(source)));
        }
        plan.clone().narrowed(all)
    }

    /// The values of the arguments that these conditions add.
    pub(crate) fn values(&self) -> impl Iterator<Item = Value> {
        self.conditions
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(_, value)| value.clone())
    }

    /// Whether a record with these values may be touched.
    pub(crate) fn holds(&self, values: &[Value]) -> bool {
        self.conditions
            .iter()
            .all(|(field, value)| values.get(*field) == Some(value))
    }

    /// Refuses a new record that the call could not touch after its creation.
    ///
    /// # Errors
    /// 403, or 404 if the policy hides records.
    pub(crate) fn admits(&self, values: &[Value]) -> Result<()> {
        if self.holds(values) {
            Ok(())
        } else {
            Err(refused(self.hide))
        }
    }
}

pub(crate) fn refused(hide: bool) -> Error {
    if hide {
        Error::not_found()
    } else {
        Error::forbidden()
    }
}
