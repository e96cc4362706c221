//! Presence: the users who are in a room, on all nodes.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use linchpin::{ActorKind, Error, Result, Timestamp};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::live::Live;
use super::stored::EphemeralMessage;
use super::{Entry, RoomHub};
use crate::connection::Connection;
use crate::engine::Attendance;
use crate::protocol::{NOT_SUBSCRIBED, PresenceList, ServerFrame};

/// The grace period: the time for which a user may be away before other members are notified.
const GRACE: Duration = Duration::from_secs(5);
/// The number of rooms whose leases are renewed with one call of the engine.
const ROOMS_PER_RENEWAL: usize = 100;
/// The number of rooms whose members are notified at the same time.
const CONCURRENT_ROOMS: usize = 16;
/// The maximum number of users in a snapshot.
const MAX_USERS: usize = 500;

/// The users in the rooms of this node.
#[derive(Default)]
pub(super) struct Presences(Mutex<State>);

#[derive(Default)]
struct State {
    /// The present users, by stream and then by user id.
    rooms: HashMap<String, HashMap<String, PresentUser>>,
    /// The running grace periods, the oldest first: at most one for each user of a room.
    leaving: BTreeMap<u64, Leaving>,
    /// The number of the next grace period.
    next: u64,
    /// Whether a task waits for the end of the oldest grace period.
    is_watched: bool,
}

#[derive(Default)]
struct PresentUser {
    connections: usize,
    /// The number of its grace period, if it has no connection in the room.
    leaving: Option<u64>,
}

/// A user whose last connection has left a room.
struct Leaving {
    until: Instant,
    live: Arc<Live>,
    user: String,
}

impl State {
    /// Removes and returns the users whose grace period is over, by room.
    fn remove_absent(&mut self, now: Instant) -> Vec<(Arc<Live>, Vec<String>)> {
        let mut gone: HashMap<String, (Arc<Live>, Vec<String>)> = HashMap::new();
        while let Some(oldest) = self.leaving.first_entry()
            && oldest.get().until <= now
        {
            let Leaving { live, user, .. } = oldest.remove();
            let name = live.stream.name();
            if let Some(room) = self.rooms.get_mut(name) {
                room.remove(&user);
                if room.is_empty() {
                    self.rooms.remove(name);
                }
            }
            let room = gone.entry(name.to_owned());
            room.or_insert_with(|| (live, Vec::new())).1.push(user);
        }
        gone.into_values().collect()
    }
}

/// The users of a room.
pub(super) struct Snapshot {
    pub(super) users: Vec<(String, Timestamp)>,
    pub(super) count: usize,
}

/// Returns the user whose presence is counted; `None` for anonymous callers and programs.
fn user_of(entry: &Entry) -> Option<String> {
    let identity = entry.connection.identity()?;
    let is_user = identity.actor.kind == ActorKind::User;
    identity.actor.id.clone().filter(|_| is_user)
}

impl RoomHub {
    /// Adds a connection to a room. Notifies the other members if it is the user's first one.
    /// Returns the users who are present.
    pub(super) async fn enter_room(&self, entry: &Entry, live: &Arc<Live>) -> Option<Snapshot> {
        if !live.carrier.presence() {
            return None;
        }
        if let Some(user) = user_of(entry) {
            let is_first = {
                let mut all = self.presences.0.lock();
                let room = all.rooms.entry(live.stream.name().to_owned()).or_default();
                let here = room.entry(user.clone()).or_default();
                here.connections += 1;
                let leaving = here.leaving.take();
                if let Some(leaving) = leaving {
                    all.leaving.remove(&leaving);
                    false
                } else {
                    here.connections == 1
                }
            };
            if is_first {
                self.enter(live, &[&user]).await;
            }
        }
        let snapshot = self.snapshot(live).await.ok()?;
        let users = snapshot.users.iter().map(|(user, _)| user.as_str());
        live.set_snapshot_users(entry.connection.id(), users);
        Some(snapshot)
    }

    async fn snapshot(&self, live: &Live) -> Result<Snapshot> {
        let engine = &self.settings.engine;
        let present = engine.presence(&live.stream, MAX_USERS).await?;
        let users = present.users.into_iter();
        Ok(Snapshot {
            users: users.map(|member| (member.user, member.since)).collect(),
            count: present.count,
        })
    }

    /// Records users as present. Notifies the members about users who were not present before.
    async fn enter(&self, live: &Live, users: &[&str]) {
        match self
            .settings
            .engine
            .presence_enter(&live.stream, users)
            .await
        {
            Ok(new) => {
                for user in new {
                    self.notify(live, &EphemeralMessage::Join { user }).await;
                }
            }
            // The next renewal repeats it.
            Err(error) => tracing::debug!(%error, "presence could not be recorded"),
        }
    }

    async fn notify(&self, live: &Live, ephemeral: &EphemeralMessage) {
        let Ok(message) = ephemeral.encode() else {
            return;
        };
        if let Err(error) = self.settings.engine.send(&live.stream, message).await {
            tracing::debug!(%error, "a change of presence could not be sent");
        }
    }

