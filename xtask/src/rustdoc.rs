//! `rustdoc` for `cargo test --doc`: it checks the links of a crate, then runs its examples.
//!
//! `cargo doc` would compile all dependencies once more, because it cannot use the compiled
//! dependencies of the tests. So cargo calls this program in place of `rustdoc`. Cargo passes
//! arguments for the examples, and these also suffice to check the links.

use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus};

/// The variable that makes this program act as `rustdoc`. Its value is the real `rustdoc` that this
/// program runs.
const AS_RUSTDOC: &str = "XTASK_AS_RUSTDOC";

/// The options for running examples, each with a value. They are removed from the arguments when
/// the links are checked.
const EXAMPLE_OPTIONS: [&str; 3] = ["--test-args", "--test-run-directory", "--test-runtool"];

/// Makes a cargo command call this program in place of `rustdoc`.
///
/// # Errors
/// The path of this program is unknown.
pub(crate) fn with_links(command: &mut Command) -> Result<&mut Command, String> {
    let this = std::env::current_exe()
        .map_err(|e| format!("the path of the program xtask is unknown: {e}"))?;
    let real = std::env::var_os("RUSTDOC").unwrap_or_else(|| "rustdoc".into());
    Ok(command.env("RUSTDOC", this).env(AS_RUSTDOC, real))
}

/// Acts as `rustdoc` in a command that [`with_links`] has prepared.
pub(crate) fn run(args: &[String]) -> Option<ExitCode> {
    let real = std::env::var_os(AS_RUSTDOC)?;
    let call = |args: &[String]| {
        let ended = Command::new(&real)
            .args(args)
            .env_remove(AS_RUSTDOC)
            .status();
        ended
            .inspect_err(|e| eprintln!("xtask: {} could not be started: {e}", real.display()))
            .is_ok_and(|status: ExitStatus| status.success())
    };
    let folder = std::env::temp_dir().join(format!("xtask-rustdoc-{}", std::process::id()));
    let links = arguments_for_links(args, &folder).is_none_or(|args| call(&args));
    // The folder is missing if the call was not for the examples of a crate.
    let _ = std::fs::remove_dir_all(&folder);
    let examples = call(args);
    Some(if links && examples {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Converts the arguments that run the examples of a crate to arguments that write its pages into a
/// folder, with warnings as errors. `None` for another call, such as one for the version.
fn arguments_for_links(args: &[String], folder: &Path) -> Option<Vec<String>> {
    if !args.iter().any(|arg| arg == "--test") {
        return None;
    }
    let mut out = Vec::new();
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        if EXAMPLE_OPTIONS.contains(&arg.as_str()) {
            rest.next();
        } else if arg != "--test" {
            out.push(arg.clone());
        }
    }
    let pages = ["-D", "warnings", "--out-dir"].map(str::to_owned);
    out.extend(pages);
    out.push(folder.display().to_string());
    Some(out)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::arguments_for_links;

    #[test]
    fn the_arguments_for_links_are_those_of_the_examples_without_the_run() {
        let args = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let examples = "--edition=2024 --crate-name a --test a.rs --test-run-directory /w/a -L b";
        assert_eq!(
            arguments_for_links(&args(examples), Path::new("/t")),
            Some(args(
                "--edition=2024 --crate-name a a.rs -L b -D warnings --out-dir /t"
            ))
        );
        assert_eq!(arguments_for_links(&args("-vV"), Path::new("/t")), None);
    }
}
