//! Pairs the entities and fields of two snapshots under renames.

use std::collections::BTreeSet;

use linchpin_core::schema::{EntitySnapshot, FieldSnapshot, Snapshot};

/// An entity before and after.
#[derive(Clone, Copy, Debug)]
pub(crate) enum EntityPair<'s> {
    /// Only the later snapshot has it.
    New(&'s EntitySnapshot),
    /// Only the earlier snapshot has it.
    Gone(&'s EntitySnapshot),
    /// Both have it, perhaps under two names.
    Kept {
        before: &'s EntitySnapshot,
        after: &'s EntitySnapshot,
    },
}

/// A field before and after, with its names.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FieldPair<'s> {
    /// Only the later snapshot has it.
    New(&'s str, &'s FieldSnapshot),
    /// Only the earlier snapshot has it.
    Gone(&'s FieldSnapshot),
    /// Both have it, perhaps under two names.
    Kept {
        before: (&'s str, &'s FieldSnapshot),
        after: (&'s str, &'s FieldSnapshot),
    },
}

/// Pairs the entities of two snapshots. A later entity belongs to the earlier entity with the same
/// name. Without one, it belongs to the earlier entity with the newest of its former names.
pub(crate) fn entities<'s>(before: &'s Snapshot, after: &'s Snapshot) -> Vec<EntityPair<'s>> {
    let mut taken: BTreeSet<&str> = BTreeSet::new();
    let mut all = Vec::new();
    for (name, entity) in &after.entities {
        let former = || {
            let mut names = entity.former_names.iter().rev();
            names.find_map(|former| {
                let free = !after.entities.contains_key(former);
                before.entities.get(former).filter(|_| free)
            })
        };
        match before.entities.get(name).or_else(former) {
            None => all.push(EntityPair::New(entity)),
            Some(earlier) => {
                taken.insert(&earlier.storage_name);
                all.push(EntityPair::Kept {
                    before: earlier,
                    after: entity,
                });
            }
        }
    }
    let gone = before
        .entities
        .values()
        .filter(|entity| !taken.contains(entity.storage_name.as_str()));
    all.extend(gone.map(EntityPair::Gone));
    all
}

/// Pairs the fields of an entity in two snapshots, by the same rule.
pub(crate) fn fields<'s>(
    before: &'s EntitySnapshot,
    after: &'s EntitySnapshot,
) -> Vec<FieldPair<'s>> {
    let mut taken: BTreeSet<&str> = BTreeSet::new();
    let mut all = Vec::new();
    for (name, field) in &after.fields {
        let same = before.fields.get_key_value(name);
        let former = || {
            let mut names = field.former_names.iter().rev();
            names.find_map(|former| {
                let free = !after.fields.contains_key(former);
                before.fields.get_key_value(former).filter(|_| free)
            })
        };
        match same.or_else(former) {
            None => all.push(FieldPair::New(name, field)),
            Some((earlier, was)) => {
                taken.insert(earlier);
                all.push(FieldPair::Kept {
                    before: (earlier, was),
                    after: (name, field),
                });
            }
        }
    }
    let gone = before
        .fields
        .iter()
        .filter(|(name, _)| !taken.contains(name.as_str()));
    all.extend(gone.map(|(_, field)| FieldPair::Gone(field)));
    all
}
