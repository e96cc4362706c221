//! Copies of the file before a migration removes something.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use linchpin_core::schema::{SchemaError, SchemaFault};

use super::connect::{immutable, with_suffix};
use super::fault::{self, Outcome};
use crate::file;

/// The number of copies that are kept.
const MAX_COPIES: usize = 3;

/// Copies the database to `<file>.before-<seq>` and verifies the copy. If a copy with this name
/// exists, a number is appended. Only the last three copies are kept.
pub(super) fn back_up(connection: &Connection, path: &Path, seq: u64) -> Outcome<Option<String>> {
    let first = with_suffix(path, &format!(".before-{seq}"));
    let others = (2..).map(|n| with_suffix(path, &format!(".before-{seq}-{n}")));
    let mut free = std::iter::once(first)
        .chain(others)
        .filter(|copy| !copy.exists());
    let Some(copy) = free.next() else {
        return Ok(None);
    };
    // The file is created with the mode for private data. SQLite then writes into the empty file.
    file::create(&copy).map_err(|error| fault::of_file(&error, "cannot create the copy"))?;
    let written = write(connection, &copy);
    if written.is_err() {
        // An incomplete copy is removed, so that it cannot be mistaken for a backup.
        drop(std::fs::remove_file(&copy));
    }
    written?;
    remove_old(path);
    let name = copy.file_name().unwrap_or_default();
    Ok(Some(name.to_string_lossy().into_owned()))
}

fn write(connection: &Connection, copy: &Path) -> Outcome<()> {
    let name = copy.to_str().ok_or_else(|| {
        SchemaError::new(
            SchemaFault::Unsupported,
            "the path of the file is not UTF-8",
        )
    })?;
    let written = connection.execute("VACUUM INTO ?1", [name]);
    written.map_err(fault::of)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let copied = Connection::open_with_flags(immutable(copy), flags).map_err(fault::of)?;
    let sound = copied.query_row("PRAGMA integrity_check(1)", [], |row| {
        row.get::<_, String>(0)
    });
    match sound.map_err(fault::of)?.as_str() {
        "ok" => {}
        _ => {
            return Err(SchemaError::new(
                SchemaFault::Damaged,
                "the copy of the database is damaged",
            ));
        }
    }
    let synced = std::fs::File::open(copy).and_then(|file| file.sync_all());
    synced.map_err(|error| fault::of_file(&error, "cannot write the copy"))
}

/// Removes old copies; the last three are kept. A copy that cannot be removed is ignored.
fn remove_old(path: &Path) {
    let Some(name) = path.file_name() else { return };
    let start = format!("{}.before-", name.to_string_lossy());
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let entries = std::fs::read_dir(folder.unwrap_or(Path::new(".")));
    let copies = entries.into_iter().flatten().flatten().filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let number = name.strip_prefix(&start)?;
        let ours = number
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'-');
        let changed = entry.metadata().ok()?.modified().ok()?;
        ours.then(|| (changed, entry.path()))
    });
    let mut copies: Vec<(std::time::SystemTime, PathBuf)> = copies.collect();
    copies.sort();
    let old = copies.len().saturating_sub(MAX_COPIES);
    for (_, copy) in &copies[..old] {
        drop(std::fs::remove_file(copy));
    }
}
