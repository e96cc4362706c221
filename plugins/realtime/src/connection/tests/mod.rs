//! Tests of connections: a client sends raw bytes over a stream in memory, and the test sets the
//! clock.

mod authentication;
mod execution;
mod hostile;
mod limits;
mod output;
mod wire;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use linchpin::{Actor, Attached, BoxFuture, Error, Result, Timestamp};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::*;
use crate::protocol::{Close, EventCall, Position, PresenceList, ServerFrame, Subscribed};

/// The time of the app's clock at the start of a test, in milliseconds.
pub(crate) const START: i64 = 1_800_000_000_000;

/// A node with rooms in memory. Rooms whose names start with `private` are hidden. A token is
/// `<user>` or `<user>/<milliseconds from the start until it expires>`.
#[derive(Default)]
pub(crate) struct Node {
    rooms: Mutex<Vec<(String, Arc<Connection>)>>,
    /// The calls of the hub, in order.
    calls: Mutex<Vec<String>>,
    /// Whether the session store is unavailable.
    down: Mutex<bool>,
}

impl Node {
    fn note(&self, text: impl Into<String>) {
        self.calls.lock().push(text.into());
    }

    pub(crate) fn calls(&self) -> Vec<String> {
        self.calls.lock().clone()
    }

    fn count(&self, text: &str) -> usize {
        self.calls
            .lock()
            .iter()
            .filter(|line| *line == text)
            .count()
    }
}

pub(crate) fn identity(token: &str) -> Option<Identity> {
    let (user, expires) = match token.split_once('/') {
        Some((user, millis)) => (user, Some(START + millis.parse::<i64>().ok()?)),
        None => (token, None),
    };
    (user != "bad").then(|| Identity {
        actor: Arc::new(Actor::user(user)),
        expires_at: expires.map(Timestamp::from_millis),
        attached: Attached::default(),
    })
}

impl Hub for Node {
    fn verify<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Option<Identity>>> {
        Box::pin(async move {
            if *self.down.lock() {
                return Err(Error::unavailable("the sessions are down"));
            }
            Ok(identity(token))
        })
    }

    fn bound<'a>(&'a self, connection: &'a Arc<Connection>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let user = connection.identity().and_then(|who| who.actor.id.clone());
            self.note(format!("bound {}", user.unwrap_or_default()));
        })
    }

    fn subscribe<'a>(
        &'a self,
        connection: &'a Arc<Connection>,
        room: &'a str,
        since: Option<&'a Position>,
        reference: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Joined>> {
        Box::pin(async move {
            self.note(format!("subscribe {room}"));
            if room.starts_with("private") {
                return Err(Error::not_found());
            }
            let top = Position::new("e", 10);
            let missed = since
                .filter(|since| since.epoch == top.epoch)
                .map(|since| top.offset - since.offset);
            connection.send(ServerFrame::subscribed(Subscribed {
                room,
                position: since.filter(|_| missed.is_some()).unwrap_or(&top),
                recoverable: true,
                recovered: missed,
                reason: since
                    .filter(|_| missed.is_none())
                    .map(|_| crate::protocol::ResetReason::EpochChanged),
                already: false,
                presence: None,
                reference,
            }));
            self.rooms
                .lock()
                .push((room.to_owned(), Arc::clone(connection)));
            Ok(match (since, missed) {
                (None, _) => Joined::Fresh,
                (Some(_), Some(missed)) => Joined::Recovered(missed),
                (Some(_), None) => Joined::Reset(crate::protocol::ResetReason::EpochChanged),
            })
        })
    }

    fn unsubscribe<'a>(
        &'a self,
        connection: &'a Arc<Connection>,
        room: &'a str,
    ) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.rooms
                .lock()
                .retain(|(name, member)| name != room || !Arc::ptr_eq(member, connection));
        })
    }

    fn event<'a>(
        &'a self,
        _: &'a Arc<Connection>,
        call: &'a EventCall,
    ) -> BoxFuture<'a, Result<Outcome>> {
        Box::pin(async move {
            let payload = call.payload.as_deref().unwrap_or("null");
            self.note(format!("start {} {payload}", call.event));
            match call.event.as_str() {
                "echo" => {}
                "wait" => {
                    let millis = payload.parse().map_err(Error::internal)?;
                    tokio::time::sleep(Duration::from_millis(millis)).await;
                }
                "panic" => panic!("the handler fails"),
                "forbidden" => return Err(Error::forbidden()),
                _ => {
                    let code = crate::protocol::UNKNOWN_EVENT;
                    return Err(Error::new(code, "Unknown event"));
                }
            }
            self.note(format!("end {} {payload}", call.event));
            Ok(Outcome {
                result: payload.to_owned(),
                replayed: call.idempotency_key.as_deref() == Some("again"),
            })
        })
    }

    fn presence<'a>(
        &'a self,
        _: &'a Arc<Connection>,
        room: &'a str,
        reference: Option<&'a str>,
    ) -> BoxFuture<'a, Result<ServerFrame>> {
        Box::pin(async move {
            let rooms = self.rooms.lock();
            let users: BTreeSet<String> = rooms
                .iter()
                .filter(|(name, _)| name == room)
                .filter_map(|(_, member)| member.identity()?.actor.id.clone())
                .collect();
            if users.is_empty() {
                let code = crate::protocol::NOT_SUBSCRIBED;
                return Err(Error::new(code, "Not in this room"));
            }
            let count = users.len();
            let since = Timestamp::from_millis(START);
            let users: Vec<_> = users.into_iter().map(|user| (user, since)).collect();
            let list = PresenceList {
                users: &users,
                count,
            };
            Ok(ServerFrame::presence(room, list, reference))
        })
    }

    fn ended(&self, connection: &Arc<Connection>) {
        self.note("ended");
        self.rooms
            .lock()
            .retain(|(_, member)| !Arc::ptr_eq(member, connection));
    }
}

