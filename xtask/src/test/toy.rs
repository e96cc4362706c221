//! `examples/toy-store`: a store in a package outside of the workspace, like a third-party store.

use std::path::PathBuf;
use std::process::Command;

use crate::steps::{cargo, concurrent_step, target, with_low_priority};

/// The name of the package.
pub(crate) const NAME: &str = "toy-store";
/// Its folder.
pub(crate) const FOLDER: &str = "examples/toy-store";

fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn in_folder(arguments: &[&str]) -> Command {
    let mut command = cargo(arguments);
    command.current_dir(root().join(FOLDER));
    command
}

pub(crate) fn format() -> Command {
    in_folder(&["fmt", "--check"])
}

/// Runs its tests. They compile into the target folder of the workspace, with the versions of its
/// `Cargo.lock`, so they share its compiled dependencies.
///
/// # Errors
/// If a test fails, or if the lock file cannot be copied.
pub(crate) fn check() -> Result<(), String> {
    let lock = |folder: PathBuf| folder.join("Cargo.lock");
    std::fs::copy(lock(root()), lock(root().join(FOLDER)))
        .map_err(|e| format!("the lock file of {FOLDER} cannot be written: {e}"))?;
    let target = std::path::absolute(target()).map_err(|e| e.to_string())?;
    let mut tests = in_folder(&["test", "--no-fail-fast"]);
    tests
        .env("CARGO_TARGET_DIR", target)
        .env_remove("RUSTFLAGS");
    concurrent_step("a store in a separate crate", with_low_priority(&tests))
}
