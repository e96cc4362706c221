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
    let has_option = |name: &str| args.iter().any(|a| a == name);
    if has_option("--instructions") {
        instructions::run(has_option("--write"))
    } else if has_option("--gate") {
        instructions::gate(&instructions::build_gated()?)
    } else if has_option("--compile") {
        compile::run(has_option("--write"))
    } else if has_option("--cold") {
        cold::run(has_option("--write"))
    } else if has_option("--auth") {
        run_benchmark(
            "authentication",
            &["--features", "auth", "--bin", "bench-auth"],
            has_option("--write"),
        )
    } else if has_option("--webhooks") {
        webhooks::run(has_option("--write"))
    } else if has_option("--realtime") {
        let bin = server::build(&["bench-plugins"], Some("plugins"))?;
        let mut program = Command::new(bin.join("bench-plugins"));
        let (table, succeeded) = run_and_print("realtime", program.arg("realtime"))?;
        if has_option("--write") {
            write("realtime", &format!("One run.\n\n{}", table.trim()))?;
        }
        succeeded
    } else if has_option("--migrations") {
        let bin = server::build(&["bench-migrations"], Some("postgres"))?;
        let (table, succeeded) = server::in_folder(|folder| {
            let cluster = Cluster::start(folder)?;
            let mut program = Command::new(bin.join("bench-migrations"));
            let program = program.arg("measure").arg(cluster.url("postgres"));
            run_and_print("migrations", program)
        })?;
        if has_option("--write") {
            write("migrations", &format!("One run.\n\n{}", table.trim()))?;
        }
        succeeded
    } else if has_option("--large") && has_option("--postgres") {
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
            run_benchmark("large tables on Postgres", &bin, has_option("--write"))
        })
    } else if has_option("--large") {
        run_benchmark(
            "large tables",
            &["--bin", "bench-large"],
            has_option("--write"),
        )
    } else {
        load::run(args)
    }
}

/// Runs a program that measures and prints by itself. With `into_readme`, its output is also
/// written into the README, even if a limit is exceeded.
fn run_benchmark(name: &str, bin: &[&str], into_readme: bool) -> Result<(), String> {
    let mut cargo = crate::cargo(&["run", "--release", "--package", "linchpin-benches"]);
    cargo.args(bin);
    let (output, succeeded) = run_and_print(name, &mut cargo)?;
    if into_readme {
        // Its headings are one level below the heading of the section.
        write(
            name,
            &format!("One run.\n\n{}", output.trim().replace("## ", "### ")),
        )?;
    }
    succeeded
}

/// Runs a program and prints each line of its output immediately. Returns the output, and whether
/// the program succeeded.
fn run_and_print(
    name: &str,
    command: &mut Command,
) -> Result<(String, Result<(), String>), String> {
    let failed = |e: std::io::Error| format!("{name}: {e}");
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(failed)?;
    let mut output = String::new();
    for line in child
        .stdout
        .take()
        .into_iter()
        .flat_map(|out| BufReader::new(out).lines())
    {
        let line = line.map_err(failed)?;
        println!("{line}");
        output.push_str(&line);
        output.push('\n');
    }
    let status = child.wait().map_err(failed)?;
    let succeeded = if status.success() {
        Ok(())
    } else {
        Err(format!("{name} failed ({status})"))
    };
    Ok((output, succeeded))
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
    let (head, tail) = parts.ok_or_else(|| {
        format!(
            "benches/README.md has no place for the table `{name}`: add `<!-- {name} -->` and `<!-- end of {name} -->`"
        )
    })?;
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
