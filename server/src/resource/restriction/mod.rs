//! Row-level restrictions: the records that a call may read or change.
//!
//! A restriction joins conditions: tenant, scopes, not deleted, not expired, the visibility filter
//! of the entity and its [gates](super::gate). Their values are arguments after those of the
//! statement, so one prepared statement serves every caller. The conditions depend on the caller:
//! each [`Reach`] has its own statement. An entity without such declarations has no restriction and
//! no overhead.

mod owner;
mod reach;
mod slots;
#[cfg(all(test, feature = "sqlite"))]
mod tests;
#[cfg(all(test, feature = "sqlite"))]
mod visibility_tests;
mod written;

pub(crate) use reach::{Included, Reach, RouteRestriction};

use self::slots::Slots;
use super::gate::{CallValues, Viewer};
use super::touch::touch;
use crate::entity::{EntityDesc, ScopeFrom, SoftDelete};
use crate::filter::{Filter, Op, Operand, Source};
use crate::store::{Assign, AssignValue, Plan, layout};
use crate::{Cx, Value};

/// The restriction of an entity.
pub(crate) struct Restriction {
    desc: &'static EntityDesc,
    /// The values that conditions and gates need.
    call_values: Option<CallValues>,
}

impl Restriction {
    /// The restriction of an entity; `None` if every caller sees all records.
    pub(crate) fn new(desc: &'static EntityDesc) -> Option<Self> {
        let call_values = CallValues::of(desc);
        let own = desc.soft_delete.is_some()
            || desc.ttl.is_some()
            || desc.tenant.is_some()
            || !desc.scope.is_empty();
        (own || call_values.is_some()).then_some(Self { desc, call_values })
    }

    /// The restriction of a route. `reads` means that the route changes nothing; `unscoped` means
    /// that the route is not restricted by scopes.
    pub(crate) fn route(&self, route: &str, reads: bool, unscoped: bool) -> RouteRestriction {
        // Path parameters locate a record; they do not restrict its visibility. A record that is
        // found by its key needs no path parameters.
        let included = Included::named(route);
        let needs = |i: &usize| {
            included.is_none() || !matches!(self.desc.scope[*i].from, ScopeFrom::Path(_))
        };
        let (route, reads) = included.unwrap_or((route, reads));
        let holds = |i: &usize| !unscoped && needs(i) && self.desc.scope[*i].holds_on(route);
        RouteRestriction {
            scopes: (0..self.desc.scope.len()).filter(holds).collect(),
            anonymous: reads && self.desc.tenant.is_some_and(|tenant| tenant.anonymous_read),
            deleted: false,
            reads: reads
                && self
                    .call_values
                    .as_ref()
                    .is_some_and(|call_values| call_values.tenants),
        }
    }

    /// Appends the values that all pages of a cursor share.
    pub(super) fn fingerprint(reach: Reach, values: &[Value], out: &mut Vec<u8>) {
        out.extend_from_slice(&[b'g', reach as u8]);
        for value in values {
            super::cursor::encode(value, out);
        }
    }

    /// The plan with the conditions. Its own arguments end at `base`; those of the restriction
    /// follow in the order of [`Restriction::arguments`].
    pub(crate) fn plan(
        &self,
        plan: &Plan,
        reach: Reach,
        route: &RouteRestriction,
        base: usize,
    ) -> Plan {
        let slots = Slots::of(self, plan, reach, route, base);
        let with = |filter: &Filter| filter.clone().and(self.conditions(reach, route, &slots));
        match plan {
            Plan::Insert => Plan::Insert,
            Plan::Select {
                filter,
                order,
                after,
                limit,
            } => Plan::Select {
                filter: with(filter),
                order: order.clone(),
                after: after.clone(),
                limit: limit.clone(),
            },
            Plan::Related {
                filter,
                field,
                values,
                order,
                limit,
            } => Plan::Related {
                filter: with(filter),
                field: *field,
                values: *values,
                order: order.clone(),
                limit: limit.clone(),
            },
            Plan::Chosen {
                filter,
                sql,
                order,
                limit,
            } => Plan::Chosen {
                filter: with(filter),
                sql: sql.clone(),
                order: order.clone(),
                limit: limit.clone(),
            },
            Plan::Exists { filter } => Plan::Exists {
                filter: with(filter),
            },
            Plan::Hold { filter } => Plan::Hold {
                filter: with(filter),
            },
            Plan::Lock { filter, pick } => Plan::Lock {
                filter: with(filter),
                pick: pick.clone(),
            },
            Plan::Aggregate {
                filter,
                groups,
                by_value,
                compute,
                limit,
            } => Plan::Aggregate {
                filter: with(filter),
                groups: groups.clone(),
                by_value: by_value.clone(),
                compute: compute.clone(),
                limit: *limit,
            },
            Plan::Update { filter, set, pick } => Plan::Update {
                filter: with(filter),
                set: self.renewed(set.clone(), &slots),
                pick: pick.clone(),
            },
            // The new record gets its tenant and scopes. An existing record is changed only if the
            // caller can reach it.
            Plan::Upsert { keys, filter, set } => Plan::Upsert {
                keys: keys.clone(),
                filter: with(filter),
                set: self.renewed(set.clone(), &slots),
            },
            Plan::Delete { filter, pick } => match (self.desc.soft_delete, slots.now) {
                (Some(mark), Some(now)) => {
                    let value = match mark {
                        SoftDelete::At(_) => Source::Arg {
                            index: now,
                            nullable: false,
                        },
                        SoftDelete::Is(_, value) => Source::Value(value()),
                    };
                    let set = touch(
                        self.desc,
                        vec![Assign {
                            field: mark.field(),
                            value: AssignValue::Set(value),
                        }],
                        now,
                    );
                    Plan::Update {
                        filter: with(filter),
                        set: self.renewed(set, &slots),
                        pick: pick.clone(),
                    }
                }
                _ => Plan::Delete {
                    filter: with(filter),
                    pick: pick.clone(),
                },
            },
        }
    }

