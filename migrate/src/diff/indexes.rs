//! The changes of indexes, counters and references. Renamed fields and entities are compared under
//! their new names, so an index of renamed fields is the same index.

use linchpin_core::schema::{IndexSnapshot, SoftDeleteSnapshot};

use super::properties::renamed_mark;
use super::{Differ, Pair};
use crate::canonical::canonical;
use crate::change::Change;

/// The content of an index, with the new names of fields.
#[derive(PartialEq)]
struct Content<'a> {
    /// The fields, and whether each is in descending order.
    keys: Vec<(&'a str, bool)>,
    /// The mark of deleted records, if the index excludes them.
    live: Option<SoftDeleteSnapshot>,
    /// If set, the index contains only records with null in this field.
    null: Option<&'a str>,
}

impl Differ<'_> {
    /// Compares the indexes by their content.
    pub(super) fn indexes(&mut self, pair: &Pair<'_>) {
        let entity = || pair.new.storage_name.clone();
        for unique in [true, false] {
            let (old, new) = if unique {
                (&pair.old.uniques, &pair.new.uniques)
            } else {
                (&pair.old.indexes, &pair.new.indexes)
            };
            let mut rest: Vec<&IndexSnapshot> = old.iter().collect();
            let mut changes = Vec::new();
            for index in new {
                let content = declared_content(pair, index);
                let same = rest
                    .iter()
                    .position(|old| recorded_content(pair, old).as_ref() == Some(&content));
                if let Some(at) = same {
                    let old = rest.remove(at);
                    if old.name != index.name {
                        changes.push(Change::RenameIndex {
                            entity: entity(),
                            index: index.name.clone(),
                            from: old.name.clone(),
                        });
                    }
                    continue;
                }
                let (entity, index) = (entity(), index.name.clone());
                changes.push(if unique {
                    Change::AddUnique { entity, index }
                } else {
                    Change::AddIndex { entity, index }
                });
            }
            changes.extend(rest.into_iter().map(|old| {
                let (entity, index) = (entity(), old.name.clone());
                if unique {
                    Change::DropUnique { entity, index }
                } else {
                    Change::DropIndex { entity, index }
                }
            }));
            self.changes.extend(changes);
        }
    }

    /// Compares the counters in other entities that count this entity's records. A counter needs no
    /// recount if one of the two entities is new.
    pub(super) fn counters(&mut self, pair: &Pair<'_>, pairs: &[Option<Pair<'_>>]) {
        for counter in &pair.new.counters {
            let target = pairs
                .iter()
                .flatten()
                .find(|other| other.new.storage_name == counter.target);
            let Some(target) = target else { continue };
            let same = pair.old.counters.iter().any(|old| {
                old.target == target.old.storage_name
                    && target.name(&old.field) == Some(&counter.field)
                    && pair.name(&old.by) == Some(&counter.by)
                    && canonical(&old.when) == canonical(&counter.when)
            });
            if !same {
                self.changes.push(Change::Recount {
                    entity: counter.target.clone(),
                    field: counter.field.clone(),
                    of: pair.new.storage_name.clone(),
                });
            }
        }
    }

    /// Compares the fields that must name a record of another entity.
    pub(super) fn references(&mut self, pair: &Pair<'_>) {
        for check in &pair.new.checks {
            let mut known = pair.old.checks.iter().filter(|old| {
                pair.name(&old.field) == Some(&check.field)
                    && pair.entities.get(old.target.as_str()) == Some(&check.target.as_str())
            });
            let before: Vec<_> = known.by_ref().collect();
            if before.is_empty() {
                self.changes.push(Change::AddReference {
                    entity: pair.new.storage_name.clone(),
                    field: check.field.clone(),
                    target: check.target.clone(),
                });
            } else if !before.iter().any(|old| old.on_delete == check.on_delete) {
                let how = check.on_delete.as_deref().unwrap_or("no rule");
                self.notes.push(format!(
                    "deleting a record of `{}` now has the effect `{how}` on `{}.{}`",
                    check.target, pair.new.storage_name, check.field
                ));
            }
        }
    }
}

/// The content of a declared index.
fn declared_content<'a>(pair: &Pair<'a>, index: &'a IndexSnapshot) -> Content<'a> {
    let keys = index.keys.iter();
    Content {
        keys: keys.map(|key| (key.field.as_str(), key.desc)).collect(),
        live: index.live.then(|| pair.new.soft_delete.clone()).flatten(),
        null: index.null.as_deref(),
    }
}

/// The content of a recorded index; `None` if one of its fields is gone.
fn recorded_content<'a>(pair: &'a Pair<'_>, index: &IndexSnapshot) -> Option<Content<'a>> {
    let keys = index.keys.iter();
    Some(Content {
        keys: keys
            .map(|key| Some((pair.name(&key.field)?, key.desc)))
            .collect::<Option<_>>()?,
        live: index.live.then(|| renamed_mark(pair, pair.old)).flatten(),
        null: match &index.null {
            Some(field) => Some(pair.name(field)?),
            None => None,
        },
    })
}
