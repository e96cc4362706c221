//! Compares the history of a database with the chain.

use serde_json::Value as Json;

use linchpin_core::schema::Snapshot;

use super::{Declared, Planned, same};
use crate::canonical::json_of;
use crate::chain::{Chain, Migration};
use crate::count::Counter;
use crate::data::DataAction;
use crate::error::{Exit, Refusal};
use crate::ledger::{Installed, Ledger, LedgerMigration, MigrationState, is_framework_table};
use crate::rows::ValueSource;
use crate::step::{Step, Work};

/// The maximum number of paths of differences in a message.
const MAX_LISTED_PATHS: usize = 20;

/// Refuses a chain whose migrations differ from those that were applied to the database.
pub(crate) fn check_history(ledger: &Ledger, chain: &Chain) -> Result<(), Refusal> {
    let baseline = chain.migrations().first().filter(|m| m.is_baseline());
    if let Some(baseline) = baseline
        && ledger.seq < baseline.seq
        && !same(&ledger.snapshot, &baseline.snapshot)
    {
        return Err(Refusal::new(
            "history_missing",
            Exit::Data,
            format!(
                "the chain begins with the baseline {} `{}`, but this database has only the migrations up to {}",
                baseline.seq, baseline.name, ledger.seq
            ),
        )
        .help(format!(
            "apply the migrations up to {} with an older binary, whose chain still has them",
            baseline.seq
        )));
    }
    for (seq, applied) in &ledger.migrations {
        if applied.state == MigrationState::RolledBack || applied.draft {
            continue;
        }
        match chain.get(*seq) {
            Some(known) => refuse_changed_migration(ledger, *seq, applied, known)?,
            // The baseline replaces this migration.
            None if baseline.is_some_and(|baseline| *seq < baseline.seq) => {}
            None if *seq <= chain.seq() => {
                return Err(Refusal::new(
                    "history_missing",
                    Exit::Data,
                    format!(
                        "the chain does not contain migration {seq} `{}`, which was applied",
                        applied.name
                    ),
                )
                .help(format!(
                    "`migrate restore {seq}` writes the applied migration to a file"
                )));
            }
            // The database is newer than this binary. The window decides whether it may serve.
            None => {}
        }
    }
    Ok(())
}

/// Refuses a migration of the chain that differs from the one that was applied to the database.
fn refuse_changed_migration(
    ledger: &Ledger,
    seq: u64,
    applied: &LedgerMigration,
    known: &Migration,
) -> Result<(), Refusal> {
    let found = json_of(known);
    let applied_json: Option<Json> = serde_json::from_str(&applied.document).ok();
    let differs = match &applied_json {
        // A baseline has only the snapshot of the migration that it replaces.
        _ if known.is_baseline() => known.snapshot_digest != applied.digest,
        Some(applied_json) => *applied_json != found,
        None => known.snapshot_digest != applied.digest,
    };
    if !differs {
        return Ok(());
    }
    let refusal = if !applied.state.is_open() {
        Refusal::new(
            "history_altered",
            Exit::Data,
            format!(
                "migration {seq} `{}` differs from the one that was applied to this database, `{}`",
                known.name, applied.name
            ),
        )
    } else if ledger.is_untouched(seq) {
        // It was recorded again before any step of it ran.
        return Ok(());
    } else {
        Refusal::new(
            "migration_started",
            Exit::Planning,
            format!(
                "migration {seq} `{}` was recorded again, but steps of its former version have run in this database",
                known.name
            ),
        )
    };
    let mut paths = Vec::new();
    if let Some(applied_json) = &applied_json {
        collect_differences("$", applied_json, &found, &mut paths);
    }
    let more = paths.len().saturating_sub(MAX_LISTED_PATHS);
    let mut refusal = refusal.help(format!(
        "`migrate restore {seq}` writes the applied migration back to its file"
    ));
    for path in paths.into_iter().take(MAX_LISTED_PATHS) {
        refusal = refusal.fact(format!("differs: {path}"));
    }
    if more > 0 {
        refusal = refusal.fact(format!("and {more} other places"));
    }
    Err(refusal)
}

