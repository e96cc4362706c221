//! Restrictions of writes: only a deletion marks records as deleted, and expired records never
//! block a write.

use super::Restriction;
use crate::entity::SoftDelete;
use crate::filter::{Filter, Op, Operand, Source};
use crate::store::{Assign, AssignValue, Plan};
use crate::{Error, Problem, Result, Value};

impl Restriction {
    /// Refuses values that mark a record as deleted: only a deletion writes them.
    ///
    /// # Errors
    /// `validation_failed` with `not_allowed`.
    pub(in crate::resource) fn refuse_mark(&self, plan: &Plan, args: &[Value]) -> Result<()> {
        let Some(SoftDelete::Is(field, mark)) = self.desc.soft_delete else {
            return Ok(());
        };
        let assigned = |set: &[Assign]| {
            let assign = set.iter().find(|a| a.field == field)?;
            match &assign.value {
                AssignValue::Set(Source::Arg { index, .. }) => args.get(*index).cloned(),
                AssignValue::Set(Source::Value(value)) => Some(value.clone()),
                _ => None,
            }
        };
        let written = match plan {
            Plan::Insert => args.get(field).cloned(),
            Plan::Upsert { set, .. } => args
                .get(field)
                .filter(|new| **new == mark())
                .cloned()
                .or_else(|| assigned(set)),
            Plan::Update { set, .. } => assigned(set),
            Plan::Select { .. }
            | Plan::Related { .. }
            | Plan::Chosen { .. }
            | Plan::Exists { .. }
            | Plan::Hold { .. }
            | Plan::Lock { .. }
            | Plan::Aggregate { .. }
            | Plan::Delete { .. } => None,
        };
        if written.is_some_and(|value| value == mark()) {
            let wire = self.desc.fields[field].wire;
            return Err(Error::invalid(Problem::new(
                wire,
                "not_allowed",
                "is the value that marks deleted records: delete the record instead",
            )));
        }
        Ok(())
    }

    /// A plan that removes expired records that could conflict with a write. Its arguments are
    /// those of the write and, at `base`, the instant of the call. It may remove more expired
    /// records than necessary; the sweeper would remove them anyway.
    pub(in crate::resource) fn eviction(&self, plan: &Plan, base: usize) -> Option<Plan> {
        let ttl = self.desc.ttl?;
        let value = |field: usize| match plan {
            Plan::Insert | Plan::Upsert { .. } => Some(Source::Arg {
                index: field,
                nullable: false,
            }),
            Plan::Update { set, .. } => {
                set.iter()
                    .find(|a| a.field == field)
                    .and_then(|a| match &a.value {
                        AssignValue::Set(source) => Some(source.clone()),
                        _ => None,
                    })
            }
            Plan::Select { .. }
            | Plan::Related { .. }
            | Plan::Chosen { .. }
            | Plan::Exists { .. }
            | Plan::Hold { .. }
            | Plan::Lock { .. }
            | Plan::Aggregate { .. }
            | Plan::Delete { .. } => None,
        };
        let equal = |field: usize| {
            value(field).map(|source| Filter::cond(field, Op::Eq, Operand::One(source)))
        };
        let primary = matches!(plan, Plan::Insert | Plan::Upsert { .. })
            .then(|| equal(self.desc.primary))
            .flatten();
        let uniques = self.desc.uniques.iter().filter_map(|unique| {
            let known: Vec<Filter> = unique
                .fields
                .iter()
                .filter_map(|field| equal(*field))
                .collect();
            (!known.is_empty()).then_some(Filter::All(known))
        });
        let conflicting: Vec<Filter> = primary.into_iter().chain(uniques).collect();
        if conflicting.is_empty() {
            return None;
        }
        let now = Source::Arg {
            index: base,
            nullable: false,
        };
        let expired = Filter::cond(ttl.field, Op::Lte, Operand::One(now));
        Some(Plan::Delete {
            filter: expired.and(Filter::Any(conflicting)),
            pick: None,
        })
    }
}