/// A connection and its client.
struct Peer {
    io: DuplexStream,
    node: Arc<Node>,
    connection: Arc<Connection>,
    meter: Arc<Meter>,
    served: JoinHandle<Option<Close>>,
}

/// The options of a connection.
struct Options {
    token: Option<&'static str>,
    anonymous: bool,
    limits: Limits,
    /// The size of the socket buffer: the bytes that the server can write before the client reads.
    buffer: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            token: Some("alice"),
            anonymous: false,
            limits: Limits::default(),
            buffer: 1 << 20,
        }
    }
}

const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;
const FIN: u8 = 0x80;

impl Peer {
    /// Creates a connection and reads its frame `connected`.
    async fn connected(options: Options) -> Self {
        let mut peer = Self::new(options);
        let first = peer.json().await;
        assert_eq!(first["event"], "connected");
        peer
    }

    async fn alice() -> Self {
        Self::connected(Options::default()).await
    }

    async fn pending() -> Self {
        Self::connected(Options {
            token: None,
            ..Options::default()
        })
        .await
    }

    fn new(options: Options) -> Self {
        let (io, server) = duplex(options.buffer);
        let node = Arc::new(Node::default());
        let meter = Arc::new(Meter::default());
        let identity = options.token.and_then(identity);
        let pending = identity.is_none() && !options.anonymous;
        let connection = Connection::socket(
            "c1",
            identity,
            pending,
            Arc::new(options.limits),
            Arc::clone(&meter),
        );
        let start = Instant::now();
        let settings = Settings {
            hub: Arc::clone(&node) as Arc<dyn Hub>,
            clock: Arc::new(move || {
                Timestamp::from_millis(START + start.elapsed().as_millis() as i64)
            }),
            anonymous: options.anonymous,
        };
        let served = tokio::spawn(serve(server, Arc::clone(&connection), settings));
        Self {
            io,
            node,
            connection,
            meter,
            served,
        }
    }

    async fn raw(&mut self, bytes: &[u8]) {
        // The write fails if the server has already closed. That is no test failure.
        let _ = self.io.write_all(bytes).await;
    }

    async fn text(&mut self, text: &str) {
        self.raw(&frame(FIN | TEXT, text.as_bytes())).await;
    }