/// Collects the paths of the values in which two documents differ.
fn collect_differences(path: &str, one: &Json, two: &Json, found: &mut Vec<String>) {
    match (one, two) {
        (Json::Object(a), Json::Object(b)) => {
            let more = b.iter().filter(|(key, _)| !a.contains_key(*key));
            for (key, value) in a {
                let path = format!("{path}.{key}");
                match b.get(key) {
                    Some(other) => collect_differences(&path, value, other, found),
                    None => found.push(path),
                }
            }
            found.extend(more.map(|(key, _)| format!("{path}.{key}")));
        }
        (Json::Array(a), Json::Array(b)) if a.len() == b.len() => {
            for (at, (a, b)) in a.iter().zip(b).enumerate() {
                collect_differences(&format!("{path}[{at}]"), a, b, found);
            }
        }
        _ if one == two => {}
        _ => found.push(path.to_owned()),
    }
}

/// Refuses functions that have changed since they were recorded.
pub(super) fn refuse_changed_functions(
    migrations: &[Planned],
    declared: &Declared,
) -> Result<(), Refusal> {
    let mut changed = Vec::new();
    for migration in migrations.iter().filter(|m| m.recorded.is_some()) {
        for (name, body) in &migration.transforms {
            let function = declared.transform(name);
            if let Some(function) = function.filter(|function| function.body != body) {
                let label = format!(
                    "`{name}` of migration {} `{}`",
                    migration.seq, migration.name
                );
                changed.push((label, function.at));
            }
        }
    }
    if changed.is_empty() {
        return Ok(());
    }
    let mut refusal = Refusal::new(
        "transform_changed",
        Exit::Planning,
        match changed.len() {
            1 => "a function has changed since it was recorded".to_owned(),
            n => format!("{n} functions have changed since they were recorded"),
        },
    )
    .help("record the migration again and review it again, or undo the change of the function");
    for (label, at) in changed {
        refusal = refusal.fact_at(label, format!("{}:{}", at.file, at.line));
    }
    Err(refusal)
}

/// Refuses a plan if another build has started one of its steps with other content.
pub(super) fn refuse_changed_steps(ledger: &Ledger, migrations: &[Planned]) -> Result<(), Refusal> {
    let changed = |step: &&Step| {
        let known = ledger.steps.get(&step.id);
        known.is_some_and(|known| known.state.has_run() && known.digest != step.digest)
    };
    let steps = migrations.iter().flat_map(|m| &m.steps);
    let changed: Vec<&str> = steps.filter(changed).map(|step| step.id.as_str()).collect();
    if changed.is_empty() {
        return Ok(());
    }
    Err(Refusal::new(
        "step_changed",
        Exit::Planning,
        format!(
            "another build has started these steps with other content: {}",
            changed.join(", ")
        ),
    )
    .help("finish the migration with the build that started it"))
}

/// Refuses pending steps whose functions this binary does not have.
pub(crate) fn refuse_missing<'s>(
    pending: impl Iterator<Item = &'s Step>,
    declared: &Declared,
) -> Result<(), Refusal> {
    let mut missing: Vec<(&str, Refusal)> = Vec::new();
    for step in pending {
        let Work::Data(data) = &step.work else {
            continue;
        };
        let found = match data {
            DataAction::Recount { .. } => Counter::of(data, declared).map(|_| ()),
            _ => ValueSource::of(data, declared).map(|_| ()),
        };
        if let Err(refusal) = found {
            missing.push((&step.id, refusal));
        }
    }
    let Some((_, first)) = missing.first() else {
        return Ok(());
    };
    let refusal = first.clone();
    Err(missing.iter().fold(refusal, |refusal, (step, why)| {
        refusal.fact(format!("step {step}: {}", why.message))
    }))
}

/// Refuses a database that has tables of the app but no ledger.
pub(crate) fn refuse_foreign(installed: &Installed, snapshot: &Snapshot) -> Result<(), Refusal> {
    let Installed::Nothing(existing) = installed else {
        return Ok(());
    };
    // A table may have the earlier name of an entity.
    let is_former = |table: &String| {
        let mut entities = snapshot.entities.values();
        entities.any(|entity| entity.former_names.contains(table))
    };
    let ours: Vec<&String> = existing
        .iter()
        .filter(|table| {
            snapshot.entities.contains_key(*table) || is_former(table) || is_framework_table(table)
        })
        .collect();
    // Tables of the framework alone do not make it a database of this app.
    if ours.iter().all(|table| is_framework_table(table)) {
        return Ok(());
    }
    let names = ours.iter().filter(|table| !is_framework_table(table));
    let names: Vec<String> = names.map(|table| format!("`{table}`")).collect();
    Err(Refusal::new(
        "not_adopted",
        Exit::Data,
        format!(
            "the database has tables of this app but no ledger of migrations: {}",
            names.join(", ")
        ),
    )
    .help("`migrate adopt` compares them with the declared schema and records what is installed"))
}
