//! The live rooms of a node, and the tasks that pass on what the engine delivers.

use std::collections::HashMap;
use std::sync::Arc;

use linchpin::{Code, Result};
use parking_lot::Mutex;
use tokio::sync::OnceCell;
use tokio::task::AbortHandle;

use super::carrier::Carrier;
use super::guards::Guards;
use super::live::{Affected, Live};
use super::{Entry, RoomHub};
use crate::connection::{Connection, Kind, flush_all};
use crate::engine::Stream;
use crate::protocol::{Close, ServerFrame};

/// Deliveries of a stream that are passed on before the sockets are written.
const MOST_AT_ONCE: usize = 16;

/// The live rooms of a node, by the name of their stream.
#[derive(Default)]
pub(super) struct Lives(Mutex<HashMap<String, Slot>>);

struct Slot {
    live: Arc<Live>,
    /// The connections that are in the room or join it.
    users: usize,
    /// The subscription to the stream, once it stands.
    pump: Arc<OnceCell<AbortHandle>>,
}

/// A use of a live room. While one exists, the node stays subscribed.
pub(super) struct InUse<'a> {
    hub: &'a RoomHub,
    live: Arc<Live>,
    kept: bool,
}

impl InUse<'_> {
    pub(super) fn live(&self) -> &Arc<Live> {
        &self.live
    }

    /// Keeps the use beyond this value; [`RoomHub::left`] ends it.
    pub(super) fn keep(mut self) -> Arc<Live> {
        self.kept = true;
        Arc::clone(&self.live)
    }
}

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        if !self.kept {
            self.hub.release_live(&self.live);
        }
    }
}

impl RoomHub {
    /// Begins a use of a room. The first one subscribes to its stream.
    ///
    /// # Errors
    /// `unavailable` if the engine does not answer.
    pub(super) async fn live(
        &self,
        carrier: Carrier,
        guards: Arc<Guards>,
        room: &str,
        stream: String,
    ) -> Result<InUse<'_>> {
        let (live, pump) = {
            let mut lives = self.lives.0.lock();
            let slot = lives.entry(stream).or_insert_with_key(|name| Slot {
                live: Arc::new(Live::new(
                    carrier,
                    room.to_owned(),
                    Stream::new(name.as_str(), carrier.history()),
                    guards,
                    Arc::clone(&self.settings.clock),
                )),
                users: 0,
                pump: Arc::default(),
            });
            slot.users += 1;
            (Arc::clone(&slot.live), Arc::clone(&slot.pump))
        };
        let used = InUse {
            hub: self,
            live,
            kept: false,
        };
        pump.get_or_try_init(|| self.pump(&used.live)).await?;
        Ok(used)
    }

    /// Subscribes to the stream of a room and starts the task that passes on its frames.
    async fn pump(&self, live: &Arc<Live>) -> Result<AbortHandle> {
        let mut subscription = self.settings.engine.subscribe(&live.stream).await?;
        live.begin(subscription.position());
        let (me, live) = (std::sync::Weak::clone(&self.me), Arc::clone(live));
        let outbound_bytes = self.settings.limits.outbound_bytes;
        let task = tokio::spawn(async move {
            while let Some(delivery) = subscription.next().await {
                let mut due = Vec::new();
                let mut ended = live.deliver(delivery, outbound_bytes, &mut due);
                // All frames that are here already go to each socket in one system call.
                for _ in 1..MOST_AT_ONCE {
                    let Some(delivery) = subscription.next_here() else {
                        break;
                    };
                    ended.extend(live.deliver(delivery, outbound_bytes, &mut due));
                }
                flush_all(&mut due);
                let Some(hub) = me.upgrade() else { return };
                hub.end_subscriptions(&live, ended);
            }
        });
        Ok(task.abort_handle())
    }

    /// Notifies members whose subscription has ended, and removes it. Other subscriptions are
    /// checked again.
    pub(super) fn end_subscriptions(&self, live: &Arc<Live>, affected: Vec<Affected>) {
        for Affected { connection, code } in affected {
            let Some(entry) = self.entry(connection.id()) else {
                continue;
            };
            let Some(code) = code else {
                self.check_soon(entry);
                continue;
            };
            if self.leave(&entry, &live.room) {
                end_subscription(&connection, &live.room, code);
            }
        }
    }

    /// Takes a connection out of a room; returns whether it was in it.
    pub(super) fn leave(&self, entry: &Entry, room: &str) -> bool {
        let left = entry.state.lock().rooms.remove(room);
        if let Some(live) = &left {
            self.left(entry, live);
        }
        left.is_some()
    }

    /// A connection is no longer in a room: the counterpart of [`InUse::keep`].
    pub(super) fn left(&self, entry: &Entry, live: &Arc<Live>) {
        live.remove(entry.connection.id());
        if live.carrier.presence() {
            self.depart(entry, live);
        }
        self.release_live(live);
    }

    /// Ends a use of a room; the last one ends the subscription of the node.
    fn release_live(&self, live: &Arc<Live>) {
        let mut lives = self.lives.0.lock();
        let Some(slot) = lives.get_mut(live.stream.name()) else {
            return;
        };
        slot.users -= 1;
        if slot.users > 0 {
            return;
        }
        if let Some(slot) = lives.remove(live.stream.name())
            && let Some(pump) = slot.pump.get()
        {
            pump.abort();
        }
    }

    /// The live rooms now.
    pub(super) fn live_rooms(&self) -> Vec<Arc<Live>> {
        let lives = self.lives.0.lock();
        lives.values().map(|slot| Arc::clone(&slot.live)).collect()
    }
}

/// Notifies a client that its subscription has ended. A response has one subscription only, so it
/// ends too.
pub(super) fn end_subscription(connection: &Connection, room: &str, code: Code) {
    match connection.kind() {
        Kind::Socket => {
            connection.send(ServerFrame::unsubscribed(room, Some(code), None));
        }
        Kind::Events => connection.close(match code {
            Code::Unavailable => Close::TryAgainLater,
            _ => Close::Forbidden,
        }),
    }
}
