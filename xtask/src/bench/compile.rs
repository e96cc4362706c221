//! `cargo xtask bench --compile`: the compile time of entities.
//!
//! Apps of 1, 20 and 100 entities (eight fields, an enum, three operations each) are generated and
//! compiled with their dependencies built before; the slope between the smallest and the largest
//! app is the cost of one entity. A last app of 50 entities with six operations each measures the
//! rebuild after a change of one file.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use super::write;
use crate::steps::target;

const SIZES: [usize; 3] = [1, 20, 100];
const ROUNDS: usize = 3;
/// The maximum time of `cargo check` and of `cargo build` per entity, in milliseconds.
const MAX_CHECK: f64 = 40.0;
const MAX_BUILD: f64 = 50.0;
/// The maximum time of `cargo check` after a change of one file, in seconds.
const MAX_TOUCH: f64 = 2.0;

/// Generates, compiles and prints the table; fails if a budget is exceeded.
pub(super) fn run(into_readme: bool) -> Result<(), String> {
    let folder = target().join("bench-compile");
    let mut rows = Vec::new();
    for size in SIZES {
        let app = generate(&folder, &format!("app{size}"), size, 3)?;
        // Builds the dependencies and does all one-time work.
        cargo(&app, "check", false)?;
        cargo(&app, "build", false)?;
        let (mut check, mut build) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            check.push(timed(&app, "check", false)?);
            build.push(timed(&app, "build", false)?);
        }
        println!(
            "{size} entities: check {:.2} s, build {:.2} s",
            median(&mut check.clone()),
            median(&mut build.clone())
        );
        rows.push((size, median(&mut check), median(&mut build)));
    }
    let touched = generate(&folder, "app50", 50, 6)?;
    cargo(&touched, "check", true)?;
    let mut after = Vec::new();
    for round in 0..ROUNDS {
        touch(&touched, round)?;
        after.push(timed_here(&touched, "check", true)?);
    }
    let after = median(&mut after);
    let (check, build) = (slope(&rows, |r| r.1), slope(&rows, |r| r.2));
    let mut out = format!(
        "Medians of {ROUNDS}, dependencies built, the app crate only, without incremental compilation.\n\n"
    );
    out.push_str(
        "| entities (8 fields, 3 operations) | `cargo check` | `cargo build` |\n|---|---|---|\n",
    );
    for (size, check, build) in &rows {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "| {size} | {check:.2} s | {build:.2} s |");
    }
    let _ = writeln!(
        out,
        "| per entity | {check:.1} ms (at most {MAX_CHECK}) | {build:.1} ms (at most {MAX_BUILD}) |"
    );
    let _ = write!(
        out,
        "\nIncremental `cargo check` of 50 entities with 6 operations each, after a change of one file: {after:.2} s (at most {MAX_TOUCH})."
    );
    println!("{out}");
    if into_readme {
        write("compile time", &out)?;
    }
    let over = [
        ("check", check, MAX_CHECK),
        ("build", build, MAX_BUILD),
        ("touch", after, MAX_TOUCH),
    ];
    let over: Vec<&str> = over
        .iter()
        .filter(|(_, seen, most)| seen > most)
        .map(|(name, ..)| *name)
        .collect();
    if over.is_empty() {
        Ok(())
    } else {
        Err(format!("compile time over budget: {}", over.join(", ")))
    }
}

