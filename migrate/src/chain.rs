//! The chain of recorded migrations.

use std::borrow::Cow;

use linchpin_core::schema::{Chain as Embedded, Snapshot};
use serde::{Deserialize, Serialize};

use crate::canonical::{digest_of, is_digest};
use crate::change::Change;
use crate::error::{Exit, Fact, Refusal};
use crate::strict;

/// The name of the index file of a folder of migrations.
pub const INDEX: &str = "chain.json";

/// The recorded migrations in order. The snapshot of the last one is the head.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chain {
    migrations: Vec<Migration>,
}

/// A recorded migration: a file in the folder of migrations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Migration {
    /// The version of the file format: [`Snapshot::FORMAT`].
    pub format: u32,
    /// The sequence number. The first migration has 1. A baseline has the number of the last
    /// migration that it replaces.
    pub seq: u64,
    /// The name, such as `add_priority`.
    pub name: String,
    /// The digest of the previous snapshot; `None` for the first migration.
    pub parent: Option<String>,
    /// The schema after the migration.
    pub snapshot: Snapshot,
    /// The digest of `snapshot`.
    pub snapshot_digest: String,
    /// The differences from the previous snapshot.
    pub changes: Vec<Change>,
    /// The functions that the migration runs.
    pub transforms: Vec<TransformRecord>,
}

/// A function that a migration runs, as it was at the time of recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TransformRecord {
    /// The path of the function, such as `tasks::names::split`.
    pub name: String,
    /// The type of the argument, such as `string` or `string?`; `record` if it takes the record.
    pub from: String,
    /// The type of the result.
    pub to: String,
    /// The digest of the function's tokens.
    pub body: String,
}

/// The content of `chain.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Index {
    /// The version of the file format: [`Snapshot::FORMAT`].
    pub format: u32,
    /// The migrations in order.
    pub migrations: Vec<Entry>,
}

/// A migration in `chain.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Entry {
    /// The sequence number.
    pub seq: u64,
    /// The name.
    pub name: String,
    /// The name of the file, without folders.
    pub file: String,
    /// The digest of the file's content.
    pub digest: String,
}

/// The files of a chain. Each file was checked alone; [`Files::chain`] checks their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Files {
    /// The entries of `chain.json` with their migrations, in order.
    pub migrations: Vec<(Entry, Migration)>,
    /// The files of the folder that `chain.json` does not list.
    pub leftovers: Vec<String>,
}

impl Migration {
    /// Returns the digest of the content, as stored in the entry of `chain.json`.
    pub fn digest(&self) -> String {
        digest_of(self)
    }

    /// Returns the name of a new file for the migration, such as `0003_add_priority.json`.
    pub fn file(&self) -> String {
        format!("{:04}_{}.json", self.seq, self.name)
    }

    /// Returns the entry of the migration in `chain.json`.
    pub fn entry(&self, file: String) -> Entry {
        Entry {
            seq: self.seq,
            name: self.name.clone(),
            file,
            digest: self.digest(),
        }
    }

