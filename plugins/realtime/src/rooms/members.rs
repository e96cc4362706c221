//! The live rooms of a node, and the tasks that pass the engine's deliveries to members.

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

/// The maximum number of deliveries of a stream that are queued before the sockets are written.
const MAX_AT_ONCE: usize = 16;

/// The live rooms of a node, by the name of their stream.
#[derive(Default)]
pub(super) struct LiveRooms(Mutex<HashMap<String, Slot>>);

struct Slot {
    live: Arc<Live>,
    /// The number of connections that are in the room or are joining it.
    uses: usize,
    /// The task that delivers the stream's frames. It is set after the stream was subscribed to.
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

    /// Keeps the use after this value is dropped. [`RoomHub::left`] ends it.
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
    pub(super) async fn use_room(
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
                uses: 0,
                pump: Arc::default(),
            });
            slot.uses += 1;
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
        live.start_at(subscription.position());
        let (me, live) = (std::sync::Weak::clone(&self.me), Arc::clone(live));
        let outbound_bytes = self.settings.limits.outbound_bytes;
        let task = tokio::spawn(async move {
            while let Some(delivery) = subscription.next().await {
                let mut due = Vec::new();
                let mut ended = live.deliver(delivery, outbound_bytes, &mut due);
                // At most 16 frames that have already arrived are written to each socket in one
                // system call.
                for _ in 1..MAX_AT_ONCE {
                    let Some(delivery) = subscription.next_received() else {
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

    /// Removes a connection from a room. Returns whether it was in the room.
    pub(super) fn leave(&self, entry: &Entry, room: &str) -> bool {
        let left = entry.state.lock().rooms.remove(room);
        if let Some(live) = &left {
            self.left(entry, live);
        }
        left.is_some()
    }

    /// Ends the use of a connection that has left a room. It is the counterpart of [`InUse::keep`].
    pub(super) fn left(&self, entry: &Entry, live: &Arc<Live>) {
        live.remove(entry.connection.id());
        if live.carrier.presence() {
            self.depart(entry, live);
        }
        self.release_live(live);
    }

    /// Ends a use of a room. The end of the last use ends the node's subscription.
    fn release_live(&self, live: &Arc<Live>) {
        let mut lives = self.lives.0.lock();
        let Some(slot) = lives.get_mut(live.stream.name()) else {
            return;
        };
        slot.uses -= 1;
        if slot.uses > 0 {
            return;
        }
        if let Some(slot) = lives.remove(live.stream.name())
            && let Some(pump) = slot.pump.get()
        {
            pump.abort();
        }
    }

    /// Returns the current live rooms.
    pub(super) fn live_rooms(&self) -> Vec<Arc<Live>> {
        let lives = self.lives.0.lock();
        lives.values().map(|slot| Arc::clone(&slot.live)).collect()
    }
}

/// Notifies a client that its subscription has ended. A response has only one subscription, so the
/// response ends too.
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
