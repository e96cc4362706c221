//! The events of a transaction: written to the outbox before the commit, and handed over after it.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use tokio_postgres::types::{ToSql, Type};

use super::INSERT;
use crate::bind;
use crate::lane::Live;
use crate::native::Sql;
use linchpin_core::event::{Entry, OutboxRow, StoredText};
use linchpin_core::store::Committed;

type Done = std::result::Result<(), tokio_postgres::Error>;
type Numbered = std::result::Result<Vec<i64>, tokio_postgres::Error>;

/// The statement that writes rows, prepared per connection.
pub(crate) struct Recorder(Sql);

impl Default for Recorder {
    fn default() -> Self {
        Self(Sql::new(INSERT.to_owned()))
    }
}

impl Recorder {
    /// Writes the events of a transaction and commits. Both are pipelined: in a failed transaction
    /// the commit rolls back.
    ///
    /// `place` must be taken from the [`Handover`] before this call. Returns the outcome of writing
    /// the events, and the outcome of the commit.
    pub(crate) async fn commit(&self, live: &Live, place: &mut Place) -> (Done, Done) {
        const KINDS: [Type; 3] = [Type::TEXT_ARRAY, Type::TIMESTAMPTZ_ARRAY, Type::TEXT_ARRAY];
        let rows = StoredText::of(&place.events);
        if rows.is_empty() {
            place.sent = true;
            return (Ok(()), live.client.batch_execute("COMMIT").await);
        }
        // The statement is prepared first, because the preparation waits for an answer of the
        // server. The events and the commit are then sent together.
        let insert = match self.0.prepared(live, &KINDS).await {
            Ok(insert) => insert,
            Err(error) => return (Err(error), Ok(())),
        };
        place.sent = true;
        let (written, committed) = tokio::join!(biased; insert_all(live, &insert, &rows), live.client.batch_execute("COMMIT"));
        let numbers = match written {
            Ok(numbers) => numbers,
            Err(error) => return (Err(error), committed),
        };
        if committed.is_ok() {
            let stored = numbers.into_iter().zip(rows);
            place.rows = stored
                .map(|(seq, (_, events))| Arc::new(OutboxRow::new(seq, events)))
                .collect();
        }
        (Ok(()), committed)
    }
}

/// Inserts all rows. The statement is sent at the first poll, so it is sent before `COMMIT`.
async fn insert_all(
    live: &Live,
    insert: &tokio_postgres::Statement,
    rows: &[(StoredText, Vec<Entry>)],
) -> Numbered {
    let ids: Vec<&str> = rows.iter().map(|(row, _)| row.id.as_str()).collect();
    let instants: Vec<bind::Moment> = rows
        .iter()
        .map(|(row, _)| bind::Moment::from(row.at))
        .collect();
    let events: Vec<&str> = rows.iter().map(|(row, _)| row.event.as_str()).collect();
    let values: [&(dyn ToSql + Sync); 3] = [&ids, &instants, &events];
    let written = live.client.query(insert, &values).await?;
    written.iter().map(|row| row.try_get(0)).collect()
}

/// Hands over events in the order in which their transactions took a place in the line.
///
/// A transaction takes its place while it holds the locks of its records, right before it commits.
/// So transactions that changed one record are handed over in the order of their commits, although
/// the answers of the server arrive on different connections.
#[derive(Default)]
pub(crate) struct Handover {
    committed: RwLock<Option<Arc<dyn Committed>>>,
    line: Mutex<Line>,
}

#[derive(Default)]
struct Line {
    /// The number of the first place.
    first: u64,
    /// The rows of each place; `None` until the commit has ended.
    places: VecDeque<Option<Vec<Arc<OutboxRow>>>>,
}

impl Handover {
    pub(super) fn set(&self, committed: Arc<dyn Committed>) {
        *self.committed.write() = Some(committed);
    }

    /// Takes a place for the events of a transaction that is about to commit.
    pub(crate) fn place(self: &Arc<Self>, events: Vec<Entry>) -> Place {
        let number = (!events.is_empty()).then(|| {
            let mut line = self.line.lock();
            line.places.push_back(None);
            line.first + line.places.len() as u64 - 1
        });
        Place {
            handover: Arc::clone(self),
            number,
            events,
            rows: Vec::new(),
            sent: false,
            ended: false,
        }
    }

    /// Stores the rows of a place. Hands over the rows at the front of the line, up to the first
    /// place whose commit has not ended.
    fn leave(&self, number: u64, rows: Vec<Arc<OutboxRow>>) {
        let mut line = self.line.lock();
        let at = usize::try_from(number - line.first).unwrap_or(usize::MAX);
        if let Some(place) = line.places.get_mut(at) {
            *place = Some(rows);
        }
        // Events are handed over under the lock, so that concurrent calls keep the order.
        while let Some(Some(rows)) = line.places.front_mut().map(Option::take) {
            line.places.pop_front();
            line.first += 1;
            if let (Some(committed), false) = (&*self.committed.read(), rows.is_empty()) {
                committed.committed(rows);
            }
        }
    }
}

/// The place of a transaction in the line.
pub(crate) struct Place {
    handover: Arc<Handover>,
    /// `None` without events.
    number: Option<u64>,
    events: Vec<Entry>,
    /// The rows to hand over; empty until the commit has succeeded.
    rows: Vec<Arc<OutboxRow>>,
    /// Whether the commit was sent.
    sent: bool,
    /// Whether the end of the transaction is known.
    ended: bool,
}

impl Place {
    /// Releases the place after the commit, and hands over the rows.
    pub(crate) fn committed(mut self) {
        self.ended = true;
        let live: Vec<Entry> = self
            .events
            .drain(..)
            .filter(|entry| !entry.stored)
            .collect();
        if !live.is_empty() {
            self.rows.push(Arc::new(OutboxRow::new(0, live)));
        }
    }

    /// Releases the place after a rollback, and hands over nothing.
    pub(crate) fn undone(mut self) {
        self.ended = true;
        self.rows.clear();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        if self.sent && !self.ended {
            // It is unknown whether the commit succeeded. If it did, the stored events are read
            // from the table, so only the other events are reported as lost.
            self.rows.clear();
            self.events.retain(|entry| !entry.stored);
            if let (Some(committed), false) =
                (&*self.handover.committed.read(), self.events.is_empty())
            {
                committed.lost(&self.events);
            }
        }
        self.handover.leave(number, std::mem::take(&mut self.rows));
    }
}