    /// Whether it replaces all migrations up to its number.
    pub fn is_baseline(&self) -> bool {
        self.parent.is_none() && self.seq > 1
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// `snapshot_format` and `snapshot_invalid`. `digest_mismatch` if the digest of the snapshot in
    /// the file differs from the one that the file records.
    pub fn read(file: &str, text: &str) -> Result<Self, Refusal> {
        let migration: Self = strict::read(file, text)?;
        check_name(file, "$.name", &migration.name)?;
        strict::names(file, "$.snapshot", &migration.snapshot)?;
        if migration.snapshot.format != Snapshot::FORMAT {
            let message = format!("expected {}", Snapshot::FORMAT);
            return Err(strict::invalid(file, "$.snapshot.format", message));
        }
        let digests = [Some(&migration.snapshot_digest), migration.parent.as_ref()];
        if digests.into_iter().flatten().any(|text| !is_digest(text)) {
            let message = "a digest has 64 lower-case hexadecimal digits".to_owned();
            return Err(strict::invalid(file, "$", message));
        }
        let found = digest_of(&migration.snapshot);
        if found != migration.snapshot_digest {
            let what = "the snapshot in the file";
            return Err(mismatch(file, what, &migration.snapshot_digest, &found));
        }
        Ok(migration)
    }
}

impl Files {
    /// Reads an index and the files that it lists. `text` returns the text of a file. Returns the
    /// files that could be read, and the problems of all files.
    ///
    /// # Errors
    /// `snapshot_format` and `snapshot_invalid` of the index, and of a file.
    pub fn examine<'t>(
        index: &str,
        mut text: impl FnMut(&str) -> Result<Cow<'t, str>, Refusal>,
    ) -> Result<(Self, Vec<Refusal>), Refusal> {
        let index: Index = strict::read(INDEX, index)?;
        let mut migrations: Vec<(Entry, Migration)> = Vec::new();
        let mut file_problems = Vec::new();
        for (at, entry) in index.migrations.into_iter().enumerate() {
            let path = |key: &str| format!("$.migrations[{at}].{key}");
            if !is_plain(&entry.file) {
                let message = "not a plain file name".to_owned();
                return Err(strict::invalid(INDEX, &path("file"), message));
            }
            check_name(INDEX, &path("name"), &entry.name)?;
            if migrations.iter().any(|(other, _)| other.file == entry.file) {
                let message = "the file is listed twice".to_owned();
                return Err(strict::invalid(INDEX, &path("file"), message));
            }
            let read = text(&entry.file).and_then(|text| Migration::read(&entry.file, &text));
            let migration = match read {
                Ok(migration) => migration,
                Err(refusal) if refusal.exit == Exit::Data => {
                    file_problems.push(refusal);
                    continue;
                }
                Err(refusal) => return Err(refusal),
            };
            let found = migration.digest();
            if found != entry.digest {
                let what = "the file";
                file_problems.push(mismatch(&entry.file, what, &entry.digest, &found));
            }
            if (migration.seq, &migration.name) != (entry.seq, &entry.name) {
                let message = format!(
                    "`{}` is migration {} `{}`",
                    entry.file, migration.seq, migration.name
                );
                return Err(strict::invalid(INDEX, &path("seq"), message));
            }
            migrations.push((entry, migration));
        }
        let files = Self {
            migrations,
            leftovers: Vec::new(),
        };
        Ok((files, file_problems))
    }

    /// Reads the chain that a binary contains. Returns the files that could be read, and the
    /// problems of all files.
    ///
    /// # Errors
    /// `snapshot_format` and `snapshot_invalid`.
    pub fn examine_embedded(chain: &Embedded) -> Result<(Self, Vec<Refusal>), Refusal> {
        if chain.chain.is_empty() {
            return Ok((Self::default(), Vec::new()));
        }
        Self::examine(chain.chain, |name: &str| {
            let file = chain.files.iter().find(|(file, _)| *file == name);
            file.map(|(_, text)| Cow::Borrowed(*text))
                .ok_or_else(|| missing(name))
        })
    }

    /// Reads an index and the files that it lists, like [`examine`](Self::examine), but returns the
    /// first problem as an error.
    ///
    /// # Errors
    /// The errors of [`examine`](Self::examine), `digest_mismatch` and `chain_broken`.
    pub fn read<'t>(
        index: &str,
        text: impl FnMut(&str) -> Result<Cow<'t, str>, Refusal>,
    ) -> Result<Self, Refusal> {
        let (files, file_problems) = Self::examine(index, text)?;
        file_problems.into_iter().next().map_or(Ok(files), Err)
    }

    /// Checks the order of the migrations, and returns them as a chain.
    ///
    /// # Errors
    /// `history_forked` and `chain_broken`.
    pub fn chain(self) -> Result<Chain, Refusal> {
        let migrations: Vec<Migration> = self.migrations.into_iter().map(|(_, m)| m).collect();
        check_order(&migrations)?;
        Ok(Chain { migrations })
    }
}

impl Chain {
    /// A chain without migrations.
    pub const fn empty() -> Self {
        Self {
            migrations: Vec::new(),
        }
    }

    /// Makes a chain of migrations.
    ///
    /// # Errors
    /// `history_forked` and `chain_broken`.
    pub fn new(migrations: Vec<Migration>) -> Result<Self, Refusal> {
        check_order(&migrations)?;
        Ok(Self { migrations })
    }

    /// Reads the chain that a binary contains.
    ///
    /// # Errors
    /// `snapshot_format`, `snapshot_invalid`, `digest_mismatch`, `history_forked`, `chain_broken`.
    pub fn embedded(chain: &Embedded) -> Result<Self, Refusal> {
        let (files, file_problems) = Files::examine_embedded(chain)?;
        file_problems
            .into_iter()
            .next()
            .map_or(Ok(files), Err)?
            .chain()
    }

    /// The migrations in order.
    pub fn migrations(&self) -> &[Migration] {
        &self.migrations
    }

    /// The migration with this number.
    pub fn get(&self, seq: u64) -> Option<&Migration> {
        self.migrations.iter().find(|m| m.seq == seq)
    }

    /// The last migration; `None` for an empty chain.
    pub fn head(&self) -> Option<&Migration> {
        self.migrations.last()
    }

