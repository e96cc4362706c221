//! Compares the pages in `docs/reference` with the code. With `UPDATE_GOLDEN=1` it writes their
//! generated tables.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use example_support::markdown::{read, root};
use linchpin_vocabulary::{kind, store};

/// All Rust sources outside of tests.
fn sources() -> Vec<PathBuf> {
    fn walk(folder: &Path, out: &mut Vec<PathBuf>) {
        for entry in
            std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        {
            let path = entry.expect("an entry").path();
            let name = path
                .file_name()
                .expect("a name")
                .to_string_lossy()
                .into_owned();
            if path.is_dir() {
                if !name.starts_with('.')
                    && !["target", "tests", "node_modules", "ui-tests"].contains(&name.as_str())
                {
                    walk(&path, out);
                }
            } else if name.ends_with(".rs") {
                out.push(path);
            }
        }
    }
    let mut out = Vec::new();
    walk(&root(), &mut out);
    out
}

/// The only source that contains a line.
fn source_with_line(line: &str) -> String {
    let texts = sources()
        .into_iter()
        .map(|path| std::fs::read_to_string(path).expect("a source"));
    let mut found: Vec<String> = texts
        .filter(|text| text.lines().any(|other| other == line))
        .collect();
    assert_eq!(found.len(), 1, "sources with the line `{line}`");
    found.remove(0)
}

/// The text between two lines of a source.
fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let rest = text
        .split_once(from)
        .unwrap_or_else(|| panic!("no `{from}`"))
        .1;
    rest.split_once(to)
        .unwrap_or_else(|| panic!("no `{to}` after `{from}`"))
        .0
}

/// A table with a title row.
fn table(columns: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut out = line(columns.iter().map(|&column| column.to_owned()).collect());
    out += &format!("|{}\n", "---|".repeat(columns.len()));
    rows.into_iter().for_each(|row| out += &line(row));
    out
}

/// Compares the generated table of a page, or writes it.
fn compare_or_write(page: &str, name: &str, table: &str) {
    let (path, text) = (
        format!("docs/reference/{page}"),
        read(&format!("docs/reference/{page}")),
    );
    let mark = format!("<!-- generated: {name} -->\n");
    let (head, rest) = text
        .split_once(&mark)
        .unwrap_or_else(|| panic!("{path} has no `{}`", mark.trim()));
    let (written, tail) = rest
        .split_once("<!-- end -->")
        .unwrap_or_else(|| panic!("{path}: `{name}` does not end"));
    if written != table && std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(
            root().join(&path),
            format!("{head}{mark}{table}<!-- end -->{tail}"),
        )
        .expect("a page");
        return;
    }
    assert_eq!(
        written, table,
        "{path}: `{name}` differs from the code; write it with UPDATE_GOLDEN=1"
    );
}

#[test]
fn generated_tables_match_the_code() {
    check_codes();
    check_variables();
    check_options();
    check_grants();
}

/// `errors.md`: status, code and meaning of each variant of `Code`.
fn check_codes() {
    let text = source_with_line("pub enum Code {");
    let variants = between(&text, "pub enum Code {\n", "\n}\n");
    let names = between(&text, "pub const fn as_str(self)", "\n    }\n");
    let (mut rows, mut doc) = (Vec::new(), String::new());
    for line in variants.lines().map(str::trim) {
        if let Some(more) = line.strip_prefix("/// ") {
            doc = if doc.is_empty() {
                more.to_owned()
            } else {
                format!("{doc} {more}")
            };
        } else if let Some((status, meaning)) = doc
            .split_once(": ")
            .filter(|(status, _)| status.parse::<u16>().is_ok())
        {
            let name = between(
                names,
                &format!("Self::{line} => \"").replace(", =>", " =>"),
                "\"",
            );
            rows.push(vec![
                status.to_owned(),
                format!("`{name}`"),
                meaning.trim_end_matches('.').replace('|', "\\|"),
            ]);
            doc.clear();
        } else {
            doc.clear();
        }
    }
    assert!(rows.len() >= 20, "{rows:?}");
    compare_or_write(
        "errors.md",
        "codes",
        &table(&["Status", "Code", "Meaning"], rows),
    );
}

