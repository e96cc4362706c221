//! Lints of the test build: `clippy-driver`, the compiler with Clippy's lints, compiles the members
//! of the workspace, so that lints need no separate compilation.
//!
//! Warnings are counted in the output and are not errors, so that the tests run in spite of them.
//! Cargo repeats the warnings of crates that it does not compile again.

use std::io::{BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Makes a cargo command compile the members of the workspace with Clippy. Commands with the same
/// target folder need the same compiler, or cargo compiles the members again.
///
/// # Errors
/// If Clippy is missing.
pub(crate) fn with_lints(command: &mut Command) -> Result<&mut Command, String> {
    // `clippy-driver` makes cargo compile a crate again if `CLIPPY_ARGS` differs from the last
    // time. So it is always empty, whatever the environment contains.
    Ok(command
        .env("RUSTC_WORKSPACE_WRAPPER", clippy_driver()?)
        .env("CLIPPY_ARGS", ""))
}

/// The path of `clippy-driver`.
fn clippy_driver() -> Result<PathBuf, String> {
    let printed = Command::new("rustc")
        .args(["--print", "sysroot"])
        .output()
        .map_err(|e| format!("rustc could not be started: {e}"))?;
    let driver =
        Path::new(String::from_utf8_lossy(&printed.stdout).trim()).join("bin/clippy-driver");
    if driver.exists() {
        return Ok(driver);
    }
    Err("Clippy is missing: `rustup component add clippy`".to_owned())
}

/// Whether a line of cargo's output begins a warning, with colors or without.
pub(crate) fn is_warning(line: &str) -> bool {
    let mut rest = line;
    while let Some((_, after)) = rest
        .strip_prefix('\u{1b}')
        .and_then(|sequence| sequence.split_once('m'))
    {
        rest = after;
    }
    rest.starts_with("warning")
}

/// Forwards the messages of cargo to standard error; returns the number of warnings.
pub(crate) fn forward_and_count(messages: impl Read) -> usize {
    BufReader::new(messages)
        .split(b'\n')
        .map_while(Result::ok)
        .map(|line| {
            let line = String::from_utf8_lossy(&line).into_owned();
            eprintln!("{line}");
            usize::from(is_warning(&line))
        })
        .sum()
}

/// Returns an error with the number of warnings, if the output of cargo contains any.
pub(crate) fn refuse_warnings(output: &str) -> Result<(), String> {
    match output.lines().filter(|line| is_warning(line)).count() {
        0 => Ok(()),
        count => Err(format!("{count} warnings")),
    }
}

#[cfg(test)]
mod tests {
    use super::{is_warning, refuse_warnings};

    #[test]
    fn a_warning_is_found_with_colors_and_without() {
        assert!(is_warning("warning: unused variable: `a`"));
        assert!(is_warning("\u{1b}[1m\u{1b}[33mwarning\u{1b}[0m: unused"));
        assert!(!is_warning("   Compiling warning v0.1.0"));
        assert!(!is_warning("test a ... warning"));
        assert!(refuse_warnings("   Compiling a v0.1.0\nwarning: unused\n").is_err());
        assert!(refuse_warnings("   Compiling a v0.1.0\n").is_ok());
    }
}
