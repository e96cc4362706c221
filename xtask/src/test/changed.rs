//! The packages and tests that changed files may affect.
//!
//! The answer comes from three sources: the directories of packages, the packages that depend on
//! them (`cargo tree`), and the list of sources that rustc writes next to each binary. A file
//! unknown to all three may affect everything.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::SEARCH;
use super::binaries::{Binary, plain};
use super::toy;
use crate::FEATURES;
use crate::steps::cargo;

/// The directory of packages with tests that read documents.
const READERS: &str = "examples";
/// The package whose expansions are in `snapshots`.
const MACROS: &str = "linchpin-macros";

/// The packages of the workspace by name.
type Packages = BTreeMap<String, Package>;

/// A package.
#[derive(Debug)]
struct Package {
    folder: PathBuf,
    /// The packages that depend on it, directly or through others, and the package itself.
    dependents: BTreeSet<String>,
}

/// The parts that must be checked.
#[derive(Debug)]
pub(crate) struct Affected {
    root: PathBuf,
    packages: Packages,
    /// `None` for everything.
    part: Option<Part>,
}

/// The affected part of the workspace.
#[derive(Debug, Default)]
struct Part {
    /// Packages with changed code, and the packages that depend on them.
    code: BTreeSet<String>,
    /// Packages whose tests read a changed file.
    tests: BTreeSet<String>,
    /// Changed files that may be among the sources of a binary: code, tests and documents.
    sources: BTreeSet<PathBuf>,
    /// Whether documentation of the macros changed, whose examples are compiled.
    examples: bool,
}

impl Affected {
    pub(crate) fn everything() -> Self {
        Self {
            root: root(),
            packages: Packages::new(),
            part: None,
        }
    }

    /// The parts that changed files may affect: files that differ from the merge base of `base` and
    /// `HEAD`, and untracked files. If `base` is empty, the base is the first of `origin/main`,
    /// `main` and `HEAD` that exists.
    pub(crate) fn since(base: &str) -> Result<Self, String> {
        let root = root();
        let packages = packages()?;
        let part = classify(&root, &packages, &changes(&root, base)?);
        Ok(Self {
            root,
            packages,
            part,
        })
    }

    /// Whether the code of a package has to be checked.
    pub(crate) fn has(&self, package: &str) -> bool {
        self.part
            .as_ref()
            .is_none_or(|part| part.code.contains(package) || part.tests.contains(package))
    }

    /// Whether examples in documentation comments can have broken.
    pub(crate) fn has_examples(&self) -> bool {
        self.part
            .as_ref()
            .is_none_or(|part| part.examples || !part.code.is_empty())
    }

    /// Whether there is nothing to check.
    pub(crate) fn is_nothing(&self) -> bool {
        self.part.as_ref().is_some_and(|part| {
            part.code.is_empty() && part.tests.is_empty() && part.sources.is_empty()
        })
    }

    /// The files of the test binaries that must run.
    pub(crate) fn tests_to_run(&self, built: &[Binary]) -> BTreeSet<PathBuf> {
        let tests = || built.iter().filter(|binary| binary.is_test);
        let Some(part) = &self.part else {
            return tests().map(|binary| binary.file.clone()).collect();
        };
        let touched = |binary: &Binary| !binary.sources(&self.root).is_disjoint(&part.sources);
        // A library may be compiled from a file of another package's tests.
        let is_member = |binary: &&Binary| {
            self.packages
                .values()
                .any(|package| package.folder == binary.folder)
        };
        let libraries = built
            .iter()
            .filter(|binary| !binary.is_test)
            .filter(is_member)
            .filter(|binary| touched(binary));
        let dependents: BTreeSet<&String> = libraries
            .flat_map(|binary| self.dependents_of(&binary.folder))
            .collect();
        let runs = |binary: &&Binary| {
            let name = self
                .packages
                .iter()
                .find(|(_, package)| package.folder == binary.folder)
                .map(|(name, _)| name);
            name.is_none_or(|name| {
                part.code.contains(name) || part.tests.contains(name) || dependents.contains(name)
            }) || touched(binary)
        };
        tests()
            .filter(runs)
            .map(|binary| binary.file.clone())
            .collect()
    }

    fn dependents_of(&self, folder: &Path) -> impl Iterator<Item = &String> {
        self.packages
            .values()
            .filter(move |package| package.folder == folder)
            .flat_map(|package| &package.dependents)
    }
}