/// The milliseconds per entity, between the smallest and the largest app.
fn slope(rows: &[(usize, f64, f64)], of: impl Fn(&(usize, f64, f64)) -> f64) -> f64 {
    match (rows.first(), rows.last()) {
        (Some(first), Some(last)) if last.0 > first.0 => {
            (of(last) - of(first)) * 1000.0 / (last.0 - first.0) as f64
        }
        _ => 0.0,
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// The time of a full compilation of the app crate.
fn timed(app: &Path, what: &str, incremental: bool) -> Result<f64, String> {
    touch(app, usize::MAX)?;
    timed_here(app, what, incremental)
}

/// The time of a cargo command, without changing a file first.
fn timed_here(app: &Path, what: &str, incremental: bool) -> Result<f64, String> {
    let started = Instant::now();
    cargo(app, what, incremental)?;
    Ok(started.elapsed().as_secs_f64())
}

/// Changes the doc comment of one module, so that cargo compiles the app again.
fn touch(app: &Path, round: usize) -> Result<(), String> {
    let file = app.join("src/entity0.rs");
    let text = fs::read_to_string(&file).map_err(|e| e.to_string())?;
    let (_, rest) = text.split_once('\n').unwrap_or_default();
    fs::write(
        &file,
        format!(
            "//! Changed in round {round} at {:?}.\n{rest}",
            std::time::SystemTime::now()
        ),
    )
    .map_err(|e| e.to_string())
}

fn cargo(app: &Path, what: &str, incremental: bool) -> Result<(), String> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .args([what, "--quiet", "--offline"])
        .current_dir(app);
    command.env("CARGO_TARGET_DIR", target().join("bench-compile/target"));
    command.env("CARGO_INCREMENTAL", if incremental { "1" } else { "0" });
    let done = command
        .stdout(Stdio::null())
        .status()
        .map_err(|e| e.to_string())?;
    if done.success() {
        Ok(())
    } else {
        Err(format!("{} does not compile", app.display()))
    }
}

/// Writes an app; returns its directory.
fn generate(
    folder: &Path,
    name: &str,
    entities: usize,
    operations: usize,
) -> Result<PathBuf, String> {
    let app = folder.join(name);
    let put = |path: &str, text: &str| -> Result<(), String> {
        let file = app.join(path);
        fs::create_dir_all(file.parent().unwrap_or(&app))
            .and_then(|()| fs::write(&file, text))
            .map_err(|e| e.to_string())
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .canonicalize()
        .map_err(|e| e.to_string())?;
    put(
        "Cargo.toml",
        &format!(
            "[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\nlinchpin = {{ path = \"{root}/runtime\" }}\n\
             tokio = {{ version = \"1\", features = [\"macros\", \"rt-multi-thread\"] }}\n\n[profile.dev]\ndebug = \"line-tables-only\"\n\n[workspace]\n",
            root = root.display()
        ),
    )?;
    // The versions that the workspace was tested with.
    fs::copy(root.join("Cargo.lock"), app.join("Cargo.lock")).map_err(|e| e.to_string())?;
    let (mut modules, mut entries) = (String::new(), String::new());
    for i in 0..entities {
        put(&format!("src/entity{i}.rs"), &entity(i, operations))?;
        let consts: Vec<String> = OPERATIONS
            .iter()
            .take(operations)
            .map(|(name, _)| format!("entity{i}::{name}"))
            .collect();
        let _ = writeln!(modules, "mod entity{i};");
        let _ = writeln!(
            entries,
            "        entity(entity{i}::Entity{i}, [{}]),",
            consts.join(", ")
        );
    }
    let main = format!(
        "use linchpin::prelude::*;\n\n{modules}\nstatic APP: Package = package!(\n    name = \"app\",\n    entities = [\n{entries}    ],\n);\n\n\
         #[tokio::main]\nasync fn main() -> linchpin::Result<()> {{\n    App::new(Config::from_env()?).plugin(JwtAuth::new()).package(&APP).run().await\n}}\n"
    );
    put("src/main.rs", &main)?;
    Ok(app)
}

const OPERATIONS: [(&str, &str); 6] = [
    (
        "PUBLISH",
        "kind = \"transition\", field = status, from = Status::Draft, to = Status::Live, set(due_at = now())",
    ),
    (
        "BY_SLUG",
        "kind = \"lookup\", fields(slug = param(slug)), returns = \"one\"",
    ),
    ("VIEW", "kind = \"increment\", field = views"),
    (
        "SLUG_TAKEN",
        "kind = \"exists\", fields(slug = param(slug))",
    ),
    ("RETITLE", "kind = \"field_update\", set(title)"),
    (
        "SWEEP",
        "kind = \"batch\", action = \"delete\", filter = (status == Status::Gone && due_at < now())",
    ),
];

fn entity(i: usize, operations: usize) -> String {
    let mut out = format!(
        "//! Entity {i}.\nuse linchpin::prelude::*;\n\n#[derive(Clone, Copy, Debug, PartialEq, FieldEnum)]\npub enum Status {{\n    Draft,\n    Live,\n    Gone,\n}}\n\n\
         /// One of many.\n#[entity(unique(slug), index(author_id, created_at), sort = desc(created_at))]\n#[derive(Clone, Debug)]\npub struct Entity{i} {{\n    \
         #[field(primary, default = uuid)]\n    pub id: String,\n    #[field(length = 1..=200)]\n    pub title: String,\n    pub slug: String,\n    \
         pub author_id: String,\n    #[field(default = Status::Draft)]\n    pub status: Status,\n    #[field(default = 0)]\n    pub views: i64,\n    \
         pub due_at: Option<Timestamp>,\n    #[field(default = now)]\n    pub created_at: Timestamp,\n}}\n"
    );
    for (name, args) in OPERATIONS.iter().take(operations) {
        let _ = write!(
            out,
            "\n#[operation({args})]\npub const {name}: Operation<Entity{i}>;\n"
        );
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_slope_is_the_time_of_one_entity() {
        let rows = [(1, 0.5, 1.0), (20, 1.0, 2.0), (101, 2.5, 5.0)];
        assert!((super::slope(&rows, |r| r.1) - 20.0).abs() < 1e-9);
        assert!((super::slope(&rows, |r| r.2) - 40.0).abs() < 1e-9);
        assert!(super::slope(&rows[..1], |r| r.1).abs() < 1e-9);
    }

    #[test]
    fn generated_apps_have_the_measured_sizes() {
        let text = super::entity(3, 6);
        assert_eq!(text.matches("#[operation(").count(), 6);
        assert_eq!(text.matches("    pub ").count(), 8);
        assert!(text.contains("sort = desc(created_at))]\n"), "{text}");
        assert!((super::median(&mut [3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
    }
}
