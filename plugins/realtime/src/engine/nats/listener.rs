//! Receives frames and messages, and follows the connection.

use std::sync::Weak;

use async_nats::{Event, Subscriber};
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::sync::mpsc;

use super::state::{Received, read_received};
use super::{Inner, REQUEST_TIMEOUT, State, link, upkeep};
use crate::engine::faults::{self, Fault};
use crate::engine::{EngineError, MAX_MESSAGE, Result};

/// The maximum length of a frame that is decoded. A longer one is read from its stream.
const MAX_RECEIVED: usize = 4 << 20;
/// The first byte of a message that is not stored.
pub(super) const MESSAGE: u8 = b'm';

/// Follows the connection and checks streams, for as long as the engine is open.
pub(super) async fn run(inner: &Inner, events: mpsc::UnboundedReceiver<Event>) {
    tokio::select! {
        () = follow(inner, events) => {}
        () = check(inner) => {}
    }
}

async fn follow(inner: &Inner, mut events: mpsc::UnboundedReceiver<Event>) {
    while let Some(event) = events.recv().await {
        match event {
            Event::SlowConsumer(_) => {
                tracing::warn!(
                    "the realtime engine has lost messages: it received them faster than it could \
                     process them"
                );
                inner.feeds.request_all_comparisons();
            }
            Event::ServerError(error) => {
                tracing::warn!(%error, "the NATS server has refused a request");
                inner.refusals.send_replace(error.to_string());
            }
            // The driver updates its own state shortly after the event.
            Event::Connected => inner.follow(Some(true)).await,
            Event::Disconnected => inner.follow(Some(false)).await,
            _ => {}
        }
    }
}

async fn check(inner: &Inner) {
    let mut checks = upkeep::Checks::default();
    loop {
        tokio::time::sleep(inner.check).await;
        // An event of the connection may have been lost.
        inner.follow(None).await;
        inner.listen_to_all().await;
        // A check that takes longer is canceled. A later one compares the other streams.
        let _ = tokio::time::timeout(REQUEST_TIMEOUT, checks.run(inner)).await;
    }
}

impl Inner {
    /// Compares the state with the connection. After a new connection, subscriptions compare
    /// themselves with their streams.
    async fn follow(&self, connected: Option<bool>) {
        let client = self.driver.lock().clone();
        let Some(client) = client else { return };
        let (state, number) = link::status(&client);
        let connected = connected.unwrap_or(state);
        let mut is_new = false;
        self.state.send_if_modified(|state| {
            let (was, before) = match state {
                State::Connected(_, before) => (true, *before),
                State::Disconnected => (false, 0),
                State::Closed => return false,
            };
            if was == connected && (!connected || before == number) {
                return false;
            }
            is_new = connected;
            // Do this before the first request over a new connection: the server may have lost the
            // data of the remembered states.
            self.forget();
            *state = if connected {
                State::Connected(client, number)
            } else {
                State::Disconnected
            };
            true
        });
        if is_new {
            self.listen_to_all().await;
            self.feeds.request_all_comparisons();
        } else if !connected {
            tracing::warn!("the realtime engine has lost its connection");
        }
    }

    /// Listens to the streams whose earlier attempt to listen failed.
    async fn listen_to_all(&self) {
        for stream in self.feeds.open() {
            if let Err(error) = self.listen_to(stream.name()).await {
                // The next check retries it.
                tracing::warn!(%error, "the realtime engine cannot subscribe");
                return;
            }
        }
    }

    /// Listens to a stream, unless the node already does.
    pub(super) async fn listen_to(&self, name: &str) -> Result<()> {
        if self.listeners.lock().contains_key(name) {
            return Ok(());
        }
        let (client, _) = self.client().await?;
        let subscribed = client.subscribe(self.names.live(Some(name)));
        let subscriber = match tokio::time::timeout(REQUEST_TIMEOUT, subscribed).await {
            Ok(subscribed) => subscribed.map_err(EngineError::unavailable)?,
            Err(_) => return Err(link::no_answer()),
        };
        let mut listeners = self.listeners.lock();
        // Another call may have been faster, or the last subscription has ended meanwhile.
        if !listeners.contains_key(name) && self.feeds.is_open(name) {
            let (inner, stream) = (self.own.clone(), name.to_owned());
            let task = tokio::spawn(listen(inner, stream, subscriber));
            listeners.insert(name.to_owned(), task.abort_handle());
        }
        Ok(())
    }

    /// Stops listening to a stream, unless it has a subscription.
    pub(super) fn leave(&self, name: &str) {
        let mut listeners = self.listeners.lock();
        if !self.feeds.is_open(name)
            && let Some(task) = listeners.remove(name)
        {
            task.abort();
        }
    }

    fn pass(&self, stream: &str, text: &Bytes) {
        let feeds = &self.feeds;
        let fault = match text.first() {
            // Another program may publish a longer message. Engines do not.
            Some(&MESSAGE) if text.len() > MAX_MESSAGE + 1 => {
                return faults::count(Fault::MessageTooLarge);
            }
            Some(&MESSAGE) => return feeds.message(stream, &text.slice(1..)),
            _ if text.len() > MAX_RECEIVED => Fault::FrameTooLarge,
            _ => match read_received(text) {
                Some(Received::Frame(frame)) => return feeds.frame(stream, &frame),
                Some(Received::Begun) => return feeds.request_comparison(stream),
                Some(Received::Kept) => return,
                None => Fault::FrameUnreadable,
            },
        };
        faults::count(fault);
        feeds.request_comparison(stream);
    }

    fn pass_control(&self, text: &Bytes) {
        match text.first() {
            Some(&MESSAGE) if text.len() > MAX_MESSAGE + 1 => {
                faults::count(Fault::MessageTooLarge);
            }
            Some(&MESSAGE) => self.controls.pass(text.slice(1..)),
            _ => faults::count(Fault::MessageUnreadable),
        }
    }
}

/// Passes on the frames and the messages of a stream.
async fn listen(inner: Weak<Inner>, stream: String, mut subscriber: Subscriber) {
    while let (Some(message), Some(inner)) = (subscriber.next().await, inner.upgrade()) {
        inner.pass(&stream, &message.payload);
    }
}

/// Passes on control messages for this node and for all nodes.
pub(super) async fn listen_to_controls(inner: Weak<Inner>, mut subscriber: Subscriber) {
    while let (Some(message), Some(inner)) = (subscriber.next().await, inner.upgrade()) {
        let subject = message.subject.as_str();
        if subject == inner.names.node(&inner.node) || subject == inner.names.all_nodes() {
            inner.pass_control(&message.payload);
        }
    }
}

#[cfg(test)]
#[path = "../../../tests/support/nats_double.rs"]
mod nats_double;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use linchpin::Timestamp;

    use super::*;
    use crate::engine::{NatsEngine, NatsEngineOptions};

    #[tokio::test]
    async fn a_stream_without_subscription_is_not_listened_to() {
        let port = nats_double::server_with_version("2.12.0").await;
        let url = format!("nats://127.0.0.1:{port}");
        let client = async_nats::connect(&url).await.unwrap();
        let clock = Arc::new(Timestamp::system_now);
        let engine = NatsEngine::new(&NatsEngineOptions::new(url), clock).unwrap();
        engine.0.state.send_replace(State::Connected(client, 1));
        engine.0.listen_to("tasks:1:live").await.unwrap();
        assert!(engine.0.listeners.lock().is_empty());
    }
}
