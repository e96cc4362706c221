//! Who is in a room, over all nodes.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use linchpin::{ActorKind, Error, Result, Timestamp};
use parking_lot::Mutex;
use tokio::task::AbortHandle;

use super::live::Live;
use super::stored::Passing;
use super::{Entry, RoomHub};
use crate::connection::Connection;
use crate::protocol::{NOT_SUBSCRIBED, PresenceList, ServerFrame};

/// How long a user may be away before the others are told.
const GRACE: Duration = Duration::from_secs(5);
/// The most users of a snapshot.
const MOST_USERS: usize = 500;

/// The users in the rooms of this node, by stream and then by user.
#[derive(Default)]
pub(super) struct Presences(Mutex<HashMap<String, HashMap<String, Here>>>);

#[derive(Default)]
struct Here {
    connections: usize,
    /// The end of the grace, while no connection is left.
    leaving: Option<AbortHandle>,
}

/// The users of a room.
pub(super) struct Snapshot {
    pub(super) users: Vec<(String, Timestamp)>,
    pub(super) count: usize,
}

/// The user whose presence counts: anonymous callers and programs are not counted.
fn user_of(entry: &Entry) -> Option<String> {
    let identity = entry.connection.identity()?;
    let is_user = identity.actor.kind == ActorKind::User;
    identity.actor.id.clone().filter(|_| is_user)
}

impl RoomHub {
    /// A connection came into a room: tells the others if it is the user's first, and returns who
    /// is there.
    pub(super) async fn arrive_in(&self, entry: &Entry, live: &Arc<Live>) -> Option<Snapshot> {
        if !live.carrier.presence() {
            return None;
        }
        if let Some(user) = user_of(entry) {
            let is_first = {
                let mut all = self.presences.0.lock();
                let room = all.entry(live.stream.name().to_owned()).or_default();
                let here = room.entry(user.clone()).or_default();
                here.connections += 1;
                let leaving = here.leaving.take();
                if let Some(leaving) = &leaving {
                    leaving.abort();
                }
                here.connections == 1 && leaving.is_none()
            };
            if is_first {
                self.enter(live, &[&user]).await;
            }
        }
        let snapshot = self.snapshot(live).await.ok()?;
        let users = snapshot.users.iter().map(|(user, _)| user.as_str());
        live.name(entry.connection.id(), users);
        Some(snapshot)
    }

    async fn snapshot(&self, live: &Live) -> Result<Snapshot> {
        let engine = &self.settings.engine;
        let present = engine.presence(&live.stream, MOST_USERS).await?;
        let users = present.users.into_iter();
        Ok(Snapshot {
            users: users.map(|member| (member.user, member.since)).collect(),
            count: present.count,
        })
    }

    /// Records users as present, and tells of those who were not.
    async fn enter(&self, live: &Live, users: &[&str]) {
        match self
            .settings
            .engine
            .presence_enter(&live.stream, users)
            .await
        {
            Ok(new) => {
                for user in new {
                    self.tell(live, &Passing::Join { user }).await;
                }
            }
            // The next renewal repeats it.
            Err(error) => tracing::debug!(%error, "presence is not recorded"),
        }
    }

    async fn tell(&self, live: &Live, passing: &Passing) {
        let Ok(message) = passing.encode() else {
            return;
        };
        if let Err(error) = self.settings.engine.send(&live.stream, message).await {
            tracing::debug!(%error, "a change of presence is not passed on");
        }
    }

    /// A connection left a room. If it was the user's last one, the others are told after the
    /// grace.
    pub(super) fn depart(&self, entry: &Entry, live: &Arc<Live>) {
        let Some(user) = user_of(entry) else {
            return;
        };
        let mut all = self.presences.0.lock();
        let room = all.get_mut(live.stream.name());
        let Some(here) = room.and_then(|room| room.get_mut(&user)) else {
            return;
        };
        here.connections = here.connections.saturating_sub(1);
        if here.connections > 0 {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            // The process ends; the lease runs out.
            return;
        };
        let (me, live) = (Weak::clone(&self.me), Arc::clone(live));
        let task = runtime.spawn(async move {
            tokio::time::sleep(GRACE).await;
            let Some(hub) = me.upgrade() else { return };
            hub.gone(&live, &user).await;
        });
        here.leaving = Some(task.abort_handle());
    }

    /// The grace of a user has passed.
    async fn gone(&self, live: &Live, user: &str) {
        {
            let mut all = self.presences.0.lock();
            let Some(room) = all.get_mut(live.stream.name()) else {
                return;
            };
            match room.get(user) {
                Some(here) if here.connections == 0 => room.remove(user),
                _ => return,
            };
            if room.is_empty() {
                all.remove(live.stream.name());
            }
        }
        let engine = &self.settings.engine;
        match engine.presence_leave(&live.stream, &[user]).await {
            Ok(left) => {
                for user in left {
                    self.tell(live, &Passing::Leave { user }).await;
                }
            }
            // The lease runs out, and another node tells it.
            Err(error) => tracing::debug!(%error, "a departure is not recorded"),
        }
    }

    /// Renews the leases of this node, and tells of users whose leases have run out.
    pub(super) async fn renew_presence(&self) {
        for live in self.live_rooms() {
            if !live.carrier.presence() {
                continue;
            }
            live.forget_named();
            let users: Vec<String> = {
                let all = self.presences.0.lock();
                let room = all.get(live.stream.name()).into_iter();
                room.flat_map(HashMap::keys).cloned().collect()
            };
            let users: Vec<&str> = users.iter().map(String::as_str).collect();
            if !users.is_empty() {
                self.enter(&live, &users).await;
            }
            if let Ok(left) = self.settings.engine.presence_expire(&live.stream).await {
                for user in left {
                    self.tell(&live, &Passing::Leave { user }).await;
                }
            }
        }
    }

    /// The frame `presence` of a room that a connection is in.
    pub(super) async fn present(
        &self,
        connection: &Arc<Connection>,
        room: &str,
        reference: Option<&str>,
    ) -> Result<ServerFrame> {
        let entry = self.caller_of(connection)?;
        let live = entry.state.lock().rooms.get(room).cloned();
        let live = live
            .filter(|live| live.carrier.presence())
            .ok_or_else(|| Error::new(NOT_SUBSCRIBED, "Not in such a room with presence"))?;
        let present = self.snapshot(&live).await?;
        let list = PresenceList {
            users: &present.users,
            count: present.count,
        };
        Ok(ServerFrame::presence(room, list, reference))
    }
}
