//! Joins a connection to a room, and resumes it at its last position.

use std::sync::Arc;
use std::time::Duration;

use linchpin::http::CredentialUse;
use linchpin::{Actor, ActorKind, Code, Error, Result};

use super::carrier::Carrier;
use super::guards::{Guards, Tuples};
use super::live::{Affected, Live, client_position};
use super::members::InUse;
use super::presence::Snapshot;
use super::replay::Replay;
use super::stored::stream_name;
use super::{Entry, RoomHub};
use crate::channel::{ChannelDesc, RoomName};
use crate::connection::{Connection, Joined, key_of, take_call};
use crate::engine;
use crate::protocol::{
    INVALID_ROOM, Position, PresenceList, ServerFrame, Subscribed, TOO_MANY_ROOMS,
};

/// The time limit for the check of a subscription.
pub(super) const CHECK_TIMEOUT: Duration = Duration::from_secs(1);

/// A member that is joining. Its frames are held back. Dropping the value removes the member.
pub(super) struct Joining<'a> {
    hub: &'a RoomHub,
    entry: &'a Arc<Entry>,
    /// Keeps the room in use while the member joins. After the join, the member keeps it in use.
    used: Option<InUse<'a>>,
    live: Arc<Live>,
    /// Whether the member is counted as present.
    arrived: bool,
    /// The number of changes of the caller's rights before the last check.
    rights: u64,
}

/// A member whose first frames are ready.
pub(super) struct Entered<'a> {
    pub(super) joining: Joining<'a>,
    pub(super) replay: Replay,
    pub(super) presence: Option<Snapshot>,
}

impl Drop for Joining<'_> {
    fn drop(&mut self) {
        if self.used.is_none() {
            return;
        }
        self.live.remove(self.entry.connection.id());
        if self.arrived {
            self.hub.depart(self.entry, &self.live);
        }
    }
}

impl Joining<'_> {
    /// Sends the member the held frames above `top`, after its first frames were sent.
    pub(super) fn complete(mut self, top: engine::Position) {
        let Some(used) = self.used.take() else {
            return;
        };
        let (hub, entry) = (self.hub, self.entry);
        let (live, connection) = (used.keep(), &entry.connection);
        let room = live.room.clone();
        let mut state = entry.state.lock();
        state.rooms.insert(room, Arc::clone(&live));
        let changed = state.rights != self.rights;
        drop(state);
        let mut affected = live.release(connection, top);
        if changed && affected.iter().all(|one| one.code.is_none()) {
            // The check after the change of rights did not include this room.
            affected = vec![Affected::to_recheck(connection)];
        }
        hub.end_subscriptions(&live, affected);
        if connection.is_closing() {
            // The connection may have ended before the room was added to its rooms.
            hub.leave(entry, &live.room);
        }
    }
}

impl RoomHub {
    /// Joins a room: enters it, sends the missed events, and then the held frames.
    pub(super) async fn join(
        &self,
        connection: &Arc<Connection>,
        room: &str,
        since: Option<&Position>,
        reference: Option<&str>,
    ) -> Result<Joined> {
        let invalid = || Error::new(INVALID_ROOM, "This is not a valid room name");
        let entry = self.caller_of(connection)?;
        let name = RoomName::parse(room).map_err(|_| invalid())?;
        let channel = self
            .settings
            .declared
            .channel_of(&name)
            .filter(|channel| channel.endpoint == entry.endpoint)
            .ok_or_else(invalid)?;
        let guards = self
            .guards_of(Carrier::Channel(channel))
            .ok_or_else(invalid)?;
        self.take_subscribe(&entry)?;
        let already = {
            let state = entry.state.lock();
            let already = state.rooms.get(room).cloned();
            if already.is_none() && state.rooms.len() >= self.settings.limits.rooms {
                return Err(Error::new(TOO_MANY_ROOMS, "Too many rooms"));
            }
            already
        };
        let id = name.id.as_deref();
        if let Some(live) = already {
            return self.answer_joined(&entry, &live, room, reference).await;
        }
        self.take_join(&entry, channel).await?;
        let at = (Carrier::Channel(channel), room, id);
        let entered = self.enter_stream(&entry, at, guards, since).await?;
        let (replay, presence) = (entered.replay, entered.presence);
        let position = client_position(&replay.start);
        connection.send(ServerFrame::subscribed(Subscribed {
            room,
            position: &position,
            recoverable: channel.history.recoverable(),
            recovered: replay.joined.recovered(),
            reason: replay.joined.reason(),
            already: false,
            presence: presence.as_ref().map(|present| PresenceList {
                users: &present.users,
                count: present.count,
            }),
            reference,
        }));
        for frame in replay.frames {
            connection.send_when_free(frame).await;
        }
        entered.joining.complete(replay.top);
        Ok(replay.joined)
    }

