//! Lints of the test build: the compiler of Clippy compiles the members of the workspace, so that
//! lints compile nothing of their own.
//!
//! Warnings are counted in the output and not made errors, so that they keep no test from running.
//! Cargo repeats the warnings of what it does not compile again.

use std::io::{BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Makes a cargo command compile the members of the workspace with Clippy. Commands with the same
/// target folder need the same compiler, or cargo compiles the members again.
///
/// # Errors
/// Clippy is missing.
pub(crate) fn with_lints(command: &mut Command) -> Result<&mut Command, String> {
    // Cargo compiles a crate again if this variable differs from the last time.
    Ok(command
        .env("RUSTC_WORKSPACE_WRAPPER", compiler()?)
        .env("CLIPPY_ARGS", ""))
}

/// The compiler of Clippy.
fn compiler() -> Result<PathBuf, String> {
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

/// Prints what cargo writes to standard error; returns the number of warnings.
pub(crate) fn passed_on(messages: impl Read) -> usize {
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

/// An error if the output of cargo contains warnings.
pub(crate) fn none_in(output: &str) -> Result<(), String> {
    match output.lines().filter(|line| is_warning(line)).count() {
        0 => Ok(()),
        count => Err(format!("{count} warnings")),
    }
}

#[cfg(test)]
mod tests {
    use super::{is_warning, none_in};

    #[test]
    fn a_warning_is_found_with_colors_and_without() {
        assert!(is_warning("warning: unused variable: `a`"));
        assert!(is_warning("\u{1b}[1m\u{1b}[33mwarning\u{1b}[0m: unused"));
        assert!(!is_warning("   Compiling warning v0.1.0"));
        assert!(!is_warning("test a ... warning"));
        assert!(none_in("   Compiling a v0.1.0\nwarning: unused\n").is_err());
        assert!(none_in("   Compiling a v0.1.0\n").is_ok());
    }
}
