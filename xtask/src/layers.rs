//! The direction of dependencies: between the crates of the workspace, and between the modules of a
//! crate.
//! `layers.txt` lists the crates, and the modules of some crates, with the lowest layer first. A
//! crate or a module may use only names on the lines above its own line.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const ORDER: &str = include_str!("../layers.txt");

/// A section of the file: the layer of each name.
type Layers<'a> = BTreeMap<&'a str, usize>;

/// Fails if a dependency does not point to a lower layer, or if a crate or module is not listed.
pub(crate) fn run() -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = Vec::new();
    for (section, layers) in &read(ORDER) {
        let uses = if *section == "crates" {
            crates(&root)?
        } else {
            modules(&root.join(section))?
        };
        found.extend(faults(section, layers, &uses));
    }
    if found.is_empty() {
        println!("xtask: layers: every dependency points to a lower layer");
        Ok(())
    } else {
        Err(format!(
            "layers (the order is in xtask/layers.txt):\n  {}",
            found.join("\n  ")
        ))
    }
}

/// Returns a message for each crate or module that has no line in a section, and for each
/// dependency on a name of the same line or of a later line.
fn faults(
    section: &str,
    layers: &Layers<'_>,
    uses: &BTreeMap<String, BTreeSet<String>>,
) -> Vec<String> {
    let mut found = Vec::new();
    for (from, targets) in uses {
        let Some(own) = layers.get(from.as_str()) else {
            found.push(format!("`{from}` has no line under [{section}]"));
            continue;
        };
        let up = targets
            .iter()
            .filter(|to| layers.get(to.as_str()).is_some_and(|layer| layer >= own));
        found.extend(
            up.map(|to| {
                format!("{section}: {from} depends on {to}, which is not in a lower layer")
            }),
        );
    }
    found
}

