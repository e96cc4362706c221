//! The commands that need no database, no environment and no network.

use std::path::Path;

use linchpin_core::entity::EntityDesc;
use linchpin_core::schema::{Chain as Embedded, Snapshot};
use serde_json::{Value as Json, json};

use super::command::{Command, Invocation};
use super::output::Outcome;
use super::spec::help;
use crate::canonical::{canonical, digest_of, json_of};
use crate::chain::Files;
use crate::change::Change;
use crate::diff::diff_snapshots;
use crate::error::{Exit, Refusal};
use crate::files::{read_snapshot, write_document};
use crate::record::{Declarations, Recorded, rebase, record, squash};
use crate::verify::{Remark, exit_status, verify_files};

/// The declarations and the chain that a program has without a database.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context<'a> {
    /// The declared entities; `None` in the program `linchpin`, which has none.
    pub entities: Option<&'a [&'a EntityDesc]>,
    /// The chain that the binary contains.
    pub embedded: Option<&'a Embedded>,
}

/// Carries out a command that needs no database. Returns `None` for the other commands.
pub fn offline(invocation: &Invocation, context: &Context<'_>) -> Option<Result<Outcome, Refusal>> {
    let done = match &invocation.command {
        Command::Help { words } => {
            // One word is not the name of a command.
            let words = if words.len() < 2 { &[] } else { &words[..] };
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            Ok(Outcome::new(help(&words), Json::Null))
        }
        Command::Record { name, dry_run } => context.declared(invocation, |declared| {
            let dir = invocation.common.folder();
            let done = record(dir, name, declared, *dry_run)?;
            Ok(recorded(dir, done))
        }),
        Command::Rebase { name } => context.declared(invocation, |declared| {
            let dir = invocation.common.folder();
            let done = rebase(dir, name, declared, false)?;
            Ok(recorded(dir, done))
        }),
        // With `--url`, `online` first checks that the database has finished these migrations.
        Command::Squash { until } if invocation.common.url.is_none() => {
            squashed(invocation.common.folder(), *until)
        }
        Command::Verify {
            offline: true,
            strict,
            ..
        } => verified(invocation, context, *strict),
        Command::SchemaPrint { out } => context.declared(invocation, |declared| {
            print(&declared.snapshot(), out.as_deref())
        }),
        Command::SchemaDiff { before, after } => compared(before, after),
        _ => return None,
    };
    Some(done)
}

impl Context<'_> {
    /// Calls a function with the declared schema: the snapshot of `--schema`, or the entities.
    fn declared(
        &self,
        invocation: &Invocation,
        run: impl FnOnce(Declarations<'_>) -> Result<Outcome, Refusal>,
    ) -> Result<Outcome, Refusal> {
        if let Some(path) = &invocation.common.schema {
            return run(Declarations::Saved(&read_snapshot(path)?));
        }
        match self.entities {
            Some(entities) => run(Declarations::Entities(entities)),
            None => Err(Refusal::new(
                "usage",
                Exit::Usage,
                format!(
                    "`{}` needs the declarations: run it in the folder of an app, or name a saved \
                     snapshot with `--schema FILE`",
                    invocation.command.words()
                ),
            )),
        }
    }
}

/// The changes as indented lines of text.
fn changes(changes: &[Change]) -> String {
    if changes.is_empty() {
        return "  no change to the database\n".to_owned();
    }
    let mut text = String::new();
    for change in changes {
        text.push_str(&format!("  {change}\n"));
    }
    text
}

/// The outcome of `migrate record` and `migrate rebase`.
fn recorded(dir: &Path, done: Recorded) -> Outcome {
    match done {
        Recorded::Nothing { notes } => Outcome {
            notes: notes.clone(),
            ..Outcome::new(
                "nothing to record",
                json!({ "recorded": false, "notes": notes }),
            )
        },
        Recorded::Migration {
            migration,
            file,
            written,
            replaces,
            notes,
        } => {
            let verb = if written { "recorded" } else { "would record" };
            let mut text = format!(
                "{verb} migration {} `{}` in {}\n",
                migration.seq,
                migration.name,
                dir.join(&file).display()
            );
            text.push_str(&changes(&migration.changes));
            let result = json!({
                "recorded": written,
                "file": file,
                "seq": migration.seq,
                "name": migration.name,
                "snapshotDigest": migration.snapshot_digest,
                "changes": migration.changes,
                "transforms": migration.transforms,
                "replaces": replaces,
                "notes": notes,
            });
            Outcome {
                notes,
                ..Outcome::new(text, result)
            }
        }
    }
}

