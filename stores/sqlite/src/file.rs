//! The file of the store: checks before it is used, and checks that it still exists.
//!
//! The file is checked by name only. To open and close it outside of SQLite would release the locks
//! that connections of this process hold on it.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::{BUSY, Durability, reader};
use linchpin_core::{Error, Result};

/// The number of bytes that must fit on the disk for the store to be ready.
const ROOM: usize = 256 << 10;

fn refused(path: &Path, why: impl std::fmt::Display) -> Error {
    Error::unavailable(format!(
        "cannot open the database {}: {why}",
        path.display()
    ))
}

/// Opens the connection for writes. It creates a missing file, and changes nothing in an existing
/// one.
///
/// # Errors
/// If the file cannot serve as a database, in one sentence that names it.
pub(super) fn open(path: &Path, durability: Durability) -> Result<Connection> {
    // SQLite would not treat these names as a file.
    if path.as_os_str().is_empty()
        || path.starts_with(":memory:")
        || path.as_os_str().as_encoded_bytes().starts_with(b"file:")
    {
        return Err(refused(path, "it must be the name of a file"));
    }
    if path.is_dir() {
        return Err(refused(path, "it is a folder"));
    }
    if let Some(folder) = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        && !folder.is_dir()
    {
        return Err(refused(
            path,
            format_args!("there is no folder {}", folder.display()),
        ));
    }
    create(path).map_err(|error| refused(path, error))?;
    connect(path, durability).map_err(|error| match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => refused(
            path,
            "it is not a SQLite database, or one of a newer format",
        ),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            refused(path, "another process has locked it")
        }
        Some(ErrorCode::ReadOnly) => refused(
            path,
            "it is read-only, or of a newer format that may only be read",
        ),
        _ => refused(path, error),
    })
}

/// Creates a missing file, accessible only to its owner, because it contains private data. SQLite
/// gives its other files the same mode.
pub(super) fn create(path: &Path) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

fn connect(path: &Path, durability: Durability) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    // The first access to the file.
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    // SQLite opens a read-only file without an error.
    if connection.is_readonly("main")? {
        return Err(rusqlite::Error::SqliteFailure(
            rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_READONLY),
            None,
        ));
    }
    let synchronous = match durability {
        Durability::Full => "FULL",
        Durability::Normal => "NORMAL",
    };
    connection.pragma_update(None, "synchronous", synchronous)?;
    reader::prepare(&connection)?;
    Ok(connection)
}

/// The identity of the file when it was opened.
#[derive(Debug)]
pub(super) struct Identity {
    path: PathBuf,
    #[cfg(unix)]
    number: (u64, u64),
}

impl Identity {
    pub(super) fn of(path: &Path) -> std::io::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            #[cfg(unix)]
            number: number(path)?,
        })
    }

    /// Checks that the name still refers to the same file: writes to a deleted or replaced file
    /// would be lost.
    pub(super) fn check(&self) -> Result<()> {
        #[cfg(unix)]
        let there = number(&self.path).is_ok_and(|number| number == self.number);
        // On other systems an open file cannot be deleted.
        #[cfg(not(unix))]
        let there = self.path.exists();
        if there {
            return Ok(());
        }
        Err(Error::unavailable(format!(
            "the database {} was deleted or replaced while it was open",
            self.path.display()
        )))
    }

    /// Checks that the disk has room for the next writes: writes a file in the same directory and
    /// removes it at once.
    ///
    /// # Errors
    /// A sentence if the disk is full, the quota is used up, or the disk is read-only. Other
    /// failures with that file do not affect the database and are ignored.
    pub(super) fn room(&self) -> std::result::Result<(), String> {
        use std::io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
        let mut beside = self.path.clone().into_os_string();
        beside.push("-room");
        // Not zeros, because some file systems store them without using space.
        let written = std::fs::write(&beside, vec![0x5a; ROOM]);
        // If it remains, it does no harm: the next check overwrites it.
        drop(std::fs::remove_file(&beside));
        match written {
            Err(error)
                if matches!(
                    error.kind(),
                    StorageFull | QuotaExceeded | ReadOnlyFilesystem
                ) =>
            {
                Err(format!(
                    "no room for the database {}: {error}",
                    self.path.display()
                ))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(unix)]
fn number(path: &Path) -> std::io::Result<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    let found = std::fs::metadata(path)?;
    Ok((found.dev(), found.ino()))
}
