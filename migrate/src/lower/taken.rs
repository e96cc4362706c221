//! Names that a development start took before the rename to them was declared.
//!
//! A development start with a new field name and without `rename_from` adds a column. If the next
//! recorded migration renames another field to that name, it keeps the values of the renamed field:
//! its steps are computed from the snapshot without the added field. They drop the added column.

use std::collections::BTreeMap;

use linchpin_core::schema::{EntitySnapshot, Snapshot};

use crate::pairs::{self, EntityPair};

/// Removes objects from the present snapshot that have the new name of a rename. Returns the
/// snapshot that the steps start from, and a note for each removed object.
///
/// Only drafts have such objects: recording refuses a rename to a name that is recorded.
pub(super) fn without_taken(present: &Snapshot, after: &Snapshot) -> (Snapshot, Vec<String>) {
    let mut before = present.clone();
    let mut notes = Vec::new();
    for (name, entity) in &after.entities {
        let Some(added) = present.entities.get(name) else {
            continue;
        };
        let names = Names {
            former: &entity.former_names,
            known: &added.former_names,
        };
        if let Some(source) = names.source(&present.entities, &after.entities) {
            before.entities.remove(name);
            notes.push(format!(
                "a development start added table `{name}`; it is dropped with its records, because \
                 `{source}` is renamed to `{name}`"
            ));
        }
    }
    let mut fields = Vec::new();
    for pair in pairs::entities(&before, after) {
        let EntityPair::Kept { before: was, after } = pair else {
            continue;
        };
        for (name, field) in &after.fields {
            let Some(added) = was.fields.get(name) else {
                continue;
            };
            let names = Names {
                former: &field.former_names,
                known: &added.former_names,
            };
            if let Some(source) = names.source(&was.fields, &after.fields) {
                fields.push((was.storage_name.clone(), name.clone()));
                notes.push(format!(
                    "a development start added field `{name}` to `{}`; its values are dropped, \
                     because `{source}` is renamed to `{name}`",
                    after.storage_name
                ));
            }
        }
    }
    for (entity, field) in fields {
        if let Some(entity) = before.entities.get_mut(&entity) {
            remove(entity, &field);
        }
    }
    (before, notes)
}

/// The former names of objects with the same name in two snapshots.
struct Names<'a> {
    /// The former names in the later snapshot.
    former: &'a [String],
    /// The former names in the present snapshot.
    known: &'a [String],
}

impl<'a> Names<'a> {
    /// The former name that the object is renamed from, if the present snapshot has an object of
    /// that name and the object of the new name did not come from it.
    fn source<T>(
        &self,
        present: &BTreeMap<String, T>,
        after: &BTreeMap<String, T>,
    ) -> Option<&'a String> {
        let mut names = self.former.iter().rev();
        names
            .find(|name| present.contains_key(*name) && !after.contains_key(*name))
            .filter(|name| !self.known.contains(name))
    }
}

/// Removes a field with everything that reads it.
fn remove(entity: &mut EntitySnapshot, field: &str) {
    entity.fields.remove(field);
    for indexes in [&mut entity.indexes, &mut entity.uniques] {
        indexes.retain(|index| {
            let mut keys = index.keys.iter().map(|key| key.field.as_str());
            !keys.any(|key| key == field) && index.null.as_deref() != Some(field)
        });
    }
    entity.checks.retain(|check| check.field != field);
    entity.counters.retain(|counter| counter.by != field);
    entity.ttl = entity.ttl.take().filter(|ttl| ttl.field != field);
}
