//! The state of a stream that a node remembers, and the steps that replace it.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt};

use super::Inner;
use super::state::{BLOCK, Kind, Record, State, short_hash};
use super::store::Lost;
use crate::engine::faults::{self, Fault};
use crate::engine::{EngineError, EventId, Frame, History, Result, Stream};

/// The number of attempts of a step, if other nodes change the stream at the same time.
pub(super) const ATTEMPTS: usize = 100;
/// The maximum time that a position is kept. It is shorter than the time for which `JetStream`
/// keeps the message of the position.
const MAX_LIFE: Duration = Duration::from_hours(14 * 24);
/// The age in milliseconds at which the life of a position is extended.
const RENEWAL_AGE: i64 = 3_600_000;
/// The number of messages that are read at once.
pub(super) const AT_ONCE: usize = 32;

pub(super) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX / 4)
}

/// The life of a position in milliseconds.
pub(super) fn life(history: History) -> i64 {
    millis(history.position_ttl().min(MAX_LIFE))
}

/// The last known state of a stream.
#[derive(Clone, Debug)]
pub(super) struct Known {
    /// The number of the last message; 0 if there is none.
    pub(super) seq: u64,
    pub(super) state: State,
    /// The time at which the last message was stored.
    pub(super) at: i64,
    /// Whether the state is stored. Otherwise the next message replaces all earlier ones.
    pub(super) stored: bool,
    /// The last message, if it is a frame and was just read.
    pub(super) frame: Option<Frame>,
    /// The short hashes of the events of the last frames, the newest one last.
    pub(super) short_hashes: Option<VecDeque<u32>>,
}

impl Known {
    /// Creates the state of a new epoch, after the message with a number.
    fn begin(seq: u64, fences: BTreeMap<String, u64>, expires: i64) -> Self {
        Self {
            seq,
            state: State::begin(fences, expires),
            at: 0,
            stored: false,
            frame: None,
            short_hashes: Some(VecDeque::new()),
        }
    }

    /// Begins a new epoch if the position has expired.
    pub(super) fn expire(&mut self, now: i64, history: History) {
        if self.stored && self.state.expires <= now {
            let fences = std::mem::take(&mut self.state.fences);
            *self = Self::begin(self.seq, fences, now + life(history));
        }
    }

    /// Takes over the short hashes of an earlier state of the same epoch, if all frames since then
    /// are known.
    pub(super) fn take_short_hashes(&mut self, earlier: Option<Self>) {
        let Some(earlier) = earlier else { return };
        let (own, old) = (self.state.top, earlier.state.top);
        let rest = &self.state.index.rest;
        let new = own.offset.checked_sub(old.offset);
        let new = new.and_then(|new| usize::try_from(new).ok());
        if let (Some(new), Some(mut short_hashes)) = (new, earlier.short_hashes)
            && own.epoch == old.epoch
            && new <= rest.len()
        {
            short_hashes.extend(
                rest[rest.len() - new..]
                    .iter()
                    .map(|frame| frame.short_hash),
            );
            self.short_hashes = Some(short_hashes);
        }
    }
}

/// The error for a step that failed because another node changed the stream first.
pub(super) struct Conflict;

impl Inner {
    pub(super) fn now(&self) -> i64 {
        (self.clock)().millis()
    }

    /// Reads the state of a stream from the server.
    pub(super) async fn load(&self, subject: &str, history: History) -> Result<Known> {
        let stream = self.names.frames_stream();
        let expires = self.now() + life(history);
        let Some(stored) = self.last(&stream, subject).await? else {
            return Ok(Known::begin(0, BTreeMap::new(), expires));
        };
        let Some(record) = Record::read(&stored.text) else {
            tracing::error!(
                subject,
                seq = stored.seq,
                "a position of the realtime engine was replaced by a foreign message"
            );
            faults::count(Fault::KeyReplaced);
            return Ok(Known::begin(stored.seq, BTreeMap::new(), expires));
        };
        let at = record.at;
        let mut known = Known {
            seq: stored.seq,
            frame: record.clone().into_frame(),
            state: record.into_state(stored.seq),
            at,
            stored: true,
            short_hashes: None,
        };
        known.expire(self.now(), history);
        Ok(known)
    }

    /// Stores a state without a frame.
    pub(super) async fn store(
        &self,
        subject: &str,
        kind: Kind,
        state: State,
        expected: u64,
        alone: bool,
        lost: Lost,
    ) -> Result<Result<Known, Conflict>> {
        let record = Record {
            kind,
            state,
            at: self.now(),
            data: Bytes::new(),
        };
        let put = self.put(subject, record.write(), expected, alone, lost);
        let Some(seq) = put.await? else {
            return Ok(Err(Conflict));
        };
        Ok(Ok(Known {
            seq,
            at: record.at,
            state: record.state,
            stored: true,
            frame: None,
            short_hashes: None,
        }))
    }

