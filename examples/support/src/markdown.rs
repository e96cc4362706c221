//! A minimal Markdown parser: fenced blocks with the text before them, and links.

use std::path::{Path, PathBuf};

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Reads a file of the repository.
pub fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// The paths of all documents of the repository, relative to its root.
pub fn documents() -> Vec<String> {
    fn walk(folder: &Path, from: &str, out: &mut Vec<String>) {
        for entry in
            std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        {
            let entry = entry.expect("an entry");
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if from.is_empty() {
                name.clone()
            } else {
                format!("{from}/{name}")
            };
            let is_skipped =
                name.starts_with('.') || matches!(name.as_str(), "target" | "node_modules");
            if entry.file_type().expect("a type").is_dir() {
                if !is_skipped {
                    walk(&entry.path(), &path, out);
                }
            } else if name.ends_with(".md") {
                out.push(path);
            }
        }
    }
    let mut out = Vec::new();
    walk(&root(), "", &mut out);
    out.sort();
    out
}

/// A fenced block.
#[derive(Debug)]
pub struct Block {
    /// The language, such as `rust`, `sh`, `console` or `text`.
    pub kind: String,
    /// The path in `<!-- from path -->` on the line before it.
    pub from: Option<String>,
    /// Its text, with a line break at the end.
    pub text: String,
    /// The line number of its opening fence.
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
                let from = before
                    .strip_prefix("<!-- from ")
                    .and_then(|rest| rest.strip_suffix(" -->"))
                    .map(str::to_owned);
                out.push(Block {
                    kind: info.trim().to_owned(),
                    from,
                    text: String::new(),
                    line: number + 1,
                });
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

/// The lines outside fenced blocks, with their numbers.
pub fn prose(markdown: &str) -> Vec<(usize, &str)> {
    let mut open = false;
    let is_outside = |(_, line): &(usize, &str)| {
        let fence = line.starts_with("```");
        open ^= fence;
        !open && !fence
    };
    markdown
        .lines()
        .enumerate()
        .map(|(number, line)| (number + 1, line))
        .filter(is_outside)
        .collect()
}

/// The targets of all links.
pub fn links(markdown: &str) -> Vec<String> {
    let targets = |line: &str| -> Vec<String> {
        line.split("](")
            .skip(1)
            .filter_map(|rest| rest.split_once(')'))
            .map(|(target, _)| target.to_owned())
            .collect()
    };
    prose(markdown)
        .into_iter()
        .flat_map(|(_, line)| targets(line))
        .collect()
}

/// The files and folders that a document names as code: texts with a slash and a known file ending.
pub fn paths(markdown: &str) -> Vec<(usize, String)> {
    let is_path = |text: &&str| {
        let plain = text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '_'));
        let (first, last) = (text.chars().next(), text.rsplit('.').next());
        let is_file_or_folder =
            matches!(last, Some("rs" | "md" | "toml" | "yml" | "json" | "stderr"))
                || text.ends_with('/');
        plain && is_file_or_folder && text.contains('/') && first != Some('/')
    };
    let paths_in_line = |(number, line): (usize, &str)| -> Vec<(usize, String)> {
        line.split('`')
            .skip(1)
            .step_by(2)
            .filter(is_path)
            .map(|path| (number, path.to_owned()))
            .collect()
    };
    prose(markdown)
        .into_iter()
        .flat_map(paths_in_line)
        .collect()
}

/// The anchors of the headings of a document.
pub fn anchors(markdown: &str) -> Vec<String> {
    let headings = markdown
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| line.trim_start_matches('#').trim());
    headings
        .map(|heading| {
            let kept = heading
                .to_lowercase()
                .chars()
                .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
                .collect::<String>();
            kept.replace(' ', "-")
        })
        .collect()
}
