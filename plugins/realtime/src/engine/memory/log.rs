//! The streams: ring buffers of frames.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use linchpin::Timestamp;

use crate::engine::feed::Entries;
use crate::engine::{
    Append, EngineError, Epoch, EventId, Fence, Frame, History, MAX_READ, Position, Result, Stream,
};

/// The interval at which expired positions and frames of all streams are removed. It is needed
/// because most streams are not used again.
const SWEEP: Duration = Duration::from_mins(1);

#[derive(Default)]
pub(super) struct Logs {
    streams: HashMap<Arc<str>, Log>,
    /// The highest fence seen for each consumer.
    fences: HashMap<Arc<str>, u64>,
    /// The time at which all streams were last cleaned.
    swept: Timestamp,
}

struct Log {
    top: Position,
    last: Option<EventId>,
    frames: VecDeque<Frame>,
    /// The offsets of the kept events.
    offsets: HashMap<EventId, u64>,
    expires: Timestamp,
    history: History,
}

pub(super) fn later(at: Timestamp, by: Duration) -> Timestamp {
    let by = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_millis(at.millis().saturating_add(by))
}

impl Log {
    fn new(history: History) -> Self {
        Self {
            top: Position {
                epoch: Epoch::random(),
                offset: 0,
            },
            last: None,
            frames: VecDeque::new(),
            offsets: HashMap::new(),
            expires: Timestamp::MIN,
            history,
        }
    }

    /// Removes frames beyond the limits of the history.
    fn trim(&mut self, now: Timestamp) {
        let (size, ttl) = (self.history.kept_size(), self.history.kept_ttl());
        while let Some(oldest) = self.frames.front()
            && (self.frames.len() > size as usize || later(oldest.at, ttl) <= now)
        {
            self.offsets.remove(&oldest.event);
            self.frames.pop_front();
        }
        if self.frames.is_empty() {
            // A stream without use keeps only its position.
            self.frames = VecDeque::new();
            self.offsets = HashMap::new();
        }
    }
}

impl Logs {
    /// Returns the log of a stream. Creates it if there is none or its position has expired.
    fn log(&mut self, stream: &Stream, now: Timestamp) -> &mut Log {
        if later(self.swept, SWEEP) <= now {
            self.swept = now;
            self.streams.retain(|_, log| {
                log.trim(now);
                log.expires > now
            });
        }
        let log = self
            .streams
            .entry(stream.shared_name())
            .or_insert_with(|| Log::new(stream.history));
        if log.expires <= now {
            *log = Log::new(stream.history);
        }
        log.history = stream.history;
        log.expires = later(now, stream.history.position_ttl());
        log.trim(now);
        log
    }

    fn check(&mut self, fence: &Fence) -> Result<()> {
        let seen = self.fences.entry(Arc::clone(&fence.consumer)).or_default();
        if fence.number < *seen {
            return Err(EngineError::Fenced { seen: *seen });
        }
        *seen = fence.number;
        Ok(())
    }

    /// Appends a frame. Returns its position, and the frame if it is new.
    pub(super) fn append(
        &mut self,
        append: &Append,
        now: Timestamp,
    ) -> Result<(Position, Option<Frame>)> {
        if let Some(fence) = &append.fence {
            self.check(fence)?;
        }
        let log = self.log(&append.stream, now);
        if let Some(offset) = log.offsets.get(&append.event) {
            let position = Position {
                offset: *offset,
                ..log.top
            };
            return Ok((position, None));
        }
        log.top.offset += 1;
        let frame = Frame {
            position: log.top,
            event: append.event.clone(),
            data: append.frame.clone(),
            at: now,
        };
        log.last = Some(append.event.clone());
        log.offsets.insert(append.event.clone(), log.top.offset);
        log.frames.push_back(frame.clone());
        log.trim(now);
        Ok((log.top, Some(frame)))
    }

    pub(super) fn entries(
        &mut self,
        stream: &Stream,
        after: u64,
        max: usize,
        now: Timestamp,
    ) -> Entries {
        let log = self.log(stream, now);
        // The frames are contiguous.
        let first = log.frames.front().map_or(0, |first| first.position.offset);
        let skip = usize::try_from(after.saturating_add(1).saturating_sub(first));
        let frames = log.frames.iter().skip(skip.unwrap_or(usize::MAX)).take(max);
        let mut bytes = 0;
        let frames = frames.enumerate().take_while(|(at, frame)| {
            bytes += frame.data.len();
            *at == 0 || bytes <= MAX_READ
        });
        let frames = frames.map(|(_, frame)| frame);
        Entries {
            top: log.top,
            last: log.last.clone(),
            frames: frames.cloned().collect(),
        }
    }

    /// Removes all streams: each gets a new epoch at its next use. Fences stay.
    pub(super) fn renew(&mut self) {
        self.streams.clear();
    }

    /// Replaces the epoch if it is the lost one. Returns the position, and whether it is new.
    pub(super) fn replace_epoch(
        &mut self,
        stream: &Stream,
        lost: Epoch,
        now: Timestamp,
    ) -> (Position, bool) {
        let log = self.log(stream, now);
        let replaced = log.top.epoch == lost;
        if replaced {
            let expires = log.expires;
            *log = Log {
                expires,
                ..Log::new(stream.history)
            };
        }
        (log.top, replaced)
    }
}

/// Loss of data, for tests.
#[cfg(any(test, feature = "test-util"))]
impl Logs {
    pub(super) fn remove(&mut self, stream: &str) {
        self.streams.remove(stream);
    }

    pub(super) fn truncate(&mut self, stream: &str) {
        if let Some(log) = self.streams.get_mut(stream) {
            log.frames.clear();
            log.offsets.clear();
        }
    }

    pub(super) fn rewind(&mut self, stream: &str, offset: u64) {
        if let Some(log) = self.streams.get_mut(stream) {
            log.frames.retain(|frame| frame.position.offset <= offset);
            log.offsets.retain(|_, at| *at <= offset);
            log.last = log.frames.back().map(|frame| frame.event.clone());
            log.top.offset = offset;
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn frames_of_unused_streams_are_removed() {
        let (mut logs, start) = (Logs::default(), Timestamp::from_millis(0));
        let stream = |n: usize| Stream::new(format!("s{n}"), History::default());
        for n in 0..10 {
            let append = Append {
                stream: stream(n),
                event: EventId::new("e").unwrap(),
                frame: Bytes::from_static(b"{}"),
                fence: None,
            };
            logs.append(&append, start).unwrap();
        }
        let kept = |logs: &Logs| logs.streams.values().map(|log| log.frames.len()).sum();
        let count: usize = kept(&logs);
        assert_eq!(count, 10);
        let later = later(start, History::default().ttl + SWEEP);
        let top = logs.entries(&stream(0), 0, 9, later).top;
        let count: usize = kept(&logs);
        assert_eq!((count, top.offset), (0, 1));
        assert_eq!(logs.streams.len(), 10, "positions live longer");
    }
}
