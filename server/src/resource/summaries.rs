//! Counters: records of one entity hold the number of records of another entity that refer to them.
//!
//! A counter is never recomputed. Each change of records adds its difference to the counter, in the
//! same transaction, with an addition in the statement itself. A change first locks the records
//! with counters, in the order of their keys, and then the counted records. So there are no
//! deadlocks, and no concurrent change of a counted record in between.

use std::sync::Arc;

use crate::entity::{EntityDesc, FieldSet, Least, SoftDelete};
use crate::filter::eval::{compare, matches};
use crate::filter::{Filter, Op, Operand, Source};
use crate::store::{Assign, AssignValue, Plan, Statement, Store, layout};
use crate::validate::MAX_INTEGER;
use crate::{Error, Result, Value};

/// The counters of an entity's records.
pub(super) struct Summaries {
    desc: &'static EntityDesc,
    /// By entity that keeps them.
    groups: Vec<Group>,
    /// The fields that decide which records count, and for whom.
    inputs: FieldSet,
}

/// The counters that use the same key, and their statements.
pub(super) struct Group {
    kept: Kept,
    /// Locks records by their keys.
    take: Arc<Statement>,
    /// Adds to the numbers of one record.
    pub(super) add: Arc<Statement>,
    /// Whether a record is there whose number has a least.
    pub(super) there: Arc<Statement>,
}

/// The counters that use the same key.
struct Kept {
    target: &'static EntityDesc,
    /// Position of the field that names them.
    by: usize,
    /// The tenant fields, if both entities have tenants: a counter counts records of its own tenant
    /// only.
    tenant: Option<Tenants>,
    counts: Vec<Count>,
    /// The least that the only count of the group may be.
    least: Option<Least>,
}

/// The positions of the tenant of a record that counts and of one that keeps the number.
#[derive(Clone, Copy)]
struct Tenants {
    own: usize,
    target: usize,
}

/// One number.
struct Count {
    field: usize,
    when: Filter,
}

/// By how much the numbers that one record keeps are to change.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Move {
    /// Position of the group.
    pub(super) group: usize,
    /// The key of the record that keeps them.
    key: Value,
    /// The tenant of the record; null if tenants do not matter.
    tenant: Value,
    /// One per number of the group.
    by: Vec<i64>,
}

impl Summaries {
    /// `None` if no counters count the records of the entity.
    pub(super) fn new(desc: &'static EntityDesc, store: &Arc<dyn Store>) -> Result<Option<Self>> {
        let mut all: Vec<Kept> = Vec::new();
        let mut inputs: FieldSet = desc
            .soft_delete
            .iter()
            .map(SoftDelete::field)
            .chain(desc.tenant.map(|tenant| tenant.field))
            .collect();
        for summary in desc.summaries {
            let target = (summary.target)();
            let field = summary.position().ok_or_else(|| {
                Error::internal(format!(
                    "a counter of `{}` has the target `{}`, and `{}` has no such field",
                    desc.name, summary.field, target.name
                ))
            })?;
            let count = Count {
                field,
                when: Filter::from(&summary.when),
            };
            inputs = inputs.with(summary.by);
            inputs = inputs.or(count.when.fields());
            let same = |kept: &&mut Kept| {
                kept.least.is_none()
                    && summary.least.is_none()
                    && kept.by == summary.by
                    && kept.target.storage_name == target.storage_name
            };
            match all.iter_mut().find(same) {
                Some(kept) => kept.counts.push(count),
                None => {
                    let tenants = desc.tenant.zip(target.tenant);
                    let tenant = tenants.map(|(own, target)| Tenants {
                        own: own.field,
                        target: target.field,
                    });
                    all.push(Kept {
                        target,
                        by: summary.by,
                        tenant,
                        counts: vec![count],
                        least: summary.least,
                    });
                }
            }
        }
        all.sort_by_key(|kept| (kept.target.storage_name, kept.by));
        let group = |kept: Kept| {
            let add = store.prepare(kept.target, kept.plan())?;
            let there = store.prepare(
                kept.target,
                Plan::Exists {
                    filter: kept.record().and(live(kept.target)),
                },
            )?;
            let those = Filter::cond(
                kept.target.primary,
                Op::In,
                Operand::One(Source::Arg {
                    index: 0,
                    nullable: false,
                }),
            );
            let take = store.prepare(
                kept.target,
                Plan::Lock {
                    filter: those,
                    pick: None,
                },
            )?;
            Ok(Group {
                kept,
                take,
                add,
                there,
            })
        };
        let groups = all.into_iter().map(group).collect::<Result<Vec<_>>>()?;
        Ok((!groups.is_empty()).then_some(Self {
            desc,
            groups,
            inputs,
        }))
    }

