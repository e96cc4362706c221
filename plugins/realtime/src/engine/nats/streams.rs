//! Reading frames.

use std::ops::RangeInclusive;

use futures_util::stream::{self, StreamExt};
use linchpin::BoxFuture;

use super::Inner;
use super::state::{BLOCK, Record, State};
use super::tops::{AT_ONCE, ATTEMPTS, Known, millis, overtaken};
use crate::engine::faults::{self, Fault};
use crate::engine::feed::{Entries, Source};
use crate::engine::{Epoch, Frame, MAX_READ, Position, Result, Stream};

/// Where the frames of a part of a stream are.
#[derive(Default)]
struct Places {
    /// The offset of the first one.
    first: u64,
    /// The numbers of their messages.
    seqs: Vec<Option<u64>>,
}

impl Places {
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
            && let Some(place) = self.seqs.get_mut(at)
        {
            *place = Some(seq);
        }
    }

    /// Sets the places of the frames up to an offset, the last one of which is at that offset.
    fn set_all(&mut self, last: u64, seqs: impl DoubleEndedIterator<Item = u64>) {
        for (back, seq) in seqs.rev().enumerate() {
            if let Some(offset) = last.checked_sub(back as u64) {
                self.set(offset, seq);
            }
        }
    }
}

impl Inner {
    /// The places of frames, from the state and from the messages that end whole blocks.
    async fn places(&self, state: &State, offsets: RangeInclusive<u64>) -> Result<Places> {
        let (index, top) = (&state.index, state.top);
        let mut places = Places::new(&offsets);
        places.set_all(top.offset, index.rest.iter().map(|frame| frame.seq));
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
            places.set_all(end, rest.chain([seq]).collect::<Vec<_>>().into_iter());
        }
        Ok(places)
    }

    /// The frame with a number, if it is the one at an offset.
    async fn frame_at(
        &self,
        known: &Known,
        place: Option<u64>,
        position: Position,
    ) -> Result<Option<Frame>> {
        if let Some(frame) = &known.frame
            && frame.position == position
        {
            return Ok(Some(frame.clone()));
        }
        let Some(seq) = place else { return Ok(None) };
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

    /// The frame at an offset, if it is kept.
    pub(super) async fn frame(&self, known: &Known, offset: u64) -> Result<Option<Frame>> {
        let state = &known.state;
        let places = self.places(state, offset..=offset).await?;
        let place = places.seqs.first().copied().flatten();
        let position = Position {
            offset,
            ..state.top
        };
        self.frame_at(known, place, position).await
    }

    /// The frames at some offsets, after the last one that is not kept. Returns whether one is
    /// missing.
    async fn frames(
        &self,
        stream: &Stream,
        known: &Known,
        offsets: RangeInclusive<u64>,
    ) -> Result<(Vec<Frame>, bool)> {
        let state = &known.state;
        let places = self.places(state, offsets).await?;
        let since = self.now() - millis(stream.history.kept_ttl());
        let (mut frames, mut bytes, mut missing) = (Vec::new(), 0, false);
        let mut read = stream::iter((places.first..).zip(places.seqs))
            .map(|(offset, place)| {
                let position = Position {
                    offset,
                    ..state.top
                };
                self.frame_at(known, place, position)
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
        Err(overtaken())
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
