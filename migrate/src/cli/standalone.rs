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

/// Options of `cargo run` that select the app.
const CARGO_OPTIONS: [&str; 3] = ["-p", "--package", "--bin"];

/// Opens the schema of a database for the program `linchpin`.
pub type Open<'a> = &'a dyn Fn(&DatabaseUrl) -> Result<Arc<dyn SchemaStore>, Refusal>;

/// Runs the program `linchpin`. `args` are its arguments without the name of the program. Returns
/// the exit status.
///
/// In the folder of a cargo package it runs the app with the same arguments:
/// `cargo run --quiet [-p PACKAGE] [--bin BIN] -- migrate ..`. With `--schema FILE` it needs only
/// saved files and the database of `--url`. It then refuses steps that run a function of the app
/// (`transform_unavailable`).
pub fn standalone(args: &[String], open: Open<'_>) -> i32 {
    let (cargo_options, rest) = match split_cargo_options(args) {
        Ok(split) => split,
        Err(refusal) => return finish(args, None, Err(refusal)),
    };
    let invocation = match parse(&rest) {
        Ok(invocation) => invocation,
        Err(refusal) => return finish(&rest, None, Err(refusal)),
    };
    let needs_no_app = invocation.common.schema.is_some()
        || matches!(
            invocation.command,
            Command::Help { .. } | Command::SchemaDiff { .. }
        )
        || matches!(invocation.command, Command::Squash { .. }) && invocation.common.url.is_none();
    if !needs_no_app && Path::new("Cargo.toml").is_file() {
        return match run_app(&cargo_options, &command_first(&rest)) {
            Ok(status) => status,
            Err(refusal) => finish(&rest, Some(&invocation), Err(refusal)),
        };
    }
    let done = match offline(&invocation, &Context::default()) {
        Some(done) => done,
        None => run_with_snapshot(&invocation, open),
    };
    finish(&rest, Some(&invocation), done)
}

/// Carries out a command on a database, with a saved snapshot instead of declarations.
fn run_with_snapshot(invocation: &Invocation, open: Open<'_>) -> Result<Outcome, Refusal> {
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
            refuse_functions(&*store, (&chain, &declared), phase).await?;
        }
        online(invocation, &*store, (&chain, &declared), &mut report).await
    })
}

/// Refuses a run with a step that calls a function of the app.
async fn refuse_functions(
    store: &dyn SchemaStore,
    (chain, declared): (&Chain, &Declared),
    phase: Phase,
) -> Result<(), Refusal> {
    let mut session = store.connect().await?;
    let installed = Installed::load(&mut *session).await?;
    let plan = Plan::make(store, &mut *session, &installed, (chain, declared)).await?;
    let runs_function = |work: &Work| matches!(work, Work::Data(data) if !data.is_known());
    let steps: Vec<String> = plan
        .pending(phase)
        .filter(|step| runs_function(&step.work))
        .map(|step| step.id.clone())
        .collect();
    if steps.is_empty() {
        return Ok(());
    }
    Err(Refusal::new(
        "transform_unavailable",
        Exit::Planning,
        format!(
            "a saved snapshot does not contain the functions that these steps run: {}",
            steps.join(", ")
        ),
    )
    .help("apply the migration with the app itself"))
}

/// Separates the options of `cargo run` from the others.
fn split_cargo_options(args: &[String]) -> Result<(Vec<String>, Vec<String>), Refusal> {
    let (mut cargo_options, mut rest) = (Vec::new(), Vec::new());
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let (name, joined) = match arg.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (arg.as_str(), None),
        };
        if !CARGO_OPTIONS.contains(&name) {
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
        cargo_options.extend([name.to_owned(), value]);
    }
    Ok((cargo_options, rest))
}

/// The arguments with the name of the command first, as an app expects them.
fn command_first(rest: &[String]) -> Vec<String> {
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

/// Runs the app with its output connected to that of this program. Returns its exit status.
fn run_app(cargo_options: &[String], args: &[String]) -> Result<i32, Refusal> {
    // Cargo sets the variable if it runs this program itself.
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Process::new(&cargo)
        .args(["run", "--quiet"])
        .args(cargo_options)
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
        let (cargo_options, rest) = split_cargo_options(&args).unwrap();
        assert_eq!(cargo_options, words("-p tasks --bin app"));
        assert_eq!(rest, words("--json migrate plan --out a"));
        for line in ["migrate plan -p", "--bin --json migrate plan"] {
            assert_eq!(
                split_cargo_options(&words(line)).unwrap_err().exit,
                Exit::Usage
            );
        }
    }

    #[test]
    fn the_command_name_comes_first() {
        assert_eq!(
            command_first(&words("--json --dir migrate migrate plan --check")),
            words("migrate plan --check --json --dir migrate")
        );
    }
}
