//! Counters: a record contains the number of records of another entity that refer to it.
//!
//! A counter is never recomputed. Each change of records adds its difference to the counter, in the
//! same transaction, with an addition in the statement itself. A change first locks the records
//! with counters, in the order of their keys, and then the counted records. So there are no
//! deadlocks, and no other call changes a counted record before its counter is written.

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
    /// The groups, sorted by the entity whose records have the counters.
    groups: Vec<Group>,
    /// The fields that decide which records count, and in which record they are counted.
    inputs: FieldSet,
}

/// The counters that use the same key, and their statements.
pub(super) struct Group {
    group_desc: GroupDesc,
    /// Locks records by their keys.
    lock: Arc<Statement>,
    /// Adds to the counters of one record.
    pub(super) add: Arc<Statement>,
    /// Finds out whether a record exists, to distinguish a missing record from a counter at its
    /// limit.
    pub(super) exists: Arc<Statement>,
}

/// The counters that use the same key.
struct GroupDesc {
    target: &'static EntityDesc,
    /// Position of the foreign key that refers to the records with the counters.
    by: usize,
    /// The tenant fields, if both entities have tenants: a counter counts records of its own tenant
    /// only.
    tenant: Option<Tenants>,
    counts: Vec<Count>,
    /// The minimum of the only counter of the group, if it has one.
    least: Option<Least>,
}

/// The positions of the tenant field: in a counted record, and in a record with the counter.
#[derive(Clone, Copy)]
struct Tenants {
    own: usize,
    target: usize,
}

/// One counter.
struct Count {
    field: usize,
    when: Filter,
}

/// The differences to add to the counters of one record.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Difference {
    /// Position of the group.
    pub(super) group: usize,
    /// The key of the record with the counters.
    key: Value,
    /// The tenant of the record; null if tenants do not matter.
    tenant: Value,
    /// One difference per counter of the group.
    by: Vec<i64>,
}

