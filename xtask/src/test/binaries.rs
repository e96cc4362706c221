//! The test binaries of the workspace: compiled by one call of cargo, and run as separate steps.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, IsTerminal as _};
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};

use super::{SEARCH, lints};
use crate::steps::{cargo, concurrent_step};
use crate::{FEATURES, processor};

/// The slowest test binaries, slowest first, as `PACKAGE/TARGET`.
const LONGEST: [&str; 14] = [
    "ui-tests/ui",
    "linchpin-auth/acceptance",
    "linchpin/acceptance",
    "linchpin/conformance",
    "linchpin-realtime/engines",
    "tasks/history",
    "linchpin-realtime/sockets",
    "linchpin-auth/crash",
    "linchpin-migrate/crashes",
    "linchpin-postgres/linchpin_postgres",
    "linchpin-sqlite/linchpin_sqlite",
    "linchpin-migrate/engine",
    "linchpin-webhooks/acceptance",
    "quickstart/crash",
];

/// A file that cargo has compiled for the tests.
#[derive(Debug, PartialEq)]
pub(crate) struct Binary {
    /// The directory of its package.
    pub(crate) folder: PathBuf,
    /// The name of its target.
    pub(crate) target: String,
    /// The compiled file: a program, or a library.
    pub(crate) file: PathBuf,
    /// Whether it runs tests.
    pub(crate) is_test: bool,
}

