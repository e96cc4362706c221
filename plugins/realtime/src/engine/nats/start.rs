//! The start: it connects, creates what is missing, and finds out whether the server permits all that
//! the engine does.

use std::sync::Arc;

use async_nats::{Client, Subscriber};
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::sync::mpsc;

use super::link::no_answer;
use super::store::Lost;
use super::{Inner, PATIENCE, State, link, listener};
use crate::engine::{EngineError, Result};

/// The number of a message that no subject has.
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
        // A server does not answer what it refuses.
        let prepared = tokio::select! {
            prepared = self.prepare(&client) => prepared,
            _ = refusals.changed() => {
                let refusal = refusals.borrow().clone();
                let text = format!("the NATS server refuses what the engine needs: {refusal}");
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
        hear_itself(client, live, &mut frames).await?;
        hear_itself(client, self.names.node(&self.node), &mut controls).await?;
        for subject in [
            self.names.frames(Some(&name)),
            self.names.users(Some(&name)),
        ] {
            // The server checks the permission first, and stores nothing.
            let put = self.put(&subject, Bytes::new(), NO_NUMBER, false, Lost::Unavailable);
            put.await?;
        }
        let controls = listener::listen_to_controls(self.own.clone(), controls);
        self.tasks.lock().spawn(controls);
        Ok(())
    }
}

/// Waits for an own message.
async fn hear_itself(client: &Client, subject: String, subscriber: &mut Subscriber) -> Result<()> {
    let heard = async {
        let sent = client.publish(subject.clone(), Bytes::new()).await;
        sent.map_err(EngineError::unavailable)?;
        while let Some(message) = subscriber.next().await {
            if *message.subject == *subject {
                return Ok(());
            }
        }
        Err(no_answer())
    };
    let heard = tokio::time::timeout(PATIENCE, heard).await;
    heard.unwrap_or_else(|_| Err(no_answer()))
}
