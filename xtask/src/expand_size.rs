//! The size of macro expansions, measured on the reviewed snapshots, which contain formatted code.

use std::path::Path;

/// The maximum number of formatted lines of an entity with eight fields.
const ENTITY: usize = 200;
/// The target number of formatted lines of an operation.
const OPERATION: usize = 40;
/// Operations above the target, with their maximum number of lines: examples that show many options
/// at once. Entries are only ever reduced or removed.
const EXCEPTIONS: &[(&str, usize)] = &[
    ("op_aggregate_full", 69),
    ("op_collection_full", 136),
    ("op_lookup_full", 70),
    ("op_search_full", 47),
    ("op_transition_full", 42),
];

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

/// The maximum number of columns of a line, as `prettyplease` formats it.
const WIDTH: usize = 89;

/// Returns an expansion without the names in comments after field numbers (`7 /* due_at */`), and
/// without the line breaks that these names caused. A bracketed group that contained a name becomes
/// one line if it fits. The same holds for a line and the method call on the next line.
fn unbroken(body: &str) -> String {
    let mut lines: Vec<(String, bool)> = body.lines().map(unnamed).collect();
    while let Some((from, to, joined)) =
        (0..lines.len()).find_map(|at| group(&lines, at).or_else(|| method(&lines, at)))
    {
        lines.splice(from..=to, [(joined, true)]);
    }
    lines
        .into_iter()
        .map(|(line, _)| line)
        .collect::<Vec<_>>()
        .join("\n")
}

/// A line without the names, and whether it contained any.
fn unnamed(line: &str) -> (String, bool) {
    let mut out = line.to_owned();
    while let Some((before, rest)) = out.split_once(" /* ") {
        let Some((_, after)) = rest.split_once("*/") else {
            break;
        };
        out = format!("{before}{after}");
    }
    let had = out != line;
    (out, had)
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Whether a line fits; the comma at its end may exceed the width.
fn fits(line: &str) -> bool {
    line.trim_end_matches(',').len() <= WIDTH
}

/// The group that begins at the end of a line, if it contained a name and fits on one line: its
/// first and last line, and the joined text.
fn group(lines: &[(String, bool)], at: usize) -> Option<(usize, usize, String)> {
    const OPEN: [char; 3] = ['(', '[', '<'];
    let first = &lines[at].0;
    let closes = match first.chars().last()? {
        '(' => ')',
        '[' => ']',
        '<' => '>',
        _ => return None,
    };
    let to = (at + 1..lines.len())
        .find(|&to| !lines[to].0.trim().is_empty() && indent(&lines[to].0) <= indent(first))?;
    let had = lines[at..=to].iter().any(|(_, had)| *had);
    let inner: Vec<&str> = lines[at + 1..to]
        .iter()
        .map(|(line, _)| line.trim())
        .collect();
    let is_plain = |line: &&str| {
        !line.ends_with(OPEN) && !line.ends_with(['{', ';']) && !line.starts_with("//")
    };
    if !had
        || inner.is_empty()
        || !lines[to].0.trim().starts_with(closes)
        || !inner.iter().all(is_plain)
    {
        return None;
    }
    let joined = format!(
        "{first}{}{}",
        inner.join(" ").trim_end_matches(','),
        lines[to].0.trim()
    );
    fits(&joined).then_some((at, to, joined))
}

/// A line and the single method call after it, if one of them contained a name and both fit on one
/// line.
fn method(lines: &[(String, bool)], at: usize) -> Option<(usize, usize, String)> {
    let ((first, one), (next, other)) = (lines.get(at)?, lines.get(at + 1)?);
    let is_method = |line: &str| line.trim().starts_with('.');
    let more = lines
        .get(at + 2)
        .is_some_and(|(line, _)| is_method(line) && indent(line) == indent(next));
    let follows = is_method(next)
        && !is_method(first)
        && indent(next) > indent(first)
        && !more
        && !next.ends_with(['(', '{', '[']);
    let joined = format!("{first}{}", next.trim());
    (follows && (*one || *other) && fits(&joined)).then_some((at, at + 1, joined))
}

/// Prints a row per snapshot; fails if one exceeds its budget.
pub(crate) fn run() -> Result<(), String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../snapshots");
    let entries =
        std::fs::read_dir(&folder).map_err(|e| format!("cannot read the snapshots: {e}"))?;
    let mut rows = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(stem) = name.strip_suffix(".snap") else {
            continue;
        };
        let text = std::fs::read_to_string(entry.path()).map_err(|e| format!("{name}: {e}"))?;
        // A snapshot begins with its metadata between two `---` lines.
        let body = text.splitn(3, "---\n").nth(2).unwrap_or(&text);
        // The declaration comes before its expansion.
        let body = body
            .split_once("\n// Expansion\n\n")
            .map_or(body, |(_, expansion)| expansion);
        let stem = stem.rsplit("__").next().unwrap_or(stem).to_owned();
        // Documentation costs nothing to compile, so it does not count as code.
        let lines = code_lines(&unbroken(body));
        rows.push((stem, lines, body.len()));
    }
    rows.sort();
    let mut over = Vec::new();
    let (mut entities, mut operations) = (0, 0);
    println!("{:<40} {:>6} {:>8}  budget", "expansion", "lines", "bytes");
    for (name, lines, bytes) in &rows {
        // Expansions of invalid input (`…_broken`) have no budget, because they are never shipped.
        let budget = if name.starts_with("op_") && name != "op_broken" {
            operations += 1;
            Some(OPERATION)
        } else if name == "entity_small" {
            entities += 1;
            Some(ENTITY)
        } else {
            None
        };
        println!(
            "{name:<40} {lines:>6} {bytes:>8}  {}",
            budget.map_or(String::new(), |b| b.to_string())
        );
        let exception = EXCEPTIONS
            .iter()
            .find(|(exception, _)| exception == name)
            .map(|(_, lines)| *lines);
        if budget.is_some_and(|b| *lines > exception.unwrap_or(b)) {
            over.push(format!("{name} ({lines} lines)"));
        }
    }
    // A budget without a snapshot would always pass, for example after a snapshot was renamed.
    for (count, what) in [(entities, "entity_small"), (operations, "op_*")] {
        if count == 0 {
            over.push(format!(
                "no snapshot called {what}, so its budget is not measured"
            ));
        }
    }
    if over.is_empty() {
        Ok(())
    } else {
        Err(format!("expansion budgets: {}", over.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn comments_with_field_names_add_no_lines() {
        let named = "a::<\n    Note,\n    3 /* status */,\n>(x)\nb(\n    &[\n        in_id(\"id\", 0 /* id */),\n        c,\n    ],\n)\nd(6 /* e */)\n    .max(50),";
        assert_eq!(
            super::unbroken(named),
            "a::<Note, 3>(x)\nb(&[in_id(\"id\", 0), c])\nd(6).max(50),"
        );
    }

    #[test]
    fn other_lines_are_unchanged() {
        let other = "f(\n    a,\n    b,\n)\ng\n    .h()\n/** doc */";
        assert_eq!(super::unbroken(other), other);
    }

    #[test]
    fn doc_comments_do_not_count_as_code() {
        assert_eq!(
            super::code_lines("a\n  /// b\n/**c\nd*/\ne\n/** f */\ng"),
            3
        );
    }
}