impl fmt::Display for Affected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(part) = &self.part else {
            return f.write_str("everything is checked");
        };
        let list = |names: &BTreeSet<String>| {
            names
                .iter()
                .map(String::as_str)
                .collect::<Vec<_>>()
                .join(", ")
        };
        write!(f, "code that the changes affect: [{}]; ", list(&part.code))?;
        write!(
            f,
            "tests that read changed files: [{}]; {} changed source files of tests",
            list(&part.tests),
            part.sources.len()
        )
    }
}

/// The parts that these files, relative to the root, may affect; `None` for everything.
fn classify(root: &Path, packages: &Packages, changes: &[PathBuf]) -> Option<Part> {
    let mut part = Part::default();
    for file in changes {
        let path = plain(&root.join(file));
        let is_markdown = file.extension().is_some_and(|extension| extension == "md");
        let owner = packages
            .iter()
            .filter(|(_, package)| path.starts_with(&package.folder))
            .max_by_key(|(_, p)| p.folder.as_os_str().len());
        if is_markdown {
            let reads = |package: &&Package| package.folder.starts_with(root.join(READERS));
            let readers = packages
                .iter()
                .filter(|(_, package)| reads(package))
                .map(|(name, _)| name.clone());
            part.examples |= owner.is_some_and(|(name, _)| name == MACROS);
            part.tests
                .extend(readers.chain(owner.map(|(name, _)| name.clone())));
            // A document may be the documentation of a crate.
            part.sources.insert(path);
            continue;
        }
        match owner {
            Some((name, package)) if path.starts_with(package.folder.join("tests")) => {
                if path.exists() && path.extension().is_some_and(|extension| extension == "rs") {
                    part.sources.insert(path);
                    // The cases of a compile-fail test are not sources of a binary, and the search
                    // provider is compiled separately.
                    if package.folder.ends_with("ui-tests") || name == SEARCH {
                        part.tests.insert(name.clone());
                    }
                } else {
                    part.tests.insert(name.clone());
                }
            }
            Some((_, package)) => {
                part.sources.insert(path);
                part.code.extend(package.dependents.iter().cloned());
            }
            None if file.starts_with(toy::FOLDER) => drop(part.tests.insert(toy::NAME.to_owned())),
            None if file.starts_with("snapshots") => drop(part.tests.insert(MACROS.to_owned())),
            None if file.to_string_lossy().starts_with("LICENSE")
                || file.ends_with(".gitignore") => {}
            None => return None,
        }
    }
    Some(part)
}

