//! `cargo xtask bench`: compares the generated server with two hand-written ones in one run; also
//! measures instructions and compile time.

mod cold;
mod compile;
mod database;
mod instructions;
mod load;
mod server;
mod webhooks;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

pub(crate) use instructions::{build_gated, gate};

use crate::postgres::Cluster;

const SERVERS: [&str; 3] = ["plain", "limit", "generated"];

/// Measures requests per second, or the value that an option selects.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let asked = |name: &str| args.iter().any(|a| a == name);
    if asked("--instructions") {
        instructions::run(asked("--write"))
    } else if asked("--gate") {
        instructions::gate(&instructions::build_gated()?)
    } else if asked("--compile") {
        compile::run(asked("--write"))
    } else if asked("--cold") {
        cold::run(asked("--write"))
    } else if asked("--auth") {
        measured(
            "authentication",
            &["--features", "auth", "--bin", "bench-auth"],
            asked("--write"),
        )
    } else if asked("--webhooks") {
        webhooks::run(asked("--write"))
    } else if asked("--realtime") {
        let bin = server::build(&["bench-plugins"], Some("plugins"))?;
        let mut program = Command::new(bin.join("bench-plugins"));
        let (table, succeeded) = shown("realtime", program.arg("realtime"))?;
        if asked("--write") {
            write("realtime", &format!("One run.\n\n{}", table.trim()))?;
        }
        succeeded
    } else if asked("--migrations") {
        let bin = server::build(&["bench-migrations"], Some("postgres"))?;
        let (table, succeeded) = server::in_folder(|folder| {
            let cluster = Cluster::start(folder)?;
            let mut program = Command::new(bin.join("bench-migrations"));
            let measured = program.arg("measure").arg(cluster.url("postgres"));
            shown("migrations", measured)
        })?;
        if asked("--write") {
            write("migrations", &format!("One run.\n\n{}", table.trim()))?;
        }
        succeeded
    } else if asked("--large") && asked("--postgres") {
        server::in_folder(|folder| {
            let cluster = Cluster::start(folder)?;
            let bin = [
                "--features",
                "postgres",
                "--bin",
                "bench-large",
                "--",
                &cluster.url("postgres"),
            ];
            measured("large tables on Postgres", &bin, asked("--write"))
        })
    } else if asked("--large") {
        measured("large tables", &["--bin", "bench-large"], asked("--write"))
    } else {
        load::run(args)
    }
}

/// Runs a program that measures and prints by itself. Its output is shown immediately, and also
/// kept if requested, even if a limit is exceeded.
fn measured(name: &str, bin: &[&str], keep: bool) -> Result<(), String> {
    let mut cargo = crate::cargo(&["run", "--release", "--package", "linchpin-benches"]);
    cargo.args(bin);
    let (kept, succeeded) = shown(name, &mut cargo)?;
    if keep {
        // Its headings are one level below the heading of the section.
        write(
            name,
            &format!("One run.\n\n{}", kept.trim().replace("## ", "### ")),
        )?;
    }
    succeeded
}

/// Runs a program, shows its output immediately, and returns it; also whether it succeeded.
fn shown(name: &str, command: &mut Command) -> Result<(String, Result<(), String>), String> {
    let failed = |e: std::io::Error| format!("{name}: {e}");
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(failed)?;
    let mut kept = String::new();
    for line in child
        .stdout
        .take()
        .into_iter()
        .flat_map(|out| BufReader::new(out).lines())
    {
        let line = line.map_err(failed)?;
        println!("{line}");
        kept.push_str(&line);
        kept.push('\n');
    }
    let status = child.wait().map_err(failed)?;
    let succeeded = if status.success() {
        Ok(())
    } else {
        Err(format!("{name} failed ({status})"))
    };
    Ok((kept, succeeded))
}

/// Puts a table between its markers in `benches/README.md`.
fn write(name: &str, table: &str) -> Result<(), String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../benches/README.md");
    let text = fs::read_to_string(&file).map_err(|e| e.to_string())?;
    let (start, end) = (
        format!("<!-- {name} -->\n"),
        format!("<!-- end of {name} -->"),
    );
    let parts = text
        .split_once(&start)
        .and_then(|(head, rest)| Some((head, rest.split_once(&end)?.1)));
    let (head, tail) = parts.ok_or("benches/README.md lacks its markers")?;
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu
        .lines()
        .find_map(|l| l.strip_prefix("model name"))
        .map_or("", |l| l.trim_start_matches([' ', '\t', ':']));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    fs::write(
        &file,
        format!("{head}{start}{cores} cores, {model}. {table}\n{end}{tail}"),
    )
    .map_err(|e| e.to_string())
}
