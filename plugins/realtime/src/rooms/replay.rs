//! Replay of the events that a client has missed before it joins.

use std::sync::Arc;

use linchpin::Result;

use super::RoomHub;
use super::guards::Tuples;
use super::live::Live;
use crate::connection::{Connection, Joined};
use crate::engine;
use crate::protocol::{Position, ResetReason, ServerFrame};

/// The maximum number of replayed frames. A client that missed more starts at the top.
const MAX_REPLAYED: usize = 500;
/// The maximum size of the replayed frames in bytes. A client that missed more starts at the top.
const MAX_BYTES: usize = engine::MAX_READ;

impl RoomHub {
    /// Reads the frames that a client has missed.
    pub(super) async fn replay(
        &self,
        live: &Arc<Live>,
        since: Option<&Position>,
        tuples: &Tuples,
        connection: &Connection,
    ) -> Result<Replay> {
        let engine = &self.settings.engine;
        let at_top = Replay::without_frames;
        let Some(since) = since else {
            let top = engine.top(&live.stream).await?;
            return Ok(at_top(top, Joined::Fresh));
        };
        if !live.stream.history.is_recoverable() {
            let top = engine.top(&live.stream).await?;
            return Ok(at_top(top, Joined::Reset(ResetReason::NotRecoverable)));
        }
        // If the node already knows that a reset is needed, it reads no frames.
        let at = *live.delivered.lock();
        if let Some(reason) = at.and_then(|at| out_of_reach(since, at, live)) {
            let top = engine.top(&live.stream).await?;
            // The node may not know a new epoch yet.
            if reason != ResetReason::EpochChanged || top.epoch.as_str() != &*since.epoch {
                return Ok(at_top(top, Joined::Reset(reason)));
            }
        }
        // The semaphore is never closed, so this cannot fail.
        let _permit = self.replays.acquire().await;
        let read = engine
            .read(&live.stream, since.offset, MAX_REPLAYED + 1)
            .await;
        let slice = match read {
            Ok(slice) => slice,
            Err(engine::EngineError::Failed(cause)) => {
                tracing::error!(%cause, "the history of a room cannot be read");
                let top = engine.top(&live.stream).await?;
                let reason = ResetReason::PersistenceUnavailable;
                return Ok(at_top(top, Joined::Reset(reason)));
            }
            Err(error) => return Err(error.into()),
        };
        let reset = |reason| Ok(at_top(slice.top, Joined::Reset(reason)));
        if slice.top.epoch.as_str() != &*since.epoch {
            return reset(ResetReason::EpochChanged);
        }
        if since.offset > slice.top.offset {
            return reset(ResetReason::OffsetAhead);
        }
        let bytes: usize = slice.frames.iter().map(|frame| frame.data.len()).sum();
        let too_much = slice.frames.len() > MAX_REPLAYED || bytes > MAX_BYTES;
        if slice.gap || too_much || !slice.reaches_top() {
            return reset(ResetReason::HistoryUnavailable);
        }
        let outbound_bytes = self.settings.limits.outbound_bytes;
        let placed = slice.frames.iter();
        let placed: Vec<_> = placed
            .map(|frame| live.place(frame, outbound_bytes))
            .collect();
        let shown = live.frames_for(&placed, tuples, connection);
        let replayed = shown.frames.len() as u64;
        Ok(Replay {
            start: engine::Position {
                offset: since.offset,
                ..slice.top
            },
            top: slice.top,
            joined: Joined::Recovered(replayed),
            frames: shown.frames,
            to_the_end: shown.to_the_end,
        })
    }
}

/// Returns the reason if a client at this position certainly needs a reset. `at` is a position that
/// the stream has reached.
fn out_of_reach(since: &Position, at: engine::Position, live: &Live) -> Option<ResetReason> {
    if at.epoch.as_str() != &*since.epoch {
        return Some(ResetReason::EpochChanged);
    }
    let most = u64::from(live.stream.history.size).min(MAX_REPLAYED as u64);
    let missed = at.offset.checked_sub(since.offset)?;
    (missed > most).then_some(ResetReason::HistoryUnavailable)
}

/// The frames that a member gets before the live frames.
pub(super) struct Replay {
    /// The position before the first frame.
    pub(super) start: engine::Position,
    /// The top of the stream when the frames were read. The last of `frames` may be below it.
    pub(super) top: engine::Position,
    pub(super) joined: Joined,
    pub(super) frames: Vec<ServerFrame>,
    /// Whether the last of `frames` is at the top, or nothing was missed.
    pub(super) to_the_end: bool,
}

impl Replay {
    /// Creates a replay without frames: the member starts at the top.
    fn without_frames(top: engine::Position, joined: Joined) -> Self {
        Self {
            start: top,
            top,
            joined,
            frames: Vec::new(),
            to_the_end: true,
        }
    }
}

impl Joined {
    pub(super) fn recovered(self) -> Option<u64> {
        match self {
            Self::Recovered(frames) => Some(frames),
            Self::Fresh | Self::Reset(_) => None,
        }
    }

    pub(super) fn reason(self) -> Option<ResetReason> {
        match self {
            Self::Reset(reason) => Some(reason),
            Self::Fresh | Self::Recovered(_) => None,
        }
    }
}
