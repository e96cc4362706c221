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
use super::door::NodeDoor;
use super::node::{AddressPlace, Node, NodeSlot};
use super::routes::{ORIGIN_NOT_ALLOWED, node};
use crate::channel::SseDesc;
use crate::connection::{Door, HEADERS_TOO_LARGE, Identity, Without, count, key_of};
use crate::rooms::OpenEvents;
use crate::sse::{MEDIA_TYPE, SseRequest, check, response_headers};

/// The name of the counter of opened streams.
const STREAMS: &str = "realtime.streams";
/// The seconds after which a client of a full address may try again.
const RETRY_AFTER: u32 = 5;

static LAST_EVENT_ID: [FieldDesc; 1] = [FieldDesc::new(
    "lastEventId",
    "lastEventId",
    "last_event_id",
    Kind::String,
    true,
)];

static READS: [(&str, &str); 2] = [
    (
        "Last-Event-ID",
        "The position after which the client resumes. It replaces `lastEventId`.",
    ),
    ("Accept", "Must admit `text/event-stream`."),
];

static ANSWERS: [AnswerDesc; 1] = [AnswerDesc::empty(
    200,
    "Events without an end, each with the record as JSON.",
)];

static ERRORS: [Code; 5] = [
    ORIGIN_NOT_ALLOWED,
    Code::Other(406, "not_acceptable"),
    Code::RateLimited,
    HEADERS_TOO_LARGE,
    Code::Unavailable,
];

/// The route of an endpoint.
pub(super) fn bind(endpoint: &'static SseDesc, place: &NodeSlot) -> PluginRoute {
    let place = Arc::clone(place);
    route(endpoint).bind(endpoint.path, move |call, _| {
        events(endpoint, Arc::clone(&place), call)
    })
}

/// The description of an endpoint's route. Routes are static, so each is made once per process.
fn route(endpoint: &'static SseDesc) -> &'static Route<Nothing> {
    /// By the place of the declaration, which is static too.
    static MADE: Mutex<BTreeMap<usize, &'static Route<Nothing>>> = Mutex::new(BTreeMap::new());
    let key = std::ptr::from_ref(endpoint).addr();
    let mut made = MADE.lock();
    if let Some(found) = made.get(&key) {
        return found;
    }
    let name: &'static str = format!("events_{}", endpoint.ident.to_lowercase()).leak();
    let doc = if endpoint.doc.trim().is_empty() {
        "Sends events as they happen."
    } else {
        endpoint.doc
    };
    let route = Route::get(name, "")
        .of(PLUGIN)
        .doc(doc)
        .policy(policy(endpoint))
        .query(&LAST_EVENT_ID)
        .streams("text/event-stream")
        .reads(&READS)
        .answers(&ANSWERS)
        .errors(&ERRORS);
    let route: &'static Route<Nothing> = Box::leak(Box::new(route));
    made.insert(key, route);
    route
}

/// `auth` and `roles` of an endpoint; a user is needed unless it says otherwise.
fn policy(endpoint: &SseDesc) -> PolicyDesc {
    let auth = endpoint.policy.auth;
    endpoint
        .policy
        .auth(auth.unwrap_or(AuthDesc::Named("userAuth")))
}

/// The checks of a request for events. The server has checked the policy of the route.
struct EventsDoor<'a> {
    door: NodeDoor<'a>,
    node: &'a Node,
    from: Option<IpAddr>,
    place: Mutex<Option<AddressPlace>>,
}

impl Door for EventsDoor<'_> {
    fn closed(&self) -> Option<u32> {
        self.door.closed()
    }

    fn admits_origin(&self, origin: &str) -> bool {
        self.door.admits_origin(origin)
    }

    fn by_cookie(&self, headers: &HeaderMap) -> Option<bool> {
        self.door.by_cookie(headers)
    }

    fn identify<'a>(&'a self, headers: &'a HeaderMap) -> BoxFuture<'a, Result<Option<Identity>>> {
        self.door.identify(headers)
    }

    fn without(&self) -> Without {
        self.door.without()
    }

    /// Only anonymous callers are counted here, by address: what they open like handshakes, and
    /// their places. An endpoint counts the responses of each user, and a stream is a subscription.
    fn count<'a>(&'a self, identity: Option<&'a Identity>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            if identity.is_some() {
                return Ok(());
            }
            let node = self.node;
            let limit = RateLimit::new(node.limits.handshakes_per_minute, 60_000);
            let key = key_of(STREAMS, None, self.from, limit);
            let (now, text) = ((node.clock)(), "Too many streams were opened");
            count(&*node.rates, key, limit, now, text).await?;
            let most = self.node.limits.connections_per_address;
            let Some(place) = self.node.addresses.take(self.from, most) else {
                let text = "Too many connections from this address";
                return Err(Error::new(Code::RateLimited, text).retry_after(RETRY_AFTER));
            };
            *self.place.lock() = Some(place);
            Ok(())
        })
    }
}

async fn events(endpoint: &'static SseDesc, place: NodeSlot, call: PluginCall) -> Result<Reply> {
    let node = node(&place)?;
    let without = match policy(endpoint).auth {
        Some(AuthDesc::None) => Without::Anonymous,
        Some(AuthDesc::Named(_)) | None => Without::Refused,
    };
    let door = EventsDoor {
        door: NodeDoor::new(node, without, &call.headers, call.from),
        node,
        from: call.from,
        place: Mutex::new(None),
    };
    let last_event_id = call.query::<String>(0)?;
    let request = SseRequest {
        last_event_id: last_event_id.as_deref(),
        headers: &call.headers,
    };
    let opened = check(request, &door).await?;
    let anonymous = door.place.into_inner();
    let stream = node
        .hub
        .open_events(OpenEvents {
            endpoint,
            identity: opened.identity,
            resume: opened.resume,
            address: call.from,
            headers: call.headers,
            place: anonymous,
            meter: node.counts.of(endpoint.path),
        })
        .await?;
    node.drain_late(stream.connection());
    // As for sockets: a client that takes nothing for so long is too slow.
    let reply = Reply::stream(200, MEDIA_TYPE, stream)?.unread_limit(node.limits.stall);
    let headers = response_headers().into_iter();
    Ok(headers.fold(reply, |reply, (name, value)| reply.header(name, value)))
}
