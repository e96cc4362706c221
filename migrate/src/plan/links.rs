//! The migrations between the ledger and the declarations, with their steps.

use std::collections::{BTreeMap, BTreeSet};

use linchpin_core::entity::TransformFrom;
use linchpin_core::schema::Snapshot;

use super::{Declared, Planned, same};
use crate::chain::{Chain, Migration};
use crate::ledger::Ledger;
use crate::lower::{Link, Lowered, Reverse, Terrain, lower};
use crate::step::Work;

/// The functions of a migration by entity and field.
type Functions = BTreeMap<(String, String), Function>;

/// A function of a field.
struct Function {
    /// The name.
    name: String,
    /// The digest of the body.
    body: String,
    /// The function that converts values back, and the digest of its body.
    reverse: Option<(Reverse, String)>,
}

/// The migrations between the ledger and the declarations.
pub(super) fn links(
    ledger: Option<&Ledger>,
    chain: &Chain,
    declared: &Declared,
    terrain: &Terrain<'_>,
    recorded: bool,
) -> Vec<Planned> {
    let mut all = match ledger {
        None => for_empty_database(chain, terrain),
        Some(ledger) => from_ledger(ledger, chain, terrain),
    };
    let base = match (all.last(), ledger) {
        (Some(last), _) => last.after.clone(),
        (None, Some(ledger)) if chain.head().is_none() => ledger.snapshot.clone(),
        _ => chain.snapshot(),
    };
    if !recorded && !same(&base, &declared.snapshot) {
        all.push(with_functions(
            (chain.seq() + 1, "draft"),
            (&base, &declared.snapshot),
            declared_functions(declared),
            terrain,
        ));
    }
    all
}

/// The migration of an empty database: one step to the head, without the renames and transforms of
/// earlier migrations.
fn for_empty_database(chain: &Chain, terrain: &Terrain<'_>) -> Vec<Planned> {
    let Some(newest) = chain.head() else {
        return Vec::new();
    };
    vec![planned(
        (newest.seq, &newest.name),
        (&Snapshot::empty(), &newest.snapshot),
        Some(newest),
        terrain,
    )]
}

/// The migrations after the installed one.
fn from_ledger(ledger: &Ledger, chain: &Chain, terrain: &Terrain<'_>) -> Vec<Planned> {
    let later = || chain.migrations().iter().filter(|m| m.seq > ledger.seq);
    let known = match ledger.seq {
        0 => Some(Snapshot::empty()),
        seq => chain.get(seq).map(|known| known.snapshot.clone()),
    };
    let is_draft = !known.is_some_and(|known| same(&known, &ledger.snapshot));
    let mut all = Vec::new();
    // A development start applied these migrations before they were recorded.
    let drafts = later().filter(|m| is_draft && same(&m.snapshot, &ledger.snapshot));
    let last_draft = drafts.map(|m| m.seq).max().unwrap_or(ledger.seq);
    for migration in later().filter(|m| m.seq <= last_draft) {
        all.push(planned(
            (migration.seq, &migration.name),
            (&ledger.snapshot, &ledger.snapshot),
            Some(migration),
            terrain,
        ));
    }
    let mut before = ledger.snapshot.clone();
    for migration in later().filter(|m| m.seq > last_draft) {
        all.push(planned(
            (migration.seq, &migration.name),
            (&before, &migration.snapshot),
            Some(migration),
            terrain,
        ));
        before = migration.snapshot.clone();
    }
    all
}

/// The steps of one migration.
pub(crate) fn planned(
    number_and_name: (u64, &str),
    snapshots: (&Snapshot, &Snapshot),
    recorded: Option<&Migration>,
    terrain: &Terrain<'_>,
) -> Planned {
    let functions = recorded.map(recorded_functions).unwrap_or_default();
    let mut planned = with_functions(number_and_name, snapshots, functions, terrain);
    planned.recorded = recorded.cloned();
    planned
}

/// The steps of one migration that runs these functions.
fn with_functions(
    (seq, name): (u64, &str),
    (before, after): (&Snapshot, &Snapshot),
    functions: Functions,
    terrain: &Terrain<'_>,
) -> Planned {
    let names = functions.iter();
    let transforms = names.map(|(of, function)| (of.clone(), function.name.clone()));
    let transforms = transforms.collect();
    let reverses = functions.iter().filter_map(|(of, function)| {
        let (reverse, _) = function.reverse.as_ref()?;
        Some((of.clone(), reverse.clone()))
    });
    let reverses = reverses.collect();
    let link = Link {
        seq,
        before,
        after,
        transforms: &transforms,
        reverses: &reverses,
    };
    let Lowered {
        steps,
        fence,
        ready,
        reverses,
        notes,
    } = lower(&link, terrain);
    let mut used: BTreeSet<&str> = steps
        .iter()
        .filter_map(|step| match &step.work {
            Work::Data(data) => data.transform(),
            _ => None,
        })
        .collect();
    used.extend(reverses.iter().map(String::as_str));
    let mut bodies: BTreeMap<&str, &str> = BTreeMap::new();
    for function in functions.values() {
        bodies.insert(&function.name, &function.body);
        if let Some((reverse, body)) = &function.reverse {
            bodies.insert(&reverse.name, body);
        }
    }
    let transforms = used.into_iter().map(|name| {
        let body = bodies.get(name).copied().unwrap_or_default();
        (name.to_owned(), body.to_owned())
    });
    Planned {
        seq,
        name: name.to_owned(),
        after: after.clone(),
        recorded: None,
        fence,
        ready,
        transforms: transforms.collect(),
        steps,
        done: BTreeSet::new(),
        notes,
    }
}

/// The functions of the declarations, for changes that are not recorded.
fn declared_functions(declared: &Declared) -> Functions {
    let mut all = Functions::new();
    for desc in &declared.entities {
        for field in desc.fields {
            if let Some(function) = field.transform {
                let of = (desc.storage_name.to_owned(), field.name.to_owned());
                let reverse = function.reverse.map(|reverse| {
                    let name = reverse.name.to_owned();
                    let takes_null =
                        matches!(reverse.from, TransformFrom::Value(of) if of.optional);
                    (Reverse { name, takes_null }, reverse.body.to_owned())
                });
                let function = Function {
                    name: function.name.to_owned(),
                    body: function.body.to_owned(),
                    reverse,
                };
                all.insert(of, function);
            }
        }
    }
    all
}

/// The functions of a recorded migration.
fn recorded_functions(migration: &Migration) -> Functions {
    use crate::Change;
    let mut all = Functions::new();
    for change in &migration.changes {
        let (entity, field, name, reverse) = match change {
            Change::ReplaceField {
                entity,
                field,
                transform,
                reverse,
                ..
            }
            | Change::ChangeType {
                entity,
                field,
                transform,
                reverse,
            } => (entity, field, transform, reverse.as_ref()),
            Change::AddField {
                entity,
                field,
                transform: Some(transform),
            }
            | Change::MakeRequired {
                entity,
                field,
                transform: Some(transform),
            } => (entity, field, transform, None),
            _ => continue,
        };
        let record = |name: &String| migration.transforms.iter().find(|t| t.name == *name);
        let reverse = reverse.and_then(|name| {
            let record = record(name)?;
            let reverse = Reverse {
                name: name.clone(),
                takes_null: record.from.ends_with('?'),
            };
            Some((reverse, record.body.clone()))
        });
        let function = Function {
            name: name.clone(),
            body: record(name).map_or_else(String::new, |record| record.body.clone()),
            reverse,
        };
        all.insert((entity.clone(), field.clone()), function);
    }
    all
}
