//! Sends notices in batches, at most every 5 ms, on a separate connection.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use linchpin::Timestamp;
use parking_lot::Mutex;
use sqlx::PgPool;
use tokio::sync::{Notify, oneshot};

use super::STATEMENT_TIMEOUT;
use super::notice::{self, Body, INLINE, Notice, Tag};
use crate::engine::{Clock, EngineError, NodeId, Result};

/// The time between two notifications.
const PAUSE: Duration = Duration::from_millis(5);
/// The delay after a failed notification.
const RETRY: Duration = Duration::from_millis(200);
/// The maximum number of waiting messages; further ones are refused.
const MAX_WAITING: usize = 10_000;

/// A waiting message.
struct Outgoing {
    to: To,
    body: Bytes,
    /// Gets the result after the attempt to send.
    sent: oneshot::Sender<Result<()>>,
}

pub(super) enum To {
    Stream(String),
    Node(NodeId),
    All,
}

#[derive(Default)]
struct Queue {
    changed: HashSet<Tag>,
    renewed: bool,
    alive: bool,
    messages: Vec<Outgoing>,
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.changed.is_empty() && !self.renewed && !self.alive && self.messages.is_empty()
    }
}

pub(super) struct Notifier {
    queue: Mutex<Queue>,
    wake: Notify,
}

impl Notifier {
    pub(super) fn new() -> Self {
        Self {
            queue: Mutex::default(),
            wake: Notify::new(),
        }
    }

    /// Notifies all nodes that streams have changed. The notification is repeated until it
    /// succeeds.
    pub(super) fn changed(&self, streams: impl IntoIterator<Item = Tag>) {
        self.queue.lock().changed.extend(streams);
        self.wake.notify_one();
    }

    /// Notifies all nodes that all streams have new epochs. The notification is repeated until it
    /// succeeds.
    pub(super) fn renewed(&self) {
        self.queue.lock().renewed = true;
        self.wake.notify_one();
    }

    pub(super) fn alive(&self) {
        self.queue.lock().alive = true;
        self.wake.notify_one();
    }

    /// Sends a message. Returns when the server has accepted it.
    pub(super) async fn send(&self, to: To, body: Bytes) -> Result<()> {
        let (sent, outcome) = oneshot::channel();
        {
            let mut queue = self.queue.lock();
            if queue.messages.len() >= MAX_WAITING {
                return Err(EngineError::unavailable(
                    "too many messages are waiting to be sent",
                ));
            }
            queue.messages.push(Outgoing { to, body, sent });
        }
        self.wake.notify_one();
        match tokio::time::timeout(STATEMENT_TIMEOUT, outcome).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(EngineError::unavailable("the engine is closed")),
            Err(_) => Err(EngineError::unavailable("the database does not answer")),
        }
    }

    /// Sends waiting notices while the engine is open.
    pub(super) async fn run(&self, pool: PgPool, channel: String, node: NodeId, clock: Clock) {
        let mut next = 0;
        loop {
            self.wake.notified().await;
            let queue = std::mem::take(&mut *self.queue.lock());
            if queue.is_empty() {
                continue;
            }
            let Queue {
                changed,
                renewed,
                alive,
                messages,
            } = queue;
            let sending = async {
                let mut notices: Vec<Notice> =
                    changed.iter().copied().map(Notice::Changed).collect();
                notices.extend(renewed.then_some(Notice::Renewed));
                notices.extend(alive.then_some(Notice::Alive));
                for message in &messages {
                    notices.push(message.notice(&pool, clock()).await?);
                }
                let texts = notice::encode(node, &mut next, &notices);
                sqlx::query("SELECT pg_notify($1, t) FROM unnest($2::text[]) AS t")
                    .bind(&channel)
                    .bind(texts)
                    .execute(&pool)
                    .await
                    .map(drop)
            };
            let outcome = match tokio::time::timeout(STATEMENT_TIMEOUT, sending).await {
                Ok(outcome) => outcome.map_err(Arc::new),
                Err(_) => Err(Arc::new(sqlx::Error::PoolTimedOut)),
            };
            for message in messages {
                let outcome = outcome.clone().map_err(EngineError::unavailable);
                // The sender may have stopped waiting.
                let _ = message.sent.send(outcome);
            }
            if outcome.is_err() {
                self.changed(changed);
                if renewed {
                    self.renewed();
                }
                tokio::time::sleep(RETRY).await;
            } else {
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

impl Outgoing {
    async fn notice(&self, pool: &PgPool, now: Timestamp) -> sqlx::Result<Notice> {
        let body = if self.body.len() <= INLINE {
            Body::Inline(self.body.to_vec())
        } else {
            let row = sqlx::query_scalar(
                "INSERT INTO linchpin_realtime_messages (at, body) VALUES ($1, $2) RETURNING id",
            )
            .bind(now.millis())
            .bind(&*self.body)
            .fetch_one(pool)
            .await?;
            Body::Stored(row)
        };
        Ok(match &self.to {
            To::Stream(name) => Notice::Message(name.clone(), body),
            To::Node(node) => Notice::Control(Some(*node), body),
            To::All => Notice::Control(None, body),
        })
    }
}
