//! How much code the macros write: measured on the reviewed snapshots, which hold the expansions as a person reads them.

use std::path::Path;

/// Most formatted lines of an entity of eight fields.
const ENTITY: usize = 200;
/// Most formatted lines of an operation.
const OPERATION: usize = 40;

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
        rows.push((stem, body.lines().count(), body.len()));
    }
    rows.sort();
    let mut over = Vec::new();
    println!("{:<40} {:>6} {:>8}  budget", "expansion", "lines", "bytes");
    for (name, lines, bytes) in &rows {
        let budget = if name.starts_with("operation_") {
            Some(OPERATION)
        } else if name == "entity_small" || name == "entity_eight_fields" {
            Some(ENTITY)
        } else {
            None
        };
        println!("{name:<40} {lines:>6} {bytes:>8}  {}", budget.map_or(String::new(), |b| b.to_string()));
        if budget.is_some_and(|b| *lines > b) {
            over.push(name.clone());
        }
    }
    if over.is_empty() { Ok(()) } else { Err(format!("expansions over their budget: {}", over.join(", "))) }
}
