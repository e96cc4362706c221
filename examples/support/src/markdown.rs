//! Just enough Markdown: fenced blocks with what stands before them, and links.

use std::path::{Path, PathBuf};

/// The repository's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Reads a file of the repository.
pub fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// A fenced block.
#[derive(Debug)]
pub struct Block {
    /// `rust`, `sh`, `console`, `text`.
    pub kind: String,
    /// The path in `<!-- from path -->` on the line before it.
    pub from: Option<String>,
    /// What it holds, with a line break at the end.
    pub text: String,
    /// Where it begins.
    pub line: usize,
}

/// The fenced blocks of a document.
pub fn blocks(markdown: &str) -> Vec<Block> {
    let mut out: Vec<Block> = Vec::new();
    let mut open = false;
    let mut before = "";
    for (number, line) in markdown.lines().enumerate() {
        match (line.strip_prefix("```"), open) {
            (Some(info), false) => {
                let from = before.strip_prefix("<!-- from ").and_then(|rest| rest.strip_suffix(" -->")).map(str::to_owned);
                out.push(Block { kind: info.trim().to_owned(), from, text: String::new(), line: number + 1 });
                open = true;
            }
            (Some(_), true) => open = false,
            (None, true) => {
                let block = out.last_mut().expect("an open block");
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, false) => {}
        }
        before = line;
    }
    assert!(!open, "a fence is not closed");
    out
}

/// The targets of all links outside fenced blocks.
pub fn links(markdown: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut open = false;
    for line in markdown.lines() {
        if line.starts_with("```") {
            open = !open;
        } else if !open {
            let targets = line.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
            out.extend(targets.map(str::to_owned));
        }
    }
    out
}

/// The anchors that the headings of a document make.
pub fn anchors(markdown: &str) -> Vec<String> {
    let headings = markdown.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    headings
        .map(|heading| {
            let kept = heading.to_lowercase().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_')).collect::<String>();
            kept.replace(' ', "-")
        })
        .collect()
}