    /// Returns the first byte and the payload of the server's next frame; `None` at the end.
    async fn next(&mut self) -> Option<(u8, Vec<u8>)> {
        let first = self.io.read_u8().await.ok()?;
        let second = self.io.read_u8().await.ok()?;
        let length = match second {
            126 => u64::from(self.io.read_u16().await.ok()?),
            127 => self.io.read_u64().await.ok()?,
            short => {
                assert!(short < 126, "a server does not mask its frames");
                u64::from(short)
            }
        };
        let mut payload = vec![0; usize::try_from(length).ok()?];
        self.io.read_exact(&mut payload).await.ok()?;
        Some((first, payload))
    }

    /// Returns the next text frame. Answers pings before it.
    async fn json(&mut self) -> Value {
        loop {
            match self.next().await {
                Some((first, payload)) if first == FIN | TEXT => {
                    return serde_json::from_slice(&payload).unwrap();
                }
                Some((first, payload)) if first == FIN | PING => {
                    self.raw(&frame(FIN | PONG, &payload)).await;
                }
                other => panic!("not a text frame: {other:?}"),
            }
        }
    }

    /// Returns the event and some other members of the next text frame as one line.
    async fn next_event(&mut self) -> String {
        let value = self.json().await;
        let mut reply = value["event"].as_str().unwrap_or("?").to_owned();
        for key in ["ackId", "code", "outcome", "ref", "room", "sourceEvent"] {
            match &value[key] {
                Value::Null => {}
                Value::String(text) => reply.push_str(&format!(" {text}")),
                other => reply.push_str(&format!(" {other}")),
            }
        }
        reply
    }

    /// Reads up to the close frame, and returns its code and reason.
    async fn closed(&mut self) -> String {
        loop {
            match self.next().await {
                Some((first, payload)) if first == FIN | CLOSE => {
                    let [high, low, ..] = payload[..] else {
                        return "no code".to_owned();
                    };
                    let code = u16::from_be_bytes([high, low]);
                    let reason = String::from_utf8_lossy(&payload[2..]);
                    return format!("{code} {reason}").trim().to_owned();
                }
                Some(_) => {}
                None => return "end".to_owned(),
            }
        }
    }

    /// Answers pings for some time, and fails on any other frame.
    async fn idle(&mut self, time: Duration) {
        let answers = async {
            loop {
                match self.next().await {
                    Some((first, payload)) if first == FIN | PING => {
                        self.raw(&frame(FIN | PONG, &payload)).await;
                    }
                    other => panic!("not a ping: {other:?}"),
                }
            }
        };
        assert!(tokio::time::timeout(time, answers).await.is_err());
    }

    /// Drops the client and waits for the end of the server's task.
    async fn finish(self) -> (Arc<Node>, Arc<Meter>) {
        drop(self.io);
        self.served.await.unwrap();
        drop(self.connection);
        assert_eq!(self.node.count("ended"), 1);
        assert!(self.node.rooms.lock().is_empty());
        let reading = self.meter.read();
        assert_eq!((reading.connections, reading.queue_bytes), (0, 0));
        (self.node, self.meter)
    }
}

/// Returns a masked frame of a client.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];
    let mut bytes = head(first, payload.len(), true);
    bytes.extend_from_slice(&MASK);
    bytes.extend(payload.iter().zip(MASK.iter().cycle()).map(|(b, m)| b ^ m));
    bytes
}

/// Returns the first bytes of a frame, up to its mask.
fn head(first: u8, length: usize, masked: bool) -> Vec<u8> {
    let mask = if masked { 0x80 } else { 0 };
    let mut bytes = vec![first];
    match length {
        0..126 => bytes.push(mask | length as u8),
        126..65_536 => {
            bytes.push(mask | 0x7e);
            bytes.extend_from_slice(&(length as u16).to_be_bytes());
        }
        _ => {
            bytes.push(mask | 0x7f);
            bytes.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    bytes
}

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Returns an event with an `ackId`.
fn event(name: &str, ack: usize, payload: &str) -> String {
    format!(r#"{{"action":"event","event":"{name}","ackId":{ack},"payload":{payload}}}"#)
}
