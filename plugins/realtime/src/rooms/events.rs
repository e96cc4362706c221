//! Responses with server-sent events, as members of the streams of their endpoints.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use linchpin::axum::http::HeaderMap;
use linchpin::{Code, Error, Result, Uuid};

use super::carrier::Carrier;
use super::live::client_position;
use super::replay::Replay;
use super::users::UserKey;
use super::{Arrival, Entry, RoomHub};
use crate::channel::SseDesc;
use crate::connection::{Connection, Hub, Identity, Kind, Meter};
use crate::plugin::AddressSlot;
use crate::protocol::{Close, ResetReason, ServerFrame};
use crate::sse::{EventStream, Resume, StreamSettings, opening, reset};

/// The seconds after which a refused client may try again.
const RETRY_AFTER: u32 = 5;

/// A request for the stream of an endpoint. Its checks have passed.
pub(crate) struct OpenEvents {
    /// The endpoint.
    pub(crate) endpoint: &'static SseDesc,
    /// The caller; `None` for an anonymous one.
    pub(crate) identity: Option<Identity>,
    /// The position at which the stream starts.
    pub(crate) resume: Resume,
    /// The address of the client.
    pub(crate) address: Option<IpAddr>,
    /// The headers of the request.
    pub(crate) headers: HeaderMap,
    /// The slot of an anonymous caller among the connections of its address.
    pub(crate) address_slot: Option<AddressSlot>,
    /// The counters of the endpoint.
    pub(crate) meter: Arc<Meter>,
}

impl RoomHub {
    /// Opens the stream of an endpoint for one response. It joins the stream of the caller's
    /// partition like a socket joins a room.
    ///
    /// # Errors
    /// `rate_limited` if the user has reached the endpoint's limit of open responses; 401 or 403 if
    /// the policy of the endpoint or of its entities refuses the caller; `unavailable` if the
    /// engine does not answer.
    pub(crate) async fn open_events(&self, open: OpenEvents) -> Result<EventStream> {
        let endpoint = open.endpoint;
        let limits = &self.settings.limits;
        let connection = Connection::events(
            Uuid::new_v7().to_string(),
            open.identity,
            Arc::clone(limits),
            open.meter,
        );
        let entry = self.new_entry(Arrival {
            connection: Arc::clone(&connection),
            endpoint: endpoint.path.to_owned(),
            address: open.address,
            headers: open.headers,
            address_slot: open.address_slot,
        });
        let hub = self
            .me
            .upgrade()
            .ok_or_else(|| Error::unavailable("the app is stopping"))?;
        self.take_slot(&entry, endpoint)?;
        // From here on, the end of the connection frees the slot.
        let mut stream = EventStream::new(
            Arc::clone(&connection),
            StreamSettings {
                hub: hub as Arc<dyn Hub>,
                clock: Arc::clone(&self.settings.clock),
                heartbeat: endpoint.heartbeat.map(Duration::from_millis),
            },
        );
        self.take_subscribe(&entry)?;
        let carrier = Carrier::Endpoint(endpoint);
        let guards = self
            .guards_of(carrier)
            .ok_or_else(|| Error::internal("the endpoint is not declared"))?;
        let since = match &open.resume {
            Resume::After(position) => Some(position),
            Resume::Top | Resume::Lost => None,
        };
        let at = (carrier, endpoint.path, None);
        let entered = self.enter_stream(&entry, at, guards, since).await;
        let entered = entered.map_err(|error| match error.code() {
            Code::Unavailable => error.retry_after(RETRY_AFTER),
            _ => error,
        })?;
        let replay = entered.replay;
        let (top, reason) = (replay.top, reason(&replay, &open.resume, endpoint));
        let position = client_position(&replay.start);
        if !replay.to_the_end {
            connection.skip_to(client_position(&top));
        }
        let reset: Option<ServerFrame> = reason.map(|reason| reset(&position, reason));
        stream.begin(
            std::iter::once(opening(&position))
                .chain(reset)
                .chain(replay.frames),
        );
        entered.joining.complete(top);
        match connection.closing() {
            // The session ended while the stream was opened.
            Some(Close::SessionEnded) => Err(Error::unauthorized()),
            _ => Ok(stream),
        }
    }

    /// Counts a response for its user and endpoint.
    fn take_slot(&self, entry: &Arc<Entry>, endpoint: &'static SseDesc) -> Result<()> {
        let mut entries = self.entries.lock();
        let user = entry.connection.identity();
        let user = user.and_then(|who| UserKey::of(&who.actor));
        let is_full = match user {
            Some(user) => {
                let found = entries.users.get(&user);
                let own = found.map_or(&[][..], |user| &user.entries);
                let open = own.iter().filter(|one| {
                    one.connection.kind() == Kind::Events && one.endpoint == endpoint.path
                });
                open.count() >= endpoint.max_connections as usize
            }
            None => false,
        };
        if is_full {
            let error = Error::new(Code::RateLimited, "Too many open streams");
            return Err(error.retry_after(RETRY_AFTER));
        }
        let id = Arc::clone(entry.connection.shared_id());
        entries.all.insert(id, Arc::clone(entry));
        self.count(&mut entries, entry);
        Ok(())
    }
}

/// Returns the reason why the client has to read its state again; `None` if it does not have to.
fn reason(replay: &Replay, resume: &Resume, endpoint: &SseDesc) -> Option<ResetReason> {
    match resume {
        Resume::Lost if endpoint.history.recoverable() => Some(ResetReason::EpochChanged),
        Resume::Lost => Some(ResetReason::NotRecoverable),
        Resume::Top | Resume::After(_) => replay.joined.reason(),
    }
}
