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
    /// Reads a folder of migrations without checking how they follow each other. A missing folder
    /// has no migrations.
    ///
    /// # Errors
    /// `snapshot_format`, `snapshot_invalid`, `digest_mismatch`, `chain_broken` for a missing file,
    /// and `file_unreadable`.
    pub fn load(dir: &Path) -> Result<Self, Refusal> {
        let (files, wrong) = Self::examine_folder(dir)?;
        wrong.into_iter().next().map_or(Ok(files), Err)
    }

    /// Reads a folder of migrations. Returns what could be read, and everything that is wrong with
    /// the rest.
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
        let (mut files, wrong) = if names.contains(INDEX) {
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
            wrong
                .iter()
                .any(|refusal| refusal.message.contains(&format!("`{name}`")))
        };
        files.leftovers = names
            .into_iter()
            .filter(|name| name != INDEX && is_document(name))
            .filter(|name| !files.migrations.iter().any(|(e, _)| e.file == *name))
            .filter(|name| !damaged(name))
            .collect();
        Ok((files, wrong))
    }
}

/// Writes the files of new migrations, then `chain.json` with these entries. If it fails, the
/// chain is as before: only files that no `chain.json` lists may be new.
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

/// Writes a JSON document, indented by two spaces: a temporary file, synchronized and renamed.
///
/// # Errors
/// `file_unwritable` and `disk_full`.
pub fn write_document(path: &Path, json: &Json) -> Result<(), Refusal> {
    let shown = path.display().to_string();
    write_whole(path, &pretty(json)).map_err(|error| unwritable(&shown, &error))
}

/// Returns the text of a document, indented by two spaces, with a last newline.
pub fn pretty<T: Serialize + ?Sized>(value: &T) -> String {
    let mut text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.push('\n');
    text
}

/// Reads a snapshot from a file: that of `schema print`.
///
/// # Errors
/// `snapshot_format`, `snapshot_invalid`, and `file_unreadable`.
pub fn read_snapshot(path: &Path) -> Result<Snapshot, Refusal> {
    let shown = path.display().to_string();
    strict::read_snapshot(&shown, &read_text(path, &shown)?)
}

/// Reads a text file of at most 16 MiB.
///
/// # Errors
/// `snapshot_invalid` if it is larger or not UTF-8, and `file_unreadable`.
pub fn read_text(path: &Path, shown: &str) -> Result<String, Refusal> {
    let failed = |error: io::Error| unreadable(shown, &error);
    let file = File::open(path).map_err(failed)?;
    let facts = file.metadata().map_err(failed)?;
    if !facts.is_file() {
        return Err(unreadable(shown, &io::Error::other("not a file")));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if bytes.len() > MAX_BYTES {
        let message = "the file is larger than 16 MiB".to_owned();
        return Err(strict::invalid(shown, "$", message));
    }
    String::from_utf8(bytes)
        .map_err(|_| strict::invalid(shown, "$", "the file is not UTF-8".to_owned()))
}

/// Reads a file of the folder; a symbolic link must not lead out of it.
fn read_in(dir: &Path, file: &str) -> Result<String, Refusal> {
    let path = dir.join(file);
    let failed = |error: io::Error| unreadable(file, &error);
    let real = path.canonicalize().map_err(failed)?;
    if !real.starts_with(dir.canonicalize().map_err(failed)?) {
        let message = "the file is a symbolic link out of the folder".to_owned();
        return Err(strict::invalid(file, "$", message));
    }
    // Opening a pipe would wait for its writer.
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

/// Removes the temporary files that processes have left which were killed while they wrote a file.
fn remove_temporary(path: &Path, file: &str) {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let prefix = format!(".{file}.");
    // Without the list, only the file of an equal process number would be in the way.
    for name in list(folder).unwrap_or_default() {
        let number = name.strip_prefix(&prefix);
        if number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit())) {
            let _ = fs::remove_file(folder.join(name));
        }
    }
}

/// The point of time between writing a file and renaming it.
fn before_rename() {
    fault::point("record", "file:before-rename");
}

fn unreadable(file: &str, error: &io::Error) -> Refusal {
    Refusal::new(
        "file_unreadable",
        Exit::Planning,
        format!("`{file}` cannot be read: {error}"),
    )
    .help("a file that cannot be read is never treated as absent")
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
    .help("no migration was recorded; the folder is as before")
}

#[cfg(test)]
mod tests;
