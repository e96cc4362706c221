//! Reads what lies above the places of this node, for many streams at once.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::notice::Tag;
use super::{Inner, State, streams};
use crate::engine::feed::Feeds;
use crate::engine::{EngineError, Result, Stream};

/// How often all streams are compared with their tops, and nodes show that they are alive.
const SWEEP: Duration = Duration::from_secs(5);
/// How often outdated rows are removed.
const CLEAN: Duration = Duration::from_mins(1);
/// The maximum number of rows that a statement removes.
const ROWS: u64 = 5_000;
/// The maximum number of streams in a statement.
const STREAMS: usize = 500;
/// The maximum number of frames of a stream in a statement. If there are more, the subscriptions
/// read them.
const FRAMES: i64 = 256;
/// The time after a read that failed.
const RETRY: Duration = Duration::from_millis(200);

#[derive(Default)]
pub(super) struct Reader {
    /// The streams with subscriptions.
    streams: Mutex<HashMap<Tag, Vec<Stream>>>,
    due: Mutex<HashSet<Tag>>,
    wake: Notify,
}

impl Reader {
    pub(super) fn add(&self, stream: &Stream) {
        let mut streams = self.streams.lock();
        let same = streams.entry(Tag::of(stream)).or_default();
        if !same.iter().any(|other| other.name() == stream.name()) {
            same.push(stream.clone());
        }
    }

    /// Forgets a stream, unless it was subscribed to again.
    pub(super) fn remove(&self, stream: &Stream, feeds: &Feeds) {
        let mut streams = self.streams.lock();
        let tag = Tag::of(stream);
        if !feeds.is_open(stream.name())
            && let Some(same) = streams.get_mut(&tag)
        {
            same.retain(|other| other.name() != stream.name());
            if same.is_empty() {
                streams.remove(&tag);
            }
        }
    }

    /// The streams of a tag: nearly always one or none.
    pub(super) fn of(&self, tag: Tag) -> Vec<Stream> {
        self.streams.lock().get(&tag).cloned().unwrap_or_default()
    }

    /// Has streams read soon, if this node serves them.
    pub(super) fn wake(&self, tags: impl IntoIterator<Item = Tag>) {
        let streams = self.streams.lock();
        let served = tags.into_iter().filter(|tag| streams.contains_key(tag));
        self.due.lock().extend(served);
        self.wake.notify_one();
    }

    fn wake_all(&self) {
        self.due.lock().extend(self.streams.lock().keys());
        self.wake.notify_one();
    }

