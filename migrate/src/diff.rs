//! The differences between a recorded snapshot and the declarations.

use std::collections::BTreeMap;

use linchpin_core::entity::EntityDesc;
use linchpin_core::schema::{EntitySnapshot, Snapshot};

use crate::chain::TransformRecord;
use crate::change::Change;
use crate::error::Refusal;

mod declared;
mod fields;
mod indexes;
mod problems;
mod properties;
mod renames;
mod transforms;

use declared::Declared;
use problems::Problems;
use renames::Origin;

/// The differences between a recorded snapshot and the declarations.
#[derive(Clone, Debug, PartialEq)]
pub struct Diff {
    /// The snapshot of the declarations, with the former names of all recorded renames.
    pub snapshot: Snapshot,
    /// The differences that change a database. The list is empty for equal snapshots, and for
    /// snapshots whose differences do not change a database.
    pub changes: Vec<Change>,
    /// The functions that the changes run.
    pub transforms: Vec<TransformRecord>,
    /// Lines of information: hints, and applied renames whose `rename_from` may be removed.
    pub notes: Vec<String>,
}

/// Compares the declarations with the previous snapshot.
///
/// # Errors
/// One refusal with all planning errors: `rename_source_missing`, `rename_source_declared`,
/// `rename_target_exists`, `rename_claimed_twice`, `transform_required`, `transform_signature`,
/// `transform_null`, `required_needs_value`, `primary_change`. Each has the source line of its
/// declaration.
pub fn diff(previous: &Snapshot, declared: &[&EntityDesc]) -> Result<Diff, Refusal> {
    diff_after("", previous, declared)
}

/// Like [`diff`]. `label` names the previous migration in messages, such as "3 `add_x`".
///
/// # Errors
/// Like [`diff`].
pub fn diff_after(
    label: &str,
    previous: &Snapshot,
    declared: &[&EntityDesc],
) -> Result<Diff, Refusal> {
    let declared = declared.iter().map(|desc| Declared::of(desc)).collect();
    Differ::new(label, previous, true).run(declared)
}

/// Compares two snapshots. Former names in the later snapshot mark renames; transforms have empty
/// names.
///
/// # Errors
/// `primary_change`.
pub fn diff_snapshots(previous: &Snapshot, next: &Snapshot) -> Result<Diff, Refusal> {
    let declared = next.entities.values().map(Declared::recorded).collect();
    Differ::new("", previous, false).run(declared)
}

struct Differ<'p> {
    /// The name of the previous snapshot in messages: "the previous snapshot (3 `add_x`)".
    source: String,
    previous: &'p Snapshot,
    /// Whether the declarations themselves are compared, not a snapshot of them.
    strict: bool,
    problems: Problems,
    changes: Vec<Change>,
    transforms: BTreeMap<String, TransformRecord>,
    notes: Vec<String>,
    /// Applied renames whose `rename_from` may be removed, such as "`tasks.display` from `name`".
    applied: Vec<String>,
}

/// A declared entity with its recorded form.
struct Pair<'a> {
    old: &'a EntitySnapshot,
    new: &'a EntitySnapshot,
    /// The new name of each old field that still exists.
    names: BTreeMap<&'a str, &'a str>,
    /// The new storage name of each old entity that still exists.
    entities: &'a BTreeMap<&'a str, &'a str>,
}

impl Pair<'_> {
    /// The new name of an old field; `None` if the field is gone.
    fn name(&self, old: &str) -> Option<&str> {
        self.names.get(old).copied()
    }
}

impl<'p> Differ<'p> {
    fn new(label: &str, previous: &'p Snapshot, strict: bool) -> Self {
        let source = if label.is_empty() {
            "the previous snapshot".to_owned()
        } else {
            format!("the previous snapshot ({label})")
        };
        Self {
            source,
            previous,
            strict,
            problems: Problems::default(),
            changes: Vec::new(),
            transforms: BTreeMap::new(),
            notes: Vec::new(),
            applied: Vec::new(),
        }
    }