    /// Returns the stored state of a stream. Creates it if there is none, and extends its life.
    pub(super) async fn open(&self, stream: &Stream) -> Result<Known> {
        let subject = self.names.frames(Some(stream.name()));
        for _ in 0..ATTEMPTS {
            let known = self.load(&subject, stream.history).await?;
            let expires = self.now() + life(stream.history);
            let kind = match known.stored {
                true if known.state.expires >= expires - RENEWAL_AGE => return Ok(known),
                true => Kind::Kept,
                false => Kind::Begun,
            };
            let state = State {
                expires,
                ..known.state
            };
            let stored = self.store(
                &subject,
                kind,
                state,
                known.seq,
                !known.stored,
                Lost::Conflict,
            );
            if let Ok(known) = stored.await? {
                return Ok(known);
            }
        }
        Err(conflict_error())
    }

    /// Begins a new epoch if `decide` returns true for the current state. Returns the state.
    pub(super) async fn begin_if(
        &self,
        subject: &str,
        history: History,
        decide: impl Fn(&State) -> bool,
    ) -> Result<Known> {
        for _ in 0..ATTEMPTS {
            let known = self.load(subject, history).await?;
            let state = if !known.stored {
                // The stream already has a new epoch.
                known.state
            } else if decide(&known.state) {
                State::begin(known.state.fences, known.state.expires)
            } else {
                return Ok(known);
            };
            // A retry could begin a second epoch.
            let stored = self.store(
                subject,
                Kind::Begun,
                state,
                known.seq,
                true,
                Lost::Unavailable,
            );
            if let Ok(known) = stored.await? {
                return Ok(known);
            }
        }
        Err(conflict_error())
    }

    /// Reads the short hashes of the events of the last frames, the newest one last.
    async fn read_short_hashes(&self, state: &State, kept: u32) -> Result<VecDeque<u32>> {
        let rest = state.index.rest.iter().map(|frame| frame.short_hash);
        let mut short_hashes: VecDeque<u32> = rest.collect();
        let (name, blocks) = (self.names.frames_stream(), &state.index.blocks);
        let needed = u64::from(kept).saturating_sub(short_hashes.len() as u64);
        let needed = usize::try_from(needed.div_ceil(BLOCK)).unwrap_or(usize::MAX);
        let mut read = stream::iter(blocks.iter().rev().take(needed).copied())
            .map(|seq| self.at(&name, seq))
            .buffered(AT_ONCE);
        while let Some(text) = read.next().await {
            let record = text?.and_then(|text| Record::read(&text));
            let own = |record: &Record| record.state.top.epoch == state.top.epoch;
            // Older frames are no longer kept.
            let Some(record) = record.filter(own) else {
                break;
            };
            if let Some(event) = &record.state.last {
                short_hashes.push_front(short_hash(event));
            }
            for frame in record.state.index.rest.iter().rev() {
                short_hashes.push_front(frame.short_hash);
            }
        }
        Ok(short_hashes)
    }

    /// Returns the offset of the frame of an event, if it is among the last frames.
    pub(super) async fn find(
        &self,
        known: &mut Known,
        event: &EventId,
        kept: u32,
    ) -> Result<Option<u64>> {
        if known.short_hashes.is_none() {
            known.short_hashes = Some(self.read_short_hashes(&known.state, kept).await?);
        }
        let (top, short_hashes) = (known.state.top, known.short_hashes.get_or_insert_default());
        let kept = usize::try_from(kept).unwrap_or(usize::MAX);
        while short_hashes.len() > kept {
            short_hashes.pop_front();
        }
        let wanted = short_hash(event);
        let newest = short_hashes.iter().rev().enumerate();
        let found: Vec<u64> = newest
            .filter(|(_, short_hash)| **short_hash == wanted)
            .filter_map(|(back, _)| top.offset.checked_sub(back as u64))
            .collect();
        // Two events may have the same short hash.
        for offset in found {
            let frame = self.frame(known, offset).await?;
            if frame.is_some_and(|frame| frame.event == *event) {
                return Ok(Some(offset));
            }
        }
        Ok(None)
    }
}

pub(super) fn conflict_error() -> EngineError {
    EngineError::unavailable(
        "several attempts failed because other nodes changed the stream at the same time; try \
         again later",
    )
}