impl Summaries {
    /// `None` if no counters count the records of the entity.
    pub(super) fn new(desc: &'static EntityDesc, store: &Arc<dyn Store>) -> Result<Option<Self>> {
        let mut all: Vec<GroupDesc> = Vec::new();
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
            let same = |group_desc: &&mut GroupDesc| {
                group_desc.least.is_none()
                    && summary.least.is_none()
                    && group_desc.by == summary.by
                    && group_desc.target.storage_name == target.storage_name
            };
            match all.iter_mut().find(same) {
                Some(group_desc) => group_desc.counts.push(count),
                None => {
                    let tenants = desc.tenant.zip(target.tenant);
                    let tenant = tenants.map(|(own, target)| Tenants {
                        own: own.field,
                        target: target.field,
                    });
                    all.push(GroupDesc {
                        target,
                        by: summary.by,
                        tenant,
                        counts: vec![count],
                        least: summary.least,
                    });
                }
            }
        }
        all.sort_by_key(|group_desc| (group_desc.target.storage_name, group_desc.by));
        let group = |group_desc: GroupDesc| {
            let add = store.prepare(group_desc.target, group_desc.plan())?;
            let exists = store.prepare(
                group_desc.target,
                Plan::Exists {
                    filter: group_desc.record().and(live(group_desc.target)),
                },
            )?;
            let by_keys = Filter::cond(
                group_desc.target.primary,
                Op::In,
                Operand::One(Source::Arg {
                    index: 0,
                    nullable: false,
                }),
            );
            let lock = store.prepare(
                group_desc.target,
                Plan::Lock {
                    filter: by_keys,
                    pick: None,
                },
            )?;
            Ok(Group {
                group_desc,
                lock,
                add,
                exists,
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
    pub(super) fn applies_to(&self, plan: &Plan) -> bool {
        self.inputs.meets(plan.touches())
    }

    /// Whether a statement creates a record that changes no counter.
    pub(super) fn is_idle(&self, plan: &Plan, args: &[Value]) -> bool {
        let mut differences = Vec::new();
        if let Plan::Insert = plan {
            self.collect_differences(&mut differences, None, Some(args));
        }
        matches!(plan, Plan::Insert) && self.ordered(differences).is_empty()
    }

    /// The foreign keys that refer to records with counters.
    pub(super) fn keys(&self) -> impl Iterator<Item = usize> {
        self.groups.iter().map(|group| group.group_desc.by)
    }

    pub(super) fn group(&self, at: usize) -> &Group {
        &self.groups[at]
    }

    /// The records with counters that these records refer to: their keys for each entity, with the
    /// statement that locks them.
    pub(super) fn parents<'a>(
        &self,
        records: impl Iterator<Item = &'a [Value]> + Clone,
    ) -> Vec<(&Arc<Statement>, Vec<Value>)> {
        let mut all: Vec<(&Group, Vec<Value>)> = Vec::new();
        for group in &self.groups {
            let keys = records
                .clone()
                .filter_map(|record| record.get(group.group_desc.by))
                .filter(|key| !key.is_null())
                .cloned();
            match all.last_mut().filter(|(other, _)| {
                other.group_desc.target.storage_name == group.group_desc.target.storage_name
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
            .map(|(group, keys)| (&group.lock, keys))
            .collect()
    }

    /// Adds the differences for a record before and after a change. `None` means that the record
    /// did not exist before, or does not exist after it.
    pub(super) fn collect_differences(
        &self,
        differences: &mut Vec<Difference>,
        before: Option<&[Value]>,
        after: Option<&[Value]>,
    ) {
        for (record, sign) in [(before, -1), (after, 1)] {
            let Some(record) = record.filter(|record| layout::record_is_live(self.desc, record))
            else {
                continue;
            };
            for (at, group) in self.groups.iter().enumerate() {
                let key = record.get(group.group_desc.by).cloned().unwrap_or_default();
                if key.is_null() {
                    continue;
                }
                let by: Vec<i64> = group
                    .group_desc
                    .counts
                    .iter()
                    .map(|count| sign * i64::from(matches(&count.when, record, &[])))
                    .collect();
                let tenant = group
                    .group_desc
                    .tenant
                    .and_then(|tenants| record.get(tenants.own))
                    .cloned()
                    .unwrap_or_default();
                differences.push(Difference {
                    group: at,
                    key,
                    tenant,
                    by,
                });
            }
        }
    }

    /// The differences that change a counter, in the order in which they are written.
    pub(super) fn ordered(&self, mut differences: Vec<Difference>) -> Vec<Difference> {
        let target =
            |difference: &Difference| self.groups[difference.group].group_desc.target.storage_name;
        differences.sort_by(|a, b| {
            let keys = || compare(a.key.as_ref(), b.key.as_ref());
            let tenants = || compare(a.tenant.as_ref(), b.tenant.as_ref());
            target(a)
                .cmp(target(b))
                .then_with(keys)
                .then(a.group.cmp(&b.group))
                .then_with(tenants)
        });
        // One difference for each record with counters, whatever the number of records that refer
        // to it.
        differences.dedup_by(|next, difference| {
            let same = next.group == difference.group
                && next.key == difference.key
                && next.tenant == difference.tenant;
            if same {
                difference
                    .by
                    .iter_mut()
                    .zip(&next.by)
                    .for_each(|(sum, more)| *sum += more);
            }
            same
        });
        differences.retain(|difference| difference.by.iter().any(|n| *n != 0));
        differences
    }
}

impl Difference {
    /// The key of the record with the counters.
    pub(super) fn key(&self) -> &Value {
        &self.key
    }

    /// Whether a counter would grow, so that the change may exceed its maximum.
    pub(super) fn grows(&self) -> bool {
        self.by.iter().any(|n| *n > 0)
    }
}

impl Group {
    /// The entity whose records have the counters.
    pub(super) fn target(&self) -> &'static EntityDesc {
        self.group_desc.target
    }

    /// The arguments of the addition. `ignore_minimum` means that the minimum does not apply.
    pub(super) fn addition(&self, difference: &Difference, ignore_minimum: bool) -> Vec<Value> {
        let mut args = self.key_args(difference);
        args.extend(difference.by.iter().copied().map(Value::Int));
        if let Some(least) = &self.group_desc.least {
            let fewer = difference.by.iter().copied().min().unwrap_or_default();
            args.push(Value::Int(if ignore_minimum || fewer >= 0 {
                -MAX_INTEGER
            } else {
                least.number - fewer
            }));
        }
        args.extend(
            difference
                .by
                .iter()
                .map(|by| Value::Int(MAX_INTEGER - by.max(&0))),
        );
        args
    }

    /// The arguments of the statement that checks whether the record exists.
    pub(super) fn key_args(&self, difference: &Difference) -> Vec<Value> {
        let tenant = self.group_desc.tenant.map(|_| difference.tenant.clone());
        std::iter::once(difference.key.clone())
            .chain(tenant)
            .collect()
    }

    /// Position of the foreign key that refers to the record with the counters.
    pub(super) fn by(&self) -> usize {
        self.group_desc.by
    }

    /// The minimum of the counter, if it was decreased.
    pub(super) fn least(&self, difference: &Difference) -> Option<Least> {
        self.group_desc
            .least
            .filter(|_| difference.by.iter().any(|n| *n < 0))
    }
}

impl GroupDesc {
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
            let above_minimum =
                Filter::cond(self.counts[0].field, Op::Gte, Operand::One(slot(next)));
            // The minimum does not apply to a deleted record, because the call that deletes it also
            // deletes the records that it counts.
            filter = filter.and(
                layout::deleted(self.target)
                    .into_iter()
                    .fold(above_minimum, Filter::or),
            );
            next += 1;
        }
        // The sum is not compared, because the store may be unable to represent it.
        let below_maximum = self
            .counts
            .iter()
            .enumerate()
            .map(|(n, count)| Filter::cond(count.field, Op::Lte, Operand::One(slot(next + n))));
        Plan::Update {
            filter: below_maximum.fold(filter, Filter::and),
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
