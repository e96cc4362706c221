//! How much code the macros write: measured on the reviewed snapshots, which hold the expansions as a person reads them.

use std::path::Path;

/// Most formatted lines of an entity of eight fields.
const ENTITY: usize = 200;
/// Formatted lines an operation should have.
const OPERATION: usize = 40;
/// Operations over it, with the lines they may not exceed: examples that show many options at once. Entries only ever
/// shrink or go.
const HELD: &[(&str, usize)] =
    &[("op_aggregate_full", 69), ("op_collection_full", 136), ("op_lookup_full", 70), ("op_search_full", 47), ("op_transition_full", 42)];

/// Lines that are neither `///` nor within `/** .. */`.
fn code_lines(body: &str) -> usize {
    let mut within = false;
    let is_code = |line: &&str| {
        let line = line.trim();
        let doc = within || line.starts_with("///") || line.starts_with("/**");
        within = (within || line.starts_with("/**")) && !line.ends_with("*/");
        !doc
    };
    body.lines().filter(is_code).count()
}

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
        // The declaration stands above what it expands to.
        let body = body.split_once("\n// Expansion\n").map_or(body, |(_, expansion)| expansion);
        let stem = stem.rsplit("__").next().unwrap_or(stem).to_owned();
        // Documentation is for the user and costs nothing to compile; it does not count as code.
        let lines = code_lines(body);
        rows.push((stem, lines, body.len()));
    }
    rows.sort();
    let mut over = Vec::new();
    let (mut entities, mut operations) = (0, 0);
    println!("{:<40} {:>6} {:>8}  budget", "expansion", "lines", "bytes");
    for (name, lines, bytes) in &rows {
        // Expansions of faulty input (`…_broken`) have no budget: nobody ships them.
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

#[cfg(test)]
mod tests {
    #[test]
    fn documentation_is_not_code() {
        assert_eq!(super::code_lines("a\n  /// b\n/**c\nd*/\ne\n/** f */\ng"), 3);
    }
}
