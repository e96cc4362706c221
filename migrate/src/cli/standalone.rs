//! The program `linchpin`.

use std::path::Path;
use std::process::Command as Process;
use std::sync::Arc;

use linchpin_core::schema::SchemaStore;
use linchpin_core::store::DatabaseUrl;

use super::command::{Command, Invocation};
use super::offline::{Context, offline};
use super::online::online;
use super::output::{Outcome, finish};
use super::parse::parse;
use super::spec::OPTIONS;
use crate::chain::Chain;
use crate::error::{Exit, Refusal};
use crate::files::read_snapshot;
use crate::ledger::Installed;
use crate::plan::{Declared, Plan};
use crate::record::Declarations;
use crate::step::{Phase, Work};

/// Options of `cargo run` that choose the app.
const CHOICE: [&str; 3] = ["-p", "--package", "--bin"];

/// Opens the schema of a database for the program `linchpin`.
pub type Open<'a> = &'a dyn Fn(&DatabaseUrl) -> Result<Arc<dyn SchemaStore>, Refusal>;

/// Runs the program `linchpin` with these arguments, without the name of the program. Returns the
/// exit status.
///
/// In the folder of a cargo package it runs the app with the same arguments:
/// `cargo run --quiet [-p PACKAGE] [--bin BIN] -- migrate ..`. With `--schema FILE` it works from
/// saved files and the database of `--url` alone; then it has no functions of an app and refuses
/// steps that run one (`transform_unavailable`).
pub fn standalone(args: &[String], open: Open<'_>) -> i32 {
    let (chosen, rest) = match choice(args) {
        Ok(split) => split,
        Err(refusal) => return finish(args, None, Err(refusal)),
    };
    let invocation = match parse(&rest) {
        Ok(invocation) => invocation,
        Err(refusal) => return finish(&rest, None, Err(refusal)),
    };
    let alone = invocation.common.schema.is_some()
        || matches!(
            invocation.command,
            Command::Help { .. } | Command::SchemaDiff { .. }
        )
        || matches!(invocation.command, Command::Squash { .. }) && invocation.common.url.is_none();
    if !alone && Path::new("Cargo.toml").is_file() {
        return match passed(&chosen, &ordered(&rest)) {
            Ok(status) => status,
            Err(refusal) => finish(&rest, Some(&invocation), Err(refusal)),
        };
    }
    let done = match offline(&invocation, &Context::default()) {
        Some(done) => done,
        None => saved(&invocation, open),
    };
    finish(&rest, Some(&invocation), done)
}

/// Carries out a command on a database with a saved snapshot.
fn saved(invocation: &Invocation, open: Open<'_>) -> Result<Outcome, Refusal> {
    let Some(path) = &invocation.common.schema else {
        return Err(Refusal::new(
            "usage",
            Exit::Usage,
            format!(
                "`{}` needs an app: run it in the folder of a cargo package, or name a saved \
                 snapshot with `--schema FILE`",
                invocation.command.words()
            ),
        ));
    };
    let snapshot = read_snapshot(path)?;
    let chain = Chain::load(invocation.common.folder())?;
    let declared = Declared {
        own_sql: Vec::new(),
        operations: Vec::new(),
        app: "app".to_owned(),
        entities: Vec::new(),
        system: Vec::new(),
        transforms: Vec::new(),
        snapshot: Declarations::Saved(&snapshot).diff(&chain)?.snapshot,
    };
    let Some(url) = &invocation.common.url else {
        let message = format!("`{}` needs `--url URL`", invocation.command.words());
        return Err(Refusal::new("usage", Exit::Usage, message));
    };
    let store = open(&DatabaseUrl::new(url.as_str()))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Refusal::new("internal", Exit::Internal, error.to_string()))?;
    let quiet = invocation.common.quiet || invocation.common.json;
    let mut report = |line: &str| {
        if !quiet {
            eprintln!("{line}");
        }
    };
    runtime.block_on(async {
        if let Command::Apply(args) = &invocation.command
            && !args.dry_run
        {
            let phase = args.options.phase.unwrap_or(Phase::Contract);
            without_functions(&*store, (&chain, &declared), phase).await?;
        }
        online(invocation, &*store, (&chain, &declared), &mut report).await
    })
}

