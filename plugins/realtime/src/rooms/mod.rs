//! The rooms of a node: their members, and the delivery of events to them.
//!
//! A [`RoomHub`] serves all connections of a node. A room with at least one member is *live*: the
//! node is subscribed to its stream, and passes the engine's deliveries to the members. Each event
//! is checked once for each distinct tuple of context values, not once for each socket.

mod calls;
mod carrier;
mod due;
#[cfg(test)]
mod due_tests;
#[cfg(test)]
mod event_tests;
mod events;
mod guards;
mod join;
mod live;
mod members;
mod origin;
mod placed;
mod presence;
mod replay;
mod rights;
#[cfg(test)]
mod rights_tests;
mod stored;
#[cfg(test)]
pub(crate) mod tests;
mod users;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use linchpin::axum::http::HeaderMap;
use linchpin::entity::EntityDesc;
use linchpin::http::{CredentialUse, Credentials, RateStore, RouteCaller, RouteRequest};
use linchpin::{Actor, Adapters, BoxFuture, Error, Result, Timestamp};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use self::calls::Readers;
use self::due::Due;
use self::guards::Guards;
use self::live::Live;
use self::members::LiveRooms;
use self::presence::Presences;
use self::users::{Relays, UserKey, Users};
use crate::channel::{Declared, Rooms};
use crate::connection::{
    Connection, Hub, Identity, Joined, Kind, Limits, Outcome, TokenBucket, kept_headers,
};
use crate::engine::Engine;
use crate::plugin::AddressSlot;
use crate::protocol::{Close, EventCall, Position, ServerFrame};

pub(crate) use carrier::Carrier;
pub(crate) use events::OpenEvents;
pub use origin::{Origin, StoredEvent};
pub(crate) use stored::EphemeralMessage;
pub use stored::{About, StoredFrame, stream_name};

/// The parts of the app that a hub needs.
pub struct HubSettings {
    /// The engine, which stores streams and presence.
    pub engine: Arc<dyn Engine>,
    /// The channels of the app.
    pub declared: Declared,
    /// Calls routes on behalf of connections.
    pub caller: RouteCaller,
    /// Checks credentials; `None` if the app has no authentication.
    pub credentials: Option<Arc<dyn Credentials>>,
    /// The limits of connections.
    pub limits: Arc<Limits>,
    /// The clock of the app.
    pub clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// The time between two checks of an open subscription.
    pub recheck: Duration,
    /// Access to the rooms, for handlers of clients' events.
    pub rooms: Rooms,
    /// The counters of the app's rate limits.
    pub rates: Arc<dyn RateStore>,
}

/// The rooms of a node.
pub struct RoomHub {
    me: Weak<Self>,
    settings: HubSettings,
    /// The guards of each channel and then of each SSE endpoint, in the order of the declarations.
    guards: Vec<Arc<Guards>>,
    readers: Readers,
    lives: LiveRooms,
    presences: Presences,
    due: Due,
    entries: Mutex<Entries>,
    /// Limits the replays that run at the same time. Each reads at most
    /// [`MAX_READ`](crate::engine::MAX_READ) bytes, or one longer frame: together 16 MiB, for any
    /// number of clients that reconnect at the same time.
    replays: Semaphore,
}

/// The maximum number of concurrent replays.
const REPLAYS: usize = 16;

#[derive(Default)]
struct Entries {
    all: HashMap<Arc<str>, Arc<Entry>>,
    /// Anonymous connections are not in it.
    users: Users,
}

/// A connection with its rooms. A response has only one stream, whose key is the endpoint's path.
struct Entry {
    connection: Arc<Connection>,
    /// The path of its endpoint.
    endpoint: String,
    address: Option<IpAddr>,
    /// The headers of its handshake that providers of context values may read: at most 8 KiB.
    headers: HeaderMap,
    state: Mutex<EntryState>,
    /// The slot among the anonymous connections of its address, until the caller is known.
    address_slot: Mutex<Option<AddressSlot>>,
}

struct EntryState {
    rooms: HashMap<String, Arc<Live>>,
    /// The user under whom the connection is counted.
    user: Option<UserKey>,
    /// The number of changes of the caller's rights.
    rights: u64,
    /// The limits of an anonymous connection: its subscriptions, and its relayed frames.
    subscribes: TokenBucket,
    relays: Relays,
}