    /// Whether a statement may change a counter.
    pub(super) fn concerned(&self, plan: &Plan) -> bool {
        self.inputs.meets(plan.touches())
    }

    /// Whether a statement makes a record that does not count.
    pub(super) fn is_idle(&self, plan: &Plan, args: &[Value]) -> bool {
        let mut moves = Vec::new();
        if let Plan::Insert = plan {
            self.moved(&mut moves, None, Some(args));
        }
        matches!(plan, Plan::Insert) && self.ordered(moves).is_empty()
    }

    /// The fields that name the records which keep the numbers.
    pub(super) fn keys(&self) -> impl Iterator<Item = usize> {
        self.groups.iter().map(|group| group.kept.by)
    }

    pub(super) fn group(&self, at: usize) -> &Group {
        &self.groups[at]
    }

    /// The records that keep numbers of these: their keys, entity by entity, with the statement
    /// that takes them.
    pub(super) fn parents<'a>(
        &self,
        records: impl Iterator<Item = &'a [Value]> + Clone,
    ) -> Vec<(&Arc<Statement>, Vec<Value>)> {
        let mut all: Vec<(&Group, Vec<Value>)> = Vec::new();
        for group in &self.groups {
            let keys = records
                .clone()
                .filter_map(|record| record.get(group.kept.by))
                .filter(|key| !key.is_null())
                .cloned();
            match all.last_mut().filter(|(other, _)| {
                other.kept.target.storage_name == group.kept.target.storage_name
            }) {
                Some((_, known)) => known.extend(keys),
                None => all.push((group, keys.collect())),
            }
        }
        all.retain(|(_, keys)| !keys.is_empty());
        for (_, keys) in &mut all {
            keys.sort_by(|a, b| compare(a.as_ref(), b.as_ref()));
            keys.dedup();
        }
        all.into_iter()
            .map(|(group, keys)| (&group.take, keys))
            .collect()
    }

    /// The moves for a record that was replaced by another; `None` means that there was, or is, no
    /// record.
    pub(super) fn moved(
        &self,
        moves: &mut Vec<Move>,
        before: Option<&[Value]>,
        after: Option<&[Value]>,
    ) {
        for (record, sign) in [(before, -1), (after, 1)] {
            let Some(record) = record.filter(|record| layout::record_is_live(self.desc, record))
            else {
                continue;
            };
            for (at, group) in self.groups.iter().enumerate() {
                let key = record.get(group.kept.by).cloned().unwrap_or_default();
                if key.is_null() {
                    continue;
                }
                let by: Vec<i64> = group
                    .kept
                    .counts
                    .iter()
                    .map(|count| sign * i64::from(matches(&count.when, record, &[])))
                    .collect();
                let tenant = group
                    .kept
                    .tenant
                    .and_then(|tenants| record.get(tenants.own))
                    .cloned()
                    .unwrap_or_default();
                moves.push(Move {
                    group: at,
                    key,
                    tenant,
                    by,
                });
            }
        }
    }

    /// The moves that change a counter, in the order in which they run.
    pub(super) fn ordered(&self, mut moves: Vec<Move>) -> Vec<Move> {
        let target = |one: &Move| self.groups[one.group].kept.target.storage_name;
        moves.sort_by(|a, b| {
            let keys = || compare(a.key.as_ref(), b.key.as_ref());
            let tenants = || compare(a.tenant.as_ref(), b.tenant.as_ref());
            target(a)
                .cmp(target(b))
                .then_with(keys)
                .then(a.group.cmp(&b.group))
                .then_with(tenants)
        });
        // One move for each record with counters, whatever the number of records that refer to it.
        moves.dedup_by(|next, one| {
            let same = next.group == one.group && next.key == one.key && next.tenant == one.tenant;
            if same {
                one.by
                    .iter_mut()
                    .zip(&next.by)
                    .for_each(|(sum, more)| *sum += more);
            }
            same
        });
        moves.retain(|one| one.by.iter().any(|n| *n != 0));
        moves
    }
}

