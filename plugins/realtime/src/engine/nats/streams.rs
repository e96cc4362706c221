//! Reads frames.

use std::ops::RangeInclusive;

use futures_util::stream::{self, StreamExt};
use linchpin::BoxFuture;

use super::Inner;
use super::state::{BLOCK, Record, State};
use super::tops::{AT_ONCE, ATTEMPTS, Known, conflict_error, millis};
use crate::engine::faults::{self, Fault};
use crate::engine::feed::{Entries, Source};
use crate::engine::{Epoch, Frame, MAX_READ, Position, Result, Stream};

/// The message numbers of the frames in a part of a stream.
#[derive(Default)]
struct MessageNumbers {
    /// The offset of the first frame.
    first: u64,
    /// The numbers of the messages.
    seqs: Vec<Option<u64>>,
}

impl MessageNumbers {
    fn new(offsets: &RangeInclusive<u64>) -> Self {
        let count = offsets.end().saturating_sub(*offsets.start()) + 1;
        Self {
            first: *offsets.start(),
            seqs: vec![None; usize::try_from(count).unwrap_or(0)],
        }
    }

    fn set(&mut self, offset: u64, seq: u64) {
        let at = offset.checked_sub(self.first);
        if let Some(at) = at.and_then(|at| usize::try_from(at).ok())
            && let Some(number) = self.seqs.get_mut(at)
        {
            *number = Some(seq);
        }
    }

    /// Sets the message numbers of consecutive frames, the last of which has the offset `last`.
    fn set_all(&mut self, last: u64, seqs: impl DoubleEndedIterator<Item = u64>) {
        for (back, seq) in seqs.rev().enumerate() {
            if let Some(offset) = last.checked_sub(back as u64) {
                self.set(offset, seq);
            }
        }
    }
}

impl Inner {
    /// Returns the message numbers of frames, from the state and from the last messages of blocks.
    async fn numbers(&self, state: &State, offsets: RangeInclusive<u64>) -> Result<MessageNumbers> {
        let (index, top) = (&state.index, state.top);
        let mut numbers = MessageNumbers::new(&offsets);
        numbers.set_all(top.offset, index.rest.iter().map(|frame| frame.seq));
        // The offset of the last frame of each block.
        let newest = top.offset / BLOCK;
        let ends = (0..=newest).rev().map(|block| block * BLOCK);
        let needed = ends
            .zip(index.blocks.iter().rev())
            .filter(|(end, _)| *end >= *offsets.start() && *end < offsets.end() + BLOCK);
        let needed: Vec<(u64, u64)> = needed.map(|(end, seq)| (end, *seq)).collect();
        let name = self.names.frames_stream();
        let mut read = stream::iter(needed)
            .map(|(end, seq)| {
                let name = &name;
                async move { (end, seq, self.at(name, seq).await) }
            })
            .buffered(AT_ONCE);
        while let Some((end, seq, text)) = read.next().await {
            let record = text?.and_then(|text| Record::read(&text));
            let Some(record) = record.filter(|one| one.state.top.epoch == top.epoch) else {
                continue;
            };
            let rest = record.state.index.rest.iter().map(|frame| frame.seq);
            numbers.set_all(end, rest.chain([seq]).collect::<Vec<_>>().into_iter());
        }
        Ok(numbers)
    }

    /// Reads the frame with a message number, if it is the one at this offset.
    async fn frame_at(
        &self,
        known: &Known,
        number: Option<u64>,
        position: Position,
    ) -> Result<Option<Frame>> {
        if let Some(frame) = &known.frame
            && frame.position == position
        {
            return Ok(Some(frame.clone()));
        }
        let Some(seq) = number else { return Ok(None) };
        let Some(text) = self.at(&self.names.frames_stream(), seq).await? else {
            return Ok(None);
        };
        let Some(record) = Record::read(&text) else {
            tracing::error!(seq, "a frame of the realtime engine cannot be read");
            faults::count(Fault::EntryUnreadable);
            return Ok(None);
        };
        Ok(record
            .into_frame()
            .filter(|frame| frame.position == position))
    }

    /// Reads the frame at an offset, if it is kept.
    pub(super) async fn frame(&self, known: &Known, offset: u64) -> Result<Option<Frame>> {
        let state = &known.state;
        let numbers = self.numbers(state, offset..=offset).await?;
        let number = numbers.seqs.first().copied().flatten();
        let position = Position {
            offset,
            ..state.top
        };
        self.frame_at(known, number, position).await
    }

    /// Reads the frames at some offsets. If some are not kept, it returns only the frames after the
    /// last missing one. Also returns whether a frame is missing.
    async fn frames(
        &self,
        stream: &Stream,
        known: &Known,
        offsets: RangeInclusive<u64>,
    ) -> Result<(Vec<Frame>, bool)> {
        let state = &known.state;
        let numbers = self.numbers(state, offsets).await?;
        let since = self.now() - millis(stream.history.kept_ttl());
        let (mut frames, mut bytes, mut missing) = (Vec::new(), 0, false);
        let mut read = stream::iter((numbers.first..).zip(numbers.seqs))
            .map(|(offset, number)| {
                let position = Position {
                    offset,
                    ..state.top
                };
                self.frame_at(known, number, position)
            })
            .buffered(AT_ONCE);
        while let Some(frame) = read.next().await {
            match frame? {
                Some(frame) if frame.at.millis() > since => {
                    bytes += frame.data.len();
                    if bytes > MAX_READ && !frames.is_empty() {
                        break;
                    }
                    frames.push(frame);
                }
                frame => {
                    missing |= frame.is_none();
                    frames.clear();
                    bytes = 0;
                }
            }
        }
        Ok((frames, missing))
    }

    async fn read(&self, stream: &Stream, after: u64, max: usize) -> Result<Entries> {
        let max = u64::try_from(max).unwrap_or(u64::MAX).min(1 << 20);
        for _ in 0..ATTEMPTS {
            let known = self.open(stream).await?;
            let state = &known.state;
            let mut entries = Entries {
                top: state.top,
                last: state.last.clone(),
                frames: Vec::new(),
            };
            if max == 0 || after >= state.top.offset {
                return Ok(entries);
            }
            let until = after.saturating_add(max).min(state.top.offset);
            let (frames, missing) = self.frames(stream, &known, after + 1..=until).await?;
            if missing {
                // A new epoch removes the frames of the former one.
                let now = self.open(stream).await?;
                if now.state.top.epoch != state.top.epoch {
                    continue;
                }
            }
            entries.frames = frames;
            return Ok(entries);
        }
        Err(conflict_error())
    }
}

impl Source for Inner {
    fn listen<'a>(&'a self, stream: &'a Stream) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.listen_to(stream.name()))
    }

    fn released(&self, stream: &Stream) {
        self.leave(stream.name());
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
        Box::pin(async move {
            let subject = self.names.frames(Some(stream.name()));
            let is_lost = |state: &State| state.top.epoch == lost;
            let known = self.begin_if(&subject, stream.history, is_lost).await?;
            Ok(known.state.top)
        })
    }
}
