//! Start-up checks of counters: fields that count records of another entity. Each check reads
//! several declarations.

use linchpin_vocabulary::kind::{Changes, Records};

use super::checks::startup;
use crate::EntityEntry;
use crate::entity::{DefaultDesc, EntityDesc, FieldSet, Relation, SoftDelete, Summary};
use crate::resource::{computed, is_key_predictable};
use crate::{Package, Result, Value};

/// Refuses counters that are never updated, that do not start at zero, that an operation or a
/// second counter also writes, or on which another counter depends.
///
/// # Errors
/// A start-up error that lists all of them.
pub(super) fn check<'a>(entries: impl Iterator<Item = &'a EntityEntry>) -> Result<()> {
    let entries: Vec<&EntityEntry> = entries.collect();
    let mut problems = Vec::new();
    for entry in &entries {
        for summary in entry.desc.summaries {
            let (target, by) = ((summary.target)(), entry.desc.name);
            let what = format!(
                "`{}.{}`, which counts records of `{by}` ({})",
                target.name, summary.field, entry.desc.at
            );
            let Some(counter_entry) = entries
                .iter()
                .find(|other| other.desc.storage_name == target.storage_name)
            else {
                problems.push(format!(
                    "{what}: `{}` is in no package of this app",
                    target.name
                ));
                continue;
            };
            problems.extend(
                field_mistakes(counter_entry, summary)
                    .into_iter()
                    .map(|wrong| format!("{what}: {wrong}")),
            );
            let same_field = |other: &&Summary| {
                other.field == summary.field && (other.target)().storage_name == target.storage_name
            };
            let all = || entries.iter().flat_map(|entry| entry.desc.summaries);
            if all()
                .find(same_field)
                .is_some_and(|first| !std::ptr::eq(first, summary))
            {
                problems.push(format!("{what}: another counter uses this field already"));
            }
        }
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(startup(problems.join("\n")))
    }
}

/// The mistakes in the field of a counter.
fn field_mistakes(counter_entry: &EntityEntry, summary: &Summary) -> Vec<String> {
    let Some(field) = summary.position() else {
        return vec!["there is no such field".to_owned()];
    };
    let mut problems = Vec::new();
    let default = counter_entry.desc.fields[field].default;
    let begins_at_zero = matches!(default, DefaultDesc::Literal(value) if value() == Value::Int(0));
    if !begins_at_zero {
        problems.push("it does not begin at 0; give it `default = 0`".to_owned());
    }
    // A counter must not decide which records another counter counts. Otherwise a change of one
    // counter would change the other, endlessly if records refer to each other.
    if counter_entry
        .desc
        .summaries
        .iter()
        .any(|own| input_fields(own).has(field))
    {
        problems
            .push(format!("a counter that counts records of `{}` must not depend on this field, because the framework changes the field without an update of the record", counter_entry.desc.name));
    }
    for spec in counter_entry.mounted() {
        let facts = spec.kind.facts();
        let writes = match (facts.records, facts.changes) {
            // A number that an operation computes from all records is correct. The fields that a
            // function of the app writes are not known here.
            (Records::Foreign | Records::OfPath, _) => false,
            // Such an operation may touch all fields, because it creates or deletes records. A new
            // record starts at 0, and a deleted record is not counted. So only an explicit write is
            // a mistake.
            (_, Changes::NewOrOne | Changes::Many | Changes::Removed) => {
                spec.kind.writes(field).is_some()
            }
            _ => spec.kind.touches(counter_entry.desc).has(field),
        };
        if writes {
            problems.push(format!("operation `{}` writes it ({})", spec.name, spec.at));
        }
    }
    problems
}

/// The fields that decide which records count, and for whom.
fn input_fields(summary: &Summary) -> FieldSet {
    summary.when.fields().with(summary.by)
}