    /// Removes a connection from a room. If it was the user's last one, the other members are
    /// notified after the grace period.
    pub(super) fn depart(&self, entry: &Entry, live: &Arc<Live>) {
        let Some(user) = user_of(entry) else {
            return;
        };
        let Ok(runtime) = Handle::try_current() else {
            // The process is ending. The lease will expire.
            return;
        };
        let all = &mut *self.presences.0.lock();
        let room = all.rooms.get_mut(live.stream.name());
        let Some(here) = room.and_then(|room| room.get_mut(&user)) else {
            return;
        };
        here.connections = here.connections.saturating_sub(1);
        if here.connections > 0 || here.leaving.is_some() {
            return;
        }
        here.leaving = Some(all.next);
        let leaving = Leaving {
            until: Instant::now() + GRACE,
            live: Arc::clone(live),
            user,
        };
        all.leaving.insert(all.next, leaving);
        all.next += 1;
        if !std::mem::replace(&mut all.is_watched, true) {
            let me = Weak::clone(&self.me);
            runtime.spawn(async move { watch_leaving(&me).await });
        }
    }

    /// Returns the end of the oldest grace period. If none is running, returns `None`, and the
    /// watching task ends.
    fn next_end(&self) -> Option<Instant> {
        let mut all = self.presences.0.lock();
        let oldest = all.leaving.first_key_value();
        let until = oldest.map(|(_, leaving)| leaving.until);
        all.is_watched = until.is_some();
        until
    }

    /// Notifies the members of rooms about users whose grace period is over.
    async fn notify_departures(&self) {
        let gone = self.presences.0.lock().remove_absent(Instant::now());
        let rooms = stream::iter(gone);
        rooms
            .for_each_concurrent(CONCURRENT_ROOMS, async |(live, users)| {
                let users: Vec<&str> = users.iter().map(String::as_str).collect();
                let engine = &self.settings.engine;
                match engine.presence_leave(&live.stream, &users).await {
                    Ok(left) => {
                        for user in left {
                            self.notify(&live, &EphemeralMessage::Leave { user }).await;
                        }
                    }
                    // The leases will expire. Then a node notifies the members.
                    Err(error) => tracing::debug!(%error, "a departure is not recorded"),
                }
            })
            .await;
    }

    /// Renews the leases of this node. Notifies members about users whose leases have expired.
    pub(super) async fn renew_presence(&self) {
        let rooms = self.live_rooms();
        let rooms: Vec<_> = rooms
            .into_iter()
            .filter(|live| live.carrier.presence())
            .collect();
        for part in rooms.chunks(ROOMS_PER_RENEWAL) {
            let attendance = |live: &Arc<Live>| {
                live.forget_snapshot_users();
                let all = self.presences.0.lock();
                let room = all.rooms.get(live.stream.name()).into_iter();
                Attendance {
                    stream: live.stream.clone(),
                    users: room.flat_map(HashMap::keys).cloned().collect(),
                }
            };
            let all: Vec<Attendance> = part.iter().map(attendance).collect();
            let changes = match self.settings.engine.presence_renew(&all).await {
                Ok(changes) => changes,
                Err(error) => {
                    // The next renewal repeats it.
                    tracing::debug!(%error, "presence could not be recorded");
                    return;
                }
            };
            let rooms = stream::iter(part.iter().zip(changes));
            rooms
                .for_each_concurrent(CONCURRENT_ROOMS, async |(live, changes)| {
                    for user in changes.arrived {
                        self.notify(live, &EphemeralMessage::Join { user }).await;
                    }
                    for user in changes.left {
                        self.notify(live, &EphemeralMessage::Leave { user }).await;
                    }
                })
                .await;
        }
    }

    /// Returns the frame `presence` of a room that a connection has joined.
    pub(super) async fn present(
        &self,
        connection: &Arc<Connection>,
        room: &str,
        reference: Option<&str>,
    ) -> Result<ServerFrame> {
        let entry = self.caller_of(connection)?;
        let live = entry.state.lock().rooms.get(room).cloned();
        let live = live.filter(|live| live.carrier.presence()).ok_or_else(|| {
            Error::new(
                NOT_SUBSCRIBED,
                "You have not joined this room, or it has no presence",
            )
        })?;
        // Snapshots have the same limit as relayed frames, because a snapshot costs the engine even
        // more than a relayed frame. They are counted under an empty name, which no variant has.
        let limit = self.settings.limits.relays_per_second;
        self.take_frame(&entry, "", room, f64::from(limit), limit)?;
        let present = self.snapshot(&live).await?;
        let list = PresenceList {
            users: &present.users,
            count: present.count,
        };
        Ok(ServerFrame::presence(room, list, reference))
    }
}

/// Waits for the end of each grace period, until none is running.
async fn watch_leaving(hub: &Weak<RoomHub>) {
    loop {
        let Some(until) = hub.upgrade().and_then(|hub| hub.next_end()) else {
            return;
        };
        tokio::time::sleep_until(until).await;
        let Some(hub) = hub.upgrade() else { return };
        hub.notify_departures().await;
    }
}
