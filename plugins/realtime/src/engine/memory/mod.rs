//! The engine for a single process. It stores everything in memory.

mod log;
mod presence;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use linchpin::BoxFuture;
use parking_lot::Mutex;

use self::log::Logs;
use self::presence::Leases;
use super::feed::{Entries, Feeds, Source, Subscription, read_history};
use super::node::ControlSender;
use super::{
    Append, Clock, Controls, Engine, EngineError, Epoch, Facts, NodeId, Position, Present, Result,
    Slice, Stream, To, check_message,
};

/// The engine for one node, and for tests. Nothing survives the process: after a restart every
/// stream has another epoch, and clients that resume get a reset.
///
/// [`another_node`](Self::another_node) returns a further node with the same streams in the same
/// process.
pub struct MemoryEngine(Arc<Inner>);

struct Inner {
    node: NodeId,
    clock: Clock,
    storage: Arc<Storage>,
    receivers: Arc<Receivers>,
    closed: AtomicBool,
}

/// The receivers of a node.
#[derive(Default)]
struct Receivers {
    feeds: Arc<Feeds>,
    controls: ControlSender,
}

/// The storage that all nodes share.
#[derive(Default)]
struct Storage {
    logs: Mutex<Logs>,
    leases: Mutex<Leases>,
    nodes: Mutex<HashMap<NodeId, Arc<Receivers>>>,
    #[cfg(any(test, feature = "test-util"))]
    faults: Faults,
}

/// The faults that tests inject.
#[cfg(any(test, feature = "test-util"))]
#[derive(Default)]
struct Faults {
    /// Every call fails.
    down: AtomicBool,
    /// Nodes receive no frames and no messages.
    cut: AtomicBool,
}

impl fmt::Debug for MemoryEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryEngine")
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}

impl MemoryEngine {
    /// Creates an engine without streams.
    pub fn new(clock: Clock) -> Self {
        Self::with_storage(Arc::default(), clock)
    }

    fn with_storage(storage: Arc<Storage>, clock: Clock) -> Self {
        let (node, receivers) = (NodeId::random(), Arc::<Receivers>::default());
        storage.nodes.lock().insert(node, Arc::clone(&receivers));
        Self(Arc::new(Inner {
            node,
            clock,
            storage,
            receivers,
            closed: AtomicBool::new(false),
        }))
    }

    /// Returns a further node with the same streams.
    #[must_use]
    pub fn another_node(&self) -> Self {
        Self::with_storage(Arc::clone(&self.0.storage), Arc::clone(&self.0.clock))
    }
}

/// Faults, for tests.
#[cfg(any(test, feature = "test-util"))]
impl MemoryEngine {
    /// Makes every call of every node fail with `unavailable`, until
    /// [`recover`](Self::recover).
    pub fn fail(&self) {
        self.0.storage.faults.down.store(true, Ordering::SeqCst);
    }

    /// Stops the delivery of frames and messages to nodes, until [`recover`](Self::recover).
    pub fn cut(&self) {
        self.0.storage.faults.cut.store(true, Ordering::SeqCst);
    }

    /// Ends the faults, as a new connection to a server does.
    pub fn recover(&self) {
        let storage = &self.0.storage;
        storage.faults.down.store(false, Ordering::SeqCst);
        storage.faults.cut.store(false, Ordering::SeqCst);
        for receivers in storage.nodes.lock().values() {
            receivers.feeds.request_all_comparisons();
        }
    }

    /// Deletes all data without a notification.
    pub fn flush(&self) {
        *self.0.storage.logs.lock() = Logs::default();
        *self.0.storage.leases.lock() = Leases::default();
    }

    /// Deletes the position and the frames of a stream.
    pub fn lose_stream(&self, stream: &str) {
        self.0.storage.logs.lock().remove(stream);
    }

    /// Deletes the frames of a stream and keeps its position.
    pub fn lose_frames(&self, stream: &str) {
        self.0.storage.logs.lock().truncate(stream);
    }

    /// Sets a stream back to an earlier offset, as a restored backup does.
    pub fn rewind(&self, stream: &str, offset: u64) {
        self.0.storage.logs.lock().rewind(stream, offset);
    }
}

impl Inner {
    fn check_available(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(EngineError::unavailable("the engine is closed"));
        }
        #[cfg(any(test, feature = "test-util"))]
        if self.storage.faults.down.load(Ordering::SeqCst) {
            return Err(EngineError::unavailable("a test has stopped the engine"));
        }
        Ok(())
    }

    /// Passes a frame or a message to all nodes, or to one.
    fn notify(&self, to: To<'_>, send: impl Fn(&Receivers)) {
        #[cfg(any(test, feature = "test-util"))]
        if self.storage.faults.cut.load(Ordering::SeqCst) {
            return;
        }
        let nodes = self.storage.nodes.lock();
        match to {
            To::Node(node) => {
                if let Some(receivers) = nodes.get(node) {
                    send(receivers);
                }
            }
            To::All => nodes.values().for_each(|receivers| send(receivers)),
        }
    }

    fn append(&self, batch: &[Append]) -> Result<Vec<Position>> {
        self.check_available()?;
        let now = (self.clock)();
        // The lock is held while nodes are notified, so that they receive frames in order.
        let mut logs = self.storage.logs.lock();
        let appended = batch.iter().map(|append| {
            let (position, new) = logs.append(append, now)?;
            if let Some(frame) = new {
                self.notify(To::All, |receivers| {
                    receivers.feeds.frame(append.stream.name(), &frame);
                });
            }
            Ok(position)
        });
        appended.collect()
    }
}

