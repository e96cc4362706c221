//! The identity of a database file.

use std::fs::Metadata;
use std::path::{Path, PathBuf};

use linchpin_core::schema::Locator;
use sha2::{Digest, Sha256};

use super::fault::{self, Outcome};

/// Returns the canonical path of a file. Its folder must exist, but not the file.
pub(super) fn canonical(path: &Path) -> Outcome<PathBuf> {
    if let Ok(canonical) = path.canonicalize() {
        return Ok(canonical);
    }
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let canonical = folder.canonicalize().map_err(|error| {
        let folder = folder.display();
        fault::of_file(&error, format_args!("there is no folder {folder}"))
    })?;
    Ok(canonical.join(path.file_name().unwrap_or_default()))
}

/// Returns the digest of the canonical path, and the device and inode number of the file (or its
/// creation time) if it exists.
pub(super) fn locator(path: &Path) -> Outcome<Locator> {
    let canonical = canonical(path)?;
    let digest = Sha256::digest(canonical.as_os_str().as_encoded_bytes());
    let mut locator = Locator::from([("path".to_owned(), hex(&digest))]);
    if let Ok(found) = std::fs::metadata(path) {
        locator.insert("file".to_owned(), number(&found));
    }
    Ok(locator)
}

/// Renders bytes as hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut hex, byte| {
        // Writing to a String cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// Whether both describe the same file.
pub(super) fn same(a: &Metadata, b: &Metadata) -> bool {
    number(a) == number(b)
}

/// The device of a file, and its inode number.
#[cfg(unix)]
fn number(found: &Metadata) -> String {
    use std::os::unix::fs::MetadataExt;
    format!("{}:{}", found.dev(), found.ino())
}

/// On this system a file has no inode number, so its creation time is used.
#[cfg(not(unix))]
fn number(found: &Metadata) -> String {
    let created = found.created().ok();
    let since = created.and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
    since.unwrap_or_default().as_nanos().to_string()
}
