//! Reads the frames after the places of this node, for many streams at once.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::notice::Tag;
use super::{Inner, State, streams};
use crate::engine::feed::Feeds;
use crate::engine::{EngineError, Result, Stream};

/// The interval at which a node compares all its streams with their tops, and sends a notice that
/// it is alive.
const SWEEP: Duration = Duration::from_secs(5);
/// The interval at which outdated rows are removed.
const CLEAN: Duration = Duration::from_mins(1);
/// The maximum number of rows that a statement removes.
const MAX_ROWS: u64 = 5_000;
/// The maximum number of streams in a statement.
const MAX_STREAMS: usize = 500;
/// The maximum number of frames of a stream in a statement. If there are more, the subscriptions
/// read them.
const MAX_FRAMES: i64 = 256;
/// The delay after a failed read.
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

    /// Removes a stream, unless it has a new subscription.
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

    /// Returns the streams of a tag: nearly always one or none.
    pub(super) fn streams_of(&self, tag: Tag) -> Vec<Stream> {
        self.streams.lock().get(&tag).cloned().unwrap_or_default()
    }

    /// Schedules a read of streams, if this node serves them.
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

    /// Runs the scheduled reads while the engine is open.
    pub(super) async fn run(&self, inner: &Inner) {
        loop {
            self.wake.notified().await;
            let due = std::mem::take(&mut *self.due.lock());
            let streams: Vec<Stream> = due.iter().flat_map(|tag| self.streams_of(*tag)).collect();
            for part in streams.chunks(MAX_STREAMS) {
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

/// Reads the tops, the events at the places of this node, and the frames after these places, all in
/// one snapshot. The subscriptions themselves read frames of another epoch.
const READ: &str = "SELECT w.name, s.epoch, s.position, s.last, o.event, e.position, e.event, e.at, e.frame \
     FROM unnest($1::text[], $2::text[], $3::bigint[]) AS w(name, epoch, place) \
     LEFT JOIN linchpin_realtime_streams AS s ON s.name = w.name \
     LEFT JOIN linchpin_realtime_frames AS o ON o.epoch = s.epoch AND s.epoch = w.epoch AND o.position = w.place \
     LEFT JOIN LATERAL (SELECT f.position, f.event, f.at, f.frame FROM linchpin_realtime_frames AS f \
       WHERE f.epoch = s.epoch AND s.epoch = w.epoch AND f.position > w.place ORDER BY f.position LIMIT $4) AS e ON true \
     ORDER BY w.name, e.position";

/// A row of [`READ`]: the name of a stream; its epoch, offset and event at the top; the event at
/// the place of this node; and the offset, event, time and data of one frame after this place.
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
            // The subscription is just starting. It may have read its top before the frame.
            None => feeds.request_comparison(stream.name()),
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
        .bind(MAX_FRAMES);
    let rows = inner.run(query.fetch_all(&inner.pool)).await?;
    for (name, epoch, offset, last, event_at_place, frame_offset, event, at, data) in rows {
        let (Some(epoch), Some(offset)) = (epoch, offset) else {
            feeds.request_comparison(&name);
            continue;
        };
        let Some(place) = places.get(&*name) else {
            continue;
        };
        let read = || {
            let top = streams::position(&epoch, offset)?;
            let event_at_place = event_at_place.as_deref().map(streams::event).transpose()?;
            let last = last.as_deref().map(streams::event).transpose()?;
            let frame = streams::frame(top.epoch, (frame_offset, event, at, data))?;
            Ok::<_, EngineError>((top, event_at_place, last, frame))
        };
        // An unreadable row affects only its own stream.
        let Ok((top, event_at_place, last, frame)) = read() else {
            feeds.request_comparison(&name);
            continue;
        };
        if place.contradicts(event_at_place.as_ref()) {
            feeds.request_comparison(&name);
        } else if let Some(frame) = frame {
            feeds.frame(&name, &frame);
        } else {
            // If the place has changed since the read, a later read compares it.
            if feeds.place(&name) == Some(*place) {
                feeds.compare(&name, top, last.as_ref());
            }
        }
    }
    Ok(())
}

/// Compares all streams with their tops every 5 seconds, and notifies all nodes, itself included,
/// that this node is connected.
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
            tracing::warn!(%error, "outdated rows of the realtime engine cannot be removed");
        }
    }
}

/// The statements that remove rows which are no longer read. Each has the number of milliseconds
/// for which it keeps such rows. Nodes that clean at the same time skip each other's rows.
/// Positions and leases are kept for another hour, because the clocks of nodes differ.
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

/// Removes all outdated rows. Each statement removes at most [`MAX_ROWS`] of them.
pub(super) async fn clean(inner: &Inner) -> Result<()> {
    let now = (inner.clock)().millis();
    for (statement, grace) in OUTDATED {
        loop {
            let query = sqlx::query(statement).bind(now - grace);
            let removed = inner.run(query.execute(&inner.pool)).await?.rows_affected();
            if removed < MAX_ROWS {
                break;
            }
        }
    }
    Ok(())
}
