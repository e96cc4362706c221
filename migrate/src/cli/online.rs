//! The commands that read or change a database.

use std::path::Path;

use linchpin_core::schema::SchemaStore;
use serde_json::json;

use super::command::{ApplyArgs, Command, Invocation};
use super::offline::{listed, squashed};
use super::output::Outcome;
use super::shown::{Made, made, shown, state, statements};
use super::{priority, signals};
use crate::adopt;
use crate::apply::apply;
use crate::canonical::json_of;
use crate::chain::{Chain, Migration};
use crate::check::Finding;
use crate::error::{Exit, Refusal};
use crate::files::{read_text, write_document};
use crate::inspect;
use crate::ledger::Installed;
use crate::plan::Declared;
use crate::record::restore;
use crate::status;
use crate::strict;
use crate::verify::verdict as verdict_of;

/// Carries out a command on a database. Progress goes to `report`, line by line.
///
/// # Errors
/// The refusal of the command.
pub async fn online(
    invocation: &Invocation,
    store: &dyn SchemaStore,
    (chain, declared): (&Chain, &Declared),
    report: &mut (dyn FnMut(&str) + Send),
) -> Result<Outcome, Refusal> {
    match &invocation.command {
        Command::Plan {
            out,
            check,
            sql,
            rollback: false,
        } => {
            let made = made(store, (chain, declared)).await?;
            let document = made.document(store.dialect());
            if let Some(out) = out {
                write_document(out, &document)?;
            }
            let text = if *sql {
                statements(&made.plan, store)
            } else {
                shown(&made, store, true)
            };
            Ok(Outcome {
                exit: verdict(&made, *check),
                ..Outcome::new(text, document)
            })
        }
        Command::Plan {
            out,
            check,
            rollback: true,
            ..
        } => super::undo::planned(store, out.as_deref(), *check).await,
        Command::Apply(args) => applied(args, store, (chain, declared), report).await,
        Command::Rollback(args) => super::undo::undone(args, store, report).await,
        Command::Adopt(args) => adopted(args, store, (chain, declared), report).await,
        Command::Status => {
            let json = status::status(store, (chain, declared)).await?;
            Ok(Outcome::new(state(&json), json))
        }
        Command::Verify {
            offline: false,
            data,
            strict,
        } => {
            let remarks = inspect::verify(store, (chain, declared), *data).await?;
            let exit = verdict_of(&remarks, *strict);
            let mut text = listed(&remarks);
            if exit == Exit::Done {
                text.push_str("the database is as its ledger says\n");
            }
            Ok(Outcome {
                exit,
                ..Outcome::new(text, json!({ "findings": json_of(&remarks) }))
            })
        }
        Command::Squash { until } => {
            finished(store, *until).await?;
            squashed(invocation.common.folder(), *until)
        }
        Command::Restore { seq } => {
            let dir = invocation.common.folder();
            restored(store, dir, *seq).await
        }
        other => Err(Refusal::new(
            "command_unavailable",
            Exit::Usage,
            format!("this version has no `{}` for databases", other.words()),
        )),
    }
}

/// The exit status of `migrate plan`: only `--check` makes pending migrations and problems a
/// failure. A migration without steps is pending until the ledger has it.
fn verdict(made: &Made, check: bool) -> Exit {
    let Made { plan, findings, .. } = made;
    let fails = |(_, _, finding): &(_, _, Finding)| matches!(finding, Finding::Fails { .. });
    if !check {
        Exit::Done
    } else if findings.iter().any(fails) {
        Exit::Data
    } else if !plan.migrations.is_empty() || plan.from.1.is_none() {
        Exit::Pending
    } else {
        Exit::Done
    }
}

async fn applied(
    args: &ApplyArgs,
    store: &dyn SchemaStore,
    of: (&Chain, &Declared),
    report: &mut (dyn FnMut(&str) + Send),
) -> Result<Outcome, Refusal> {
    let mut options = args.options.clone();
    if let Some(path) = &args.plan {
        options.plan = Some(saved(path)?);
    }
    if args.dry_run {
        return dry_run(store, of).await;
    }
    priority::suit(args);
    let listening = signals::listen(&options.stop);
    let done = apply(store, of, &options, report).await;
    listening.abort();
    let done = done?;
    let ran = match done.steps.len() {
        0 if done.seq > done.from => "no step was needed".to_owned(),
        0 => "nothing to do".to_owned(),
        1 => format!("1 step done: {}", done.steps[0]),
        n => format!("{n} steps done: {}", done.steps.join(", ")),
    };
    let text = format!("{ran}; migration {} is installed", done.seq);
    let result = json!({ "steps": done.steps, "seq": done.seq });
    Ok(Outcome::new(text, result))
}

/// The plan without its digest, which only `migrate plan` prints.
async fn dry_run(store: &dyn SchemaStore, of: (&Chain, &Declared)) -> Result<Outcome, Refusal> {
    let made = made(store, of).await?;
    let mut document = made.document(store.dialect());
    if let Some(members) = document.as_object_mut() {
        members.remove("approvalDigest");
    }
    let text = shown(&made, store, false);
    Ok(Outcome::new(text, document))
}

async fn adopted(
    args: &ApplyArgs,
    store: &dyn SchemaStore,
    of: (&Chain, &Declared),
    report: &mut (dyn FnMut(&str) + Send),
) -> Result<Outcome, Refusal> {
    if args.dry_run {
        return dry_run(store, of).await;
    }
    let done = adopt::adopt(store, of, &args.options, report).await?;
    let text = format!("migration {} is installed", done.seq);
    let result = json!({ "steps": done.steps, "seq": done.seq });
    Ok(Outcome::new(text, result))
}

/// The digest of a saved plan, without what changes while it is carried out.
fn saved(path: &Path) -> Result<String, Refusal> {
    let shown = path.display().to_string();
    let mut json = strict::parse(&shown, &read_text(path, &shown)?)?;
    if let Some(members) = json.as_object_mut() {
        for key in ["approvalDigest", "notes", "state"] {
            members.remove(key);
        }
    }
    Ok(crate::digest(&json))
}

/// Refuses a database that has not finished a migration.
async fn finished(store: &dyn SchemaStore, seq: u64) -> Result<(), Refusal> {
    let mut session = store.connect().await?;
    let installed = Installed::load(&mut *session).await?;
    let has = installed.ledger().map_or(0, |ledger| ledger.seq);
    if has >= seq {
        return Ok(());
    }
    Err(Refusal::new(
        "migration_unfinished",
        Exit::Planning,
        format!(
            "the database `{}` has finished only migration {has}; after a squash it could not be \
             migrated any more",
            store.database()
        ),
    )
    .help("run `migrate apply` on it first"))
}

async fn restored(store: &dyn SchemaStore, dir: &Path, seq: u64) -> Result<Outcome, Refusal> {
    let mut session = store.connect().await?;
    let installed = Installed::load(&mut *session).await?;
    let recorded = installed
        .ledger()
        .and_then(|ledger| ledger.migrations.get(&seq));
    let Some(recorded) = recorded else {
        return Err(Refusal::new(
            "migration_unknown",
            Exit::Planning,
            format!("the database has no migration {seq}"),
        ));
    };
    let migration = Migration::read(&format!("migration {seq}"), &recorded.document)?;
    let file = restore(dir, &migration)?;
    let path = dir.join(&file).display().to_string();
    Ok(Outcome::new(
        format!("restored {path}"),
        json!({ "file": file, "seq": seq }),
    ))
}
