//! The space that a rebuild needs.

use std::path::Path;

use rusqlite::Connection;

use linchpin_core::schema::Space;

use super::connect::beside;
use super::identity;

/// Returns the space that a rebuild of a table needs, and the free space of the disk.
///
/// The new table is written beside the old one: into the log, and then into the file. `None` if the
/// system does not tell how much is free.
pub(super) fn of(connection: &Connection, path: &Path, table: &str) -> Option<Space> {
    let length = |path: &Path| std::fs::metadata(path).map_or(0, |found| found.len());
    let sql = "SELECT sum(pgsize) FROM dbstat WHERE name IN \
               (SELECT name FROM sqlite_schema WHERE tbl_name = ?1 COLLATE NOCASE)";
    let read = connection.query_row(sql, [table], |row| row.get::<_, Option<i64>>(0));
    let size = match read {
        Ok(size) => u64::try_from(size.unwrap_or(0)).unwrap_or(0),
        // The whole file, if its statistics cannot be read.
        Err(_) => length(path),
    };
    let needed = size.saturating_mul(22) / 10 + length(&beside(path, "-wal"));
    let canonical = identity::canonical(path).ok()?;
    Some(Space {
        needed,
        free: free(canonical.parent()?)?,
    })
}

#[cfg(unix)]
fn free(folder: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

#[cfg(not(unix))]
fn free(_: &Path) -> Option<u64> {
    None
}
