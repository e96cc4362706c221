//! The server that the tests of the store on `PostgreSQL` start.

use std::path::Path;

/// Says in a sentence, before anything is built, that the tests of one store are going to fail.
pub(crate) fn installed() -> Result<(), String> {
    if std::env::var_os("LINCHPIN_TEST_POSTGRES").is_some() {
        return Ok(());
    }
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten().map(|entry| entry.path().join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = debian.chain(std::env::split_paths(&path)).any(|folder| Path::join(&folder, "initdb").exists());
    if found {
        return Ok(());
    }
    Err("PostgreSQL is not installed, and its store cannot be tested: `apt-get install postgresql`, or name a server in LINCHPIN_TEST_POSTGRES".to_owned())
}
