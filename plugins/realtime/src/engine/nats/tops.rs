//! The state of a stream as a node knows it, and the steps that replace it.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt};

use super::Inner;
use super::state::{BLOCK, Kind, Record, State, print};
use super::store::Lost;
use crate::engine::faults::{self, Fault};
use crate::engine::{EngineError, EventId, Frame, History, Result, Stream};

/// How often a step is tried if other nodes change the stream at the same time.
pub(super) const ATTEMPTS: usize = 100;
/// The maximum time that a position is kept: less than `JetStream` keeps its message.
const MOST_LIFE: Duration = Duration::from_hours(14 * 24);
/// A position is kept for longer when so many milliseconds of its life are over.
const RENEWED: i64 = 3_600_000;
/// The number of messages that are read at once.
pub(super) const AT_ONCE: usize = 32;

pub(super) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX / 4)
}

/// The life of a position in milliseconds.
pub(super) fn life(history: History) -> i64 {
    millis(history.position_ttl().min(MOST_LIFE))
}

/// The last known state of a stream.
#[derive(Clone, Debug)]
pub(super) struct Known {
    /// The number of the last message; 0 if there is none.
    pub(super) seq: u64,
    pub(super) state: State,
    /// When the last message was stored.
    pub(super) at: i64,
    /// Whether the state is stored. Otherwise the next message replaces all earlier ones.
    pub(super) stored: bool,
    /// The last message, if it is a frame and was just read.
    pub(super) frame: Option<Frame>,
    /// The prints of the events of the last frames, the newest one last.
    pub(super) prints: Option<VecDeque<u32>>,
}

impl Known {
    /// A new epoch after the message with a number.
    fn begin(seq: u64, fences: BTreeMap<String, u64>, expires: i64) -> Self {
        Self {
            seq,
            state: State::begin(fences, expires),
            at: 0,
            stored: false,
            frame: None,
            prints: Some(VecDeque::new()),
        }
    }

    /// Begins a new epoch if the position has expired.
    pub(super) fn expire(&mut self, now: i64, history: History) {
        if self.stored && self.state.expires <= now {
            let fences = std::mem::take(&mut self.state.fences);
            *self = Self::begin(self.seq, fences, now + life(history));
        }
    }

    /// Takes the prints of an earlier state of the same epoch, if no frame between is unknown.
    pub(super) fn take_prints(&mut self, earlier: Option<Self>) {
        let Some(earlier) = earlier else { return };
        let (own, old) = (self.state.top, earlier.state.top);
        let rest = &self.state.index.rest;
        let new = own.offset.checked_sub(old.offset);
        let new = new.and_then(|new| usize::try_from(new).ok());
        if let (Some(new), Some(mut prints)) = (new, earlier.prints)
            && own.epoch == old.epoch
            && new <= rest.len()
        {
            prints.extend(rest[rest.len() - new..].iter().map(|frame| frame.print));
            self.prints = Some(prints);
        }
    }
}

/// A step that another node has overtaken.
pub(super) struct Overtaken;

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
            prints: None,
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
    ) -> Result<Result<Known, Overtaken>> {
        let record = Record {
            kind,
            state,
            at: self.now(),
            data: Bytes::new(),
        };
        let put = self.put(subject, record.write(), expected, alone, lost);
        let Some(seq) = put.await? else {
            return Ok(Err(Overtaken));
        };
        Ok(Ok(Known {
            seq,
            at: record.at,
            state: record.state,
            stored: true,
            frame: None,
            prints: None,
        }))
    }

    /// The state of a stream, which is stored: a new one if there is none. Its life is extended.
    pub(super) async fn open(&self, stream: &Stream) -> Result<Known> {
        let subject = self.names.frames(Some(stream.name()));
        for _ in 0..ATTEMPTS {
            let known = self.load(&subject, stream.history).await?;
            let expires = self.now() + life(stream.history);
            let kind = match known.stored {
                true if known.state.expires >= expires - RENEWED => return Ok(known),
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
                Lost::Overtaken,
            );
            if let Ok(known) = stored.await? {
                return Ok(known);
            }
        }
        Err(overtaken())
    }

    /// Begins a new epoch if `decide` says so for the present state. Returns the state.
    pub(super) async fn begin_if(
        &self,
        subject: &str,
        history: History,
        decide: impl Fn(&State) -> bool,
    ) -> Result<Known> {
        for _ in 0..ATTEMPTS {
            let known = self.load(subject, history).await?;
            let state = if !known.stored {
                // It is a new epoch already.
                known.state
            } else if decide(&known.state) {
                State::begin(known.state.fences, known.state.expires)
            } else {
                return Ok(known);
            };
            // Tried again, it could begin two epochs.
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
        Err(overtaken())
    }

    /// The prints of the events of the last frames, the newest one last.
    async fn read_prints(&self, state: &State, kept: u32) -> Result<VecDeque<u32>> {
        let rest = state.index.rest.iter().map(|frame| frame.print);
        let mut prints: VecDeque<u32> = rest.collect();
        let (name, blocks) = (self.names.frames_stream(), &state.index.blocks);
        let needed = u64::from(kept).saturating_sub(prints.len() as u64);
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
                prints.push_front(print(event));
            }
            for frame in record.state.index.rest.iter().rev() {
                prints.push_front(frame.print);
            }
        }
        Ok(prints)
    }

    /// The offset of the frame of an event, if it is among the last frames.
    pub(super) async fn find(
        &self,
        known: &mut Known,
        event: &EventId,
        kept: u32,
    ) -> Result<Option<u64>> {
        if known.prints.is_none() {
            known.prints = Some(self.read_prints(&known.state, kept).await?);
        }
        let (top, prints) = (known.state.top, known.prints.get_or_insert_default());
        let kept = usize::try_from(kept).unwrap_or(usize::MAX);
        while prints.len() > kept {
            prints.pop_front();
        }
        let wanted = print(event);
        let newest = prints.iter().rev().enumerate();
        let found: Vec<u64> = newest
            .filter(|(_, print)| **print == wanted)
            .filter_map(|(back, _)| top.offset.checked_sub(back as u64))
            .collect();
        // Two events may have the same print.
        for offset in found {
            let frame = self.frame(known, offset).await?;
            if frame.is_some_and(|frame| frame.event == *event) {
                return Ok(Some(offset));
            }
        }
        Ok(None)
    }
}

pub(super) fn overtaken() -> EngineError {
    EngineError::unavailable("other nodes change the stream at the same time")
}