    /// The number of the last migration; 0 for an empty chain.
    pub fn seq(&self) -> u64 {
        self.head().map_or(0, |head| head.seq)
    }

    /// The snapshot after the last migration.
    pub fn snapshot(&self) -> Snapshot {
        self.head()
            .map_or_else(Snapshot::empty, |head| head.snapshot.clone())
    }

    /// The snapshot before the migration with this number. `None` if the chain has no such
    /// migration, or if it is a baseline: the snapshots before a baseline no longer exist.
    pub fn snapshot_before(&self, seq: u64) -> Option<Snapshot> {
        let at = self.migrations.iter().position(|m| m.seq == seq)?;
        match at.checked_sub(1) {
            Some(at) => Some(self.migrations[at].snapshot.clone()),
            None => (!self.migrations[at].is_baseline()).then(Snapshot::empty),
        }
    }
}

/// Whether a text can be the name of a migration: `[a-z][a-z0-9_]{0,62}`.
pub fn is_name(text: &str) -> bool {
    text.len() <= 63
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

/// Whether a text is the name of a file in the same folder, on every system.
fn is_plain(file: &str) -> bool {
    !file.is_empty()
        && file.len() <= 255
        && !file.starts_with('.')
        && file != INDEX
        && file
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

fn check_name(file: &str, path: &str, name: &str) -> Result<(), Refusal> {
    if is_name(name) {
        return Ok(());
    }
    let message = format!(
        "`{}` is not of the form [a-z][a-z0-9_]*",
        name.escape_debug()
    );
    Err(strict::invalid(file, path, message))
}

pub(crate) fn missing(file: &str) -> Refusal {
    Refusal::new(
        "chain_broken",
        Exit::Data,
        format!("`{file}` is listed in `{INDEX}` but does not exist"),
    )
    .help("restore the file from version control, or run `migrate restore SEQ` to write it from a database")
}

fn mismatch(file: &str, what: &str, expected: &str, found: &str) -> Refusal {
    Refusal::new(
        "digest_mismatch",
        Exit::Data,
        format!("`{file}`: the digest of {what} differs from the recorded one"),
    )
    .fact(format!("recorded: sha256 {expected}"))
    .fact(format!("found:    sha256 {found}"))
    .help("restore the file from version control, or run `migrate restore SEQ` to write it from a database")
}

/// Finds all mistakes in the parents, numbers and names of migrations.
pub(crate) fn order_problems(migrations: &[Migration]) -> Vec<Fact> {
    let mut problems: Vec<Fact> = Vec::new();
    let mut report = |code, text| {
        problems.push(Fact {
            code,
            text,
            at: None,
        });
    };
    let label = |m: &Migration| format!("{} `{}`", m.seq, m.name);
    for (at, one) in migrations.iter().enumerate() {
        for two in &migrations[..at] {
            if one.parent == two.parent {
                let text = format!(
                    "migrations {} and {} follow the same snapshot",
                    label(two),
                    label(one)
                );
                report("history_forked", text);
            }
            if one.name == two.name {
                let text = format!("two migrations are named `{}`", one.name);
                report("chain_broken", text);
            }
        }
    }
    let forked = problems.first().map(|fact| fact.code) == Some("history_forked");
    if !forked {
        let mut report = |text| {
            problems.push(Fact {
                code: "chain_broken",
                text,
                at: None,
            });
        };
        let mut previous: Option<&Migration> = None;
        for migration in migrations {
            let parent = previous.map(|previous| &previous.snapshot_digest);
            if migration.parent.as_ref() != parent {
                report(format!(
                    "migration {} does not follow the migration before it",
                    label(migration)
                ));
            }
            let follows = match previous {
                None => migration.seq >= 1,
                Some(previous) => migration.seq.checked_sub(1) == Some(previous.seq),
            };
            if !follows {
                report(format!(
                    "the number of migration {} is not the previous number plus 1",
                    label(migration)
                ));
            }
            previous = Some(migration);
        }
    }
    problems
}

fn check_order(migrations: &[Migration]) -> Result<(), Refusal> {
    let mut problems = order_problems(migrations);
    let Some(first) = problems.first() else {
        return Ok(());
    };
    let refusal = if first.code == "history_forked" {
        Refusal::new("history_forked", Exit::Planning, first.text.clone()).help(
            "two merged branches each have a migration: run `migrate rebase NAME` with the migration \
             that no database has; it is recorded again after the other migration",
        )
    } else {
        Refusal::new("chain_broken", Exit::Data, first.text.clone())
            .help("restore the folder of migrations from version control")
    };
    Err(Refusal {
        facts: problems.split_off(1),
        ..refusal
    })
}

#[cfg(test)]
pub(crate) mod tests;