/// The sections of the file.
fn read(text: &str) -> Vec<(&str, Layers<'_>)> {
    let mut sections: Vec<(&str, Layers<'_>)> = Vec::new();
    for (at, line) in text
        .lines()
        .map(str::trim)
        .enumerate()
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
    {
        if let Some(name) = line
            .strip_prefix('[')
            .and_then(|line| line.strip_suffix(']'))
        {
            sections.push((name, Layers::new()));
        } else if let Some((_, layers)) = sections.last_mut() {
            layers.extend(line.split_whitespace().map(|name| (name, at)));
        }
    }
    sections
}

/// The folders of the members of the workspace.
pub(crate) fn members(root: &Path) -> Result<Vec<String>, String> {
    let manifest = text(&root.join("Cargo.toml"))?;
    let members = manifest
        .split_once("members = [")
        .and_then(|(_, rest)| rest.split_once(']'))
        .map_or("", |(list, _)| list);
    let members = members
        .split(',')
        .map(|member| member.trim().trim_matches('"').to_owned());
    Ok(members.filter(|member| !member.is_empty()).collect())
}

/// The dependencies of each crate of the workspace, without tests.
fn crates(root: &Path) -> Result<BTreeMap<String, BTreeSet<String>>, String> {
    let mut all = BTreeMap::new();
    for member in members(root)? {
        let manifest = text(&root.join(&member).join("Cargo.toml"))?;
        let (mut name, mut section, mut uses) = (String::new(), "", BTreeSet::new());
        for line in manifest.lines() {
            if line.starts_with('[') {
                section = line.trim_matches(['[', ']']);
            } else if let Some((key, value)) = line.split_once('=') {
                match section {
                    "package" if key.trim() == "name" => {
                        value.trim().trim_matches('"').clone_into(&mut name);
                    }
                    "dependencies" => {
                        uses.insert(key.trim().trim_end_matches(".workspace").to_owned());
                    }
                    _ => {}
                }
            }
        }
        all.insert(name, uses);
    }
    Ok(all)
}

/// The names that each top-level module below a directory uses with `crate::`, or with enough
/// `super::` to reach the root of the crate. Tests are omitted.
fn modules(folder: &Path) -> Result<BTreeMap<String, BTreeSet<String>>, String> {
    let lib = text(&folder.join("lib.rs"))?;
    let homes = re_exports(&lib);
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in sources(folder)? {
        let Some(module) = file
            .strip_prefix(folder)
            .ok()
            .and_then(|path| path.components().next())
        else {
            continue;
        };
        let module = module
            .as_os_str()
            .to_string_lossy()
            .trim_end_matches(".rs")
            .to_owned();
        if module == "lib" {
            continue;
        }
        let to_root = "super::".repeat(depth(&file, folder));
        let source = without_tests(&text(&file)?).replace(&to_root, "crate::");
        let named = named(&source)
            .into_iter()
            .map(|name| homes.get(&name).cloned().unwrap_or(name));
        let uses = all.entry(module.clone()).or_default();
        uses.extend(named.filter(|name| *name != module));
    }
    Ok(all)
}

/// The number of modules from the root of the crate to a file: 1 for `a.rs` and `a/mod.rs`.
fn depth(file: &Path, folder: &Path) -> usize {
    let names = file
        .strip_prefix(folder)
        .map_or(0, |path| path.components().count());
    names - usize::from(names > 1 && file.ends_with("mod.rs"))
}

/// The module that each name of the crate root comes from.
fn re_exports(lib: &str) -> BTreeMap<String, String> {
    let mut homes = BTreeMap::new();
    for statement in lib.split(';') {
        let Some((_, path)) = statement.rsplit_once("use ") else {
            continue;
        };
        let Some((module, names)) = path.split_once("::") else {
            continue;
        };
        // The modules in the path of a name are not names of the crate root.
        for name in names.split([',', '{', '}']) {
            let name = name.rsplit([':', ' ']).next().unwrap_or(name).trim();
            if !name.is_empty() {
                homes.insert(name.to_owned(), module.trim().to_owned());
            }
        }
    }
    homes
}

/// The code of a file before its unit tests, without comments.
fn without_tests(source: &str) -> String {
    let code = source.split("#[cfg(test)]\nmod ").next().unwrap_or(source);
    code.lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect::<Vec<_>>()
        .join("\n")
}

/// The names after `crate::`. Names after `$crate::` in a macro do not count: the code that uses
/// the macro needs them, not the module.
fn named(source: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let source = source.replace("$crate::", "");
    for rest in source.split("crate::").skip(1) {
        let word = |text: &str| {
            text.chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect::<String>()
        };
        match rest.strip_prefix('{') {
            None => drop(names.insert(word(rest))),
            Some(list) => {
                let (mut depth, mut start) = (0_usize, true);
                for (at, c) in list.char_indices() {
                    match c {
                        '}' if depth == 0 => break,
                        '{' => depth += 1,
                        '}' => depth -= 1,
                        ',' if depth == 0 => start = true,
                        c if start && (c.is_alphabetic() || c == '_') => {
                            names.insert(word(&list[at..]));
                            start = false;
                        }
                        _ => {}
                    }
                }
            }
        }
    }
    names
}

/// The source files below a folder that are not tests.
pub(crate) fn sources(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path
            .file_name()
            .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        if name.contains("tests") || name == "fixture.rs" {
            continue;
        }
        if path.is_dir() {
            files.extend(sources(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(files)
}

pub(crate) fn text(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use super::{depth, faults, named, re_exports, read, without_tests};

    #[test]
    fn layers_are_read_in_order() {
        let sections = read("# a comment\n[crates]\na\nb c\n");
        let (name, layers) = &sections[0];
        assert_eq!(
            (*name, layers["b"] == layers["c"], layers["a"] < layers["b"]),
            ("crates", true, true)
        );
        let uses = |from: &str, to: &str| {
            let targets = [to.to_owned()].into_iter().collect();
            faults(name, layers, &BTreeMap::from([(from.to_owned(), targets)]))
        };
        assert!(uses("b", "a").is_empty() && uses("b", "elsewhere").is_empty());
        assert_eq!(
            uses("a", "b"),
            ["crates: a depends on b, which is not in a lower layer"]
        );
        assert_eq!(
            uses("b", "c"),
            ["crates: b depends on c, which is not in a lower layer"]
        );
        assert_eq!(uses("d", "a"), ["`d` has no line under [crates]"]);
    }

    #[test]
    fn the_depth_of_a_file_is_its_number_of_modules() {
        let depth = |path: &str| depth(&Path::new("src").join(path), Path::new("src"));
        assert_eq!(
            ["a.rs", "a/mod.rs", "a/b.rs", "a/b/mod.rs"].map(depth),
            [1, 1, 2, 2]
        );
    }

    #[test]
    fn names_are_found_in_paths_and_in_lists() {
        let source = "use crate::a::B;\nuse crate::{c::{D, E}, F};\nfn g() -> crate::H {}\n// crate::comment\n#[cfg(test)]\nmod tests { use crate::test; }";
        let names = named(&without_tests(source));
        assert_eq!(
            names.iter().map(String::as_str).collect::<Vec<_>>(),
            ["F", "H", "a", "c"]
        );
        let homes =
            re_exports("mod a;\npub use a::{B, C, d::{E, f::G}, H as I};\npub use j::k::L;\n");
        let names: Vec<_> = homes.iter().map(|(n, m)| format!("{m}: {n}")).collect();
        assert_eq!(names, ["a: B", "a: C", "a: E", "a: G", "a: I", "j: L"]);
        assert!(super::named("macro_rules! m { () => { $crate::a::B } }").is_empty());
    }
}
