//! Engines: they store streams and presence, and carry messages between nodes.
//!
//! An [`Engine`] stores ordered, bounded logs of opaque frames ([`Stream`]s), notifies every node
//! of the app of new frames, keeps the leases of present users, and carries messages between nodes.
//! It does not depend on channels, rooms or actors: it moves bytes.
//!
//! | Engine | For | Survives a restart of the app |
//! |---|---|---|
//! | [`MemoryEngine`] | one node, and tests | no: all epochs change |
//! | `PostgresEngine` (feature `postgres`) | several nodes with one database | yes |
//! | `RedisEngine` (feature `redis`) | several nodes with Redis 7 or newer, or Valkey | yes |
//! | `NatsEngine` (feature `nats`) | several nodes with NATS 2.10 or newer and `JetStream` | yes |
//!
//! [`Engine`] explains how to write another one.

#[cfg(feature = "test-util")]
pub mod conformance;
mod error;
pub(crate) mod faults;
pub mod feed;
mod frame;
mod memory;
#[cfg(feature = "nats")]
mod nats;
mod node;
#[cfg(feature = "postgres")]
mod postgres;
mod presence;
#[cfg(feature = "redis")]
mod redis;
mod stream;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use linchpin::{BoxFuture, Timestamp};

pub use self::error::{EngineError, Result};
pub use self::feed::{Delivery, ResetReason, Subscription};
pub use self::frame::{Append, EventId, Fence, Frame, Slice};
pub use self::memory::MemoryEngine;
#[cfg(feature = "nats")]
pub use self::nats::{NatsEngine, NatsEngineOptions};
pub use self::node::{Controls, NodeId, To};
#[cfg(feature = "postgres")]
pub use self::postgres::{PostgresEngine, PostgresEngineOptions};
pub use self::presence::{Attendance, LEASE, Member, PresenceChanges, Present, RENEWAL};
#[cfg(feature = "redis")]
pub use self::redis::{RedisEngine, RedisEngineOptions};
pub use self::stream::{Epoch, History, POSITION_TTL, Position, Stream};

/// The clock of an engine: leases and the age of frames follow it. Tests set it.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The properties of an engine that start-up checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The name in the configuration, such as `memory`.
    pub name: &'static str,
    /// Whether streams survive a restart of the app.
    pub persistent: bool,
    /// Whether several processes can share it.
    pub cluster: bool,
}

