//! `cargo xtask bench`: the generated server beside two hand-written ones, in one run; what it costs in instructions and in
//! compile time.

mod compile;
mod database;
mod instructions;
mod load;
mod server;

use std::fs;
use std::path::Path;

pub(crate) use instructions::gate;

const SERVERS: [&str; 3] = ["plain", "limit", "generated"];

/// Requests per second, or what an option asks for instead.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let asked = |name: &str| args.iter().any(|a| a == name);
    if asked("--instructions") {
        instructions::run(asked("--write"))
    } else if asked("--compile") {
        compile::run(asked("--write"))
    } else if asked("--auth") {
        auth()
    } else if asked("--large") {
        large()
    } else {
        load::run(args)
    }
}

/// Pages, a batch and numbers on a table of one million rows, beside the SQL a person would write.
fn large() -> Result<(), String> {
    crate::step("large tables", crate::cargo(&["run", "--release", "--package", "linchpin-benches", "--bin", "bench-large"]))
}

/// What authentication costs, and what its times give away.
fn auth() -> Result<(), String> {
    let bin = ["run", "--release", "--package", "linchpin-benches", "--features", "auth", "--bin", "bench-auth"];
    crate::step("authentication", crate::cargo(&bin))
}

/// Puts a table between its markers in `benches/README.md`.
fn write(name: &str, table: &str) -> Result<(), String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../benches/README.md");
    let text = fs::read_to_string(&file).map_err(|e| e.to_string())?;
    let (start, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->"));
    let parts = text.split_once(&start).and_then(|(head, rest)| Some((head, rest.split_once(&end)?.1)));
    let (head, tail) = parts.ok_or("benches/README.md lacks its markers")?;
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|l| l.strip_prefix("model name")).map_or("", |l| l.trim_start_matches([' ', '\t', ':']));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    fs::write(&file, format!("{head}{start}{cores} cores, {model}. {table}\n{end}{tail}")).map_err(|e| e.to_string())
}