    /// Enters a stream: registers the member with its frames held back, and reads the stream. So no
    /// frame is lost or duplicated between the replay and live frames.
    ///
    /// The read policy is checked twice. The check before the registration prevents a caller from
    /// making the node subscribe to the stream of a hidden room. The check after it catches a
    /// change of rights in between.
    ///
    /// `at` contains the declaration, the room's name for clients, and the id of its record.
    pub(super) async fn enter_stream<'a>(
        &'a self,
        entry: &'a Arc<Entry>,
        at: (Carrier, &str, Option<&str>),
        guards: Arc<Guards>,
        since: Option<&Position>,
    ) -> Result<Entered<'a>> {
        let (carrier, room, id) = at;
        let connection = &entry.connection;
        let (_, owners) = self.admit(entry, carrier, id).await?;
        let used = self
            .use_room(carrier, guards, room, stream_name(room, &owners))
            .await?;
        let live = Arc::clone(used.live());
        let rights = entry.state.lock().rights;
        let mut joining = Joining {
            hub: self,
            entry,
            used: Some(used),
            live: Arc::clone(&live),
            arrived: false,
            rights,
        };
        live.hold(connection, Arc::from([]));
        let (tuples, now_owners) = self.admit(entry, carrier, id).await?;
        if now_owners != owners {
            return Err(Error::unavailable("the caller's partition has changed"));
        }
        live.update(connection.id(), Arc::clone(&tuples));
        let mut replay = self.replay(&live, since, &tuples, connection).await?;
        joining.arrived = carrier.presence();
        let presence = self.enter_room(entry, &live).await;
        joining.rights = entry.state.lock().rights;
        if joining.rights != rights {
            // Check again with the new rights, before anything is sent.
            let (now_tuples, now_owners) = self.admit(entry, carrier, id).await?;
            if now_owners != owners {
                return Err(Error::unavailable("the caller's partition has changed"));
            }
            if now_tuples != tuples {
                live.update(connection.id(), Arc::clone(&now_tuples));
                replay = self.replay(&live, since, &now_tuples, connection).await?;
            }
        }
        Ok(Entered {
            joining,
            replay,
            presence,
        })
    }

    /// Answers a subscription of a room that the connection has already joined.
    async fn answer_joined(
        &self,
        entry: &Entry,
        live: &Arc<Live>,
        room: &str,
        reference: Option<&str>,
    ) -> Result<Joined> {
        let top = self.settings.engine.top(&live.stream).await?;
        entry.connection.send(ServerFrame::subscribed(Subscribed {
            room,
            position: &client_position(&top),
            recoverable: live.stream.history.is_recoverable(),
            recovered: None,
            reason: None,
            already: true,
            presence: None,
            reference,
        }));
        Ok(Joined::Fresh)
    }

    /// Counts a subscription against the limit of its user. An anonymous connection has its own
    /// limit.
    ///
    /// # Errors
    /// `rate_limited`.
    pub(super) fn take_subscribe(&self, entry: &Entry) -> Result<()> {
        let limit = self.settings.limits.subscribes_per_minute;
        let (per_second, now) = (f64::from(limit) / 60.0, tokio::time::Instant::now());
        let user = entry.state.lock().user.clone();
        let taken = match user {
            Some(user) => {
                let mut entries = self.entries.lock();
                let found = entries.users.get_mut(&user);
                found.is_none_or(|user| user.subscribes.take(per_second, limit, now))
            }
            None => {
                let mut state = entry.state.lock();
                state.subscribes.take(per_second, limit, now)
            }
        };
        if taken {
            return Ok(());
        }
        Err(Error::new(Code::RateLimited, "Too many subscriptions").retry_after(1))
    }

    /// Counts a join under the limit of its channel.
    async fn take_join(&self, entry: &Entry, channel: &ChannelDesc) -> Result<()> {
        let Some(limit) = channel.policy.rate_limit else {
            return Ok(());
        };
        let route = format!("realtime.{}.{}", channel.of.storage_name, channel.name);
        let identity = entry.connection.identity();
        let actor = identity.as_ref().map(|identity| &*identity.actor);
        let key = key_of(&route, actor, entry.address, limit);
        let (rates, now) = (&*self.settings.rates, (self.settings.clock)());
        take_call(
            rates,
            key,
            limit,
            now,
            "Too many subscriptions of this channel",
        )
        .await
    }

    /// Checks whether a connection may be in a room. Returns the values of its caller, and the
    /// partition of a collection.
    ///
    /// # Errors
    /// `not_found` if the record does not exist or the caller may not see it; `unavailable` if the
    /// check takes more than one second.
    pub(super) async fn admit(
        &self,
        entry: &Entry,
        carrier: Carrier,
        id: Option<&str>,
    ) -> Result<(Tuples, Vec<Option<String>>)> {
        tokio::time::timeout(CHECK_TIMEOUT, self.check_admission(entry, carrier, id))
            .await
            .unwrap_or_else(|_| {
                Err(Error::unavailable(
                    "the check of the subscription took longer than one second",
                ))
            })
    }

    async fn check_admission(
        &self,
        entry: &Entry,
        carrier: Carrier,
        id: Option<&str>,
    ) -> Result<(Tuples, Vec<Option<String>>)> {
        let actor = self.actor(entry, CredentialUse::Check).await?;
        self.check_policy(carrier, &actor)?;
        let guards = self.guards_of(carrier).ok_or_else(Error::not_found)?;
        if let Some(of) = carrier.record_of() {
            if !guards.is_key(id.unwrap_or_default()) {
                return Err(Error::not_found());
            }
            let request = Self::request(entry, of, "get", &actor)
                .id(id.unwrap_or_default())
                .uncounted();
            let reply = self.settings.caller.call(request).await?;
            if !reply.is_success() {
                return Err(refusal(reply.status));
            }
        }
        let request =
            |entity, route: &'static str| Self::request(entry, entity, route, &actor).uncounted();
        guards.tuples(&self.settings.caller, id, request).await
    }

    /// Checks the policy of a channel or of an endpoint. It can refuse more callers than the policy
    /// of the read route, but not fewer.
    fn check_policy(&self, carrier: Carrier, actor: &Actor) -> Result<()> {
        let policy = carrier.policy();
        if policy.roles.is_some() && actor.kind == ActorKind::Anonymous {
            return Err(Error::unauthorized());
        }
        self.settings.caller.allows(&policy, actor)
    }
}

/// Returns the error of a subscription for the status of the read route.
fn refusal(status: u16) -> Error {
    match status {
        401 => Error::unauthorized(),
        403 => Error::forbidden(),
        429 => Error::new(Code::RateLimited, "Too many calls").retry_after(1),
        400..=499 => Error::not_found(),
        _ => Error::unavailable("the read route failed"),
    }
}
