//! Commands that write the folder of migrations. They need no database.

use std::path::Path;

use linchpin_core::entity::EntityDesc;
use linchpin_core::schema::Snapshot;

use crate::canonical::digest_of;
use crate::chain::{Chain, Entry, Files, INDEX, Migration, is_name};
use crate::change::Change;
use crate::diff::{Diff, diff_after, diff_snapshots};
use crate::error::{Exit, Refusal};
use crate::files::{remove, save};

/// The declared schema.
#[derive(Clone, Copy, Debug)]
pub enum Declarations<'d> {
    /// The entities of the binary.
    Entities(&'d [&'d EntityDesc]),
    /// A saved snapshot. It does not contain `rename_from` and transforms.
    Saved(&'d Snapshot),
}

impl Declarations<'_> {
    /// Returns the snapshot of the declarations.
    pub fn snapshot(&self) -> Snapshot {
        match self {
            Self::Entities(entities) => Snapshot::of(entities.iter().copied()),
            Self::Saved(snapshot) => (*snapshot).clone(),
        }
    }

    /// Compares the declarations with the head of a chain.
    ///
    /// # Errors
    /// See [`diff`](crate::diff).
    pub fn diff(&self, chain: &Chain) -> Result<Diff, Refusal> {
        let previous = chain.snapshot();
        let label = chain
            .head()
            .map(|head| format!("{} `{}`", head.seq, head.name))
            .unwrap_or_default();
        match self {
            Self::Entities(entities) => diff_after(&label, &previous, entities),
            Self::Saved(snapshot) => diff_snapshots(&previous, snapshot),
        }
    }
}

/// The result of recording.
#[derive(Clone, Debug, PartialEq)]
pub enum Recorded {
    /// The declarations equal the last migration of the chain; there is nothing to record.
    Nothing {
        /// Lines of information.
        notes: Vec<String>,
    },
    /// A new migration.
    Migration {
        /// The migration.
        migration: Box<Migration>,
        /// The name of its file.
        file: String,
        /// Whether the file was written.
        written: bool,
        /// The names of the migrations that it replaces.
        replaces: Vec<String>,
        /// Lines of information.
        notes: Vec<String>,
    },
}

/// Records the difference between the declarations and the head as the next migration.
///
/// With `dry_run` nothing is written.
///
/// # Errors
/// Those of [`Chain::load`] and of [`diff`](crate::diff). `name_taken` if the chain has a migration
/// of this name. `file_unwritable` and `disk_full`. An error leaves the chain unchanged.
pub fn record(
    dir: &Path,
    name: &str,
    declared: Declarations<'_>,
    dry_run: bool,
) -> Result<Recorded, Refusal> {
    let files = Files::load(dir)?;
    let entries = entries(&files);
    record_after(dir, name, declared, dry_run, files.chain()?, entries, &[])
}

/// Moves a migration of a merged branch to the end of the chain: replaces it, and the migrations
/// after it on its branch, by one new migration.
///
/// The caller must make sure that the migration was applied to no database.
///
/// # Errors
/// Those of [`record`]. `migration_unknown` if the chain has no migration of this name.
/// `history_forked` if the chain is still forked without it.
pub fn rebase(
    dir: &Path,
    name: &str,
    declared: Declarations<'_>,
    dry_run: bool,
) -> Result<Recorded, Refusal> {
    let files = Files::load(dir)?;
    let mut replaced_positions = vec![position(&files, name)?];
    // Parents precede children in the list, but migrations of other branches may be between them.
    for (at, (_, migration)) in files.migrations.iter().enumerate() {
        let follows = replaced_positions.iter().any(|parent| {
            let parent = &files.migrations[*parent].1;
            at > replaced_positions[0] && migration.parent.as_ref() == Some(&parent.snapshot_digest)
        });
        if follows {
            replaced_positions.push(at);
        }
    }
    let (replaced, kept): (Vec<_>, Vec<_>) = files
        .migrations
        .into_iter()
        .enumerate()
        .partition(|(at, _)| replaced_positions.contains(at));
    let kept: Vec<(Entry, Migration)> = kept.into_iter().map(|(_, kept)| kept).collect();
    let replaced: Vec<Entry> = replaced.into_iter().map(|(_, (entry, _))| entry).collect();
    let entries = kept.iter().map(|(entry, _)| entry.clone()).collect();
    let chain = Chain::new(kept.into_iter().map(|(_, kept)| kept).collect())?;
    record_after(dir, name, declared, dry_run, chain, entries, &replaced)
}

/// Replaces the migrations up to number `until` by one baseline. Its snapshot is that of migration
/// `until`. Returns the baseline; `None` if the chain begins with this number.
///
/// The caller must make sure that every database has finished migration
/// `until`.
///
/// # Errors
/// Those of [`Chain::load`]. `migration_unknown` if the chain has no migration of this number.
/// `file_unwritable` and `disk_full`.
pub fn squash(dir: &Path, until: u64, dry_run: bool) -> Result<Option<Migration>, Refusal> {
    let files = Files::load(dir)?;
    let entries = entries(&files);
    let chain = files.chain()?;
    let Some(last) = chain.get(until) else {
        return Err(unknown(&until.to_string(), &chain));
    };
    let at = entries.iter().position(|entry| entry.seq == until);
    let (old, rest) = entries.split_at(at.unwrap_or_default() + 1);
    if old.len() == 1 {
        return Ok(None);
    }
    let taken = |name: &str| chain.migrations().iter().any(|m| m.name == name);
    let name = ["baseline".to_owned()]
        .into_iter()
        .chain((2..chain.migrations().len() + 2).map(|n| format!("baseline_{n}")))
        .find(|name| !taken(name))
        .unwrap_or_default();
    let entities = last.snapshot.entities.keys();
    let baseline = Migration {
        name,
        parent: None,
        changes: entities
            .map(|entity| Change::CreateEntity {
                entity: entity.clone(),
            })
            .collect(),
        transforms: Vec::new(),
        ..last.clone()
    };
    if !dry_run {
        let file = baseline.file();
        let mut all = vec![baseline.entry(file.clone())];
        all.extend(rest.iter().cloned());
        save(dir, &[(&file, &baseline)], &all)?;
        remove(dir, old.iter().map(|entry| entry.file.clone()));
    }
    Ok(Some(baseline))
}

