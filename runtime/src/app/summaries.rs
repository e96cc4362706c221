//! What start-up checks about numbers that records keep of others: what several declarations say together.

use super::checks::startup;
use crate::entity::{DefaultDesc, EntityDesc, FieldSet, Relation, SoftDelete, Summary};
use crate::package::EntityEntry;
use crate::resource::nameable;
use crate::{Package, Result, Value};

/// Refuses numbers that nobody keeps, that do not begin at zero, that something else writes, or that decide what counts.
///
/// # Errors
/// A start-up error whose text lists all of them.
pub(super) fn check<'a>(entries: impl Iterator<Item = &'a EntityEntry>) -> Result<()> {
    let entries: Vec<&EntityEntry> = entries.collect();
    let mut problems = Vec::new();
    for entry in &entries {
        for summary in entry.desc.summaries {
            let (target, by) = ((summary.target)(), entry.desc.name);
            let what = format!("`{}.{}`, which counts records of `{by}` ({})", target.name, summary.field, entry.desc.at);
            let Some(kept) = entries.iter().find(|other| other.desc.storage_name == target.storage_name) else {
                problems.push(format!("{what}: `{}` is in no package of this app", target.name));
                continue;
            };
            problems.extend(wrong(kept, summary).into_iter().map(|wrong| format!("{what}: {wrong}")));
            let again = |other: &&Summary| other.field == summary.field && (other.target)().storage_name == target.storage_name;
            let all = || entries.iter().flat_map(|entry| entry.desc.summaries);
            if all().find(again).is_some_and(|first| !std::ptr::eq(first, summary)) {
                problems.push(format!("{what}: it counts other records already"));
            }
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(startup(problems.join("\n"))) }
}

/// What is wrong with the field that keeps a number.
fn wrong(kept: &EntityEntry, summary: &Summary) -> Vec<String> {
    let Some(field) = summary.position() else { return vec!["there is no such field".to_owned()] };
    let mut problems = Vec::new();
    let zero = matches!(kept.desc.fields[field].default, DefaultDesc::Literal(value) if value() == Value::Int(0));
    if !zero {
        problems.push("it does not begin at 0; give it `default = 0`".to_owned());
    }
    // What moves it decides nothing: else one change would be another's, without an end where records name each other.
    if kept.desc.summaries.iter().any(|own| read(own).has(field)) {
        problems
            .push(format!("whether a record of `{}` counts cannot depend on it: it moves without a change of the record", kept.desc.name));
    }
    // A number that is counted anew is right.
    for spec in kept.mounted().filter(|spec| spec.kind.name() != "computed_aggregate" && !spec.kind.runs_code()) {
        let writes = match spec.kind.name() {
            // Their records are new, and begin at 0 like all.
            "upsert" => spec.kind.writes(field).is_some(),
            "batch" | "consume" if spec.kind.writes(field).is_none() => false,
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

/// The most statements that a route takes beside its own for the numbers that records keep of others. `None` where that depends on how
/// many records change. `alone` says that nobody else writes while a transaction of the store lasts.
pub(super) fn cost(packages: &[&'static Package], desc: &EntityDesc, touches: FieldSet, changed: Changed, alone: bool) -> Option<usize> {
    let all = packages.iter().flat_map(|package| package.entities).flat_map(|entry| entry.desc.summaries);
    let kept = all.filter(|summary| (summary.target)().storage_name == desc.storage_name).count();
    // What has named a new record before is counted, and written where there is any.
    let makes = matches!(changed, Changed::New | Changed::NewOrOne) && nameable(desc);
    let first = if makes { 2 * kept } else { 0 };
    let mark = desc.soft_delete.iter().map(SoftDelete::field).collect::<FieldSet>();
    let inputs = desc.summaries.iter().fold(mark, |all, summary| all.or(read(summary)));
    if desc.summaries.is_empty() || !inputs.meets(touches) {
        return Some(first);
    }
    // Those of one record by one key move together, unless there is a least.
    let mut moved: Vec<(&EntityDesc, usize)> = Vec::new();
    for summary in desc.summaries {
        let target = (summary.target)();
        if summary.least.is_some() || !moved.iter().any(|(other, by)| other.storage_name == target.storage_name && *by == summary.by) {
            moved.push((target, summary.by));
        }
    }
    let least = desc.summaries.iter().filter(|summary| summary.least.is_some()).count();
    let mut looked_up =
        desc.relations.iter().filter_map(Relation::enforced).map(|(key, _)| key).chain(desc.gates.iter().map(|gate| gate.field));
    let held = |by: usize| looked_up.clone().any(|key| key == by);
    // A key that may name nothing is tried twice. One that is looked up names something, unless the record has been brought back.
    let sound = matches!(changed, Changed::New) || desc.soft_delete.is_none();
    let tries = |(target, by): &(&EntityDesc, usize)| if !alone && nameable(target) && !(sound && held(*by)) { 2 } else { 1 };
    // A record that gets another key is one less for the one and one more for the other.
    let moves = |(_, by): &(&EntityDesc, usize)| if changed.keeps() && touches.has(*by) { 2 } else { 1 };
    let new: usize = moved.iter().map(tries).sum();
    let additions: usize = moved.iter().map(|one| tries(one) * moves(one)).sum();
    let mut targets: Vec<&str> = moved.iter().map(|(target, _)| target.storage_name).collect();
    targets.sort_unstable();
    targets.dedup();
    // Where somebody else may write, a look at the record tells whose numbers it moves, and those that keep them are taken.
    let taken = if alone { 0 } else { targets.len() };
    let looks = usize::from(!alone);
    let looked_up = looked_up.next().is_some();
    Some(match changed {
        // The records that keep the numbers are taken by the additions, or before keys are looked up.
        Changed::New => first + new + if looked_up { taken } else { 0 },
        // It is taken itself, unless it is removed at once; then it is one less for the one that it named and one more for the one that
        // it names. Where there must be so many, a question why.
        Changed::NewOrOne | Changed::One => first + looks + taken + 1 + additions + least,
        // What its keys name may be gone: then nothing is added to, and a question is why.
        Changed::Back => first + looks + taken + 1 + additions + moved.len(),
        Changed::Gone => first + looks + taken + usize::from(desc.soft_delete.is_some()) + additions + least,
        Changed::Many => return None,
    })
}

/// What a route changes.
#[derive(Clone, Copy)]
pub(super) enum Changed {
    /// It makes one record.
    New,
    /// One record, which may be new.
    NewOrOne,
    /// One record.
    One,
    /// One record, which was marked as deleted and is so no more.
    Back,
    /// It removes one record, or marks it as deleted.
    Gone,
    /// Any number.
    Many,
}

impl Changed {
    /// Whether a record that was there is there still.
    fn keeps(self) -> bool {
        !matches!(self, Self::Gone)
    }
}
