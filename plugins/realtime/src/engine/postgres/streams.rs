//! Appends and reads frames.

use std::collections::HashSet;

use bytes::Bytes;
use linchpin::{BoxFuture, Timestamp};

use super::notice::Tag;
use super::{Inner, millis};
use crate::engine::feed::{Entries, Source};
use crate::engine::{
    Append, EngineError, Epoch, EventId, Frame, MAX_READ, Position, Result, Stream,
};

/// How often a statement is repeated after a conflict with a concurrent one.
const MAX_RACES: usize = 5;
/// The maximum number of frames in a statement.
const BATCH: usize = 1000;
/// The maximum number of streams that a statement renews.
const MAX_RENEWED: i64 = 5_000;
/// Removes the positions of the streams whose names come after `$1`, at most `$2` of them in the
/// order of their names, and returns the last of these names. The statement takes locks in the same
/// order as appends.
const RENEW: &str = "WITH part AS MATERIALIZED (SELECT name FROM linchpin_realtime_streams \
     WHERE name > $1 ORDER BY name LIMIT $2 FOR UPDATE), \
     gone AS (DELETE FROM linchpin_realtime_streams AS s USING part WHERE s.name = part.name) \
     SELECT max(name) FROM part";

/// A row of a reading function: the top, the last event, and a frame.
pub(super) type Row = (
    String,
    i64,
    Option<String>,
    Option<i64>,
    Option<String>,
    Option<i64>,
    Option<Vec<u8>>,
);

fn foreign(what: &str) -> EngineError {
    EngineError::failed(format!(
        "unexpected data in the tables linchpin_realtime_*: {what}"
    ))
}

pub(super) fn position(epoch: &str, offset: i64) -> Result<Position> {
    Ok(Position {
        epoch: epoch.parse().map_err(|_| foreign("an invalid epoch"))?,
        offset: u64::try_from(offset).map_err(|_| foreign("a negative offset"))?,
    })
}

pub(super) fn event(text: &str) -> Result<EventId> {
    EventId::new(text).ok_or_else(|| foreign("an invalid event id"))
}

/// Returns the frame of a row, if it has one.
pub(super) fn frame(
    epoch: Epoch,
    (offset, id, at, data): (Option<i64>, Option<String>, Option<i64>, Option<Vec<u8>>),
) -> Result<Option<Frame>> {
    let (Some(offset), Some(id), Some(at), Some(data)) = (offset, id, at, data) else {
        return Ok(None);
    };
    Ok(Some(Frame {
        position: Position {
            epoch,
            offset: u64::try_from(offset).map_err(|_| foreign("a negative offset"))?,
        },
        event: event(&id)?,
        data: Bytes::from(data),
        at: Timestamp::from_millis(at),
    }))
}

pub(super) async fn append(inner: &Inner, batch: &[Append]) -> Result<Vec<Position>> {
    let mut positions = Vec::with_capacity(batch.len());
    for part in batch.chunks(BATCH) {
        let mut races = 0;
        let appended = loop {
            match append_part(inner, part).await {
                // Another node has appended the same event, or a sweep has removed the stream.
                Err(EngineError::Unavailable(cause)) if races < MAX_RACES && is_race(&*cause) => {
                    races += 1;
                }
                outcome => break outcome?,
            }
        };
        positions.extend(appended);
        let changed: HashSet<Tag> = part.iter().map(|one| Tag::of(&one.stream)).collect();
        inner.reader.wake(changed.iter().copied());
        inner.notifier.changed(changed);
    }
    Ok(positions)
}

