//! Connections for schema changes.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use rusqlite::config::DbConfig;
use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, OpenFlags};

use linchpin_core::schema::{SchemaError, SchemaFault};

use super::dialect::RENAME_CHECKS;
use super::digest::{self, Digest};
use super::fault::{self, Outcome};
use super::sql;
use crate::file;

/// A connection that only reads.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) connection: Connection,
    /// The state of a file that is read without a lock, from before the read.
    unlocked: Option<Files>,
}

impl Reading {
    /// Opens the file for reads. `shared`: a store of this process uses the file.
    ///
    /// A file that no process uses is read without locks, because with locks SQLite would create
    /// the files of its write-ahead log. A missing file is an empty database.
    pub(super) fn open(path: &Path, shared: bool, busy: Duration) -> Outcome<Self> {
        let files = Files::of(path);
        if !shared && files.length.is_none() {
            let connection = Connection::open_in_memory().map_err(fault::of)?;
            let prepared = prepare(&connection, busy).map_err(fault::of);
            return prepared.map(|()| Self {
                connection,
                unlocked: None,
            });
        }
        let unlocked = (!shared && !files.log && !files.journal).then_some(files);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = if unlocked.is_some() {
            Connection::open_with_flags(immutable(path), flags | OpenFlags::SQLITE_OPEN_URI)
        } else {
            Connection::open_with_flags(path, flags)
        };
        let connection = connection.map_err(fault::of)?;
        prepare(&connection, busy).map_err(fault::of)?;
        Ok(Self {
            connection,
            unlocked,
        })
    }

    /// Checks that no process has changed the file while it was read without a lock.
    pub(super) fn check(&self, path: &Path) -> Outcome<()> {
        match &self.unlocked {
            Some(before) if *before != Files::of(path) => Err(SchemaError::new(
                SchemaFault::LockTimeout,
                "another process changed the file while it was read",
            )),
            _ => Ok(()),
        }
    }
}

/// The state of a database file and of its log files.
#[derive(Debug, PartialEq)]
struct Files {
    /// `None` if there is no file.
    length: Option<u64>,
    /// The time of the last change.
    changed: Option<SystemTime>,
    /// Whether there is a write-ahead log.
    log: bool,
    /// Whether there is a rollback journal.
    journal: bool,
}

impl Files {
    fn of(path: &Path) -> Self {
        let found = std::fs::metadata(path).ok();
        Self {
            length: found.as_ref().map(std::fs::Metadata::len),
            changed: found.and_then(|found| found.modified().ok()),
            log: with_suffix(path, "-wal").exists(),
            journal: with_suffix(path, "-journal").exists(),
        }
    }
}

/// Returns the path with a suffix.
pub(super) fn with_suffix(path: &Path, end: &str) -> PathBuf {
    let mut with_suffix = path.as_os_str().to_owned();
    with_suffix.push(end);
    with_suffix.into()
}

/// Returns the URI of a file that SQLite reads without locks.
pub(super) fn immutable(path: &Path) -> String {
    let mut uri = "file:".to_owned();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => {
                uri.push(char::from(*byte));
            }
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri + "?immutable=1"
}

/// The page cache of a connection that writes, in KiB; SQLite expects the number with a minus sign.
/// A backfill reads a batch and then writes it, so its pages should stay in memory.
const CACHE: i64 = -32_768;

/// Opens the file for writes; creates a missing one. `shared`: a store of this process uses the
/// file, which needs a write-ahead log.
pub(super) fn open_for_writes(path: &Path, shared: bool, busy: Duration) -> Outcome<Connection> {
    // The store has created its file. If the file was deleted since then, no new one may replace
    // it.
    if !shared {
        file::create(path).map_err(|error| fault::of_file(&error, "cannot create the file"))?;
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(fault::of)?;
    prepare(&connection, busy).map_err(fault::of)?;
    connection
        .pragma_update(None, "synchronous", "FULL")
        .and_then(|()| connection.pragma_update(None, "cache_size", CACHE))
        .map_err(fault::of)?;
    let one = |sql| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
    let pages = one("PRAGMA page_count").map_err(fault::of)?;
    // SQLite opens a read-only file without an error.
    if connection.is_readonly("main").map_err(fault::of)? {
        return Err(SchemaError::new(
            SchemaFault::Forbidden,
            "the file is read-only",
        ));
    }
    // A new file gets a write-ahead log. So does a file that a store of this process uses, even if
    // another application has created it.
    if shared || pages == 0 {
        match write_ahead(&connection, if shared { busy } else { Duration::ZERO }) {
            Ok(mode) if mode.eq_ignore_ascii_case("wal") => {}
            Ok(_) if shared => {
                return Err(SchemaError::new(
                    SchemaFault::Unsupported,
                    "the file system of the database does not allow a write-ahead log",
                ));
            }
            Err(error) if shared => return Err(fault::of(error)),
            // Another process holds the lock of a new file: it sets the write-ahead log.
            Ok(_) | Err(_) => {}
        }
    }
    Ok(connection)
}

/// Sets the write-ahead log, and returns the mode of the file. SQLite does not wait for the lock of
/// another process that does the same.
fn write_ahead(connection: &Connection, busy: Duration) -> rusqlite::Result<String> {
    let end = Instant::now() + busy;
    loop {
        let set = "PRAGMA journal_mode = WAL";
        let mode = connection.query_row(set, [], |row| row.get::<_, String>(0));
        match mode {
            Err(error)
                if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy)
                    && Instant::now() < end =>
            {
                std::thread::sleep(Duration::from_millis(5));
            }
            mode => return mode,
        }
    }
}

fn prepare(connection: &Connection, busy: Duration) -> rusqlite::Result<()> {
    connection.busy_timeout(busy)?;
    // Foreign keys are off, because a rebuild drops a table that other tables may reference.
    connection.pragma_update(None, "foreign_keys", false)?;
    // With these settings, an unknown name in double quotes is an error. Otherwise SQLite would
    // read it as a string.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DDL, false)?;
    crate::reader::prepare(connection)?;
    let flags = FunctionFlags::SQLITE_UTF8
        | FunctionFlags::SQLITE_DETERMINISTIC
        | FunctionFlags::SQLITE_DIRECTONLY;
    connection.create_aggregate_function(digest::NAME, -1, flags, Digest)?;
    connection.create_scalar_function(RENAME_CHECKS, -1, flags, |cx| {
        let names = (1..cx.len()).map(|i| cx.get(i));
        let names = names.collect::<rusqlite::Result<Vec<String>>>()?;
        let (pairs, _) = names.as_chunks::<2>();
        let new_name = |name: &str| {
            let found = pairs
                .iter()
                .find(|[from, _]| from.eq_ignore_ascii_case(name));
            found.map(|[_, to]| to.clone())
        };
        Ok(sql::rename_constraints(&cx.get::<String>(0)?, new_name))
    })
}
