//! Positions of the arguments of a restriction among those of a statement.

use super::{Reach, Restriction, RouteRestriction};
use crate::resource::gate::CallValues;
use crate::store::Plan;

/// Positions of the arguments of a restriction.
pub(super) struct Slots {
    /// The tenant, if the reach has one, and the scopes after it.
    pub(super) owner: usize,
    pub(super) scoped: bool,
    /// The values that conditions and gates compare with.
    pub(super) call_values: usize,
    pub(super) now: Option<usize>,
    pub(super) expiry: Option<usize>,
}

impl Slots {
    pub(super) fn of(
        restriction: &Restriction,
        plan: &Plan,
        reach: Reach,
        route: &RouteRestriction,
        base: usize,
    ) -> Self {
        let desc = restriction.desc;
        let system = desc.tenant.is_none() && desc.scope.is_empty();
        let scoped = reach.is_caller() && !system;
        let tenant =
            usize::from(desc.tenant.is_some() && matches!(reach, Reach::Caller | Reach::Within));
        let call_values = base + tenant + if scoped { route.scopes.len() } else { 0 };
        let values = restriction
            .call_values
            .as_ref()
            .filter(|_| reach.is_caller())
            .map_or(0, CallValues::wants);
        let mut next = call_values + values;
        let mut slot = |wanted: bool| {
            wanted.then(|| {
                next += 1;
                next - 1
            })
        };
        let (marks, changes, filters) = match plan {
            Plan::Insert => (false, false, false),
            Plan::Select { .. }
            | Plan::Related { .. }
            | Plan::Chosen { .. }
            | Plan::Exists { .. }
            | Plan::Hold { .. }
            | Plan::Lock { .. }
            | Plan::Aggregate { .. } => (false, false, true),
            Plan::Update { .. } | Plan::Upsert { .. } => (false, true, true),
            Plan::Delete { .. } => (desc.soft_delete.is_some(), desc.soft_delete.is_some(), true),
        };
        let instant = restriction
            .call_values
            .as_ref()
            .is_some_and(|call_values| call_values.needs_now(reach));
        let now = slot(filters && (desc.ttl.is_some() || marks || instant));
        let expiry = slot(changes && desc.ttl.is_some_and(|ttl| ttl.after.is_some()));
        Self {
            owner: base,
            scoped,
            call_values,
            now,
            expiry,
        }
    }
}
