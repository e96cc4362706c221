//! The routes of the plugin: the WebSocket endpoints, and the refresh of their sessions.

use std::sync::Arc;

use linchpin::http::{AnswerDesc, Nothing, PluginCall, PluginRoute, RateLimit, Reply, Route};
use linchpin::{ActorKind, Code, Embedded, Error, Result};

use super::PLUGIN;
use super::config::{Endpoint, RealtimeConfig};
use super::door::NodeDoor;
use super::events;
use super::node::{Node, NodeSlot};
use crate::channel::Declared;
use crate::connection::{
    Connection, HEADERS_TOO_LARGE, Refusal, Request, Settings, Without, check, count, key_of, serve,
};
use crate::rooms::Arrival;

/// The name of the counter of refreshes.
const REFRESHES: &str = "realtime.refreshes";

/// 403 for a page of an origin that may not connect.
pub(super) const ORIGIN_NOT_ALLOWED: Code = Code::Other(403, "origin_not_allowed");

static SOCKET: Route<Nothing> = Route::get("socket", "")
    .of(PLUGIN)
    .doc(
        "Opens a WebSocket.\n\nThe client joins rooms with frames, and gets the events of records \
         that it may read. A credential is read from the headers of the handshake, or from the \
         first frame; never from the URL.",
    )
    .finds_caller()
    .upgrades("websocket")
    .reads(&[
        ("Sec-WebSocket-Version", "13."),
        ("Sec-WebSocket-Key", "16 random bytes in base64."),
        ("Sec-WebSocket-Protocol", "`linchpin.v1`, or absent."),
        (
            "Origin",
            "The page that connects. It is required with a cookie.",
        ),
    ])
    .errors(&[
        Code::Unauthorized,
        ORIGIN_NOT_ALLOWED,
        Code::Other(426, "upgrade_required"),
        Code::RateLimited,
        HEADERS_TOO_LARGE,
        Code::Unavailable,
    ]);

static REFRESH: Route<Refresh> = Route::post("refresh", "refresh")
    .of(PLUGIN)
    .doc(
        "Extends a WebSocket until the end of the caller's present token.\n\nFor clients that \
         cannot read their token, because it is in a cookie.",
    )
    // The endpoint also exists in apps without users, where nobody can call it.
    .public()
    .answers(&[AnswerDesc::empty(204, "The connection stays.")])
    .errors(&[
        Code::Unauthorized,
        Code::NotFound,
        Code::RateLimited,
        Code::Unavailable,
    ]);

/// The connection to extend.
#[derive(Embedded)]
pub(crate) struct Refresh {
    /// The `id` of the frame `connected`.
    #[field(length = 1..=64)]
    pub(crate) connection_id: String,
}

/// The routes of an app with these settings.
pub(super) fn all(
    config: &RealtimeConfig,
    declared: &Declared,
    place: &NodeSlot,
) -> Vec<PluginRoute> {
    let sockets = config.endpoints.iter().flat_map(|endpoint| {
        let endpoint = Arc::new(Bound {
            without: without(endpoint, config),
            endpoint: endpoint.clone(),
            place: Arc::clone(place),
        });
        let again = Arc::clone(place);
        let path = endpoint.endpoint.path.clone();
        [
            SOCKET.bind(&path, move |call, _| socket(Arc::clone(&endpoint), call)),
            REFRESH.bind(&path, move |call, input| {
                refresh(Arc::clone(&again), call, input)
            }),
        ]
    });
    let endpoints = declared.endpoints().iter().copied();
    sockets
        .chain(endpoints.map(|endpoint| events::bind(endpoint, place)))
        .collect()
}

/// How an endpoint treats a handshake without a credential.
fn without(endpoint: &Endpoint, config: &RealtimeConfig) -> Without {
    match (endpoint.anonymous, config.first_message_auth) {
        (true, _) => Without::Anonymous,
        (false, true) => Without::Pending,
        (false, false) => Without::Refused,
    }
}

/// A WebSocket endpoint and its node.
struct Bound {
    endpoint: Endpoint,
    without: Without,
    place: NodeSlot,
}

pub(super) fn node(place: &NodeSlot) -> Result<&Arc<Node>> {
    place
        .get()
        .ok_or_else(|| Error::unavailable("rooms are not set up"))
}

async fn socket(bound: Arc<Bound>, mut call: PluginCall) -> Result<Reply> {
    let node = Arc::clone(node(&bound.place)?);
    let upgrade = call.upgrade();
    let door = NodeDoor::new(&node, bound.without, &call.headers, call.from);
    let request = Request {
        // The route has no query parameters, so the server has refused any.
        query: None,
        upgrade: upgrade.is_some(),
        headers: &call.headers,
    };
    let accepted = match check(request, &door).await {
        Ok(accepted) => accepted,
        Err(Refusal { error, headers }) => {
            let reply = headers.into_iter();
            return Ok(reply.fold(Reply::refused(error), |reply, (name, value)| {
                reply.header(name, value)
            }));
        }
    };
    let Some(upgrade) = upgrade else {
        return Ok(Reply::upgrade_required("websocket"));
    };
    let address_place = door.place.into_inner();
    let connection = Connection::socket(
        node.connection_id(),
        accepted.identity,
        accepted.pending,
        Arc::clone(&node.limits),
        node.counts.of(&bound.endpoint.path),
    );
    let arrival = Arrival {
        connection: Arc::clone(&connection),
        endpoint: bound.endpoint.path.clone(),
        address: call.from,
        headers: call.headers,
        place: address_place,
    };
    let settings = Settings {
        hub: Arc::clone(&node.hub) as _,
        clock: Arc::clone(&node.clock),
        anonymous: bound.without == Without::Anonymous,
    };
    let reply = Reply::upgrade(upgrade, move |socket| async move {
        node.hub.arrive(arrival);
        node.drain_late(&connection);
        serve(socket, connection, settings).await;
    });
    Ok(accepted
        .headers
        .into_iter()
        .fold(reply, |reply, (name, value)| reply.header(name, value)))
}

async fn refresh(place: NodeSlot, call: PluginCall, input: Refresh) -> Result<Reply> {
    let node = node(&place)?;
    let is_user = |actor: &Arc<linchpin::Actor>| actor.kind != ActorKind::Anonymous;
    let credentials = match &node.credentials {
        Some(credentials) if call.cx.get_actor().is_some_and(is_user) => credentials,
        _ => return Err(Error::unauthorized()),
    };
    let limit = RateLimit::new(node.limits.handshakes_per_minute, 60_000);
    let key = key_of(
        REFRESHES,
        call.cx.get_actor().map(|actor| &**actor),
        call.from,
        limit,
    );
    let (now, text) = ((node.clock)(), "Too many connections were extended");
    count(&*node.rates, key, limit, now, text).await?;
    let newer = credentials.of_headers(&call.headers).await?;
    let newer = newer.ok_or_else(Error::unauthorized)?;
    if node.refresh(&input.connection_id, newer).await? {
        Reply::empty(204)
    } else {
        Err(Error::not_found())
    }
}
