//! How much code the macros write: measured on the reviewed snapshots, which hold the expansions as a person reads them.

use std::path::Path;

/// Most formatted lines of an entity of eight fields.
const ENTITY: usize = 200;
/// Formatted lines an operation should have.
const OPERATION: usize = 40;
/// Operations that have not reached it yet, with the lines they may not exceed. The way there: `const fn` builders for their
/// descriptors, as entities have them. Entries only ever shrink or go.
const HELD: &[(&str, usize)] = &[("op_exists", 57), ("op_increment", 44), ("op_lookup", 96), ("op_transition", 71)];

/// Prints a row per snapshot; fails when one that a budget concerns is over it.
pub(crate) fn run() -> Result<(), String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../snapshots");
    let entries = std::fs::read_dir(&folder).map_err(|e| format!("cannot read the snapshots: {e}"))?;
    let mut rows = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(stem) = name.strip_suffix(".snap") else { continue };
        let text = std::fs::read_to_string(entry.path()).map_err(|e| format!("{name}: {e}"))?;
        // A snapshot begins with its metadata between two `---` lines.
        let body = text.splitn(3, "---\n").nth(2).unwrap_or(&text);
        let stem = stem.rsplit("__").next().unwrap_or(stem).to_owned();
        // Documentation is for the user and costs nothing to compile; it does not count as code.
        let lines = body.lines().filter(|l| !l.trim_start().starts_with("///")).count();
        rows.push((stem, lines, body.len()));
    }
    rows.sort();
    let mut over = Vec::new();
    let (mut entities, mut operations) = (0, 0);
    println!("{:<40} {:>6} {:>8}  budget", "expansion", "lines", "bytes");
    for (name, lines, bytes) in &rows {
        // What a faulty input expands to (`…_broken`) is no code that anybody ships.
        let budget = if name.starts_with("op_") && name != "op_broken" {
            operations += 1;
            Some(OPERATION)
        } else if name == "entity_small" {
            entities += 1;
            Some(ENTITY)
        } else {
            None
        };
        println!("{name:<40} {lines:>6} {bytes:>8}  {}", budget.map_or(String::new(), |b| b.to_string()));
        let held = HELD.iter().find(|(held, _)| held == name).map(|(_, lines)| *lines);
        if budget.is_some_and(|b| *lines > held.unwrap_or(b)) {
            over.push(format!("{name} ({lines} lines)"));
        }
    }
    // A budget that finds nothing to measure would pass for ever, for instance after a snapshot got another name.
    for (count, what) in [(entities, "entity_small"), (operations, "op_*")] {
        if count == 0 {
            over.push(format!("no snapshot called {what}, so its budget is not measured"));
        }
    }
    if over.is_empty() { Ok(()) } else { Err(format!("expansion budgets: {}", over.join(", "))) }
}