/// `configuration.md`: the table in the documentation of `Config`.
fn check_variables() {
    let text = source_with_line("pub struct Config {");
    let rows: Vec<Vec<String>> = text
        .lines()
        .filter_map(|line| line.strip_prefix("/// | `LINCHPIN_"))
        .map(|row| {
            format!("`LINCHPIN_{}", row.trim_end_matches(" |"))
                .split(" | ")
                .map(str::to_owned)
                .collect()
        })
        .collect();
    let listed: BTreeSet<&str> = rows.iter().map(|row| row[0].trim_matches('`')).collect();
    let config_source = source_with_line("const PREFIX: &str = \"LINCHPIN_\";");
    let read_names: BTreeSet<&str> = config_source
        .split('"')
        .filter(|word| word.starts_with("LINCHPIN_") && word.len() > "LINCHPIN_".len())
        .collect();
    let read_names: BTreeSet<&str> = read_names
        .into_iter()
        .filter(|word| word.bytes().all(|b| b.is_ascii_uppercase() || b == b'_'))
        .collect();
    assert!(
        read_names.is_subset(&listed),
        "variables that the documentation of `Config` lacks: {:?}",
        read_names.difference(&listed)
    );
    compare_or_write(
        "configuration.md",
        "variables",
        &table(&["Variable", "Meaning", "Default"], rows),
    );
}

/// `declarations.md`: the options that editors complete; a test of the macros compares them with
/// the options that the macros read.
fn check_options() {
    let text = source_with_line("/// Options of `#[entity(..)]`.");
    for (module, title) in [("entity", "entity options"), ("field", "field options")] {
        let names = between(
            &text,
            &format!("pub mod {module} {{\n    names! {{\n"),
            "\n    }\n",
        );
        let (mut rows, mut doc) = (Vec::new(), String::new());
        for line in names.lines().map(str::trim) {
            match line.strip_prefix("/// ") {
                Some(text) => doc = text.replace('|', "\\|"),
                None => rows.push(vec![format!("`{line}`"), std::mem::take(&mut doc)]),
            }
        }
        assert!(rows.len() >= 20, "{rows:?}");
        compare_or_write(
            "declarations.md",
            title,
            &table(&["Option", "Written as, or meaning"], rows),
        );
    }
    let kinds = between(&text, "options! {\n", "\n}\n");
    let rows: Vec<Vec<String>> = kinds
        .lines()
        .filter_map(|line| line.trim().split_once(" { kind "))
        .map(|(kind, options)| (kind, options.trim_end_matches('}').trim()))
        .filter(|(kind, _)| *kind != "operation")
        .map(|(kind, options)| {
            let names = options.split_whitespace();
            let names: Vec<_> = names.map(|option| format!("`{option}`")).collect();
            let names = if names.is_empty() {
                "none".to_owned()
            } else {
                names.join(", ")
            };
            vec![format!("`{kind}`"), names]
        })
        .collect();
    assert!(rows.len() >= 15, "{rows:?}");
    compare_or_write(
        "declarations.md",
        "kinds",
        &table(
            &["Kind", "Options, besides `kind`, `route` and `unscoped`"],
            rows,
        ),
    );
}

/// `stores.md`: every capability, the kinds that need it, and the stores that grant it.
fn check_grants() {
    let rows = store::CAPABILITIES.into_iter().map(|capability| {
        let kinds = kind::KINDS
            .iter()
            .filter(|kind| kind.capability == capability)
            .map(|kind| format!("`{}`", kind.name));
        let stores = store::granting(capability)
            .filter(|store| store.available)
            .map(|store| store.name);
        vec![
            format!("`{capability}`"),
            kinds.collect::<Vec<_>>().join(", "),
            stores.collect::<Vec<_>>().join(", "),
        ]
    });
    compare_or_write(
        "stores.md",
        "grants",
        &table(
            &["Capability", "Kinds that need it", "Stores that grant it"],
            rows,
        ),
    );
}

/// Every code in a page occurs as a string in the sources.
#[test]
fn codes_in_details_exist() {
    let code: String = sources()
        .iter()
        .map(|path| std::fs::read_to_string(path).expect("a source"))
        .collect();
    let exists =
        |name: &str| code.contains(&format!("\"{name}\"")) || code.contains(&format!("{name}:"));
    let errors = read("docs/reference/errors.md");
    let rows = errors
        .split_once("## Codes in `details`")
        .expect("a section")
        .1
        .lines()
        .filter(|line| line.starts_with("| `"));
    let mut checked = 0;
    for row in rows {
        for name in row
            .split(" | ")
            .next()
            .unwrap_or_default()
            .split('`')
            .skip(1)
            .step_by(2)
        {
            assert!(exists(name), "`{name}` is not in the code");
            checked += 1;
        }
    }
    assert!(checked >= 25, "{checked}");
}
