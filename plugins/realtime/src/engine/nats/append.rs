//! Appending.

use std::collections::HashMap;

use futures_util::stream::{self, StreamExt, TryStreamExt};

use super::Inner;
use super::link::in_time;
use super::state::{Kind, Listed, Record, State, print};
use super::store::Lost;
use super::tops::{AT_ONCE, ATTEMPTS, Known, life, overtaken};
use crate::engine::{Append, EngineError, Position, Result};

/// Appends frames: those of a stream one after the other, and several streams at the same time.
pub(super) async fn append(inner: &Inner, batch: &[Append]) -> Result<Vec<Position>> {
    let mut streams: Vec<Vec<usize>> = Vec::new();
    let mut by_name: HashMap<&str, usize> = HashMap::new();
    for (at, append) in batch.iter().enumerate() {
        let next = streams.len();
        let stream = *by_name.entry(append.stream.name()).or_insert(next);
        if stream == next {
            streams.push(Vec::new());
        }
        streams[stream].push(at);
    }
    let appended = |of: Vec<usize>| async move {
        let mut positions = Vec::with_capacity(of.len());
        let slot = inner.slot(batch[of[0]].stream.name());
        // Others append to the same stream.
        let mut known = in_time(slot.lock()).await?;
        let stream = &batch[of[0]].stream;
        for at in of {
            let appended = inner.append_one(&mut known, &batch[at]);
            positions.push((at, in_time(appended).await??));
        }
        let written = (stream.clone(), inner.now());
        inner
            .written
            .lock()
            .insert(stream.name().to_owned(), written);
        Ok::<_, EngineError>(positions)
    };
    let mut positions: Vec<(usize, Position)> = stream::iter(streams)
        .map(appended)
        .buffer_unordered(AT_ONCE)
        .try_concat()
        .await?;
    positions.sort_unstable_by_key(|(at, _)| *at);
    Ok(positions
        .into_iter()
        .map(|(_, position)| position)
        .collect())
}

/// The higher fence that a state has for the consumer of an append.
fn higher(state: &State, append: &Append) -> Option<u64> {
    let fence = append.fence.as_ref()?;
    let seen = state.fences.get(&*fence.consumer)?;
    (*seen > fence.number).then_some(*seen)
}

/// Records the fence of an append. Returns whether it is a new one.
fn fence(state: &mut State, append: &Append) -> bool {
    let Some(fence) = &append.fence else {
        return false;
    };
    let own = state
        .fences
        .insert(fence.consumer.to_string(), fence.number);
    own != Some(fence.number)
}

impl Inner {
    /// Appends a frame. `slot` is the state that the node remembers.
    async fn append_one(&self, slot: &mut Option<Known>, append: &Append) -> Result<Position> {
        let (stream, kept) = (&append.stream, append.stream.history.kept_size());
        let subject = self.names.frames(Some(stream.name()));
        let (mut known, mut fresh) = (slot.take(), false);
        for _ in 0..ATTEMPTS {
            let mut own = match known.take() {
                Some(own) if own.stored => own,
                earlier => {
                    let mut own = self.load(&subject, stream.history).await?;
                    own.take_prints(earlier);
                    // It is not needed, and could be long.
                    own.frame = None;
                    fresh = true;
                    own
                }
            };
            let now = self.now();
            own.expire(now, stream.history);
            // A refusal and a known event are judged by the state that is stored now.
            let refused = higher(&own.state, append);
            let found = self.find(&mut own, &append.event, kept).await?;
            if (refused.is_some() || found.is_some()) && !fresh {
                own.stored = false;
                known = Some(own);
                continue;
            }
            if let Some(seen) = refused {
                *slot = Some(own);
                return Err(EngineError::Fenced { seen });
            }
            if let Some(offset) = found {
                let position = Position {
                    offset,
                    ..own.state.top
                };
                let mut state = own.state.clone();
                if fence(&mut state, append) {
                    let stored =
                        self.store(&subject, Kind::Kept, state, own.seq, false, Lost::Overtaken);
                    let Ok(mut new) = stored.await? else {
                        continue;
                    };
                    new.prints = own.prints;
                    own = new;
                }
                *slot = Some(own);
                return Ok(position);
            }
            let mut record = Record {
                kind: Kind::Frame,
                state: own.state.clone(),
                at: now,
                data: append.frame.clone(),
            };
            let state = &mut record.state;
            fence(state, append);
            state.top.offset += 1;
            state.last = Some(append.event.clone());
            state.expires = now + life(stream.history);
            let oldest = state.index.trim(kept);
            let text = record.write();
            let put = self.put(&subject, text, own.seq, !own.stored, Lost::Overtaken);
            let Some(seq) = put.await? else {
                own.stored = false;
                known = Some(own);
                continue;
            };
            let (top, mut prints) = (record.state.top, own.prints);
            if let Some(prints) = &mut prints {
                prints.push_back(print(&append.event));
            }
            let mut state = record.state;
            let listed = Listed {
                seq,
                print: print(&append.event),
            };
            state.index.push(top.offset, listed);
            *slot = Some(Known {
                seq,
                state,
                at: now,
                stored: true,
                frame: None,
                prints,
            });
            if let Some(oldest) = oldest {
                // If it fails, a later one removes more.
                let _ = self.remove_before(&subject, oldest).await;
            }
            return Ok(top);
        }
        Err(overtaken())
    }
}
