//! The routes of the plugin: the WebSocket endpoints, and the refresh of their sessions.

use std::sync::Arc;

use linchpin::http::{AnswerDesc, Nothing, PluginCall, PluginRoute, RateLimit, Reply, Route};
use linchpin::{ActorKind, Code, Embedded, Error, Result};

use super::PLUGIN;
use super::config::{Endpoint, RealtimeConfig};
use super::events;
use super::node::{Node, NodeSlot};
use super::node_checks::NodeChecks;
use crate::channel::Declared;
use crate::connection::{
    Connection, HEADERS_TOO_LARGE, MissingCredential, Refusal, Request, Settings, check, key_of,
    serve, take_call,
};
use crate::rooms::Arrival;

/// The name of the counter of refreshes.
const REFRESHES: &str = "realtime.refreshes";

/// The error code of the 403 response to a page whose origin may not connect.
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
            "The origin of the page that connects. It is required if the credential is a cookie.",
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
        "Keeps a WebSocket open until the caller's current token expires.\n\nFor clients that \
         cannot read their token, because it is in a cookie.",
    )
    // The endpoint also exists in apps without users. There every call is refused.
    .public()
    .answers(&[AnswerDesc::empty(
        204,
        "The connection stays open until the caller's token expires.",
    )])
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
    node_slot: &NodeSlot,
) -> Vec<PluginRoute> {
    let sockets = config.endpoints.iter().flat_map(|endpoint| {
        let endpoint = Arc::new(BoundEndpoint {
            on_missing_credential: on_missing_credential(endpoint, config),
            endpoint: endpoint.clone(),
            node_slot: Arc::clone(node_slot),
        });
        let refresh_slot = Arc::clone(node_slot);
        let path = endpoint.endpoint.path.clone();
        [
            SOCKET.bind(&path, move |call, _| socket(Arc::clone(&endpoint), call)),
            REFRESH.bind(&path, move |call, input| {
                refresh(Arc::clone(&refresh_slot), call, input)
            }),
        ]
    });
    let endpoints = declared.endpoints().iter().copied();
    sockets
        .chain(endpoints.map(|endpoint| events::bind(endpoint, node_slot)))
        .collect()
}

/// Returns how an endpoint treats a handshake without a credential.
fn on_missing_credential(endpoint: &Endpoint, config: &RealtimeConfig) -> MissingCredential {
    match (endpoint.anonymous, config.first_message_auth) {
        (true, _) => MissingCredential::Anonymous,
        (false, true) => MissingCredential::Pending,
        (false, false) => MissingCredential::Refused,
    }
}

/// A WebSocket endpoint and its node.
struct BoundEndpoint {
    endpoint: Endpoint,
    on_missing_credential: MissingCredential,
    node_slot: NodeSlot,
}

pub(super) fn node(node_slot: &NodeSlot) -> Result<&Arc<Node>> {
    node_slot
        .get()
        .ok_or_else(|| Error::unavailable("rooms are not set up"))
}

async fn socket(bound: Arc<BoundEndpoint>, mut call: PluginCall) -> Result<Reply> {
    let node = Arc::clone(node(&bound.node_slot)?);
    let upgrade = call.upgrade();
    let checks = NodeChecks::new(&node, bound.on_missing_credential, &call.headers, call.from);
    let request = Request {
        // The route has no query parameters, so the server has already refused any.
        query: None,
        upgrade: upgrade.is_some(),
        headers: &call.headers,
    };
    let accepted = match check(request, &checks).await {
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
    let address_slot = checks.address_slot.into_inner();
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
        address_slot,
    };
    let settings = Settings {
        hub: Arc::clone(&node.hub) as _,
        clock: Arc::clone(&node.clock),
        anonymous: bound.on_missing_credential == MissingCredential::Anonymous,
    };
    let reply = Reply::upgrade(upgrade, move |socket| async move {
        node.hub.arrive(arrival);
        node.drain_if_stopping(&connection);
        serve(socket, connection, settings).await;
    });
    Ok(accepted
        .headers
        .into_iter()
        .fold(reply, |reply, (name, value)| reply.header(name, value)))
}

async fn refresh(node_slot: NodeSlot, call: PluginCall, input: Refresh) -> Result<Reply> {
    let node = node(&node_slot)?;
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
    let (now, error_text) = ((node.clock)(), "Too many connections were extended");
    take_call(&*node.rates, key, limit, now, error_text).await?;
    let newer = credentials.of_headers(&call.headers).await?;
    let newer = newer.ok_or_else(Error::unauthorized)?;
    if node.refresh(&input.connection_id, newer).await? {
        Reply::empty(204)
    } else {
        Err(Error::not_found())
    }
}
