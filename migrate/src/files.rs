//! The folder of migrations.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;

use serde::Serialize;
use serde_json::Value as Json;

use crate::canonical::json_of;
use crate::chain::{Chain, Entry, Files, INDEX, Index, Migration, missing};
use crate::error::{Exit, Refusal};
use crate::fault;
use crate::strict::{self, MAX_BYTES};
use linchpin_core::schema::Snapshot;

impl Chain {
    /// Reads a folder of migrations. A missing folder is an empty chain.
    ///
    /// # Errors
    /// `snapshot_format`, `snapshot_invalid`, `digest_mismatch`, `history_forked`, `chain_broken`,
    /// and `file_unreadable`.
    pub fn load(dir: &Path) -> Result<Self, Refusal> {
        Files::load(dir)?.chain()
    }
}

impl Files {
    /// Reads a folder of migrations without checking their order. A missing folder has no
    /// migrations.
    ///
    /// # Errors
    /// `snapshot_format`, `snapshot_invalid`, `digest_mismatch`, `chain_broken` for a missing file,
    /// and `file_unreadable`.
    pub fn load(dir: &Path) -> Result<Self, Refusal> {
        let (files, file_problems) = Self::examine_folder(dir)?;
        file_problems.into_iter().next().map_or(Ok(files), Err)
    }

    /// Reads a folder of migrations. Returns the files that could be read, and the problems of
    /// all files.
    ///
    /// # Errors
    /// `snapshot_format`, `snapshot_invalid` and `file_unreadable`.
    pub fn examine_folder(dir: &Path) -> Result<(Self, Vec<Refusal>), Refusal> {
        let names = match list(dir) {
            Ok(names) => names,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok((Self::default(), Vec::new()));
            }
            Err(error) => return Err(unreadable(&dir.display().to_string(), &error)),
        };
        let (mut files, file_problems) = if names.contains(INDEX) {
            let index = read_in(dir, INDEX)?;
            Self::examine(&index, |file| {
                if names.contains(file) {
                    read_in(dir, file).map(Cow::Owned)
                } else {
                    Err(missing(file))
                }
            })?
        } else {
            (Self::default(), Vec::new())
        };
        let damaged = |name: &str| {
            file_problems
                .iter()
                .any(|refusal| refusal.message.contains(&format!("`{name}`")))
        };
        files.leftovers = names
            .into_iter()
            .filter(|name| name != INDEX && is_document(name))
            .filter(|name| !files.migrations.iter().any(|(e, _)| e.file == *name))
            .filter(|name| !damaged(name))
            .collect();
        Ok((files, file_problems))
    }
}

/// Writes the files of new migrations, then `chain.json` with these entries. A failure does not
/// change the chain; it may leave new files that `chain.json` does not list.
///
/// # Errors
/// `file_unwritable` and `disk_full`.
pub(crate) fn save(dir: &Path, new: &[(&str, &Migration)], all: &[Entry]) -> Result<(), Refusal> {
    fs::create_dir_all(dir).map_err(|error| unwritable(&dir.display().to_string(), &error))?;
    for (file, migration) in new {
        write_document(&dir.join(file), &json_of(migration))?;
    }
    let index = Index {
        format: Snapshot::FORMAT,
        migrations: all.to_vec(),
    };
    write_document(&dir.join(INDEX), &json_of(&index))
}

/// Removes files that `chain.json` no longer lists. A file that cannot be removed is a leftover.
pub(crate) fn remove(dir: &Path, files: impl IntoIterator<Item = String>) {
    for file in files {
        let _ = fs::remove_file(dir.join(file));
    }
}

/// Writes a JSON document, indented by two spaces. Writes a temporary file, synchronizes it with
/// the disk and renames it.
///
/// # Errors
/// `file_unwritable` and `disk_full`.
pub fn write_document(path: &Path, json: &Json) -> Result<(), Refusal> {
    let display_name = path.display().to_string();
    write_whole(path, &pretty(json)).map_err(|error| unwritable(&display_name, &error))
}

/// Returns the text of a JSON document, indented by two spaces, with a newline at the end.
pub fn pretty<T: Serialize + ?Sized>(value: &T) -> String {
    let mut text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.push('\n');
    text
}