    /// The conditions on records that a route reads, for evaluation in memory. Their first arguments
    /// are the values of [`Restriction::reach`]; the position of the instant is returned if they
    /// need it.
    pub(super) fn in_memory(
        &self,
        reach: Reach,
        route: &RouteRestriction,
    ) -> (Filter, Option<usize>) {
        let plan = Plan::Exists {
            filter: Filter::TRUE,
        };
        let slots = Slots::of(self, &plan, reach, route, 0);
        (self.conditions(reach, route, &slots), slots.now)
    }

    /// Appends the arguments of the restriction for a call.
    pub(super) fn arguments(
        &self,
        cx: &Cx,
        plan: &Plan,
        reach: Reach,
        route: &RouteRestriction,
        owner: Vec<Value>,
        args: &mut Vec<Value>,
    ) {
        args.extend(owner);
        let slots = Slots::of(self, plan, reach, route, 0);
        args.extend(slots.now.map(|_| Value::Date(cx.now())));
        if slots.expiry.is_some()
            && let Some((_, value)) = layout::expiry(self.desc, cx.now())
        {
            args.push(value);
        }
    }

    fn conditions(&self, reach: Reach, route: &RouteRestriction, slots: &Slots) -> Filter {
        let mut all = Filter::TRUE;
        if let Some(tenant) = self.desc.tenant {
            all = match reach {
                Reach::Caller | Reach::Within => all.and(Filter::eq_arg(tenant.field, slots.owner)),
                Reach::NoTenant | Reach::Anonymous => all.and(Filter::cond(
                    tenant.field,
                    Op::Eq,
                    Operand::One(Source::Value(Value::Null)),
                )),
                Reach::System | Reach::Deleted | Reach::Effect => all,
            };
        }
        if reach.is_caller() {
            let first =
                slots.owner + usize::from(self.desc.tenant.is_some() && reach == Reach::Caller);
            for (n, scope) in route.scopes.iter().enumerate().filter(|_| slots.scoped) {
                all = all.and(Filter::eq_arg(self.desc.scope[*scope].field, first + n));
            }
        }
        if route.deleted {
            all = layout::deleted(self.desc)
                .into_iter()
                .fold(all, Filter::and);
        } else if reach != Reach::Deleted {
            all = layout::live(self.desc).into_iter().fold(all, Filter::and);
        }
        let all = slots
            .now
            .and_then(|now| layout::unexpired(self.desc, now))
            .into_iter()
            .fold(all, Filter::and);
        match &self.call_values {
            Some(call_values) => all.and(call_values.condition(
                self.desc,
                Viewer {
                    reach,
                    reads: route.reads,
                },
                slots.call_values,
                slots.now,
            )),
            None => all,
        }
    }

    /// Adds the new expiry, which every change of a record sets.
    fn renewed(&self, mut set: Vec<Assign>, slots: &Slots) -> Vec<Assign> {
        if let (Some(index), Some(ttl)) = (slots.expiry, self.desc.ttl) {
            set.push(Assign {
                field: ttl.field,
                value: AssignValue::Set(Source::Arg {
                    index,
                    nullable: false,
                }),
            });
        }
        set
    }
}
