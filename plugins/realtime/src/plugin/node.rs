//! The running plugin of one node.

use std::collections::HashMap;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use linchpin::http::{Clock, Cors, Credential, Credentials, RateStore};
use linchpin::{Error, Result, Timestamp};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::counts::Counts;
use crate::connection::{Connection, Limits};
use crate::engine::faults::{self, Fault};
use crate::engine::{Engine, NodeId, To};
use crate::rooms::RoomHub;

/// The node, after the app has set up the plugin.
pub(crate) type NodeSlot = Arc<OnceLock<Arc<Node>>>;

/// The longest wait for the answer of another node.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// The interval at which a stopping node checks whether all connections have ended.
const DRAIN_POLL: Duration = Duration::from_millis(20);

/// The running plugin of one node.
pub(crate) struct Node {
    pub(crate) hub: Arc<RoomHub>,
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) clock: Clock,
    pub(crate) credentials: Option<Arc<dyn Credentials>>,
    /// The origins whose pages may connect, in addition to the app's own origin.
    pub(crate) origins: Vec<Cors>,
    pub(crate) rates: Arc<dyn RateStore>,
    /// The counters of each endpoint.
    pub(crate) counts: Counts,
    /// The time over which connections are closed when the app stops.
    pub(crate) drain: Duration,
    pub(crate) draining: AtomicBool,
    pub(crate) addresses: Addresses,
    pub(crate) questions: PendingQuestions,
}

/// Questions to other nodes that are waiting for an answer.
#[derive(Default)]
pub(crate) struct PendingQuestions {
    last: AtomicU64,
    waiting: Mutex<HashMap<u64, oneshot::Sender<bool>>>,
}

impl PendingQuestions {
    /// Creates a question, and the receiver of its answer.
    fn question(&self) -> (Question<'_>, oneshot::Receiver<bool>) {
        let number = self.last.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        self.waiting.lock().insert(number, answer);
        let question = Question { all: self, number };
        (question, answered)
    }
}

/// A question that waits for its answer. Dropping the value removes the question, for example if
/// the client that caused it leaves.
struct Question<'a> {
    all: &'a PendingQuestions,
    number: u64,
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        self.all.waiting.lock().remove(&self.number);
    }
}

/// A message between nodes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
enum Control {
    /// A session has a new token, so the connection may stay open until this token ends.
    Refresh {
        connection: String,
        caller: Caller,
        expires_at: Option<i64>,
        /// The node that waits for the answer. This node has given the question the number
        /// `number`.
        from: String,
        number: u64,
    },
    /// The answer to `Refresh`. `done` is whether the node has such a connection.
    Refreshed { number: u64, done: bool },
}

/// The caller of a session, in messages between nodes.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Caller {
    kind: String,
    user: Option<String>,
    tenant: Option<String>,
    session: Option<String>,
}

impl Caller {
    fn of(credential: &Credential) -> Self {
        let actor = &credential.actor;
        Self {
            kind: actor.kind.as_str().to_owned(),
            user: actor.id.clone(),
            tenant: actor.tenant_id.clone(),
            session: actor.session_id.clone(),
        }
    }
}

impl Node {
    /// Returns an id for a new connection. It begins with the id of the node, so that other nodes
    /// can find the connection.
    pub(crate) fn connection_id(&self) -> String {
        format!("{}{}", self.engine.node(), NodeId::random())
    }

    /// Returns the seconds after which a client may try again; `None` if the node accepts
    /// connections.
    pub(crate) fn retry_after_if_closed(&self) -> Option<u32> {
        let full = self.hub.connections() >= self.limits.connections_per_node;
        let closed = full || self.draining.load(Ordering::Acquire);
        closed.then(|| 1 + random_below(10) as u32)
    }

    /// Extends a connection until the end of a newer token of its session. Returns whether there
    /// is such a connection, on any node.
    ///
    /// # Errors
    /// `unavailable` if the engine does not answer.
    pub(crate) async fn refresh(&self, connection: &str, newer: Credential) -> Result<bool> {
        if let Some(own) = self.hub.connection(connection) {
            let caller = Caller::of(&newer);
            return Ok(identity_in_session(&own, &caller).is_some() && own.refresh(newer));
        }
        let node = connection
            .get(..16)
            .and_then(|id| NodeId::from_str(id).ok());
        let Some(node) = node.filter(|node| node != self.engine.node()) else {
            return Ok(false);
        };
        if !self.engine.facts().cluster {
            return Ok(false);
        }
        let (question, answered) = self.questions.question();
        let number = question.number;
        let message = Control::Refresh {
            connection: connection.to_owned(),
            caller: Caller::of(&newer),
            expires_at: newer.expires_at.map(Timestamp::millis),
            from: self.engine.node().to_string(),
            number,
        };
        self.send(&node, &message).await?;
        // A node that has stopped does not answer.
        let answer = tokio::time::timeout(ANSWER_TIMEOUT, answered).await;
        Ok(matches!(answer, Ok(Ok(true))))
    }

    async fn send(&self, node: &NodeId, message: &Control) -> Result<()> {
        let message = serde_json::to_vec(message).map_err(Error::internal)?;
        let message = Bytes::from(message);
        Ok(self.engine.control(To::Node(node), message).await?)
    }

