//! Prepared statements, their events and the keys that they write.

use std::sync::Arc;

use super::statement::Restricted;
use crate::Value;
use crate::entity::{EntityDesc, Relation};
use crate::filter::Source;
use crate::store::{Assign, AssignValue, Plan, Statement};

/// A statement that is ready to run.
#[derive(Clone)]
pub struct Prepared {
    pub(super) statement: Arc<Statement>,
    /// The forms of the statement per reach; `None` for an entity without restriction.
    pub(super) restricted: Option<Arc<Restricted>>,
    /// The route whose events the statement emits; `None` if it changes no records.
    pub(super) event: Option<&'static str>,
    /// The effect of the statement on keys that refer to other records.
    pub(super) change: Change,
}

/// The effect of a statement on keys that refer to other records, if integrity depends on it.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// No effect.
    None,
    /// The statement writes some foreign keys: their fields, and the sources of their values.
    Keys(Arc<[(usize, Source)]>),
    /// The statement removes records to which others may refer.
    Removes,
}

impl Change {
    pub(super) fn of(desc: &EntityDesc, plan: &Plan) -> Self {
        let (inserts, set): (bool, &[Assign]) = match plan {
            Plan::Delete { .. } => return Self::Removes,
            Plan::Insert => (true, &[]),
            Plan::Upsert { set, .. } => (true, set),
            Plan::Update { set, .. } => (false, set),
            // The other plans only read.
            _ => return Self::None,
        };
        let mut keys = Vec::new();
        let relations = desc
            .relations
            .iter()
            .filter_map(Relation::enforced)
            .map(|(key, _)| key);
        let gates = desc
            .gates
            .iter()
            .map(|gate| gate.field)
            .filter(|key| relations.clone().all(|other| other != *key));
        for key in relations.clone().chain(gates) {
            keys.extend(inserts.then_some((
                key,
                Source::Arg {
                    index: key,
                    nullable: true,
                },
            )));
            keys.extend(
                set.iter()
                    .filter(|a| a.field == key)
                    .filter_map(|a| match &a.value {
                        AssignValue::Set(Source::Value(Value::Null)) => None,
                        AssignValue::Set(source) => Some((key, source.clone())),
                        _ => None,
                    }),
            );
        }
        if keys.is_empty() {
            Self::None
        } else {
            Self::Keys(keys.into())
        }
    }
}

impl Prepared {
    /// The effect of the statement on keys that refer to other records.
    pub(super) fn change(&self) -> &Change {
        &self.change
    }
}

/// The route whose events a plan emits, if the plan changes records.
pub(super) fn event(route: &'static str, plan: &Plan) -> Option<&'static str> {
    (!plan.reads()).then_some(route)
}