/// Compiles the tests of the workspace, with lints; returns the compiled files and the number of
/// warnings. It omits only the search provider and the packages in `without`. `--changed` does not
/// omit more, because another selection enables other features and recompiles the dependencies.
pub(crate) fn build(without: &[&str]) -> Result<(Vec<Binary>, usize), String> {
    let mut command = cargo(&[
        "test",
        "--workspace",
        "--exclude",
        SEARCH,
        "--all-targets",
        "--no-run",
    ]);
    command
        .args(FEATURES)
        .arg("--message-format=json-render-diagnostics")
        .env_remove("RUSTFLAGS");
    lints::with_lints(&mut command)?;
    for package in without {
        command.args(["--exclude", package]);
    }
    if std::io::stderr().is_terminal() {
        command.args(["--color", "always"]);
    }
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| format!("cargo could not be started: {e}"))?;
    let messages = child.stderr.take();
    let warnings = std::thread::spawn(move || messages.map_or(0, lints::forward_and_count));
    let lines = child
        .stdout
        .take()
        .into_iter()
        .flat_map(|out| BufReader::new(out).lines());
    let (mut built, mut artifacts) = (Vec::new(), 0_usize);
    for line in lines {
        let line = line.map_err(|e| format!("the messages of cargo cannot be read: {e}"))?;
        artifacts += usize::from(line.starts_with(r#"{"reason":"compiler-artifact""#));
        built.extend(Binary::read(&line));
    }
    let status = processor::wait(&mut child).map_err(|e| e.to_string())?;
    let warnings = warnings
        .join()
        .map_err(|_| "the messages of cargo cannot be read".to_owned())?;
    if !status.success() {
        return Err(format!("the tests do not compile ({status})"));
    }
    // If cargo changes the format of its output, the step must fail, not pass without tests.
    let tests = built.iter().filter(|binary| binary.is_test).count();
    println!("xtask: {tests} test binaries");
    if tests == 0 || built.len() < artifacts {
        return Err(format!(
            "cargo lists {artifacts} artifacts; xtask recognized {} of them, and {tests} are tests: adapt `Binary::read` to the format of cargo",
            built.len()
        ));
    }
    Ok((built, warnings))
}

impl Binary {
    /// Reads a line of cargo's output about an artifact, including third-party ones, whose sources
    /// are elsewhere.
    fn read(line: &str) -> Option<Self> {
        if !line.starts_with(r#"{"reason":"compiler-artifact""#) {
            return None;
        }
        let folder = Path::new(text(line, r#""manifest_path":""#)?)
            .parent()?
            .to_owned();
        // In the line, the target's name is after its types and before its source.
        let target = text(line, r#""name":""#)?.to_owned();
        let is_test = line
            .split_once(r#""profile":{"#)?
            .1
            .split('}')
            .next()?
            .contains(r#""test":true"#);
        let file = text(line, r#""executable":""#).or_else(|| text(line, r#""filenames":[""#))?;
        Some(Self {
            folder,
            target,
            file: PathBuf::from(file),
            is_test: is_test && line.contains(r#""executable":""#),
        })
    }

    /// Runs its tests like cargo: in the directory of the package. A changed snapshot is a failure,
    /// never an update.
    pub(crate) fn run(&self) -> Result<(), String> {
        let package = self
            .folder
            .file_name()
            .unwrap_or_default()
            .to_string_lossy();
        let mut command = Command::new(&self.file);
        command
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder)
            .env("CARGO_PKG_NAME", self.package());
        command
            .env("INSTA_UPDATE", "no")
            .env("CI", "true")
            .env_remove("RUSTFLAGS");
        concurrent_step(&format!("test {package}: {}", self.target), command)
    }

    /// Its position in the order: the slowest binaries come first, so that the last ones are short.
    pub(crate) fn rank(&self) -> usize {
        let name = format!("{}/{}", self.package(), self.target);
        let place = LONGEST.iter().position(|longest| *longest == name);
        place.unwrap_or(LONGEST.len())
    }

    /// Whether its tests compare durations of requests: nothing else may run at the same time.
    pub(crate) fn measures_time(&self) -> bool {
        self.target == "timing"
    }

    /// The name of its package in its manifest.
    fn package(&self) -> String {
        let manifest = std::fs::read_to_string(self.folder.join("Cargo.toml")).unwrap_or_default();
        text(&manifest, "\nname = \"")
            .unwrap_or_default()
            .to_owned()
    }

    /// The source files that it was compiled from, as listed by rustc in a file next to it.
    pub(crate) fn sources(&self, root: &Path) -> BTreeSet<PathBuf> {
        let name = self.file.file_stem().unwrap_or_default().to_string_lossy();
        let name = if self.file.extension().is_some() {
            name.trim_start_matches("lib")
        } else {
            &name
        };
        let list = std::fs::read_to_string(self.file.with_file_name(format!("{name}.d")))
            .unwrap_or_default();
        let first = list
            .lines()
            .next()
            .and_then(|line| line.split_once(": "))
            .map_or("", |(_, files)| files);
        first
            .split(' ')
            .map(|file| plain(&root.join(file)))
            .collect()
    }
}

/// The text between a prefix and the next quotation mark.
fn text<'a>(line: &'a str, begins: &str) -> Option<&'a str> {
    line.split_once(begins)?.1.split('"').next()
}

/// A path without `.` and `..`.
pub(crate) fn plain(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(out.pop()),
            Component::CurDir => {}
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARTIFACT: &str = r#"{"reason":"compiler-artifact","package_id":"path+file:///w/runtime#linchpin@0.1.0","manifest_path":"/w/runtime/Cargo.toml","target":{"kind":["test"],"crate_types":["bin"],"name":"acceptance","src_path":"/w/runtime/tests/acceptance/main.rs","edition":"2024","doc":false,"doctest":false,"test":true},"profile":{"opt_level":"0","debuginfo":1,"debug_assertions":true,"overflow_checks":true,"test":true},"features":["default"],"filenames":["/t/debug/deps/acceptance-01"],"executable":"/t/debug/deps/acceptance-01","fresh":true}"#;

    #[test]
    fn a_test_binary_is_read_from_the_output_of_cargo() {
        let read = Binary::read(ARTIFACT).unwrap();
        let (folder, file) = ("/w/runtime".into(), "/t/debug/deps/acceptance-01".into());
        assert_eq!(
            read,
            Binary {
                folder,
                target: "acceptance".to_owned(),
                file,
                is_test: true
            }
        );
        assert_eq!(
            Binary::read(r#"{"reason":"build-finished","success":true}"#),
            None
        );
    }

    #[test]
    fn a_library_artifact_is_not_a_test() {
        let library = ARTIFACT
            .replace(
                r#""executable":"/t/debug/deps/acceptance-01""#,
                r#""executable":null"#,
            )
            .replace(r#"true,"test":true}"#, r#"true,"test":false}"#);
        assert!(!Binary::read(&library).unwrap().is_test);
    }

    #[test]
    fn paths_are_normalised() {
        assert_eq!(
            plain(Path::new("/w/a/tests/../../b/./c.rs")),
            Path::new("/w/b/c.rs")
        );
    }
}
