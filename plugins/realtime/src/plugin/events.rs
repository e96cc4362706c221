//! The routes of SSE endpoints.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use linchpin::axum::http::HeaderMap;
use linchpin::entity::{FieldDesc, Kind};
use linchpin::http::{
    AnswerDesc, AuthDesc, Nothing, PluginCall, PluginRoute, PolicyDesc, RateLimit, Reply, Route,
};
use linchpin::{BoxFuture, Code, Error, Result};
use parking_lot::Mutex;

use super::PLUGIN;
use super::node::{AddressSlot, Node, NodeSlot};
use super::node_checks::NodeChecks;
use super::routes::{ORIGIN_NOT_ALLOWED, node};
use crate::channel::SseDesc;
use crate::connection::{
    HEADERS_TOO_LARGE, HandshakeChecks, Identity, MissingCredential, key_of, take_call,
};
use crate::rooms::OpenEvents;
use crate::sse::{MEDIA_TYPE, SseRequest, check, response_headers};

/// The name of the counter of opened streams.
const STREAMS: &str = "realtime.streams";
/// The seconds after which a client may try again if its address has too many connections.
const RETRY_AFTER: u32 = 5;

static LAST_EVENT_ID: [FieldDesc; 1] = [FieldDesc::new(
    "lastEventId",
    "lastEventId",
    "last_event_id",
    Kind::String,
    true,
)];

static READ_HEADERS: [(&str, &str); 2] = [
    (
        "Last-Event-ID",
        "The position after which the client resumes. It has priority over `lastEventId`.",
    ),
    ("Accept", "Must accept `text/event-stream`."),
];

static ANSWERS: [AnswerDesc; 1] = [AnswerDesc::empty(
    200,
    "An endless stream of events. Each event contains the record as JSON.",
)];

static ERRORS: [Code; 5] = [
    ORIGIN_NOT_ALLOWED,
    Code::Other(406, "not_acceptable"),
    Code::RateLimited,
    HEADERS_TOO_LARGE,
    Code::Unavailable,
];

/// The route of an endpoint.
pub(super) fn bind(endpoint: &'static SseDesc, slot: &NodeSlot) -> PluginRoute {
    let slot = Arc::clone(slot);
    route(endpoint).bind(endpoint.path, move |call, _| {
        events(endpoint, Arc::clone(&slot), call)
    })
}

/// Returns the description of an endpoint's route. Routes are static, so each one is created once
/// per process.
fn route(endpoint: &'static SseDesc) -> &'static Route<Nothing> {
    /// The created routes, by the address of the declaration, which is static too.
    static CREATED: Mutex<BTreeMap<usize, &'static Route<Nothing>>> = Mutex::new(BTreeMap::new());
    let key = std::ptr::from_ref(endpoint).addr();
    let mut created = CREATED.lock();
    if let Some(found) = created.get(&key) {
        return found;
    }
    let name: &'static str = format!("events_{}", endpoint.ident.to_lowercase()).leak();
    let doc = if endpoint.doc.trim().is_empty() {
        "Sends events when they are committed."
    } else {
        endpoint.doc
    };
    let route = Route::get(name, "")
        .of(PLUGIN)
        .doc(doc)
        .policy(policy(endpoint))
        .query(&LAST_EVENT_ID)
        .streams("text/event-stream")
        .reads(&READ_HEADERS)
        .answers(&ANSWERS)
        .errors(&ERRORS);
    let route: &'static Route<Nothing> = Box::leak(Box::new(route));
    created.insert(key, route);
    route
}

/// Returns the policy of an endpoint. Without `auth`, it requires an authenticated caller.
fn policy(endpoint: &SseDesc) -> PolicyDesc {
    let auth = endpoint.policy.auth;
    endpoint
        .policy
        .auth(auth.unwrap_or(AuthDesc::Named("userAuth")))
}

/// The checks of a request for events. The server has checked the policy of the route.
struct EventsChecks<'a> {
    node_checks: NodeChecks<'a>,
    node: &'a Node,
    from: Option<IpAddr>,
    address_slot: Mutex<Option<AddressSlot>>,
}

impl HandshakeChecks for EventsChecks<'_> {
    fn retry_after_if_closed(&self) -> Option<u32> {
        self.node_checks.retry_after_if_closed()
    }

    fn admits_origin(&self, origin: &str) -> bool {
        self.node_checks.admits_origin(origin)
    }

    fn credential_is_cookie(&self, headers: &HeaderMap) -> Option<bool> {
        self.node_checks.credential_is_cookie(headers)
    }

    fn identify<'a>(&'a self, headers: &'a HeaderMap) -> BoxFuture<'a, Result<Option<Identity>>> {
        self.node_checks.identify(headers)
    }

    fn on_missing_credential(&self) -> MissingCredential {
        self.node_checks.on_missing_credential()
    }

    /// Counts only anonymous callers, by address: opened streams per minute, and open streams.
    /// Users are not counted here: `RoomHub::open_events` applies the endpoint's limit of open
    /// responses, and counts each stream as a subscription.
    fn count<'a>(&'a self, identity: Option<&'a Identity>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            if identity.is_some() {
                return Ok(());
            }
            let node = self.node;
            let limit = RateLimit::new(node.limits.handshakes_per_minute, 60_000);
            let key = key_of(STREAMS, None, self.from, limit);
            let (now, error_text) = ((node.clock)(), "Too many streams were opened");
            take_call(&*node.rates, key, limit, now, error_text).await?;
            let most = self.node.limits.connections_per_address;
            let Some(address_slot) = self.node.addresses.take(self.from, most) else {
                let text = "Too many connections from this address";
                return Err(Error::new(Code::RateLimited, text).retry_after(RETRY_AFTER));
            };
            *self.address_slot.lock() = Some(address_slot);
            Ok(())
        })
    }
}

async fn events(endpoint: &'static SseDesc, slot: NodeSlot, call: PluginCall) -> Result<Reply> {
    let node = node(&slot)?;
    let on_missing_credential = match policy(endpoint).auth {
        Some(AuthDesc::None) => MissingCredential::Anonymous,
        Some(AuthDesc::Named(_)) | None => MissingCredential::Refused,
    };
    let checks = EventsChecks {
        node_checks: NodeChecks::new(node, on_missing_credential, &call.headers, call.from),
        node,
        from: call.from,
        address_slot: Mutex::new(None),
    };
    let last_event_id = call.query::<String>(0)?;
    let request = SseRequest {
        last_event_id: last_event_id.as_deref(),
        headers: &call.headers,
    };
    let opened = check(request, &checks).await?;
    let address_slot = checks.address_slot.into_inner();
    let stream = node
        .hub
        .open_events(OpenEvents {
            endpoint,
            identity: opened.identity,
            resume: opened.resume,
            address: call.from,
            headers: call.headers,
            address_slot,
            meter: node.counts.of(endpoint.path),
        })
        .await?;
    node.drain_if_stopping(stream.connection());
    // The same limit as for sockets: a client that reads nothing for this time is too slow.
    let reply = Reply::stream(200, MEDIA_TYPE, stream)?.unread_limit(node.limits.stall);
    let headers = response_headers().into_iter();
    Ok(headers.fold(reply, |reply, (name, value)| reply.header(name, value)))
}