/// Reads a snapshot from a file that `schema print` wrote.
///
/// # Errors
/// `snapshot_format`, `snapshot_invalid`, and `file_unreadable`.
pub fn read_snapshot(path: &Path) -> Result<Snapshot, Refusal> {
    let display_name = path.display().to_string();
    strict::read_snapshot(&display_name, &read_text(path, &display_name)?)
}

/// Reads a text file of at most 16 MiB. `display_name` is the name of the file in messages.
///
/// # Errors
/// `snapshot_invalid` if it is larger or not UTF-8, and `file_unreadable`.
pub fn read_text(path: &Path, display_name: &str) -> Result<String, Refusal> {
    let failed = |error: io::Error| unreadable(display_name, &error);
    let file = File::open(path).map_err(failed)?;
    let facts = file.metadata().map_err(failed)?;
    if !facts.is_file() {
        return Err(unreadable(display_name, &io::Error::other("not a file")));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if bytes.len() > MAX_BYTES {
        let message = "the file is larger than 16 MiB".to_owned();
        return Err(strict::invalid(display_name, "$", message));
    }
    String::from_utf8(bytes)
        .map_err(|_| strict::invalid(display_name, "$", "the file is not UTF-8".to_owned()))
}

/// Reads a file of the folder. Refuses a symbolic link to a file outside the folder.
fn read_in(dir: &Path, file: &str) -> Result<String, Refusal> {
    let path = dir.join(file);
    let failed = |error: io::Error| unreadable(file, &error);
    let real = path.canonicalize().map_err(failed)?;
    if !real.starts_with(dir.canonicalize().map_err(failed)?) {
        let message = "the file is a symbolic link to a file outside the folder".to_owned();
        return Err(strict::invalid(file, "$", message));
    }
    // Opening a named pipe would block until another process opens it for writing.
    if !fs::metadata(&real).map_err(failed)?.is_file() {
        return Err(failed(io::Error::other("not a file")));
    }
    read_text(&real, file)
}

fn list(dir: &Path) -> io::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(dir)? {
        names.insert(entry?.file_name().to_string_lossy().into_owned());
    }
    Ok(names)
}

fn is_document(name: &str) -> bool {
    Path::new(name)
        .extension()
        .is_some_and(|extension| extension == "json")
}

/// Writes a temporary file and renames it, so that `path` always has the complete old or new text.
fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = path.with_file_name(format!(".{file}.{}", std::process::id()));
    remove_temporary(path, &file);
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&temporary)
        .and_then(|mut target| {
            target.write_all(text.as_bytes())?;
            target.sync_all()
        })
        .and_then(|()| {
            fault::point(&file, "file:before-rename");
            before_rename();
            fs::rename(&temporary, path)
        });
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
        return written;
    }
    // Makes the rename itself durable. Some systems cannot open a folder.
    if let Some(parent) = path.parent() {
        let parent = if parent.as_os_str().is_empty() {
            Path::new(".")
        } else {
            parent
        };
        if let Ok(folder) = File::open(parent) {
            let _ = folder.sync_all();
        }
    }
    fault::point(&file, "file:after-rename");
    Ok(())
}

/// Removes temporary files of processes that were killed while they wrote a file.
fn remove_temporary(path: &Path, file: &str) {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let prefix = format!(".{file}.");
    // If the folder cannot be listed, only a temporary file with the same process id is a problem.
    for name in list(folder).unwrap_or_default() {
        let number = name.strip_prefix(&prefix);
        if number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit())) {
            let _ = fs::remove_file(folder.join(name));
        }
    }
}

/// The fault point between writing a file and renaming it.
fn before_rename() {
    fault::point("record", "file:before-rename");
}

fn unreadable(file: &str, error: &io::Error) -> Refusal {
    Refusal::new(
        "file_unreadable",
        Exit::Planning,
        format!("`{file}` cannot be read: {error}"),
    )
    .help("make the file readable; an unreadable file is never treated as missing")
}

fn unwritable(file: &str, error: &io::Error) -> Refusal {
    let full = matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    );
    let code = if full { "disk_full" } else { "file_unwritable" };
    Refusal::new(
        code,
        Exit::Planning,
        format!("`{file}` cannot be written: {error}"),
    )
    .help("no migration was recorded; the chain is unchanged")
}

#[cfg(test)]
mod tests;