/// Carries out `migrate squash`.
pub(super) fn squashed(dir: &Path, until: u64) -> Result<Outcome, Refusal> {
    Ok(match squash(dir, until, false)? {
        None => Outcome::new("nothing to squash", json!({ "squashed": false })),
        Some(baseline) => Outcome {
            notes: vec![format!(
                "a database that has not finished migration {until} cannot be migrated any more"
            )],
            ..Outcome::new(
                format!(
                    "migrations up to {until} are replaced by the baseline `{}` in {}",
                    baseline.name,
                    dir.join(baseline.file()).display()
                ),
                json!({
                    "squashed": true,
                    "seq": baseline.seq,
                    "name": baseline.name,
                    "file": baseline.file(),
                }),
            )
        },
    })
}

/// Carries out `migrate verify --offline`.
fn verified(
    invocation: &Invocation,
    context: &Context<'_>,
    strict: bool,
) -> Result<Outcome, Refusal> {
    let common = &invocation.common;
    // A container image may have no folder, only the chain in the binary.
    let embedded = context
        .embedded
        .filter(|_| common.dir.is_none() && !common.folder().exists());
    let files_and_problems = match embedded {
        None => Files::examine_folder(common.folder())?,
        Some(embedded) => Files::examine_embedded(embedded)?,
    };
    let count = files_and_problems.0.migrations.len();
    let saved = common.schema.as_deref().map(read_snapshot).transpose()?;
    let declared = match (&saved, context.entities) {
        (Some(saved), _) => Some(Declarations::Saved(saved)),
        (None, Some(entities)) => Some(Declarations::Entities(entities)),
        (None, None) => None,
    };
    let (remarks, _) = verify_files(files_and_problems, declared);
    let exit = exit_status(&remarks, strict);
    let mut text = listed(&remarks);
    if exit == Exit::Done {
        text.push_str(&format!("{count} migrations verified"));
    }
    Ok(Outcome {
        exit,
        ..Outcome::new(
            text,
            json!({ "migrations": count, "findings": json_of(&remarks) }),
        )
    })
}

/// The remarks as lines of text.
pub(super) fn listed(remarks: &[Remark]) -> String {
    let mut text = String::new();
    for remark in remarks {
        text.push_str(&format!(
            "{} {}: {}\n",
            remark.severity.name(),
            remark.code,
            remark.message
        ));
        let details = [("expected", &remark.expected), ("found", &remark.found)];
        for (name, value) in details {
            if let Some(value) = value {
                text.push_str(&format!("  {name}: {value}\n"));
            }
        }
        text.push_str(&format!("  help: {}\n", remark.help));
    }
    text
}

/// Carries out `schema print`.
fn print(snapshot: &Snapshot, out: Option<&Path>) -> Result<Outcome, Refusal> {
    let json = json_of(snapshot);
    let Some(out) = out else {
        return Ok(Outcome::new(canonical(&json), json));
    };
    write_document(out, &json)?;
    let digest = digest_of(snapshot);
    Ok(Outcome::new(
        format!("{} sha256 {digest}", out.display()),
        json!({ "file": out.display().to_string(), "digest": digest }),
    ))
}

/// Carries out `schema diff`.
fn compared(before: &Path, after: &Path) -> Result<Outcome, Refusal> {
    let (before, after) = (read_snapshot(before)?, read_snapshot(after)?);
    let diff = diff_snapshots(&before, &after)?;
    let equal = digest_of(&before) == digest_of(&after);
    let text = if equal {
        "the snapshots are equal".to_owned()
    } else {
        changes(&diff.changes)
    };
    Ok(Outcome {
        notes: diff.notes.clone(),
        ..Outcome::new(
            text,
            json!({ "equal": equal, "changes": diff.changes, "notes": diff.notes }),
        )
    })
}