/// A new connection.
pub struct Arrival {
    /// The connection.
    pub connection: Arc<Connection>,
    /// The path of its endpoint.
    pub endpoint: String,
    /// The address of the client.
    pub address: Option<IpAddr>,
    /// The headers of its handshake.
    pub headers: HeaderMap,
    /// Its slot among the anonymous connections of its address.
    pub(crate) address_slot: Option<AddressSlot>,
}

impl std::fmt::Debug for Arrival {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The output omits the headers, because they contain credentials.
        f.debug_struct("Arrival")
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

impl RoomHub {
    /// Creates the hub of a node.
    ///
    /// # Errors
    /// `internal` if the conditions of a channel's events cannot be evaluated in memory.
    pub fn new(settings: HubSettings, adapters: &Adapters) -> Result<Arc<Self>> {
        let guards = carriers(&settings.declared)
            .map(|carrier| Guards::new(carrier, adapters).map(Arc::new))
            .collect::<Result<Vec<_>>>()?;
        let readers = Readers::new(&settings.declared)?;
        Ok(Arc::new_cyclic(|me| Self {
            me: Weak::clone(me),
            guards,
            readers,
            lives: LiveRooms::default(),
            presences: Presences::default(),
            due: Due::default(),
            entries: Mutex::default(),
            replays: Semaphore::new(REPLAYS),
            settings,
        }))
    }

    /// Adds a connection. If its user then has more connections than the limit, the oldest one
    /// ends.
    pub fn arrive(&self, arrival: Arrival) {
        let entry = self.new_entry(arrival);
        let id = Arc::clone(entry.connection.shared_id());
        let mut entries = self.entries.lock();
        entries.all.insert(id, Arc::clone(&entry));
        self.count(&mut entries, &entry);
    }

    fn new_entry(&self, arrival: Arrival) -> Arc<Entry> {
        let now = tokio::time::Instant::now();
        Arc::new(Entry {
            connection: arrival.connection,
            endpoint: arrival.endpoint,
            address: arrival.address,
            headers: kept_headers(&arrival.headers),
            state: Mutex::new(EntryState {
                rooms: HashMap::new(),
                user: None,
                rights: 0,
                subscribes: TokenBucket::new(self.settings.limits.subscribes_per_minute, now),
                relays: Relays::default(),
            }),
            address_slot: Mutex::new(arrival.address_slot),
        })
    }

    /// Returns the number of connections of the node.
    pub fn connections(&self) -> usize {
        self.entries.lock().all.len()
    }

    /// Returns the connections of the node.
    pub fn all(&self) -> Vec<Arc<Connection>> {
        let entries = self.entries.lock();
        let all = entries.all.values();
        all.map(|entry| Arc::clone(&entry.connection)).collect()
    }

    /// Returns the connection with this id.
    pub fn connection(&self, id: &str) -> Option<Arc<Connection>> {
        self.entry(id).map(|entry| Arc::clone(&entry.connection))
    }

    /// Counts a connection under its user. Responses have a separate limit.
    fn count(&self, entries: &mut Entries, entry: &Arc<Entry>) {
        let identity = entry.connection.identity();
        let Some(user) = identity.and_then(|who| UserKey::of(&who.actor)) else {
            return;
        };
        entry.address_slot.lock().take();
        let limits = &self.settings.limits;
        let mut state = entry.state.lock();
        if state.user.is_some() {
            return;
        }
        state.user = Some(user.clone());
        drop(state);
        let now = tokio::time::Instant::now();
        let counted = entries.users.get_or_new(&user, limits, now);
        counted.entries.push(Arc::clone(entry));
        let sockets = || {
            let is_socket = |one: &&Arc<Entry>| one.connection.kind() == Kind::Socket;
            counted.entries.iter().filter(is_socket)
        };
        let excess = sockets().count();
        let excess = excess.saturating_sub(limits.connections_per_user);
        for oldest in sockets().take(excess) {
            oldest.connection.close(Close::Replaced);
        }
    }

    fn entry(&self, id: &str) -> Option<Arc<Entry>> {
        self.entries.lock().all.get(id).cloned()
    }

