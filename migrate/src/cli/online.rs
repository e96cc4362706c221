//! The commands that read or change a database.

use std::path::Path;

use linchpin_core::schema::SchemaStore;
use serde_json::json;

use super::command::{ApplyArgs, Command, Invocation};
use super::offline::{listed, squashed};
use super::output::Outcome;
use super::plan_text::{EvaluatedPlan, evaluate, plan_text, statements, status_text};
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
use crate::verify::exit_status;

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
            let evaluated = evaluate(store, (chain, declared)).await?;
            let document = evaluated.document(store.dialect());
            if let Some(out) = out {
                write_document(out, &document)?;
            }
            let text = if *sql {
                statements(&evaluated.plan, store)
            } else {
                plan_text(&evaluated, store, true)
            };
            Ok(Outcome {
                exit: plan_exit_status(&evaluated, *check),
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
            Ok(Outcome::new(status_text(&json), json))
        }
        Command::Verify {
            offline: false,
            data,
            strict,
        } => {
            let remarks = inspect::verify(store, (chain, declared), *data).await?;
            let exit = exit_status(&remarks, *strict);
            let mut text = listed(&remarks);
            if exit == Exit::Done {
                text.push_str("the database matches its ledger\n");
            }
            Ok(Outcome {
                exit,
                ..Outcome::new(text, json!({ "findings": json_of(&remarks) }))
            })
        }
        Command::Squash { until } => {
            refuse_unfinished(store, *until).await?;
            squashed(invocation.common.folder(), *until)
        }
        Command::Restore { seq } => {
            let dir = invocation.common.folder();
            restored(store, dir, *seq).await
        }
        other => Err(Refusal::new(
            "command_unavailable",
            Exit::Usage,
            format!(
                "this version does not support `{}` for databases",
                other.words()
            ),
        )),
    }
}

/// The exit status of `migrate plan`. Pending migrations and failed conditions are a failure only
/// with `--check`. A migration without steps is pending until the ledger records it.
fn plan_exit_status(evaluated: &EvaluatedPlan, check: bool) -> Exit {
    let EvaluatedPlan { plan, findings, .. } = evaluated;
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

/// Carries out `migrate apply`.
async fn applied(
    args: &ApplyArgs,
    store: &dyn SchemaStore,
    (chain, declared): (&Chain, &Declared),
    report: &mut (dyn FnMut(&str) + Send),
) -> Result<Outcome, Refusal> {
    let mut options = args.options.clone();
    if let Some(path) = &args.plan {
        options.plan = Some(saved_plan_digest(path)?);
    }
    if args.dry_run {
        return dry_run(store, (chain, declared)).await;
    }
    priority::lower_for_backfill(args);
    let listening = signals::listen(&options.stop);
    let done = apply(store, (chain, declared), &options, report).await;
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

/// The plan without its approval digest, which only `migrate plan` prints.
async fn dry_run(
    store: &dyn SchemaStore,
    (chain, declared): (&Chain, &Declared),
) -> Result<Outcome, Refusal> {
    let evaluated = evaluate(store, (chain, declared)).await?;
    let mut document = evaluated.document(store.dialect());
    if let Some(members) = document.as_object_mut() {
        members.remove("approvalDigest");
    }
    let text = plan_text(&evaluated, store, false);
    Ok(Outcome::new(text, document))
}

/// Carries out `migrate adopt`.
async fn adopted(
    args: &ApplyArgs,
    store: &dyn SchemaStore,
    (chain, declared): (&Chain, &Declared),
    report: &mut (dyn FnMut(&str) + Send),
) -> Result<Outcome, Refusal> {
    if args.dry_run {
        return dry_run(store, (chain, declared)).await;
    }
    let done = adopt::adopt(store, (chain, declared), &args.options, report).await?;
    let text = format!("migration {} is installed", done.seq);
    let result = json!({ "steps": done.steps, "seq": done.seq });
    Ok(Outcome::new(text, result))
}

/// The digest of a saved plan, without the members that change while the plan is carried out.
fn saved_plan_digest(path: &Path) -> Result<String, Refusal> {
    let file = path.display().to_string();
    let mut json = strict::parse(&file, &read_text(path, &file)?)?;
    if let Some(members) = json.as_object_mut() {
        for key in ["approvalDigest", "notes", "state"] {
            members.remove(key);
        }
    }
    Ok(crate::digest(&json))
}

/// Refuses a database that has not finished a migration.
async fn refuse_unfinished(store: &dyn SchemaStore, seq: u64) -> Result<(), Refusal> {
    let mut session = store.connect().await?;
    let installed = Installed::load(&mut *session).await?;
    let finished = installed.ledger().map_or(0, |ledger| ledger.seq);
    if finished >= seq {
        return Ok(());
    }
    Err(Refusal::new(
        "migration_unfinished",
        Exit::Planning,
        format!(
            "the database `{}` has finished only the migrations up to {finished}; after a squash it could not \
             be migrated any more",
            store.database()
        ),
    )
    .help("run `migrate apply` on it first"))
}

/// Carries out `migrate restore`.
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
