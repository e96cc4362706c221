//! The disk space that a rebuild needs.

use std::path::Path;

use rusqlite::Connection;

use linchpin_core::schema::Space;

use super::connect::with_suffix;
use super::identity;

/// Returns the space that a rebuild of a table needs, and the free space of the disk, in bytes.
///
/// The new table is written into the log, and then into the file, while the old one still exists.
/// Returns `None` if the system does not report the free space.
pub(super) fn of(connection: &Connection, path: &Path, table: &str) -> Option<Space> {
    let length = |path: &Path| std::fs::metadata(path).map_or(0, |found| found.len());
    let sql = "SELECT sum(pgsize) FROM dbstat WHERE name IN \
               (SELECT name FROM sqlite_schema WHERE tbl_name = ?1 COLLATE NOCASE)";
    let read = connection.query_row(sql, [table], |row| row.get::<_, Option<i64>>(0));
    let size = match read {
        Ok(size) => u64::try_from(size.unwrap_or(0)).unwrap_or(0),
        // If the statistics of the table cannot be read, the size of the whole file is used.
        Err(_) => length(path),
    };
    // Twice the size, and a reserve of 10 %.
    let needed = size.saturating_mul(22) / 10 + length(&with_suffix(path, "-wal"));
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