/// Writes a migration that was read from the ledger of a database: its file, and its entry in
/// `chain.json`.
///
/// # Errors
/// `file_unwritable` and `disk_full`. `snapshot_invalid` if `chain.json` itself cannot be read, or
/// `migration_unknown` if it does not list a migration of this number.
pub fn restore(dir: &Path, migration: &Migration) -> Result<String, Refusal> {
    let text = crate::files::read_text(&dir.join(INDEX), INDEX)?;
    let mut index: crate::chain::Index = crate::strict::read(INDEX, &text)?;
    let at = index
        .migrations
        .iter()
        .position(|entry| entry.seq == migration.seq);
    let Some(at) = at else {
        return Err(Refusal::new(
            "migration_unknown",
            Exit::Planning,
            format!("`{INDEX}` lists no migration {}", migration.seq),
        )
        .help("restore the folder of migrations from version control"));
    };
    let file = migration.file();
    let old = std::mem::replace(&mut index.migrations[at], migration.entry(file.clone()));
    save(dir, &[(&file, migration)], &index.migrations)?;
    if old.file != file {
        remove(dir, [old.file]);
    }
    Ok(file)
}

fn record_after(
    dir: &Path,
    name: &str,
    declared: Declarations<'_>,
    dry_run: bool,
    chain: Chain,
    mut entries: Vec<Entry>,
    replaced: &[Entry],
) -> Result<Recorded, Refusal> {
    let diff = declared.diff(&chain)?;
    let snapshot_digest = digest_of(&diff.snapshot);
    let parent = chain.head().map(|head| head.snapshot_digest.clone());
    let unchanged = match &parent {
        Some(parent) => *parent == snapshot_digest,
        None => diff.snapshot.entities.is_empty(),
    };
    if unchanged && replaced.is_empty() {
        return Ok(Recorded::Nothing { notes: diff.notes });
    }
    if let Some(taken) = chain.migrations().iter().find(|m| m.name == name) {
        return Err(Refusal::new(
            "name_taken",
            Exit::Planning,
            format!("migration {} already has the name `{name}`", taken.seq),
        )
        .help("give the new migration another name"));
    }
    debug_assert!(is_name(name), "the command line checks names");
    let migration = Migration {
        format: Snapshot::FORMAT,
        seq: chain.seq() + 1,
        name: name.to_owned(),
        parent,
        snapshot: diff.snapshot,
        snapshot_digest,
        changes: diff.changes,
        transforms: diff.transforms,
    };
    // A file of the present chain may have this name, and it must stay until `chain.json` is
    // written.
    let mut file = migration.file();
    if entries
        .iter()
        .chain(replaced)
        .any(|entry| entry.file == file)
    {
        file = format!("{:04}_{name}_again.json", migration.seq);
    }
    let mut notes = diff.notes;
    if !dry_run {
        if unchanged {
            notes.push(
                "without the removed migrations, the declarations equal the last migration of the \
                 chain: nothing was recorded"
                    .to_owned(),
            );
            save(dir, &[], &entries)?;
        } else {
            entries.push(migration.entry(file.clone()));
            save(dir, &[(&file, &migration)], &entries)?;
        }
        remove(dir, replaced.iter().map(|entry| entry.file.clone()));
    }
    if unchanged {
        return Ok(Recorded::Nothing { notes });
    }
    Ok(Recorded::Migration {
        migration: Box::new(migration),
        file,
        written: !dry_run,
        replaces: replaced.iter().map(|entry| entry.name.clone()).collect(),
        notes,
    })
}

fn entries(files: &Files) -> Vec<Entry> {
    let migrations = files.migrations.iter();
    migrations.map(|(entry, _)| entry.clone()).collect()
}

fn position(files: &Files, name: &str) -> Result<usize, Refusal> {
    let mut named = (0..files.migrations.len()).filter(|at| files.migrations[*at].0.name == name);
    match (named.next(), named.next()) {
        (Some(at), None) => Ok(at),
        (Some(_), Some(_)) => Err(Refusal::new(
            "chain_broken",
            Exit::Data,
            format!("two migrations are named `{name}`"),
        )
        .help("restore the folder of migrations from version control")),
        _ => {
            // An empty chain: the message lists similar names instead of a range of numbers.
            let chain = Chain::default();
            let known = files
                .migrations
                .iter()
                .map(|(entry, _)| entry.name.as_str());
            let near = linchpin_core::suggest::did_you_mean(name, known);
            let refusal = unknown(name, &chain);
            Err(Refusal {
                message: format!("{}{near}", refusal.message),
                ..refusal
            })
        }
    }
}

fn unknown(what: &str, chain: &Chain) -> Refusal {
    let range = match (chain.migrations().first(), chain.head()) {
        (Some(first), Some(last)) => format!("; it has migrations {} to {}", first.seq, last.seq),
        _ => String::new(),
    };
    Refusal::new(
        "migration_unknown",
        Exit::Planning,
        format!("the chain has no migration `{what}`{range}"),
    )
}

#[cfg(test)]
mod tests;
