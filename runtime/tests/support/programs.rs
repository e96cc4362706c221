//! The programs of `PostgreSQL`, for tests and benchmarks that start their own server.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// The prefix of a command with which root starts a server program, because `PostgreSQL` refuses to
/// run as root.
const AS_NOBODY: &[&str] = &[
    "setpriv",
    "--reuid=nobody",
    "--regid=nogroup",
    "--clear-groups",
];
/// The user of the server.
pub const NOBODY: &str = "nobody:nogroup";

/// The folder of `initdb` and related programs: that of the newest installed Debian package, or a
/// folder of the search path.
pub fn folder() -> Option<PathBuf> {
    let debian = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().join("bin"));
    let has_programs = |folder: &PathBuf| folder.join("initdb").exists();
    let path = std::env::var_os("PATH").unwrap_or_default();
    debian
        .filter(has_programs)
        .max()
        .or_else(|| std::env::split_paths(&path).find(has_programs))
}

/// The connection pooler `PgBouncer`.
pub fn pooler() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Debian installs it in a folder that is not in every user's search path.
    std::env::split_paths(&path)
        .chain([PathBuf::from("/usr/sbin")])
        .map(|folder| folder.join("pgbouncer"))
        .find(|program| program.exists())
}

/// Whether this process runs as root. Folders of the server then need another owner.
pub fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// The prefix of a server program, if one is needed.
pub fn prefix() -> &'static [&'static str] {
    if is_root() { AS_NOBODY } else { &[] }
}