    /// Reads what is due, for as long as the engine is open.
    pub(super) async fn run(&self, inner: &Inner) {
        loop {
            self.wake.notified().await;
            let due = std::mem::take(&mut *self.due.lock());
            let streams: Vec<Stream> = due.iter().flat_map(|tag| self.of(*tag)).collect();
            for part in streams.chunks(STREAMS) {
                if let Err(error) = read(inner, part).await {
                    tracing::debug!(error = %error, "frames could not be read");
                    self.due.lock().extend(part.iter().map(Tag::of));
                }
            }
            if !self.due.lock().is_empty() {
                self.wake.notify_one();
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

/// One statement and one snapshot: the tops, the events at the own places, and the frames above
/// them. Frames of another epoch are left to the subscriptions.
const READ: &str = "SELECT w.name, s.epoch, s.position, s.last, o.event, e.position, e.event, e.at, e.frame \
     FROM unnest($1::text[], $2::text[], $3::bigint[]) AS w(name, epoch, place) \
     LEFT JOIN linchpin_realtime_streams AS s ON s.name = w.name \
     LEFT JOIN linchpin_realtime_frames AS o ON o.epoch = s.epoch AND s.epoch = w.epoch AND o.position = w.place \
     LEFT JOIN LATERAL (SELECT f.position, f.event, f.at, f.frame FROM linchpin_realtime_frames AS f \
       WHERE f.epoch = s.epoch AND s.epoch = w.epoch AND f.position > w.place ORDER BY f.position LIMIT $4) AS e ON true \
     ORDER BY w.name, e.position";

type Row = (
    String,
    Option<String>,
    Option<i64>,
    Option<String>,
    Option<String>,
    Option<i64>,
    Option<String>,
    Option<i64>,
    Option<Vec<u8>>,
);

async fn read(inner: &Inner, streams: &[Stream]) -> Result<()> {
    let feeds = &inner.feeds;
    let mut places = HashMap::new();
    for stream in streams {
        match feeds.place(stream.name()) {
            Some(place) => {
                places.insert(stream.name(), place);
            }
            // It is being subscribed to, and may have read its top before the frame.
            None => feeds.doubt(stream.name()),
        }
    }
    if places.is_empty() {
        return Ok(());
    }
    let (mut names, mut epochs, mut offsets) = (Vec::new(), Vec::new(), Vec::new());
    for (name, place) in &places {
        names.push(*name);
        epochs.push(place.position.epoch.to_string());
        offsets.push(i64::try_from(place.position.offset).unwrap_or(i64::MAX));
    }
    let query = sqlx::query_as::<_, Row>(READ)
        .bind(&names)
        .bind(epochs)
        .bind(offsets)
        .bind(FRAMES);
    let rows = inner.run(query.fetch_all(&inner.pool)).await?;
    for (name, epoch, offset, last, own, at_offset, event, at, data) in rows {
        let (Some(epoch), Some(offset)) = (epoch, offset) else {
            feeds.doubt(&name);
            continue;
        };
        let Some(place) = places.get(&*name) else {
            continue;
        };
        let read = || {
            let top = streams::position(&epoch, offset)?;
            let own = own.as_deref().map(streams::event).transpose()?;
            let last = last.as_deref().map(streams::event).transpose()?;
            let frame = streams::frame(top.epoch, (at_offset, event, at, data))?;
            Ok::<_, EngineError>((top, own, last, frame))
        };
        // A row that cannot be read concerns its own stream only.
        let Ok((top, own, last, frame)) = read() else {
            feeds.doubt(&name);
            continue;
        };
        if place.contradicts(own.as_ref()) {
            feeds.doubt(&name);
        } else if let Some(frame) = frame {
            feeds.frame(&name, &frame);
        } else {
            // A place that has moved on since the read is compared with the next one.
            if feeds.place(&name) == Some(*place) {
                feeds.compare(&name, top, last.as_ref());
            }
        }
    }
    Ok(())
}

/// Compares all streams with their tops every few seconds, and shows other nodes and itself that it
/// is connected.
pub(super) async fn sweep(inner: &Inner) {
    loop {
        tokio::time::sleep(SWEEP).await;
        if *inner.state.borrow() != State::Connected {
            continue;
        }
        inner.notifier.alive();
        inner.reader.wake_all();
    }
}

/// Removes outdated rows every minute.
pub(super) async fn tidy(inner: &Inner) {
    loop {
        tokio::time::sleep(CLEAN).await;
        if *inner.state.borrow() != State::Connected {
            continue;
        }
        if let Err(error) = clean(inner).await {
            tracing::warn!(error = %error, "outdated rows of the realtime engine stay");
        }
    }
}

/// Rows that nothing reads any more. Nodes that clean at the same time skip each other's rows.
/// Positions and leases stay for another hour: the clocks of nodes differ.
const OUTDATED: [(&str, i64); 4] = [
    (
        "DELETE FROM linchpin_realtime_frames WHERE ctid = ANY(ARRAY(SELECT ctid FROM linchpin_realtime_frames \
         WHERE until <= $1 LIMIT 5000 FOR UPDATE SKIP LOCKED))",
        0,
    ),
    (
        "DELETE FROM linchpin_realtime_streams WHERE ctid = ANY(ARRAY(SELECT ctid FROM linchpin_realtime_streams \
         WHERE expires <= $1 LIMIT 5000 FOR UPDATE SKIP LOCKED))",
        3_600_000,
    ),
    (
        "DELETE FROM linchpin_realtime_presence WHERE ctid = ANY(ARRAY(SELECT ctid FROM linchpin_realtime_presence \
         WHERE until <= $1 LIMIT 5000 FOR UPDATE SKIP LOCKED))",
        3_600_000,
    ),
    (
        "DELETE FROM linchpin_realtime_messages WHERE ctid = ANY(ARRAY(SELECT ctid FROM linchpin_realtime_messages \
         WHERE at <= $1 ORDER BY id LIMIT 5000 FOR UPDATE SKIP LOCKED))",
        60_000,
    ),
];

/// Removes all of them, in statements of [`ROWS`] each.
pub(super) async fn clean(inner: &Inner) -> Result<()> {
    let now = (inner.clock)().millis();
    for (statement, grace) in OUTDATED {
        loop {
            let query = sqlx::query(statement).bind(now - grace);
            let removed = inner.run(query.execute(&inner.pool)).await?.rows_affected();
            if removed < ROWS {
                break;
            }
        }
    }
    Ok(())
}