fn is_race(cause: &(dyn std::error::Error + 'static)) -> bool {
    cause
        .downcast_ref::<sqlx::Error>()
        .and_then(sqlx::Error::as_database_error)
        .and_then(sqlx::error::DatabaseError::code)
        .is_some_and(|code| matches!(&*code, "23505" | "40001" | "40P01"))
}

async fn append_part(inner: &Inner, batch: &[Append]) -> Result<Vec<Position>> {
    let each = |value: fn(&Append) -> i64| batch.iter().map(value).collect::<Vec<i64>>();
    let names: Vec<&str> = batch.iter().map(|one| one.stream.name()).collect();
    let events: Vec<&str> = batch.iter().map(|one| one.event.as_str()).collect();
    let bodies: Vec<&[u8]> = batch.iter().map(|one| &*one.frame).collect();
    let new_epochs: Vec<String> = batch.iter().map(|_| Epoch::random().to_string()).collect();
    let consumers: Vec<Option<&str>> = batch
        .iter()
        .map(|one| one.fence.as_ref().map(|fence| &*fence.consumer))
        .collect();
    let fences: Vec<Option<i64>> = batch
        .iter()
        .map(|one| one.fence.as_ref().map(|fence| fence.number as i64))
        .collect();
    let query = sqlx::query_as::<_, (String, i64)>(
        "SELECT its_epoch, its_position FROM linchpin_realtime_append($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
    )
    .bind(names)
    .bind(events)
    .bind(bodies)
    .bind(each(|one| i64::from(one.stream.history.kept_size())))
    .bind(each(|one| millis(one.stream.history.kept_ttl())))
    .bind(each(|one| millis(one.stream.history.position_ttl())))
    .bind(new_epochs)
    .bind(consumers)
    .bind(fences)
    .bind((inner.clock)().millis());
    let rows = inner.run(query.fetch_all(&inner.pool)).await?;
    let positions: Vec<Position> = rows
        .iter()
        .map(|(epoch, offset)| position(epoch, *offset))
        .collect::<Result<_>>()?;
    if positions.len() != batch.len() {
        return Err(foreign(
            "linchpin_realtime_append returned a wrong number of rows",
        ));
    }
    Ok(positions)
}

impl Inner {
    async fn read(&self, stream: &Stream, after: u64, max: usize) -> Result<Entries> {
        let query = sqlx::query_as::<_, Row>(
            "SELECT its_epoch, its_position, its_last, its_offset, its_event, its_at, its_frame \
             FROM (SELECT e.*, row_number() OVER w AS number, \
               sum(octet_length(e.its_frame)) OVER w AS bytes \
               FROM linchpin_realtime_entries($1, $2, $3, $4, $5, $6) AS e \
               WINDOW w AS (ORDER BY e.its_offset)) AS read \
             WHERE number = 1 OR bytes <= $7 ORDER BY its_offset",
        )
        .bind(stream.name())
        .bind(Epoch::random().to_string())
        .bind(millis(stream.history.position_ttl()))
        .bind((self.clock)().millis())
        .bind(i64::try_from(after).unwrap_or(i64::MAX))
        .bind(i64::try_from(max).unwrap_or(i64::MAX))
        .bind(MAX_READ as i64);
        let rows = self.run(query.fetch_all(&self.pool)).await?;
        let (epoch, offset, last, ..) = rows.first().ok_or_else(|| foreign("no position"))?;
        let top = position(epoch, *offset)?;
        let last = last.as_deref().map(event).transpose()?;
        let frames = rows
            .into_iter()
            .filter_map(|(.., offset, id, at, data)| {
                frame(top.epoch, (offset, id, at, data)).transpose()
            })
            .collect::<Result<_>>()?;
        Ok(Entries { top, last, frames })
    }

    /// Removes the positions of all streams: each gets a new epoch at its next use. The frames of
    /// their former epochs are never read again, and are removed when they are too old, because
    /// there may be too many for one statement.
    ///
    /// Streams that begin during the call already have a new epoch, and may be removed or not. No
    /// table is locked, because a lock would wait for a running backup and delay every room.
    pub(super) async fn renew(&self) -> Result<()> {
        let mut last = String::new();
        loop {
            let query = sqlx::query_scalar::<_, Option<String>>(RENEW)
                .bind(&last)
                .bind(MAX_RENEWED);
            match self.run(query.fetch_one(&self.pool)).await? {
                Some(next) => last = next,
                None => break,
            }
        }
        self.notifier.renewed();
        Ok(())
    }

    async fn replace(&self, stream: &Stream, lost: Epoch) -> Result<Position> {
        let query = sqlx::query_scalar::<_, bool>("SELECT linchpin_realtime_replace($1, $2, $3)")
            .bind(stream.name())
            .bind(lost.to_string())
            .bind(Epoch::random().to_string());
        if self.run(query.fetch_one(&self.pool)).await? {
            self.notifier.changed([Tag::of(stream)]);
        }
        Ok(self.read(stream, u64::MAX, 0).await?.top)
    }
}

impl Source for Inner {
    fn listen<'a>(&'a self, stream: &'a Stream) -> BoxFuture<'a, Result<()>> {
        // All notifications arrive on one channel. After a lost connection, the first comparison
        // over the next one reads all missed frames.
        self.reader.add(stream);
        Box::pin(self.connected())
    }

    fn released(&self, stream: &Stream) {
        self.reader.remove(stream, &self.feeds);
    }

    fn entries<'a>(
        &'a self,
        stream: &'a Stream,
        after: u64,
        max: usize,
    ) -> BoxFuture<'a, Result<Entries>> {
        Box::pin(self.read(stream, after, max))
    }

    fn replace_epoch<'a>(
        &'a self,
        stream: &'a Stream,
        lost: Epoch,
    ) -> BoxFuture<'a, Result<Position>> {
        Box::pin(self.replace(stream, lost))
    }
}