/// Stores streams and presence, and carries messages between nodes.
///
/// Each value is one node. Nodes that use the same storage have the same streams.
///
/// # Using an engine
///
/// The leader of a relay appends; every node subscribes to the streams that it serves:
///
/// ```
/// # use std::sync::Arc;
/// # use bytes::Bytes;
/// # use linchpin::Timestamp;
/// use linchpin_realtime::engine::{
///     Append, Delivery, Engine, EventId, History, MemoryEngine, Stream,
/// };
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let engine = MemoryEngine::new(Arc::new(Timestamp::system_now));
/// engine.start().await?;
/// let stream = Stream::new("tasks:42:live", History::default());
/// let mut live = engine.subscribe(&stream).await?;
/// let appended = engine
///     .append(&[Append {
///         stream: stream.clone(),
///         event: EventId::new("0f8c2f0e-6a3c-4df5-9a63-0d3c8c2f11aa").ok_or("an id")?,
///         frame: Bytes::from_static(b"{}"),
///         fence: None,
///     }])
///     .await?;
/// let Some(Delivery::Frame(frame)) = live.next().await else {
///     panic!("a frame")
/// };
/// assert_eq!(frame.position, appended[0]);
/// # Ok(()) }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
///
/// **The atomic join** of a further client to a stream that the node already serves:
///
/// 1. Register the client, and buffer for it the deliveries of the node's [`Subscription`].
/// 2. [`read`](Self::read) after the client's position; the answer contains the top.
/// 3. Send the frames that were read, then release the buffer: skip frames at or below that top.
///
/// No frame is lost or duplicated, because a subscription delivers every frame after its start in
/// order and without gaps, or reports a reset.
///
/// # Writing an engine
///
/// Store per stream a position (epoch, offset, event id of the last frame, instant of expiry), and
/// the last frames with their event ids. Then:
///
/// - **Append** takes the next offset, stores the frame and remembers its event id in one atomic
///   step. An append of an event id within the history returns the first position of this event and
///   stores nothing. If the fence of an append is lower than the highest fence of the same consumer
///   on this stream, the append is refused with [`EngineError::Fenced`]. A stream without a stored
///   position always gets a new random [`Epoch`].
/// - **History:** keep at least [`History::kept_size`] frames for [`History::kept_ttl`]:
///   subscriptions fill gaps from them, also in streams without history. Positions live
///   [`POSITION_TTL`] longer than the history.
/// - **Renew** covers every stream of the app that is stored when the call begins, even if no node
///   serves it.
/// - **Subscribe** through [`feed::Feeds`]. The engine implements [`feed::Source`], and calls
///   [`Feeds::frame`](feed::Feeds::frame) for each frame that it receives. `Feeds` handles order,
///   gaps, duplicates, lost data and replaced epochs. After each new connection the engine calls
///   [`Feeds::request_all_comparisons`](feed::Feeds::request_all_comparisons), so that every
///   subscription compares its place with the newest position of its stream.
/// - **Outages:** while the server is down, calls return [`EngineError::Unavailable`] within
///   seconds and never hang. Live subscriptions stay open and continue after the outage.
/// - **Presence** is a lease per stream, user and node. Each of `enter`, `leave`, `renew` and
///   `expire` is atomic per stream, so that exactly one node is notified of the first arrival
///   and the last departure of a user.
/// - **Time** comes from the [`Clock`] given to the engine.
///
/// Every engine must pass the suite in `linchpin_realtime::engine::conformance` (feature
/// `test-util`).
pub trait Engine: fmt::Debug + Send + Sync + 'static {
    /// The properties of the engine.
    fn facts(&self) -> Facts;

    /// The identity of this node. It is random for each start.
    fn node(&self) -> &NodeId;

    /// Connects, creates the engine's tables or streams, and starts to listen.
    ///
    /// # Errors
    /// [`Unavailable`](EngineError::Unavailable) if the server cannot be reached, and
    /// [`Failed`](EngineError::Failed) if it is not usable (too old, no permission).
    fn start(&self) -> BoxFuture<'_, Result<()>>;

    /// Appends frames in order and returns the position of each. If the history of the stream
    /// already contains the event id of a frame, the frame is not appended again: the first
    /// position of the event is returned.
    ///
    /// After an error some of the frames may have been appended. Repeat the whole batch.
    ///
    /// # Errors
    /// [`Fenced`](EngineError::Fenced) if another leader has taken over the consumer: the caller
    /// must stop. [`Unavailable`](EngineError::Unavailable): the caller may repeat the call later.
    fn append<'a>(&'a self, batch: &'a [Append]) -> BoxFuture<'a, Result<Vec<Position>>>;

    /// Reads at most `max` frames after an offset, within the declared history of the stream. The
    /// data of all of them together has at most [`MAX_READ`] bytes; a longer frame comes alone. If
    /// the answer ends before the top, read again after its last frame.
    ///
    /// # Errors
    /// [`Unavailable`](EngineError::Unavailable).
    fn read<'a>(
        &'a self,
        stream: &'a Stream,
        after: u64,
        max: usize,
    ) -> BoxFuture<'a, Result<Slice>>;

    /// The position of the last frame. A stream without a stored position gets one.
    ///
    /// # Errors
    /// [`Unavailable`](EngineError::Unavailable).
    fn top<'a>(&'a self, stream: &'a Stream) -> BoxFuture<'a, Result<Position>>;

    /// Subscribes to a stream from its top. Every later frame, from any node, is delivered in
    /// order.
    ///
    /// For a stream without history it succeeds even if the engine is down; the subscription then
    /// begins with a reset when the engine is back.
    ///
    /// # Errors
    /// [`Unavailable`](EngineError::Unavailable).
    fn subscribe<'a>(&'a self, stream: &'a Stream) -> BoxFuture<'a, Result<Subscription>>;

    /// Gives every stream a new epoch, because events of any of them may have been lost. Frames of
    /// former epochs can no longer be read. A client that resumes from an earlier position gets a
    /// reset, and so do the live subscriptions of all nodes, with
    /// [`EpochChanged`](ResetReason::EpochChanged). Fences stay.
    ///
    /// After an error some of the streams may have been renewed. Repeat the call.
    ///
    /// # Errors
    /// [`Unavailable`](EngineError::Unavailable): repeat later.
    fn renew(&self) -> BoxFuture<'_, Result<()>>;

    /// Sends a message to the subscribers of a stream on all nodes, this one included. It is not
    /// stored: a node that is not connected at this moment does not get it. Messages of one node
    /// arrive in order.
    ///
    /// # Errors
    /// [`Unavailable`](EngineError::Unavailable), and [`TooLarge`](EngineError::TooLarge) beyond
    /// [`MAX_MESSAGE`].
    fn send<'a>(&'a self, stream: &'a Stream, message: Bytes) -> BoxFuture<'a, Result<()>>;

    /// Sends a message to one node or to all nodes, this one included. It is not stored.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    fn control<'a>(&'a self, to: To<'a>, message: Bytes) -> BoxFuture<'a, Result<()>>;

    /// Returns the control messages for this node, from now on.
    fn controls(&self) -> Controls;

    /// Records that users are present on this node for the next [`LEASE`]; a node repeats it for
    /// all its users every [`RENEWAL`]. Returns the users who had no lease on any node: the
    /// caller announces their arrival. An expired lease counts until
    /// [`presence_expire`](Self::presence_expire) removes it.
    ///
    /// # Errors
    /// [`Unavailable`](EngineError::Unavailable).
    fn presence_enter<'a>(
        &'a self,
        stream: &'a Stream,
        users: &'a [&'a str],
    ) -> BoxFuture<'a, Result<Vec<String>>>;

    /// Records that users are no longer present on this node. Returns the users who now have no
    /// lease on any node: the caller announces their departure.
    ///
    /// # Errors
    /// [`Unavailable`](EngineError::Unavailable).
    fn presence_leave<'a>(
        &'a self,
        stream: &'a Stream,
        users: &'a [&'a str],
    ) -> BoxFuture<'a, Result<Vec<String>>>;

    /// Removes the expired leases of all nodes. Returns the users who have no lease left: the
    /// caller announces their departure. If several nodes call it, exactly one of them gets each
    /// user. A node calls it every few seconds for the streams that it serves.
    ///
    /// # Errors
    /// [`Unavailable`](EngineError::Unavailable).
    fn presence_expire<'a>(&'a self, stream: &'a Stream) -> BoxFuture<'a, Result<Vec<String>>>;

    /// Does [`presence_enter`](Self::presence_enter) and then
    /// [`presence_expire`](Self::presence_expire) for several streams, and returns the changes of
    /// each. A node renews all its leases with this method, so an implementation should send few
    /// requests. The default implementation renews several streams at the same time.
    ///
    /// # Errors
    /// [`Unavailable`](EngineError::Unavailable): some of the streams may have been renewed.
    fn presence_renew<'a>(
        &'a self,
        all: &'a [Attendance],
    ) -> BoxFuture<'a, Result<Vec<PresenceChanges>>> {
        let renew = move |one: &'a Attendance| async move {
            let users: Vec<&str> = one.users.iter().map(String::as_str).collect();
            let arrived = match &users[..] {
                [] => Vec::new(),
                users => self.presence_enter(&one.stream, users).await?,
            };
            let left = self.presence_expire(&one.stream).await?;
            Ok(PresenceChanges { arrived, left })
        };
        Box::pin(
            futures_util::stream::iter(all)
                .map(renew)
                .buffered(AT_ONCE)
                .try_collect(),
        )
    }

    /// Returns at most `max` of the users who are present on any node, the earliest arrivals first,
    /// and the number of all present users.
    ///
    /// # Errors
    /// [`Unavailable`](EngineError::Unavailable).
    fn presence<'a>(&'a self, stream: &'a Stream, max: usize) -> BoxFuture<'a, Result<Present>>;

    /// Checks that the engine answers now.
    ///
    /// # Errors
    /// [`Unavailable`](EngineError::Unavailable).
    fn ready(&self) -> BoxFuture<'_, Result<()>>;

    /// Ends subscriptions and connections. Later calls return
    /// [`Unavailable`](EngineError::Unavailable).
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// The number of streams whose presence is renewed at the same time.
const AT_ONCE: usize = 16;

/// The maximum length in bytes of the frames that a read returns, if it returns more than one.
pub const MAX_READ: usize = 1 << 20;

/// The maximum length in bytes of an ephemeral message and of a control message.
pub const MAX_MESSAGE: usize = 256 * 1024;

fn check_message(message: &Bytes) -> Result<()> {
    if message.len() > MAX_MESSAGE {
        return Err(EngineError::TooLarge {
            bytes: message.len(),
            max: MAX_MESSAGE,
        });
    }
    Ok(())
}
