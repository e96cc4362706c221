//! The events of one transaction, and the id and the lock file of this process as a leader.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use rusqlite::{Connection, params};

use crate::file;
use linchpin_core::event::{Entry, OutboxRow, StoredText};
use linchpin_core::store::{Committed, Rows};
use linchpin_core::{Error, Result, Uuid};

const INSERT: &str =
    "INSERT INTO linchpin_outbox (id, entity, record, at, event) VALUES (?, ?, ?, ?, ?)";

/// The receiver of committed events; `None` until the outbox is opened.
#[derive(Default)]
pub(crate) struct CommitReceiver(RwLock<Option<Arc<dyn Committed>>>);

impl CommitReceiver {
    pub(super) fn set(&self, committed: Arc<dyn Committed>) {
        *self.0.write() = Some(committed);
    }
}

/// The events of a transaction.
#[derive(Default)]
pub(crate) struct Outgoing {
    entries: Vec<Entry>,
    /// Filled before the commit.
    rows: Vec<Arc<OutboxRow>>,
}

impl Outgoing {
    /// Takes the events of a statement.
    pub(crate) fn take(&mut self, rows: &mut Rows) {
        if rows.is_recorded() {
            self.entries.append(&mut rows.entries());
        }
    }

    /// Writes the events before the commit. If that fails, the transaction must be rolled back: a
    /// change must not persist without its events.
    pub(crate) fn write(&mut self, connection: &Connection) -> Result<()> {
        if self.entries.is_empty() {
            return Ok(());
        }
        for (row, events) in StoredText::of(&self.entries) {
            let values = params![
                row.id.as_str(),
                row.entity,
                row.record,
                row.at.millis(),
                row.event
            ];
            let written = connection
                .prepare_cached(INSERT)
                .and_then(|mut insert| insert.insert(values));
            let seq = written.map_err(Error::unavailable)?;
            self.rows.push(Arc::new(OutboxRow::new(seq, events)));
        }
        self.entries.retain(|entry| !entry.stored);
        if !self.entries.is_empty() {
            let live = std::mem::take(&mut self.entries);
            self.rows.push(Arc::new(OutboxRow::new(0, live)));
        }
        Ok(())
    }

    /// Discards the events after a rollback.
    pub(crate) fn discard(&mut self) {
        *self = Self::default();
    }

    /// Passes the events to the receiver after the commit.
    pub(crate) fn hand_over(&mut self, receiver: &CommitReceiver) {
        if self.rows.is_empty() {
            return;
        }
        let rows = std::mem::take(&mut self.rows);
        if let Some(committed) = &*receiver.0.read() {
            committed.committed(rows);
        }
    }
}

/// This process as a candidate for the leadership of consumers. Of the processes that share the
/// database file, only the leader delivers events to a consumer.
pub(crate) struct Leader {
    pub(super) name: String,
    path: PathBuf,
    lock: Mutex<Option<File>>,
}

impl Leader {
    pub(crate) fn new(database: &Path) -> Self {
        let mut path = database.as_os_str().to_owned();
        path.push("-relay");
        Self {
            name: Uuid::new_v7().to_string(),
            path: path.into(),
            lock: Mutex::new(None),
        }
    }

    /// Whether this process holds the lock file. The operating system releases it when a process
    /// ends, so the leases of earlier holders are void.
    pub(super) fn holds_lock(&self) -> bool {
        let mut lock = self.lock.lock();
        if lock.is_none() {
            let opened = file::create(&self.path)
                .and_then(|()| File::options().write(true).open(&self.path));
            *lock = opened.ok().filter(|file| file.try_lock().is_ok());
        }
        lock.is_some()
    }
}
