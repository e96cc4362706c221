//! `cargo xtask bench --cold`: the first build of a new user, with an empty target directory.
//!
//! The quickstart and a plain app (axum, sqlx and jsonwebtoken, in `benches/cold`) are built one
//! after the other, in the same run, with the same versions of shared dependencies, each with the
//! default profile of its users. Downloads are done before and do not count.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use super::server::run_to_end;
use super::write;
use crate::steps::target;

/// The maximum ratio between the build times of the quickstart and of the plain app.
const MAX_RATIO: f64 = 2.0;

/// The cost of a build.
#[derive(Clone, Copy)]
struct Cost {
    seconds: f64,
    cpu: f64,
}

/// Builds both apps and prints the table; fails if the quickstart takes too long.
pub(super) fn run(into_readme: bool) -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .canonicalize()
        .map_err(|e| e.to_string())?;
    let folder = target().join("bench-cold");
    let _ = fs::remove_dir_all(&folder);
    let app = folder.join("app");
    let copy = |from: &str, to: &str| {
        let file = app.join(to);
        fs::create_dir_all(file.parent().unwrap_or(&app))
            .and_then(|()| fs::copy(root.join(from), file))
            .map_err(|e| e.to_string())
    };
    copy("benches/cold/Cargo.toml", "Cargo.toml")?;
    copy("benches/cold/main.rs", "src/main.rs")?;
    copy("Cargo.lock", "Cargo.lock")?;
    let done = both(&root, &app, &folder);
    // Two target directories need more than a gigabyte.
    let _ = fs::remove_dir_all(&folder);
    let (plain, quickstart) = done?;

    let ratio = |of: fn(Cost) -> f64| of(quickstart) / of(plain).max(f64::EPSILON);
    let (seconds, cpu) = (ratio(|cost| cost.seconds), ratio(|cost| cost.cpu));
    let table = format!(
        "One `cargo build` each, from an empty target folder, sources downloaded.\n\n\
         | | seconds | CPU seconds |\n|---|---|---|\n\
         | plain: axum, sqlx and jsonwebtoken | {:.0} | {:.0} |\n\
         | quickstart | {:.0} | {:.0} |\n\
         | ratio | {seconds:.2} (at most {MAX_RATIO:.1}) | {cpu:.2} |",
        plain.seconds, plain.cpu, quickstart.seconds, quickstart.cpu
    );
    println!("{table}");
    if into_readme {
        write("cold start", &table)?;
    }
    if seconds > MAX_RATIO {
        return Err(format!(
            "the first build of the quickstart takes {seconds:.2} times as long as that of the plain app, and at most {MAX_RATIO:.1} is allowed"
        ));
    }
    Ok(())
}

/// The costs of the plain app and of the quickstart.
fn both(root: &Path, app: &Path, folder: &Path) -> Result<(Cost, Cost), String> {
    let host = host()?;
    run_to_end(cargo(app, folder).args(["fetch", "--quiet", "--target", &host]))?;
    run_to_end(cargo(root, folder).args(["fetch", "--quiet", "--locked", "--target", &host]))?;
    let plain = timed(cargo(app, &folder.join("plain")).args(["build", "--quiet", "--offline"]))?;
    println!("plain: {:.1} s", plain.seconds);
    let quickstart = timed(cargo(root, &folder.join("quickstart")).args([
        "build",
        "--quiet",
        "--offline",
        "-p",
        "quickstart",
    ]))?;
    println!("quickstart: {:.1} s", quickstart.seconds);
    Ok((plain, quickstart))
}

/// The default target of the toolchain.
fn host() -> Result<String, String> {
    let out = Command::new("rustc")
        .arg("-vV")
        .output()
        .map_err(|e| format!("rustc: {e}"))?;
    let text = String::from_utf8_lossy(&out.stdout);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned)
        .ok_or_else(|| "rustc does not print its host".to_owned())
}

/// A cargo command of a new user: the environment does not affect the build.
fn cargo(here: &Path, target: &Path) -> Command {
    let mut command = crate::cargo(&[]);
    command.current_dir(here).env("CARGO_TARGET_DIR", target);
    for name in ["CARGO_INCREMENTAL", "CARGO_BUILD_JOBS", "RUSTFLAGS"] {
        command.env_remove(name);
    }
    command
}

fn timed(command: &mut Command) -> Result<Cost, String> {
    let (before, started) = (children_cpu(), Instant::now());
    run_to_end(command)?;
    Ok(Cost {
        seconds: started.elapsed().as_secs_f64(),
        cpu: children_cpu() - before,
    })
}

/// The CPU seconds of all ended child processes and their descendants; 0 if the system has no
/// `/proc`.
fn children_cpu() -> f64 {
    fs::read_to_string("/proc/self/stat")
        .ok()
        .and_then(|stat| parse_children_cpu(&stat))
        .unwrap_or_default()
}

/// `cutime` and `cstime` of `/proc/<pid>/stat`: the 16th and 17th field, in hundredths of a second.
/// The second field is a name in parentheses, which may contain spaces.
fn parse_children_cpu(stat: &str) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let ticks: Vec<f64> = rest
        .split_whitespace()
        .skip(13)
        .take(2)
        .map(str::parse)
        .collect::<Result<_, _>>()
        .ok()?;
    (ticks.len() == 2).then(|| ticks.iter().sum::<f64>() / 100.0)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_time_of_children_is_read() {
        let stat = "42 (a (b) c) S 1 42 42 0 -1 4194304 100 200 0 0 11 12 250 150 20 0 1 0 300";
        assert_eq!(super::parse_children_cpu(stat), Some(4.0));
        assert_eq!(super::parse_children_cpu("42 (x) S 1"), None);
    }
}
