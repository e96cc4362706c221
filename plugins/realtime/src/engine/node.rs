//! Nodes, and messages between them.

use std::fmt;
use std::str::FromStr;

use bytes::Bytes;
use tokio::sync::broadcast;

use super::stream::{Epoch, ParseEpochError};

/// The identity of a node of the app: 16 random characters, new for each start.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct NodeId(Epoch);

impl NodeId {
    /// A new identity.
    pub fn random() -> Self {
        Self(Epoch::random())
    }

    /// The identity as text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl FromStr for NodeId {
    type Err = ParseEpochError;

    fn from_str(text: &str) -> Result<Self, ParseEpochError> {
        text.parse().map(Self)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The receivers of a control message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To<'a> {
    /// One node.
    Node(&'a NodeId),
    /// All nodes, the sender included.
    All,
}

/// The maximum number of unread control messages of a receiver.
const MAX_UNREAD: usize = 1024;

/// The control messages for a node.
#[derive(Debug)]
pub struct Controls(broadcast::Receiver<Bytes>);

impl Controls {
    /// Waits for the next message. Returns `None` after the engine was closed. A receiver with more
    /// than 1024 unread messages loses the oldest ones; the loss is logged.
    pub async fn next(&mut self) -> Option<Bytes> {
        loop {
            match self.0.recv().await {
                Ok(message) => return Some(message),
                Err(broadcast::error::RecvError::Closed) => return None,
                Err(broadcast::error::RecvError::Lagged(lost)) => {
                    tracing::warn!(lost, "control messages of the realtime engine were lost");
                }
            }
        }
    }
}

/// The sending side of [`Controls`], held by an engine.
#[derive(Debug)]
pub struct ControlSender(parking_lot::Mutex<Option<broadcast::Sender<Bytes>>>);

impl Default for ControlSender {
    fn default() -> Self {
        Self(parking_lot::Mutex::new(Some(broadcast::Sender::new(
            MAX_UNREAD,
        ))))
    }
}

impl ControlSender {
    /// Returns a receiver of the messages from now on.
    pub fn receiver(&self) -> Controls {
        Controls(match &*self.0.lock() {
            Some(sender) => sender.subscribe(),
            // The engine is closed: return a receiver without a sender, which ends at once.
            None => broadcast::Sender::new(1).subscribe(),
        })
    }

    /// Passes a message to all receivers of this node.
    pub fn pass(&self, message: Bytes) {
        if let Some(sender) = &*self.0.lock() {
            // Without a receiver the message is dropped.
            let _ = sender.send(message);
        }
    }

    /// Ends all receivers.
    pub fn close(&self) {
        self.0.lock().take();
    }
}