    /// Answers other nodes until the engine is closed.
    pub(crate) async fn listen(self: Arc<Self>) {
        let mut controls = self.engine.controls();
        while let Some(message) = controls.next().await {
            let Ok(message) = serde_json::from_slice::<Control>(&message) else {
                faults::count(Fault::MessageUnreadable);
                tracing::debug!("ignored a message that this version of the app cannot parse");
                continue;
            };
            match message {
                Control::Refresh {
                    connection,
                    caller,
                    expires_at,
                    from,
                    number,
                } => {
                    let done = self.refreshed(&connection, &caller, expires_at);
                    let Ok(from) = NodeId::from_str(&from) else {
                        continue;
                    };
                    let answer = Control::Refreshed { number, done };
                    if let Err(error) = self.send(&from, &answer).await {
                        tracing::debug!(%error, "the answer to another node could not be sent");
                    }
                }
                Control::Refreshed { number, done } => {
                    if let Some(answer) = self.questions.waiting.lock().remove(&number) {
                        // The client that caused the question may have left.
                        let _ = answer.send(done);
                    }
                }
            }
        }
    }

    /// Extends a connection of this node, as another node has requested.
    fn refreshed(&self, connection: &str, caller: &Caller, expires_at: Option<i64>) -> bool {
        let own = self.hub.connection(connection);
        let found = own.and_then(|own| Some((identity_in_session(&own, caller)?, own)));
        found.is_some_and(|(identity, own)| {
            own.refresh(Credential {
                expires_at: expires_at.map(Timestamp::from_millis),
                ..identity
            })
        })
    }

    /// Ends all connections, spread over the configured time, and waits until they have ended or
    /// `grace` is over. New connections are refused from now on.
    pub(crate) async fn stop(&self, grace: Duration) {
        self.draining.store(true, Ordering::Release);
        // The last clients need time to receive their close frames.
        let window = self.drain.min(grace.mul_f64(0.75));
        for connection in self.hub.all() {
            connection.drain(random_time_below(window));
        }
        let all_ended = async {
            while self.hub.connections() > 0 {
                tokio::time::sleep(DRAIN_POLL).await;
            }
        };
        // After that time the app closes the remaining connections.
        let _ = tokio::time::timeout(grace, all_ended).await;
    }

    /// Ends a connection that was opened while the node is stopping.
    pub(crate) fn drain_if_stopping(&self, connection: &Connection) {
        if self.draining.load(Ordering::Acquire) {
            connection.drain(Duration::ZERO);
        }
    }
}

/// Returns the identity of a connection, if it belongs to this session.
fn identity_in_session(connection: &Connection, caller: &Caller) -> Option<Credential> {
    let identity = connection.identity()?;
    (Caller::of(&identity) == *caller).then_some(identity)
}

/// Returns a random time below a bound.
fn random_time_below(bound: Duration) -> Duration {
    let millis = u64::try_from(bound.as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis(random_below(millis.max(1)))
}

/// Returns a random number below a bound greater than 0. Returns 0 if the system has no randomness.
fn random_below(bound: u64) -> u64 {
    getrandom::u64().map_or(0, |random| random % bound)
}

/// The connections of anonymous callers, by address.
#[derive(Clone, Default)]
pub(crate) struct Addresses(Arc<Mutex<HashMap<IpAddr, usize>>>);

impl Addresses {
    /// Takes a slot for a connection. Returns `None` if the address already has `most` connections.
    /// A connection with an unknown address is not counted.
    pub(crate) fn take(&self, address: Option<IpAddr>, most: usize) -> Option<AddressSlot> {
        let address = address.map(linchpin::http::one_client);
        if let Some(address) = address {
            let mut all = self.0.lock();
            let count = all.entry(address).or_default();
            if *count >= most {
                return None;
            }
            *count += 1;
        }
        Some(AddressSlot {
            all: self.clone(),
            address,
        })
    }
}

/// The slot of a connection of an anonymous caller. Dropping it frees the slot.
pub(crate) struct AddressSlot {
    all: Addresses,
    address: Option<IpAddr>,
}

impl Drop for AddressSlot {
    fn drop(&mut self) {
        let Some(address) = self.address else { return };
        let mut all = self.all.0.lock();
        if let Some(count) = all.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                all.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_dropped_question_is_removed() {
        let questions = PendingQuestions::default();
        let (question, answered) = questions.question();
        assert_eq!(questions.waiting.lock().len(), 1);
        // The client leaves, so its call is dropped.
        drop(question);
        assert!(questions.waiting.lock().is_empty());
        assert!(answered.await.is_err());
        // The answer still arrives if it was taken from `waiting` before the question was dropped.
        let (question, answered) = questions.question();
        let answer = questions.waiting.lock().remove(&question.number).unwrap();
        answer.send(true).unwrap();
        drop(question);
        assert!(answered.await.unwrap());
        assert!(questions.waiting.lock().is_empty());
    }

    #[test]
    fn connections_per_address_are_limited_and_an_ipv6_client_counts_as_one_address() {
        let all = Addresses::default();
        let address = |text: &str| text.parse().ok();
        let first = all.take(address("2001:db8::1"), 2);
        let second = all.take(address("2001:db8::2"), 2);
        assert!(first.is_some() && second.is_some());
        assert!(all.take(address("2001:db8::3"), 2).is_none());
        assert!(all.take(address("10.0.0.1"), 2).is_some());
        drop(first);
        assert!(all.take(address("2001:db8::3"), 2).is_some());
        drop(second);
        assert!(all.0.lock().is_empty());
    }
}