    fn run(mut self, mut declared: Vec<Declared<'_>>) -> Result<Diff, Refusal> {
        declared.sort_by(|a, b| a.snapshot.storage_name.cmp(&b.snapshot.storage_name));
        let origins = self.entities(&declared);
        let olds: Vec<Option<&'p EntitySnapshot>> = declared
            .iter()
            .zip(&origins)
            .map(|(one, origin)| {
                let name = origin.old(&one.snapshot.storage_name)?;
                self.previous.entities.get(name)
            })
            .collect();
        // The fields of all entities are compared first, because a counter names a field of another
        // entity.
        let mut fields = Vec::new();
        for (one, old) in declared.iter_mut().zip(&olds) {
            fields.push(self.fields(one, *old));
        }
        let entities: BTreeMap<&str, &str> = declared
            .iter()
            .zip(&olds)
            .filter_map(|(one, old)| {
                Some((
                    (*old)?.storage_name.as_str(),
                    one.snapshot.storage_name.as_str(),
                ))
            })
            .collect();
        let pairs: Vec<Option<Pair<'_>>> = declared
            .iter()
            .zip(&olds)
            .zip(&fields)
            .map(|((one, old), origins)| {
                let old = (*old)?;
                let names = origins
                    .iter()
                    .filter_map(|(new, origin)| {
                        let (kept, _) = old.fields.get_key_value(origin.old(new)?)?;
                        Some((kept.as_str(), new.as_str()))
                    })
                    .collect();
                Some(Pair {
                    old,
                    new: &one.snapshot,
                    names,
                    entities: &entities,
                })
            })
            .collect();
        for (at, one) in declared.iter().enumerate() {
            self.entity(one, &origins[at], pairs[at].as_ref(), &fields[at], &pairs);
        }
        let gone = self.previous.entities.values();
        for old in gone.filter(|old| !entities.contains_key(old.storage_name.as_str())) {
            self.changes.push(Change::DropEntity {
                entity: old.storage_name.clone(),
            });
            self.hint(old, &declared, &olds);
        }
        if !self.applied.is_empty() {
            self.notes.push(format!(
                "renames of earlier migrations, whose `rename_from` may be removed: {}",
                self.applied.join(", ")
            ));
        }
        let snapshot = Snapshot {
            format: Snapshot::FORMAT,
            entities: declared
                .into_iter()
                .map(|one| (one.snapshot.storage_name.clone(), one.snapshot))
                .collect(),
        };
        match self.problems.refusal() {
            Some(refusal) => Err(refusal),
            None => Ok(Diff {
                snapshot,
                changes: self.changes,
                transforms: self.transforms.into_values().collect(),
                notes: self.notes,
            }),
        }
    }

    /// Adds all changes of one entity.
    fn entity(
        &mut self,
        one: &Declared<'_>,
        origin: &Origin,
        pair: Option<&Pair<'_>>,
        fields: &BTreeMap<String, Origin>,
        pairs: &[Option<Pair<'_>>],
    ) {
        let entity = one.snapshot.storage_name.clone();
        let Some(pair) = pair else {
            self.changes.push(Change::CreateEntity { entity });
            return;
        };
        if let Origin::Renamed(from) = origin {
            self.changes.push(Change::RenameEntity {
                entity: entity.clone(),
                from: from.clone(),
            });
        }
        self.primary(one, pair);
        for (name, origin) in fields {
            self.field(one, pair, name, origin);
        }
        for field in pair.old.fields.keys() {
            if pair.name(field).is_none() {
                self.changes.push(Change::DropField {
                    entity: entity.clone(),
                    field: field.clone(),
                });
            }
        }
        self.properties(pair);
        self.indexes(pair);
        self.counters(pair, pairs);
        self.references(pair);
    }

    /// Adds a hint if a dropped entity may be a renamed one: more than 60 % of its fields agree
    /// with those of a new entity.
    fn hint(
        &mut self,
        gone: &EntitySnapshot,
        declared: &[Declared<'_>],
        olds: &[Option<&EntitySnapshot>],
    ) {
        for (one, old) in declared.iter().zip(olds) {
            let new = &one.snapshot;
            let all = new.fields.len().max(gone.fields.len());
            let equal = new
                .fields
                .iter()
                .filter(|(name, field)| {
                    let old = gone.fields.get(*name);
                    old.is_some_and(|old| (&old.kind, &old.column) == (&field.kind, &field.column))
                })
                .count();
            if old.is_none() && equal * 100 > all * 60 {
                self.notes.push(format!(
                    "`{0}` is dropped and `{1}` is created, and {equal} of {all} fields agree; if \
                     it is a rename, declare `{1}` with `rename_from = \"{0}\"`",
                    gone.storage_name, new.storage_name
                ));
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
