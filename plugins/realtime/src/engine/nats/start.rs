//! Starts the engine: connects, creates missing streams, and checks that the server permits all
//! requests that the engine needs.

use std::sync::Arc;

use async_nats::{Client, Subscriber};
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::sync::mpsc;

use super::link::no_answer;
use super::store::Lost;
use super::{Inner, REQUEST_TIMEOUT, State, link, listener};
use crate::engine::{EngineError, Result};

/// A message number that no subject can have as its last one.
const NO_NUMBER: u64 = i64::MAX.unsigned_abs();

impl Inner {
    pub(super) async fn start(self: &Arc<Self>) -> Result<()> {
        let (sender, events) = mpsc::unbounded_channel();
        let client = self.address.connect(sender).await?;
        let (_, number) = link::status(&client);
        *self.driver.lock() = Some(client.clone());
        self.state.send_if_modified(|state| {
            let open = !matches!(state, State::Closed);
            if open {
                *state = State::Connected(client.clone(), number);
            }
            open
        });
        let mut refusals = self.refusals.subscribe();
        let inner = Arc::clone(self);
        let run = async move { listener::run(&inner, events).await };
        self.tasks.lock().spawn(run);
        // A server does not answer a request that it refuses.
        let prepared = tokio::select! {
            prepared = self.prepare(&client) => prepared,
            _ = refusals.changed() => {
                let refusal = refusals.borrow().clone();
                let text =
                    format!("the NATS server refuses a request that the engine needs: {refusal}");
                Err(EngineError::failed(text))
            }
        };
        if prepared.is_err() {
            self.end_tasks().await;
            self.driver.lock().take();
        }
        prepared
    }

    /// Creates the `JetStream` streams, and listens to control messages.
    async fn prepare(&self, client: &Client) -> Result<()> {
        let subscribe = async |subject: String| {
            let subscribed = client.subscribe(subject).await;
            subscribed.map_err(EngineError::unavailable)
        };
        let mut controls = subscribe(self.names.controls()).await?;
        self.create_streams().await?;
        let name = format!("start:{}", self.node);
        let live = self.names.live(Some(&name));
        let mut frames = subscribe(live.clone()).await?;
        receive_own_message(client, live, &mut frames).await?;
        receive_own_message(client, self.names.node(&self.node), &mut controls).await?;
        for subject in [
            self.names.frames(Some(&name)),
            self.names.users(Some(&name)),
        ] {
            // The server checks the permission first. The message has a wrong number, so nothing is
            // stored.
            let put = self.put(&subject, Bytes::new(), NO_NUMBER, false, Lost::Unavailable);
            put.await?;
        }
        let controls = listener::listen_to_controls(self.own.clone(), controls);
        self.tasks.lock().spawn(controls);
        Ok(())
    }
}

/// Sends a message to this node, and waits for it.
async fn receive_own_message(
    client: &Client,
    subject: String,
    subscriber: &mut Subscriber,
) -> Result<()> {
    let received = async {
        let sent = client.publish(subject.clone(), Bytes::new()).await;
        sent.map_err(EngineError::unavailable)?;
        while let Some(message) = subscriber.next().await {
            if *message.subject == *subject {
                return Ok(());
            }
        }
        Err(no_answer())
    };
    let received = tokio::time::timeout(REQUEST_TIMEOUT, received).await;
    received.unwrap_or_else(|_| Err(no_answer()))
}
