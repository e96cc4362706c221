//! Start-up checks of counters that records keep of other records, across several declarations.

use linchpin_vocabulary::kind::{Changes, Records};

use super::checks::startup;
use crate::EntityEntry;
use crate::entity::{DefaultDesc, EntityDesc, FieldSet, Relation, SoftDelete, Summary};
use crate::resource::{computed, nameable};
use crate::{Package, Result, Value};

/// Refuses counters that are never updated, that do not start at zero, that something else writes,
/// or that decide which records count.
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
            let Some(kept) = entries
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
                wrong(kept, summary)
                    .into_iter()
                    .map(|wrong| format!("{what}: {wrong}")),
            );
            let again = |other: &&Summary| {
                other.field == summary.field && (other.target)().storage_name == target.storage_name
            };
            let all = || entries.iter().flat_map(|entry| entry.desc.summaries);
            if all()
                .find(again)
                .is_some_and(|first| !std::ptr::eq(first, summary))
            {
                problems.push(format!("{what}: it counts other records already"));
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
fn wrong(kept: &EntityEntry, summary: &Summary) -> Vec<String> {
    let Some(field) = summary.position() else {
        return vec!["there is no such field".to_owned()];
    };
    let mut problems = Vec::new();
    let zero = matches!(kept.desc.fields[field].default, DefaultDesc::Literal(value) if value() == Value::Int(0));
    if !zero {
        problems.push("it does not begin at 0; give it `default = 0`".to_owned());
    }
    // A counter must not decide which records count: else one change would cause another, without
    // an end if records refer to each other.
    if kept.desc.summaries.iter().any(|own| read(own).has(field)) {
        problems
            .push(format!("whether a record of `{}` counts cannot depend on it: it moves without a change of the record", kept.desc.name));
    }
    for spec in kept.mounted() {
        let facts = spec.kind.facts();
        let writes = match (facts.records, facts.changes) {
            // Computed from all records, the number is correct. What a function writes is unknown.
            (Records::Foreign | Records::OfPath, _) => false,
            // New records start at 0; deleted ones are not counted.
            (_, Changes::NewOrOne | Changes::Many | Changes::Removed) => {
                spec.kind.writes(field).is_some()
            }
            _ => spec.kind.touches(kept.desc).has(field),
        };
        if writes {
            problems.push(format!("operation `{}` writes it ({})", spec.name, spec.at));
        }
    }
    problems
}

/// The fields that decide which records count, and for whom.
fn read(summary: &Summary) -> FieldSet {
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
    let kept = all.filter(|summary| (summary.target)().storage_name == desc.storage_name);
    // Records that named a new record before its creation are counted; the count is written if
    // there are any.
    let makes = matches!(changes, Changes::New | Changes::NewOrOne) && nameable(desc);
    let counted = |summary: &Summary| {
        2 + usize::from(
            summary
                .position()
                .is_some_and(|field| follows(desc, &[field])),
        )
    };
    let first = if makes { kept.map(counted).sum() } else { 0 };
    let mark = desc
        .soft_delete
        .iter()
        .map(SoftDelete::field)
        .collect::<FieldSet>();
    let inputs = desc
        .summaries
        .iter()
        .fold(mark, |all, summary| all.or(read(summary)));
    if desc.summaries.is_empty() || !inputs.meets(touches) {
        return Some(first);
    }
    // Counters of one record by one key change together, unless there is a minimum.
    let mut moved: Vec<Moved> = Vec::new();
    for summary in desc.summaries {
        let (target, field) = ((summary.target)(), summary.position());
        let same = |one: &&mut Moved| {
            !one.least && one.target.storage_name == target.storage_name && one.by == summary.by
        };
        match moved
            .iter_mut()
            .find(same)
            .filter(|_| summary.least.is_none())
        {
            Some(one) => one.fields.extend(field),
            None => moved.push(Moved {
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
    let held = |by: usize| looked_up.clone().any(|key| key == by);
    // A record that is looked up names a target, unless it was restored.
    let sound = matches!(changes, Changes::New) || desc.soft_delete.is_none();
    let grows = |one: &Moved| one.grows(alone, sound && held(one.by));
    let shrinks = |one: &Moved| one.shrinks(alone, sound && held(one.by));
    let new: usize = moved.iter().map(grows).sum();
    let gone: usize = moved.iter().map(shrinks).sum();
    // A record whose key changes decrements the old target and increments the new one.
    let either = |one: &Moved| {
        if touches.has(one.by) {
            shrinks(one) + grows(one)
        } else {
            shrinks(one).max(grows(one))
        }
    };
    let additions: usize = moved.iter().map(either).sum();
    let mut targets: Vec<&str> = moved.iter().map(|one| one.target.storage_name).collect();
    targets.sort_unstable();
    targets.dedup();
    // If there are concurrent writers, a read of the record finds the targets of its counters, and
    // the targets are locked.
    let taken = if alone { 0 } else { targets.len() };
    let looks = usize::from(!alone);
    let looked_up = looked_up.next().is_some();
    Some(match changes {
        // The targets are locked by the increments, or before the keys are looked up.
        Changes::New => first + new + if looked_up { taken } else { 0 },
        // The record itself is locked, unless it is removed at once; then it decrements its old
        // target and increments its new one.
        Changes::NewOrOne | Changes::One => first + looks + taken + 1 + additions,
        // The targets of its keys may be gone.
        Changes::Restored => first + looks + taken + 1 + new,
        Changes::Removed => first + looks + taken + usize::from(desc.soft_delete.is_some()) + gone,
        Changes::Nothing => first,
        Changes::Many | Changes::Unknown => return None,
    })
}

/// Counters of one record by one key, which change together.
struct Moved {
    target: &'static EntityDesc,
    by: usize,
    /// Whether there is a minimum.
    least: bool,
    fields: Vec<usize>,
}

impl Moved {
    /// The maximum number of statements for increments. `held` says that the key names a record
    /// that cannot disappear.
    fn grows(&self, alone: bool, held: bool) -> usize {
        let further = usize::from(follows(self.target, &self.fields));
        // A key whose target may be missing is tried twice, and one more read finds the reason.
        if held {
            1 + further
        } else {
            (self.attempts(alone) + 1).max(1 + further)
        }
    }

    /// The same for decrements. With a minimum, one more read finds the reason.
    fn shrinks(&self, alone: bool, held: bool) -> usize {
        let further = usize::from(follows(self.target, &self.fields));
        let missed = match (self.least, held) {
            (true, _) => self.attempts(alone) + 1,
            (false, true) => 1,
            (false, false) => self.attempts(alone),
        };
        missed.max(1 + further)
    }

    /// The number of attempts before the record counts as missing.
    fn attempts(&self, alone: bool) -> usize {
        if !alone && nameable(self.target) {
            2
        } else {
            1
        }
    }
}

/// Whether a write of these fields has effects, so that the record is read.
fn follows(desc: &EntityDesc, fields: &[usize]) -> bool {
    !computed::affected(desc, |field| fields.contains(&field)).is_empty()
}