impl Move {
    /// The key of the record that keeps the numbers.
    pub(super) fn key(&self) -> &Value {
        &self.key
    }

    /// Whether a counter would grow, so that its maximum may refuse the move.
    pub(super) fn grows(&self) -> bool {
        self.by.iter().any(|n| *n > 0)
    }
}

impl Group {
    /// The entity whose records keep them.
    pub(super) fn target(&self) -> &'static EntityDesc {
        self.kept.target
    }

    /// The arguments of the addition. `free` means that the minimum does not apply.
    pub(super) fn addition(&self, one: &Move, free: bool) -> Vec<Value> {
        let mut args = self.which(one);
        args.extend(one.by.iter().copied().map(Value::Int));
        if let Some(least) = &self.kept.least {
            let fewer = one.by.iter().copied().min().unwrap_or_default();
            args.push(Value::Int(if free || fewer >= 0 {
                -MAX_INTEGER
            } else {
                least.number - fewer
            }));
        }
        args.extend(one.by.iter().map(|by| Value::Int(MAX_INTEGER - by.max(&0))));
        args
    }

    /// The arguments of the question whether the record is there.
    pub(super) fn which(&self, one: &Move) -> Vec<Value> {
        let tenant = self.kept.tenant.map(|_| one.tenant.clone());
        std::iter::once(one.key.clone()).chain(tenant).collect()
    }

    /// Position of the field that names the record which keeps them.
    pub(super) fn by(&self) -> usize {
        self.kept.by
    }

    /// The minimum that a move would have fallen below, if it changed nothing.
    pub(super) fn least(&self, one: &Move) -> Option<Least> {
        self.kept.least.filter(|_| one.by.iter().any(|n| *n < 0))
    }
}

impl Kept {
    /// The record, by its key and its tenant.
    fn record(&self) -> Filter {
        let of = |tenants: Tenants| {
            Filter::cond(
                tenants.target,
                Op::Eq,
                Operand::One(Source::Arg {
                    index: 1,
                    nullable: true,
                }),
            )
        };
        self.tenant
            .map(of)
            .into_iter()
            .fold(Filter::eq_arg(self.target.primary, 0), Filter::and)
    }

    /// Adds to the counters of a record. The arguments are its key, its tenant if there are
    /// tenants, the differences, the minimum, and the maximum of each counter.
    fn plan(&self) -> Plan {
        let first = 1 + usize::from(self.tenant.is_some());
        let slot = |index| Source::Arg {
            index,
            nullable: false,
        };
        let add = |(n, count): (usize, &Count)| Assign {
            field: count.field,
            value: AssignValue::Add(slot(first + n)),
        };
        let set: Vec<Assign> = self.counts.iter().enumerate().map(add).collect();
        let mut filter = self.record();
        let mut next = first + self.counts.len();
        if self.least.is_some() {
            let enough = Filter::cond(self.counts[0].field, Op::Gte, Operand::One(slot(next)));
            // A call that deletes the record also deletes the records that it counts.
            filter = filter.and(
                layout::deleted(self.target)
                    .into_iter()
                    .fold(enough, Filter::or),
            );
            next += 1;
        }
        // The sum is not compared, because the store may be unable to represent it.
        let room = self
            .counts
            .iter()
            .enumerate()
            .map(|(n, count)| Filter::cond(count.field, Op::Lte, Operand::One(slot(next + n))));
        Plan::Update {
            filter: room.fold(filter, Filter::and),
            set,
            pick: None,
        }
    }
}

fn live(target: &EntityDesc) -> Filter {
    layout::live(target)
        .into_iter()
        .fold(Filter::TRUE, Filter::and)
}