fn root() -> PathBuf {
    plain(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
}

/// The files that differ, relative to the root, including deleted and untracked files.
fn changes(root: &Path, base: &str) -> Result<Vec<PathBuf>, String> {
    let git = |args: &[&str]| {
        let out = Command::new("git")
            .arg("-C")
            .arg(root)
            .args(args)
            .output()
            .map_err(|e| format!("git: {e}"))?;
        let stdout = String::from_utf8_lossy(&out.stdout).into_owned();
        if out.status.success() {
            Ok(stdout)
        } else {
            Err(String::from_utf8_lossy(&out.stderr).trim().to_owned())
        }
    };
    let exists = |name: &&str| git(&["rev-parse", "--verify", "--quiet", name]).is_ok();
    let base = if base.is_empty() {
        ["origin/main", "main", "HEAD"]
            .into_iter()
            .find(exists)
            .unwrap_or("HEAD")
    } else {
        base
    };
    let left = git(&["merge-base", base, "HEAD"])?;
    let differ = git(&["diff", "--name-only", "--no-renames", left.trim()])?;
    let unknown = git(&["ls-files", "--others", "--exclude-standard"])?;
    Ok(differ
        .lines()
        .chain(unknown.lines())
        .map(PathBuf::from)
        .collect())
}

/// The packages of the workspace, each with the packages that depend on it.
fn packages() -> Result<Packages, String> {
    let tree = |more: &[&str]| {
        let mut command = cargo(&["tree", "--workspace", "--prefix", "none", "--format", "{p}"]);
        let out = command
            .args(FEATURES)
            .args(more)
            .output()
            .map_err(|e| format!("cargo tree: {e}"))?;
        let stdout = String::from_utf8_lossy(&out.stdout).into_owned();
        if out.status.success() {
            Ok(stdout)
        } else {
            Err(String::from_utf8_lossy(&out.stderr).trim().to_owned())
        }
    };
    let mut packages = Packages::new();
    for (name, folder) in tree(&["--depth", "0"])?.lines().filter_map(member) {
        let dependents = tree(&["--invert", &name, "--edges", "normal,build,dev"])?;
        let dependents = dependents
            .lines()
            .filter_map(member)
            .map(|(name, _)| name)
            .collect();
        packages.insert(name, Package { folder, dependents });
    }
    Ok(packages)
}

/// The name and directory in `linchpin-macros v0.1.0 (proc-macro) (/folder)`.
fn member(line: &str) -> Option<(String, PathBuf)> {
    let folder = line.split_once("(/")?.1.split(')').next()?;
    Some((
        line.split(' ').next()?.to_owned(),
        PathBuf::from(format!("/{folder}")),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace() -> Packages {
        let package = |folder: &str, dependents: &[&str]| Package {
            folder: Path::new("/w").join(folder),
            dependents: dependents.iter().map(|name| (*name).to_owned()).collect(),
        };
        [
            (
                "linchpin-macros",
                package(
                    "macros",
                    &["linchpin-macros", "linchpin", "tasks", "ui-tests"],
                ),
            ),
            (
                "linchpin",
                package("runtime", &["linchpin", "tasks", "ui-tests"]),
            ),
            ("tasks", package("examples/tasks", &["tasks"])),
            ("ui-tests", package("ui-tests", &["ui-tests"])),
        ]
        .into_iter()
        .map(|(name, package)| (name.to_owned(), package))
        .collect()
    }

    fn classified(changes: &[&str]) -> Option<(Vec<String>, Vec<String>)> {
        let changes: Vec<PathBuf> = changes.iter().map(PathBuf::from).collect();
        let part = classify(Path::new("/w"), &workspace(), &changes)?;
        Some((
            part.code.into_iter().collect(),
            part.tests.into_iter().collect(),
        ))
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_changed_source_selects_its_dependents() {
        assert_eq!(
            classified(&["runtime/src/lib.rs"]),
            Some((names(&["linchpin", "tasks", "ui-tests"]), vec![]))
        );
        assert_eq!(
            classified(&["examples/tasks/Cargo.toml"]),
            Some((names(&["tasks"]), vec![]))
        );
    }

    #[test]
    fn a_changed_test_selects_its_package_only() {
        // It is not on disk: a deleted file.
        assert_eq!(
            classified(&["runtime/tests/acceptance/crud.rs"]),
            Some((vec![], names(&["linchpin"])))
        );
        assert_eq!(
            classified(&["ui-tests/tests/fail/a.stderr"]),
            Some((vec![], names(&["ui-tests"])))
        );
    }

    #[test]
    fn documents_and_snapshots_select_the_packages_that_read_them() {
        assert_eq!(
            classified(&["docs/guide.md"]),
            Some((vec![], names(&["tasks"])))
        );
        assert_eq!(
            classified(&["examples/toy-store/src/lib.rs"]),
            Some((vec![], names(&["toy-store"])))
        );
        assert_eq!(
            classified(&["snapshots/entity.snap"]),
            Some((vec![], names(&["linchpin-macros"])))
        );
    }

    #[test]
    fn documentation_of_the_macros_has_examples() {
        let examples = |file: &str| {
            let changes = [PathBuf::from(file)];
            classify(Path::new("/w"), &workspace(), &changes).is_some_and(|part| part.examples)
        };
        assert!(examples("macros/docs/entity.md") && !examples("docs/guide.md"));
    }

    #[test]
    fn unknown_files_select_everything() {
        assert_eq!(classified(&["runtime/tests/a.json", "Cargo.lock"]), None);
        assert_eq!(classified(&[".ci/run"]), None);
        assert_eq!(classified(&[]), Some((vec![], vec![])));
        assert_eq!(classified(&["LICENSE-MIT"]), Some((vec![], vec![])));
    }

    #[test]
    fn a_member_is_read_from_a_line_of_the_tree() {
        let read = member("linchpin-macros v0.1.0 (proc-macro) (/w/macros) (*)");
        assert_eq!(
            read,
            Some(("linchpin-macros".to_owned(), PathBuf::from("/w/macros")))
        );
        assert_eq!(member("serde v1.0.0"), None);
    }
}