/// Wraps a result in a future that is ready.
fn immediately<'a, T: Send + 'a>(value: T) -> BoxFuture<'a, T> {
    Box::pin(std::future::ready(value))
}

impl Engine for MemoryEngine {
    fn facts(&self) -> Facts {
        Facts {
            name: "memory",
            persistent: false,
            cluster: false,
        }
    }

    fn node(&self) -> &NodeId {
        &self.0.node
    }

    fn start(&self) -> BoxFuture<'_, Result<()>> {
        immediately(self.0.check_available())
    }

    fn append<'a>(&'a self, batch: &'a [Append]) -> BoxFuture<'a, Result<Vec<Position>>> {
        immediately(self.0.append(batch))
    }

    fn read<'a>(
        &'a self,
        stream: &'a Stream,
        after: u64,
        max: usize,
    ) -> BoxFuture<'a, Result<Slice>> {
        Box::pin(read_history(&*self.0, &self.0.clock, stream, after, max))
    }

    fn top<'a>(&'a self, stream: &'a Stream) -> BoxFuture<'a, Result<Position>> {
        Box::pin(async { Ok(self.0.entries(stream, u64::MAX, 0).await?.top) })
    }

    fn subscribe<'a>(&'a self, stream: &'a Stream) -> BoxFuture<'a, Result<Subscription>> {
        let source = Arc::clone(&self.0) as Arc<dyn Source>;
        Box::pin(self.0.receivers.feeds.subscribe(source, stream))
    }

    fn renew(&self) -> BoxFuture<'_, Result<()>> {
        immediately(self.0.check_available().map(|()| {
            let mut logs = self.0.storage.logs.lock();
            logs.renew();
            self.0.notify(To::All, |receivers| {
                receivers.feeds.request_all_comparisons();
            });
        }))
    }

    fn send<'a>(&'a self, stream: &'a Stream, message: Bytes) -> BoxFuture<'a, Result<()>> {
        immediately(
            self.0
                .check_available()
                .and_then(|()| check_message(&message))
                .map(|()| {
                    self.0.notify(To::All, |receivers| {
                        receivers.feeds.message(stream.name(), &message);
                    });
                }),
        )
    }

    fn control<'a>(&'a self, to: To<'a>, message: Bytes) -> BoxFuture<'a, Result<()>> {
        immediately(
            self.0
                .check_available()
                .and_then(|()| check_message(&message))
                .map(|()| {
                    self.0
                        .notify(to, |receivers| receivers.controls.pass(message.clone()));
                }),
        )
    }

    fn controls(&self) -> Controls {
        self.0.receivers.controls.receiver()
    }

    fn presence_enter<'a>(
        &'a self,
        stream: &'a Stream,
        users: &'a [&'a str],
    ) -> BoxFuture<'a, Result<Vec<String>>> {
        let now_at = (self.0.clock)();
        immediately(self.0.check_available().map(|()| {
            let mut leases = self.0.storage.leases.lock();
            leases.enter(stream.name(), users, self.0.node, now_at)
        }))
    }

    fn presence_leave<'a>(
        &'a self,
        stream: &'a Stream,
        users: &'a [&'a str],
    ) -> BoxFuture<'a, Result<Vec<String>>> {
        immediately(self.0.check_available().map(|()| {
            let mut leases = self.0.storage.leases.lock();
            leases.leave(stream.name(), users, self.0.node)
        }))
    }

    fn presence_expire<'a>(&'a self, stream: &'a Stream) -> BoxFuture<'a, Result<Vec<String>>> {
        let now_at = (self.0.clock)();
        immediately(self.0.check_available().map(|()| {
            let mut leases = self.0.storage.leases.lock();
            leases.expire(stream.name(), now_at)
        }))
    }

    fn presence<'a>(&'a self, stream: &'a Stream, max: usize) -> BoxFuture<'a, Result<Present>> {
        let now_at = (self.0.clock)();
        immediately(self.0.check_available().map(|()| {
            let leases = self.0.storage.leases.lock();
            leases.present(stream.name(), max, now_at)
        }))
    }

    fn ready(&self) -> BoxFuture<'_, Result<()>> {
        immediately(self.0.check_available())
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.0.closed.store(true, Ordering::Release);
        self.0.storage.nodes.lock().remove(&self.0.node);
        self.0.receivers.feeds.close();
        self.0.receivers.controls.close();
        immediately(())
    }
}

impl Source for Inner {
    fn listen<'a>(&'a self, _: &'a Stream) -> BoxFuture<'a, Result<()>> {
        immediately(self.check_available())
    }

    fn released(&self, _: &Stream) {}

    fn entries<'a>(
        &'a self,
        stream: &'a Stream,
        after: u64,
        max: usize,
    ) -> BoxFuture<'a, Result<Entries>> {
        let now_at = (self.clock)();
        immediately(
            self.check_available()
                .map(|()| self.storage.logs.lock().entries(stream, after, max, now_at)),
        )
    }

    fn replace_epoch<'a>(
        &'a self,
        stream: &'a Stream,
        lost: Epoch,
    ) -> BoxFuture<'a, Result<Position>> {
        let now_at = (self.clock)();
        immediately(self.check_available().map(|()| {
            let mut logs = self.storage.logs.lock();
            let (position, replaced) = logs.replace_epoch(stream, lost, now_at);
            if replaced {
                self.notify(To::All, |receivers| {
                    receivers.feeds.request_comparison(stream.name());
                });
            }
            position
        }))
    }
}
