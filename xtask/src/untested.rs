//! Targets whose manifest says `test = false`, so that they are compiled once and not twice: their
//! sources must contain no test, because nothing would run it.

use std::path::Path;

use crate::layers;

/// Fails if a package with such a target has a test in `src`.
pub(crate) fn run() -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = Vec::new();
    for member in layers::members(&root)? {
        let folder = root.join(member);
        let manifest = folder.join("Cargo.toml");
        let manifest = layers::text(&manifest)?;
        if manifest.lines().any(|line| line.trim() == "test = false") {
            tests(&folder.join("src"), &mut found)?;
        }
    }
    if found.is_empty() {
        return Ok(());
    }
    Err(format!(
        "these files contain tests that never run, because a manifest says `test = false`: {}",
        found.join(", ")
    ))
}

/// Collects the files below a directory that contain tests.
fn tests(folder: &Path, found: &mut Vec<String>) -> Result<(), String> {
    for file in layers::sources(folder)? {
        if has_test(&layers::text(&file)?) {
            found.push(file.display().to_string());
        }
    }
    Ok(())
}

fn has_test(text: &str) -> bool {
    text.lines().map(str::trim_start).any(|line| {
        line.starts_with("#[test]")
            || line.starts_with("#[tokio::test")
            || line.starts_with("#[cfg(test)]")
    })
}

#[cfg(test)]
mod tests {
    use super::has_test;

    #[test]
    fn each_form_of_a_test_is_found() {
        for text in [
            "fn a() {}\n    #[test]\nfn b() {}",
            "#[tokio::test(start_paused = true)]",
            "#[cfg(test)]\nmod tests;",
        ] {
            assert!(has_test(text), "{text}");
        }
        assert!(!has_test("// #[test] in a comment\nfn test() {}"));
    }
}
