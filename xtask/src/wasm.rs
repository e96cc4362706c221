//! The check that `linchpin-core` compiles for browsers.
//!
//! A toolchain with the target `wasm32-unknown-unknown` is used as it is. Without the target,
//! Debian's own compiler checks core, and compiles the standard library from source for it.

use std::path::Path;
use std::process::Command;

use crate::peers::apt;
use crate::steps::{cargo, concurrent_step, target};

const TARGET: &str = "wasm32-unknown-unknown";

/// Debian's compiler, its cargo and the sources of its standard library: files of the packages
/// below.
const RUSTC: &str = "/usr/bin/rustc";
const CARGO: &str = "/usr/bin/cargo";
const SOURCES: &str = "/usr/lib/rustlib/src/rust/library/Cargo.lock";

/// Debian packages that contain them. They conflict with other Debian packages of Rust; the option
/// keeps those.
const PACKAGES: [&str; 4] = ["--no-remove", "rustc-web", "cargo-web", "rust-web-src"];

/// Installs Debian's compiler if neither the target nor that compiler is installed.
///
/// # Errors
/// If the compiler cannot be installed. The message names both ways to install one.
pub(crate) fn install() -> Result<(), String> {
    let packages = PACKAGES.join(" ");
    if has_target() || has_debian() {
        return Ok(());
    }
    eprintln!(
        "xtask: the target {TARGET} is not installed; installing it with `apt-get install {packages}`"
    );
    if apt(&PACKAGES) && has_debian() {
        return Ok(());
    }
    Err(format!(
        "linchpin-core cannot be checked for wasm32: `rustup target add {TARGET}`, or on Debian `apt-get install {packages}`"
    ))
}

/// Checks core as a step, in a separate target folder, because Debian's compiler has another
/// version than the toolchain.
///
/// # Errors
/// If core does not compile, or if there is no compiler for the target.
pub(crate) fn check() -> Result<(), String> {
    let arguments = ["check", "-p", "linchpin-core", "--target", TARGET];
    let mut command = if has_target() {
        cargo(&arguments)
    } else {
        let mut debian = Command::new(CARGO);
        // Building the standard library is an unstable option, which a stable compiler accepts with
        // this variable.
        debian
            .args(arguments)
            .arg("-Zbuild-std=std,panic_abort")
            .env("RUSTC", RUSTC)
            .env("RUSTC_BOOTSTRAP", "1");
        debian
    };
    concurrent_step(
        "core for wasm32",
        command.env("CARGO_TARGET_DIR", target().join("wasm")),
    )
}

/// Whether the toolchain has the standard library for the target. With rustup: whether
/// `rustup target list --installed` shows it.
fn has_target() -> bool {
    let printed = Command::new("rustc")
        .args(["--print", "target-libdir", "--target", TARGET])
        .output();
    printed.is_ok_and(|out| {
        out.status.success() && Path::new(String::from_utf8_lossy(&out.stdout).trim()).exists()
    })
}

fn has_debian() -> bool {
    [RUSTC, CARGO, SOURCES]
        .iter()
        .all(|file| Path::new(file).exists())
}