/// The maximum number of statements that a route adds for counters on other records. `None` if it
/// depends on the number of changed records. `alone` says that a transaction of the store blocks
/// all other writes.
pub(super) fn cost(
    packages: &[&'static Package],
    desc: &EntityDesc,
    touches: FieldSet,
    changes: Changes,
    alone: bool,
) -> Option<usize> {
    let all = packages
        .iter()
        .flat_map(|package| package.entities)
        .flat_map(|entry| entry.desc.summaries);
    let own_counters = all.filter(|summary| (summary.target)().storage_name == desc.storage_name);
    // Other records may refer to a new record before it exists. One statement counts these
    // references, and another one writes the count if it is not 0.
    let may_have_earlier_references =
        matches!(changes, Changes::New | Changes::NewOrOne) && is_key_predictable(desc);
    let backfill_statements = |summary: &Summary| {
        2 + usize::from(
            summary
                .position()
                .is_some_and(|field| has_computed_dependents(desc, &[field])),
        )
    };
    let backfill = if may_have_earlier_references {
        own_counters.map(backfill_statements).sum()
    } else {
        0
    };
    let mark = desc
        .soft_delete
        .iter()
        .map(SoftDelete::field)
        .collect::<FieldSet>();
    let inputs = desc
        .summaries
        .iter()
        .fold(mark, |all, summary| all.or(input_fields(summary)));
    if desc.summaries.is_empty() || !inputs.meets(touches) {
        return Some(backfill);
    }
    // All counters of a record that use the same foreign key change in one statement, unless they
    // have a minimum.
    let mut groups: Vec<CounterGroup> = Vec::new();
    for summary in desc.summaries {
        let (target, field) = ((summary.target)(), summary.position());
        let same = |group: &&mut CounterGroup| {
            !group.least
                && group.target.storage_name == target.storage_name
                && group.by == summary.by
        };
        match groups
            .iter_mut()
            .find(same)
            .filter(|_| summary.least.is_none())
        {
            Some(group) => group.fields.extend(field),
            None => groups.push(CounterGroup {
                target,
                by: summary.by,
                least: summary.least.is_some(),
                fields: field.into_iter().collect(),
            }),
        }
    }
    let mut looked_up = desc
        .relations
        .iter()
        .filter_map(Relation::enforced)
        .map(|(key, _)| key)
        .chain(desc.gates.iter().map(|gate| gate.field));
    let is_looked_up = |by: usize| looked_up.clone().any(|key| key == by);
    // The target of a key that is looked up exists. Only a restored record may have lost its
    // target.
    let targets_exist = matches!(changes, Changes::New) || desc.soft_delete.is_none();
    let increments =
        |group: &CounterGroup| group.increments(alone, targets_exist && is_looked_up(group.by));
    let decrements =
        |group: &CounterGroup| group.decrements(alone, targets_exist && is_looked_up(group.by));
    let all_increments: usize = groups.iter().map(increments).sum();
    let all_decrements: usize = groups.iter().map(decrements).sum();
    // A record whose key changes decrements the old target and increments the new one.
    let either = |group: &CounterGroup| {
        if touches.has(group.by) {
            decrements(group) + increments(group)
        } else {
            decrements(group).max(increments(group))
        }
    };
    let additions: usize = groups.iter().map(either).sum();
    let mut targets: Vec<&str> = groups
        .iter()
        .map(|group| group.target.storage_name)
        .collect();
    targets.sort_unstable();
    targets.dedup();
    // If there are concurrent writers, a read of the record finds the targets of its counters, and
    // the targets are locked.
    let locks = if alone { 0 } else { targets.len() };
    let reads = usize::from(!alone);
    let looked_up = looked_up.next().is_some();
    Some(match changes {
        // The targets are locked by the increments, or before the keys are looked up.
        Changes::New => backfill + all_increments + if looked_up { locks } else { 0 },
        // One statement locks the record itself. Then its old target is decremented, and its new
        // target is incremented.
        Changes::NewOrOne | Changes::One => backfill + reads + locks + 1 + additions,
        // The targets of its foreign keys may have been deleted.
        Changes::Restored => backfill + reads + locks + 1 + all_increments,
        Changes::Removed => {
            backfill + reads + locks + usize::from(desc.soft_delete.is_some()) + all_decrements
        }
        Changes::Nothing => backfill,
        Changes::Many | Changes::Unknown => return None,
    })
}

/// Counters of a target record that change in one statement, because they use the same foreign key.
struct CounterGroup {
    target: &'static EntityDesc,
    by: usize,
    /// Whether there is a minimum.
    least: bool,
    fields: Vec<usize>,
}

impl CounterGroup {
    /// The maximum number of statements for increments. With `target_exists`, the target of the key
    /// exists and cannot disappear.
    fn increments(&self, alone: bool, target_exists: bool) -> usize {
        let computed_field_statements =
            usize::from(has_computed_dependents(self.target, &self.fields));
        // If the target may be missing, the increment may be tried twice, and one more read finds
        // the reason.
        if target_exists {
            1 + computed_field_statements
        } else {
            (self.attempts(alone) + 1).max(1 + computed_field_statements)
        }
    }

    /// The maximum number of statements for decrements. With a minimum, one more read finds the
    /// reason.
    fn decrements(&self, alone: bool, target_exists: bool) -> usize {
        let computed_field_statements =
            usize::from(has_computed_dependents(self.target, &self.fields));
        let missed = match (self.least, target_exists) {
            (true, _) => self.attempts(alone) + 1,
            (false, true) => 1,
            (false, false) => self.attempts(alone),
        };
        missed.max(1 + computed_field_statements)
    }

    /// The number of attempts before the record counts as missing.
    fn attempts(&self, alone: bool) -> usize {
        if !alone && is_key_predictable(self.target) {
            2
        } else {
            1
        }
    }
}

/// Whether other fields are computed from these fields, so that the record is read.
fn has_computed_dependents(desc: &EntityDesc, fields: &[usize]) -> bool {
    !computed::affected(desc, |field| fields.contains(&field)).is_empty()
}
