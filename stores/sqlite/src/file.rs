//! The database file: checks before it is used, and checks that it still exists.
//!
//! The file is checked by its name only. Opening and closing it outside of SQLite would release the
//! POSIX locks of all connections of this process.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::{BUSY_TIMEOUT, Durability, reader};
use linchpin_core::{Error, Result};

/// The free space that the store needs to be ready, in bytes (256 KiB).
const MIN_FREE_BYTES: usize = 256 << 10;

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
/// If the file cannot be used as a database. The message is one sentence with the name of the file.
pub(super) fn open(path: &Path, durability: Durability) -> Result<Connection> {
    // SQLite does not read these names as file names.
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
            "it is not a SQLite database, or it has a newer format",
        ),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            refused(path, "another process has locked it")
        }
        Some(ErrorCode::ReadOnly) => refused(
            path,
            "it is read-only, or it has a newer format that this version can only read",
        ),
        _ => refused(path, error),
    })
}

/// Creates a missing file that only its owner can access, because it contains private data. SQLite
/// gives the same mode to its log files.
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
    connection.busy_timeout(BUSY_TIMEOUT)?;
    // SQLite reads the file only at the first statement.
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
    /// The device of the file, and its inode number.
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
    /// removes it immediately.
    ///
    /// # Errors
    /// If the disk is full, the quota is used up, or the disk is read-only. The error is a
    /// sentence. Other failures with that file do not affect the database and are ignored.
    pub(super) fn check_free_space(&self) -> std::result::Result<(), String> {
        use std::io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
        let mut probe_file = self.path.clone().into_os_string();
        probe_file.push("-room");
        // The bytes are not zero, because some file systems store zeros without using space.
        let written = std::fs::write(&probe_file, vec![0x5a; MIN_FREE_BYTES]);
        // If the file cannot be removed, the next check overwrites it.
        drop(std::fs::remove_file(&probe_file));
        match written {
            Err(error)
                if matches!(
                    error.kind(),
                    StorageFull | QuotaExceeded | ReadOnlyFilesystem
                ) =>
            {
                Err(format!(
                    "the database {} cannot grow: {error}",
                    self.path.display()
                ))
            }
            _ => Ok(()),
        }
    }
}

/// The device of a file, and its inode number.
#[cfg(unix)]
fn number(path: &Path) -> std::io::Result<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    let found = std::fs::metadata(path)?;
    Ok((found.dev(), found.ino()))
}
