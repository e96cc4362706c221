//! Maintenance at an interval: checks the server, compares subscriptions with the tops of their
//! streams, and removes frames that have become too old.

use futures_util::stream::{self, StreamExt};

use super::Inner;
use super::state::{Index, Kind, State};
use super::store::{Lost, StreamIdentity};
use super::tops::{AT_ONCE, millis};
use crate::engine::feed::Source;
use crate::engine::{Result, Stream};

/// The maximum number of streams that one round compares. A round also clears at most this number
/// of streams.
const ROUND: usize = 500;

/// State that is kept between the checks.
#[derive(Default)]
pub(super) struct Checks {
    identity: StreamIdentity,
    /// The number of streams that were compared in the current pass over all open streams.
    compared: usize,
}

impl Checks {
    pub(super) async fn run(&mut self, inner: &Inner) {
        let Ok(identity) = inner.identity().await else {
            return;
        };
        // The stream was created again or restored, so remembered states may be wrong.
        if identity.created != self.identity.created || identity.last < self.identity.last {
            let first = self.identity == StreamIdentity::default();
            self.identity = identity;
            if !first {
                inner.forget();
                inner.feeds.request_all_comparisons();
            }
        } else {
            self.identity = identity;
            self.compare(inner).await;
        }
        clear(inner).await;
    }

    /// Compares the next streams.
    async fn compare(&mut self, inner: &Inner) {
        let mut open = inner.feeds.open();
        open.sort_by(|a, b| a.name().cmp(b.name()));
        if self.compared >= open.len() {
            self.compared = 0;
        }
        let part = open.into_iter().skip(self.compared).take(ROUND);
        self.compared += ROUND;
        stream::iter(part)
            .for_each_concurrent(AT_ONCE, |stream| async move {
                if let Ok(entries) = inner.entries(&stream, u64::MAX, 0).await {
                    let last = entries.last.as_ref();
                    inner.feeds.compare(stream.name(), entries.top, last);
                }
            })
            .await;
    }
}

/// Removes the frames of streams whose last frame is too old.
async fn clear(inner: &Inner) {
    let now = inner.now();
    let is_due =
        |stream: &Stream, at: i64| at.saturating_add(millis(stream.history.kept_ttl())) <= now;
    let due: Vec<Stream> = {
        let mut written = inner.written.lock();
        let due = written.values().filter(|(stream, at)| is_due(stream, *at));
        let due: Vec<Stream> = due.take(ROUND).map(|(stream, _)| stream.clone()).collect();
        for stream in &due {
            written.remove(stream.name());
        }
        due
    };
    stream::iter(due)
        .for_each_concurrent(AT_ONCE, |stream| async move {
            if let Err(error) = inner.clear(&stream).await {
                tracing::debug!(%error, "old frames of the realtime engine cannot be removed");
            }
        })
        .await;
}

impl Inner {
    /// Removes the frames of a stream and keeps its position, if nothing was stored meanwhile.
    async fn clear(&self, stream: &Stream) -> Result<()> {
        let subject = self.names.frames(Some(stream.name()));
        let known = self.load(&subject, stream.history).await?;
        let old = known.at.saturating_add(millis(stream.history.kept_ttl())) <= self.now();
        if known.stored && old && known.state.index != Index::default() {
            let state = State {
                index: Index::default(),
                ..known.state
            };
            // If a frame was stored meanwhile, a later round clears the stream.
            let stored = self.store(
                &subject,
                Kind::Kept,
                state,
                known.seq,
                true,
                Lost::Unavailable,
            );
            let _ = stored.await?;
        }
        Ok(())
    }
}