/// Refuses a run that reaches functions of an app.
async fn without_functions(
    store: &dyn SchemaStore,
    of: (&Chain, &Declared),
    phase: Phase,
) -> Result<(), Refusal> {
    let mut session = store.connect().await?;
    let installed = Installed::load(&mut *session).await?;
    let plan = Plan::make(store, &mut *session, &installed, of).await?;
    let runs = |work: &Work| matches!(work, Work::Data(data) if !data.is_known());
    let steps: Vec<String> = plan
        .pending(phase)
        .filter(|step| runs(&step.work))
        .map(|step| step.id.clone())
        .collect();
    if steps.is_empty() {
        return Ok(());
    }
    Err(Refusal::new(
        "transform_unavailable",
        Exit::Planning,
        format!(
            "these steps run functions of the app, which a saved snapshot does not have: {}",
            steps.join(", ")
        ),
    )
    .help("apply the migration with the app itself"))
}

/// Separates the options of `cargo run` from the others.
fn choice(args: &[String]) -> Result<(Vec<String>, Vec<String>), Refusal> {
    let (mut chosen, mut rest) = (Vec::new(), Vec::new());
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let (name, joined) = match arg.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (arg.as_str(), None),
        };
        if !CHOICE.contains(&name) {
            rest.push(arg.clone());
            continue;
        }
        let value = joined.or_else(|| args.next().cloned());
        let value = value.filter(|value| !value.starts_with('-'));
        let Some(value) = value else {
            return Err(
                Refusal::new("usage", Exit::Usage, format!("`{name}` needs a value"))
                    .help("`--help` lists the commands and options"),
            );
        };
        chosen.extend([name.to_owned(), value]);
    }
    Ok((chosen, rest))
}

/// The arguments with the words of the command first, as an app expects them.
fn ordered(rest: &[String]) -> Vec<String> {
    let mut at = 0;
    while rest.get(at).is_some_and(|arg| arg.starts_with('-')) {
        let takes_value = OPTIONS
            .iter()
            .any(|opt| opt.name == rest[at] && !opt.value.is_empty());
        at += if takes_value { 2 } else { 1 };
    }
    let (before, after) = rest.split_at(at.min(rest.len()));
    after.iter().chain(before).cloned().collect()
}

/// Runs the app. Its output and its exit status are those of this program.
fn passed(chosen: &[String], args: &[String]) -> Result<i32, Refusal> {
    // The variable is set if cargo itself runs this program.
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Process::new(&cargo)
        .args(["run", "--quiet"])
        .args(chosen)
        .arg("--")
        .args(args)
        .status()
        .map_err(|error| {
            let cargo = Path::new(&cargo).display();
            Refusal::new(
                "cargo_unavailable",
                Exit::Internal,
                format!("cannot run `{cargo}`: {error}"),
            )
            .help("install cargo, or name a saved snapshot with `--schema FILE`")
        })?;
    Ok(status.code().unwrap_or(Exit::Internal as i32))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn options_of_cargo_are_separated() {
        let args = words("-p tasks --json migrate plan --bin=app --out a");
        let (chosen, rest) = choice(&args).unwrap();
        assert_eq!(chosen, words("-p tasks --bin app"));
        assert_eq!(rest, words("--json migrate plan --out a"));
        for line in ["migrate plan -p", "--bin --json migrate plan"] {
            assert_eq!(choice(&words(line)).unwrap_err().exit, Exit::Usage);
        }
    }

    #[test]
    fn the_words_of_the_command_come_first() {
        assert_eq!(
            ordered(&words("--json --dir migrate migrate plan --check")),
            words("migrate plan --check --json --dir migrate")
        );
    }
}
