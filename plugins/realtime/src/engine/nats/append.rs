//! Appends frames.

use std::collections::HashMap;

use futures_util::stream::{self, StreamExt, TryStreamExt};

use super::Inner;
use super::link::in_time;
use super::state::{Kind, Listed, Record, State, short_hash};
use super::store::Lost;
use super::tops::{AT_ONCE, ATTEMPTS, Known, conflict_error, life};
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
    let appended = |indexes: Vec<usize>| async move {
        let mut positions = Vec::with_capacity(indexes.len());
        let slot = inner.slot(batch[indexes[0]].stream.name());
        // The appends of this node wait for each other. An append of another node is a conflict.
        let mut known = in_time(slot.lock()).await?;
        let stream = &batch[indexes[0]].stream;
        for at in indexes {
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

/// Returns the fence of a state for the consumer of an append, if it is higher than the append's.
fn higher_fence(state: &State, append: &Append) -> Option<u64> {
    let fence = append.fence.as_ref()?;
    let seen = state.fences.get(&*fence.consumer)?;
    (*seen > fence.number).then_some(*seen)
}

/// Records the fence of an append. Returns whether it is a new one.
fn record_fence(state: &mut State, append: &Append) -> bool {
    let Some(fence) = &append.fence else {
        return false;
    };
    let previous = state
        .fences
        .insert(fence.consumer.to_string(), fence.number);
    previous != Some(fence.number)
}

impl Inner {
    /// Appends a frame. `slot` is the state that the node remembers.
    async fn append_one(&self, slot: &mut Option<Known>, append: &Append) -> Result<Position> {
        let (stream, kept) = (&append.stream, append.stream.history.kept_size());
        let subject = self.names.frames(Some(stream.name()));
        let (mut known, mut just_loaded) = (slot.take(), false);
        for _ in 0..ATTEMPTS {
            let mut current = match known.take() {
                Some(current) if current.stored => current,
                earlier => {
                    let mut current = self.load(&subject, stream.history).await?;
                    current.take_short_hashes(earlier);
                    // The last message is not needed, and may be long.
                    current.frame = None;
                    just_loaded = true;
                    current
                }
            };
            let now = self.now();
            current.expire(now, stream.history);
            // A refusal or a known event must come from the stored state, so read it first.
            let refused = higher_fence(&current.state, append);
            let found = self.find(&mut current, &append.event, kept).await?;
            if (refused.is_some() || found.is_some()) && !just_loaded {
                current.stored = false;
                known = Some(current);
                continue;
            }
            if let Some(seen) = refused {
                *slot = Some(current);
                return Err(EngineError::Fenced { seen });
            }
            if let Some(offset) = found {
                let position = Position {
                    offset,
                    ..current.state.top
                };
                let mut state = current.state.clone();
                if record_fence(&mut state, append) {
                    let stored = self.store(
                        &subject,
                        Kind::Kept,
                        state,
                        current.seq,
                        false,
                        Lost::Conflict,
                    );
                    let Ok(mut new) = stored.await? else {
                        continue;
                    };
                    new.short_hashes = current.short_hashes;
                    current = new;
                }
                *slot = Some(current);
                return Ok(position);
            }
            let mut record = Record {
                kind: Kind::Frame,
                state: current.state.clone(),
                at: now,
                data: append.frame.clone(),
            };
            let state = &mut record.state;
            record_fence(state, append);
            state.top.offset += 1;
            state.last = Some(append.event.clone());
            state.expires = now + life(stream.history);
            let oldest = state.index.trim(kept);
            let text = record.write();
            let put = self.put(&subject, text, current.seq, !current.stored, Lost::Conflict);
            let Some(seq) = put.await? else {
                current.stored = false;
                known = Some(current);
                continue;
            };
            let (top, mut short_hashes) = (record.state.top, current.short_hashes);
            if let Some(short_hashes) = &mut short_hashes {
                short_hashes.push_back(short_hash(&append.event));
            }
            let mut state = record.state;
            let listed = Listed {
                seq,
                short_hash: short_hash(&append.event),
            };
            state.index.push(top.offset, listed);
            *slot = Some(Known {
                seq,
                state,
                at: now,
                stored: true,
                frame: None,
                short_hashes,
            });
            if let Some(oldest) = oldest {
                // If this removal fails, a later one also removes these frames.
                let _ = self.remove_before(&subject, oldest).await;
            }
            return Ok(top);
        }
        Err(conflict_error())
    }
}