    /// Returns the entry of a calling connection.
    fn caller_of(&self, connection: &Connection) -> Result<Arc<Entry>> {
        self.entry(connection.id())
            .ok_or_else(|| Error::unavailable("the connection has ended"))
    }

    /// Returns the guards of a channel or of an SSE endpoint.
    fn guards_of(&self, carrier: Carrier) -> Option<Arc<Guards>> {
        let at = carriers(&self.settings.declared).position(|one| one.is(carrier))?;
        self.guards.get(at).cloned()
    }

    /// Returns the current caller of a connection. If its session has ended, the connection ends.
    async fn actor(&self, entry: &Entry, used: CredentialUse) -> Result<Arc<Actor>> {
        let Some((identity, check)) = entry.connection.check_identity() else {
            return Ok(Arc::new(Actor::anonymous()));
        };
        let Some(credentials) = &self.settings.credentials else {
            return Ok(identity.actor);
        };
        match credentials.again(&identity, used).await? {
            Some(now) => {
                let actor = Arc::clone(&now.actor);
                entry.connection.update_identity(check, now);
                Ok(actor)
            }
            None => {
                entry.connection.close(Close::SessionEnded);
                Err(Error::unauthorized())
            }
        }
    }

    /// Returns a call of a route on behalf of a connection.
    fn request(
        entry: &Entry,
        entity: &'static EntityDesc,
        route: &str,
        actor: &Arc<Actor>,
    ) -> RouteRequest {
        RouteRequest::new(entity, route, Arc::clone(actor))
            .from_address(entry.address)
            .headers(&entry.headers)
    }
}

/// Returns the channels and then the SSE endpoints.
fn carriers(declared: &Declared) -> impl Iterator<Item = Carrier> + '_ {
    let channels = declared.channels().iter().copied().map(Carrier::Channel);
    channels.chain(declared.endpoints().iter().copied().map(Carrier::Endpoint))
}

impl std::fmt::Debug for RoomHub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RoomHub")
            .field("connections", &self.connections())
            .finish_non_exhaustive()
    }
}

impl Hub for RoomHub {
    fn verify<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Option<Identity>>> {
        Box::pin(async move {
            match &self.settings.credentials {
                Some(credentials) => credentials.of_token(token).await,
                None => Ok(None),
            }
        })
    }

    fn bound<'a>(&'a self, connection: &'a Arc<Connection>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if let Some(entry) = self.entry(connection.id()) {
                self.count(&mut self.entries.lock(), &entry);
                self.check_rights(&entry).await;
            }
        })
    }

    fn subscribe<'a>(
        &'a self,
        connection: &'a Arc<Connection>,
        room: &'a str,
        since: Option<&'a Position>,
        reference: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Joined>> {
        Box::pin(self.join(connection, room, since, reference))
    }

    fn unsubscribe<'a>(
        &'a self,
        connection: &'a Arc<Connection>,
        room: &'a str,
    ) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if let Some(entry) = self.entry(connection.id()) {
                self.leave(&entry, room);
            }
        })
    }

    fn event<'a>(
        &'a self,
        connection: &'a Arc<Connection>,
        call: &'a EventCall,
    ) -> BoxFuture<'a, Result<Outcome>> {
        Box::pin(self.call(connection, call))
    }

    fn presence<'a>(
        &'a self,
        connection: &'a Arc<Connection>,
        room: &'a str,
        reference: Option<&'a str>,
    ) -> BoxFuture<'a, Result<ServerFrame>> {
        Box::pin(self.present(connection, room, reference))
    }

    fn ended(&self, connection: &Arc<Connection>) {
        let Some(entry) = self.entries.lock().all.remove(connection.id()) else {
            return;
        };
        self.due.remove(connection.id());
        let (rooms, user) = {
            let mut state = entry.state.lock();
            (std::mem::take(&mut state.rooms), state.user.take())
        };
        let mut entries = self.entries.lock();
        if let Some(user) = user {
            let now = tokio::time::Instant::now();
            let limits = &self.settings.limits;
            entries.users.remove(&user, &entry, limits, now);
        }
        drop(entries);
        for live in rooms.into_values() {
            self.left(&entry, &live);
        }
    }
}
