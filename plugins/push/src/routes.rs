//! The routes under `/__push`.

use std::future::ready;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HOST, ORIGIN, USER_AGENT};
use linchpin::http::{
    AnswerDesc, AuthDesc, CredentialPlace, Nothing, PluginCall, PluginRoute, PolicyDesc, RateLimit,
    Reply, Route, allows_origin,
};
use linchpin::{Code, Cx, Embedded, Error, Problem, Result, Timestamp};
use linchpin_safe_client::{Failure, Located};
use serde_json::Value as Json;

use crate::command::WORKER;
use crate::crypto::{Receiver, VapidKey, WrongKey, decode, encode};
use crate::entity::{
    DeliveryStatus, PushSubscription, PushSubscriptionCreate, PushSubscriptionPatch,
    SubscriptionStatus, push_subscription,
};
use crate::message::PushMessage;
use crate::plugin::{PLUGIN, Parts, PartsCell};
use crate::records::auth_secret_location;

/// The path prefix of the routes.
const MOUNT: &str = "/__push";
/// The maximum number of subscriptions of a user. A further one replaces a suspended one, or the
/// least recently used one if none is suspended.
const MAX_SUBSCRIPTIONS: usize = 20;
/// The maximum length of a stored user agent, in characters.
const USER_AGENT_LENGTH: usize = 256;

/// 403: the request comes from a page of another origin.
const ORIGIN_NOT_ALLOWED: Code = Code::Other(403, "origin_not_allowed");

const REFUSALS: &[Code] = &[
    Code::Unauthorized,
    ORIGIN_NOT_ALLOWED,
    Code::UnsupportedMediaType,
];

static PUBLIC_KEY: Route<Nothing> = Route::get("vapid_public_key", "vapid-public-key")
    .of(PLUGIN)
    .doc("Returns the key with which browsers subscribe, as base64url.")
    .public()
    .answers(&[AnswerDesc::of::<PublicKey>(200, "The key.")])
    .headers(&[("cache-control", "max-age=300")]);

static SUBSCRIBE: Route<Subscribe> = Route::post("subscribe", "subscribe")
    .of(PLUGIN)
    .doc(
        "Stores the subscription of a browser.\n\n409 if the endpoint URL belongs to a \
         browser of another user. If the same browser, with the same keys, now has another user, \
         the subscription moves to that user.",
    )
    .auth("userAuth")
    .max_body(16 * 1024)
    .answers(&[
        AnswerDesc::of::<Subscribed>(201, "The subscription was created."),
        AnswerDesc::of::<Subscribed>(200, "The subscription of a known browser was updated."),
    ])
    .errors(&[
        Code::Unauthorized,
        ORIGIN_NOT_ALLOWED,
        Code::UnsupportedMediaType,
        Code::Conflict,
    ]);

static UNSUBSCRIBE: Route<Unsubscribe> = Route::delete("unsubscribe", "subscribe")
    .of(PLUGIN)
    .doc("Removes the caller's subscription with this endpoint URL, if it exists.")
    .auth("userAuth")
    .max_body(16 * 1024)
    .answers(&[AnswerDesc::empty(
        204,
        "The caller has no such subscription now.",
    )])
    .errors(REFUSALS);

static LIST: Route<Nothing> = Route::get("subscriptions", "subscriptions")
    .of(PLUGIN)
    .doc("Lists the caller's browsers.")
    .auth("userAuth")
    .answers(&[AnswerDesc::of::<Subscriptions>(200, "The browsers.")])
    .errors(&[Code::Unauthorized]);

static REMOVE: Route<Nothing> = Route::delete("remove_subscription", "subscriptions/{id}")
    .of(PLUGIN)
    .doc("Removes one of the caller's subscriptions, if it exists.")
    .auth("userAuth")
    .answers(&[AnswerDesc::empty(
        204,
        "The caller has no such subscription now.",
    )])
    .errors(&[Code::Unauthorized, ORIGIN_NOT_ALLOWED]);

static ACK: Route<Nothing> = Route::post("ack", "ack/{deliveryId}")
    .of(PLUGIN)
    .doc("Records that the caller's browser has shown a message.")
    .auth("userAuth")
    .answers(&[AnswerDesc::of::<Done>(
        200,
        "The acknowledgement is stored.",
    )])
    .errors(&[
        Code::Unauthorized,
        ORIGIN_NOT_ALLOWED,
        Code::UnsupportedMediaType,
        Code::NotFound,
    ]);

static TEST: Route<Nothing> = Route::post("test", "test")
    .of(PLUGIN)
    .doc("Sends a test message to the caller's browsers.")
    .policy(
        PolicyDesc::INHERIT
            .auth(AuthDesc::Named("userAuth"))
            .rate_limit(RateLimit::new(5, 3_600_000)),
    )
    .answers(&[AnswerDesc::of::<Queued>(
        202,
        "The number of browsers that get the message.",
    )])
    .errors(&[
        Code::Unauthorized,
        ORIGIN_NOT_ALLOWED,
        Code::UnsupportedMediaType,
        Code::RateLimited,
    ]);

static SERVICE_WORKER: Route<Nothing> = Route::get("service_worker", "sw.js")
    .of(PLUGIN)
    .doc("The service worker, which shows messages.")
    .public()
    .streams("text/javascript; charset=utf-8");

/// The key of the app.
#[derive(Embedded)]
struct PublicKey {
    public_key: String,
}

/// The subscription of a browser, as `PushSubscription.toJSON()` writes it.
#[derive(Embedded)]
struct Subscribe {
    /// The endpoint URL at the push service.
    #[field(length = 1..=2048)]
    endpoint: String,
    /// An object with `p256dh` and `auth`, as base64url.
    keys: Json,
    /// The time at which the subscription ends, in milliseconds since 1970.
    expiration_time: Option<f64>,
    /// The key with which the browser subscribed; the newest one by default.
    #[field(length = ..=200)]
    vapid_public_key: Option<String>,
}

/// The endpoint URL of a subscription.
#[derive(Embedded)]
struct Unsubscribe {
    #[field(length = 1..=2048)]
    endpoint: String,
}

/// The answer to a subscription.
#[derive(Embedded)]
struct Subscribed {
    ok: bool,
    id: String,
}

/// The answer to an acknowledgement.
#[derive(Embedded)]
struct Done {
    ok: bool,
}

/// The answer to a test.
#[derive(Embedded)]
struct Queued {
    queued: i64,
}

/// A browser of the caller.
#[derive(Embedded)]
struct Browser {
    id: String,
    endpoint_host: String,
    user_agent: Option<String>,
    created_at: Timestamp,
    /// Whether this browser subscribed in the session of the request.
    current: bool,
}

/// The browsers of the caller.
#[derive(Embedded)]
struct Subscriptions {
    items: Vec<Browser>,
    next_cursor: Option<String>,
    has_more: bool,
}

pub(crate) fn all(cell: &PartsCell) -> Vec<PluginRoute> {
    vec![
        PUBLIC_KEY.bind(MOUNT, {
            let cell = cell.clone();
            move |_, _| ready(public_key(&cell))
        }),
        SUBSCRIBE.bind(MOUNT, {
            let cell = cell.clone();
            move |call, input| subscribe(cell.clone(), call, input)
        }),
        UNSUBSCRIBE.bind(MOUNT, {
            let cell = cell.clone();
            move |call, input| unsubscribe(cell.clone(), call, input)
        }),
        LIST.bind(MOUNT, {
            let cell = cell.clone();
            move |call, _| list(cell.clone(), call)
        }),
        REMOVE.bind(MOUNT, {
            let cell = cell.clone();
            move |call, _| remove(cell.clone(), call)
        }),
        ACK.bind(MOUNT, {
            let cell = cell.clone();
            move |call, _| ack(cell.clone(), call)
        }),
        TEST.bind(MOUNT, {
            let cell = cell.clone();
            move |call, _| test(cell.clone(), call)
        }),
    ]
}

/// The route of the service worker. Its path is in the root, so that its scope includes all pages.
pub(crate) fn worker() -> PluginRoute {
    SERVICE_WORKER.bind("/", |_, _| {
        let body = futures_util::stream::iter([WORKER]);
        let reply = Reply::stream(200, "text/javascript; charset=utf-8", body);
        ready(reply.map(|reply| reply.header(CACHE_CONTROL, HeaderValue::from_static("no-cache"))))
    })
}

/// Refuses requests from pages of origins that are not allowed (403), because these routes have no
/// CSRF token.
fn check_origin(parts: &Parts, call: &PluginCall) -> Result<()> {
    let headers = &call.headers;
    let place = parts
        .credentials
        .as_ref()
        .and_then(|one| one.presented(headers));
    let by_cookie = place == Some(CredentialPlace::Cookie);
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let allowed = |origin: &HeaderValue| {
        let origin = origin.to_str();
        origin.is_ok_and(|origin| allows_origin(&parts.origins, origin, host, by_cookie))
    };
    if headers.get_all(ORIGIN).iter().all(allowed) {
        return Ok(());
    }
    let text = "Pages of this origin may not use push";
    Err(Error::new(ORIGIN_NOT_ALLOWED, text))
}

/// Like [`check_origin`], for requests without a body. It also requires the content type
/// `application/json`, which a page of another origin cannot send without the permission of the
/// server (CORS).
fn check_origin_and_content_type(parts: &Parts, call: &PluginCall) -> Result<()> {
    check_origin(parts, call)?;
    let value = call.headers.get(CONTENT_TYPE);
    let essence = value
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split(';').next());
    if essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json")) {
        return Ok(());
    }
    let text = "The content type must be application/json";
    Err(Error::new(Code::UnsupportedMediaType, text))
}

/// The id of the caller, and the system context in which the plugin reads the records of the
/// caller.
fn caller(call: &PluginCall) -> Result<(String, Cx)> {
    let id = call.cx.get_actor_id().ok_or_else(Error::unauthorized)?;
    Ok((id.to_owned(), call.cx.as_system("browsers of a caller")))
}

fn public_key(cell: &PartsCell) -> Result<Reply> {
    let config = &cell.parts()?.workers.config;
    let newest = config.vapid.first().map(VapidKey::public_text);
    let public_key = newest.unwrap_or_default().to_owned();
    Reply::json(200, &PublicKey { public_key })
}

/// A valid subscription.
struct Checked {
    endpoint: String,
    located: Located,
    p256dh: String,
    auth: Vec<u8>,
    vapid_kid: String,
    expiration_time: Option<Timestamp>,
}

/// Checks a subscription. All problems are reported at once.
async fn check(parts: &Parts, input: Subscribe) -> Result<Checked> {
    let (client, config) = (&parts.workers.sender.client, &parts.workers.config);
    let mut problems = Vec::new();
    let located = client.locate(&input.endpoint);
    match &located {
        Err(failure) => {
            problems.push(Problem::new("endpoint", "not_allowed", failure.to_string()));
        }
        Ok(located) if !config.is_service(&located.host) => {
            let text = "is not a URL of a push service";
            problems.push(Problem::new("endpoint", "not_allowed", text));
        }
        // With `push.hosts = any`, callers choose the host. It is resolved and checked before it is
        // stored.
        Ok(_) if config.is_open() => match client.check(&input.endpoint).await {
            Ok(()) => {}
            Err(Failure::Refused(refusal)) => {
                problems.push(Problem::new("endpoint", "not_allowed", refusal.to_string()));
            }
            Err(_) => {
                let text = "has a host name that cannot be resolved";
                problems.push(Problem::new("endpoint", "not_allowed", text));
            }
        },
        Ok(_) => {}
    }
    let key = |name: &str| input.keys.get(name).and_then(Json::as_str).and_then(decode);
    let (point, auth) = (key("p256dh"), key("auth"));
    let receiver = Receiver::new(
        point.as_deref().unwrap_or_default(),
        auth.as_deref().unwrap_or_default(),
    );
    if receiver.as_ref().err() == Some(&WrongKey::Point) {
        let text = "must be a point on P-256, uncompressed, in base64url";
        problems.push(Problem::new("keys.p256dh", "format", text));
    }
    if auth.as_ref().is_none_or(|auth| auth.len() != 16) {
        let text = "must be 16 bytes in base64url";
        problems.push(Problem::new("keys.auth", "format", text));
    }
    let vapid = match &input.vapid_public_key {
        None => config.vapid.first(),
        Some(text) => {
            let wanted = decode(text).map(encode);
            let mut keys = config.vapid.iter();
            keys.find(|key| wanted.as_deref() == Some(key.public_text()))
        }
    };
    if vapid.is_none() {
        let text =
            "is not a key of this app: subscribe with the key from `GET /__push/vapid-public-key`";
        problems.push(Problem::new("vapidPublicKey", "not_allowed", text));
    }
    let (Ok(located), Some(point), Some(auth), Some(vapid), true) =
        (located, point, auth, vapid, problems.is_empty())
    else {
        return Err(Error::validation(problems));
    };
    Ok(Checked {
        endpoint: input.endpoint,
        located,
        p256dh: encode(point),
        auth,
        vapid_kid: vapid.id().to_owned(),
        expiration_time: input
            .expiration_time
            // Values above the last timestamp are stored as the last timestamp.
            .map(|millis| Timestamp::from_millis(millis.max(0.0) as i64).min(Timestamp::MAX)),
    })
}

/// The result of storing a subscription.
enum Stored {
    New(String),
    Known(String),
    /// Not stored: the endpoint belongs to another browser.
    OtherBrowser,
}

async fn subscribe(cell: PartsCell, call: PluginCall, input: Subscribe) -> Result<Reply> {
    let parts = cell.parts()?;
    check_origin(parts, &call)?;
    let checked = check(parts, input).await?;
    let stored = match store(parts, &call, &checked).await {
        // A concurrent request has stored the same endpoint: the second attempt finds its record.
        Err(error) if error.code() == Code::Conflict => store(parts, &call, &checked).await?,
        stored => stored?,
    };
    match stored {
        Stored::New(id) => Reply::json(201, &Subscribed { ok: true, id }),
        Stored::Known(id) => Reply::json(200, &Subscribed { ok: true, id }),
        Stored::OtherBrowser => Err(Error::new(
            Code::Conflict,
            "The endpoint URL belongs to another browser: unsubscribe, and subscribe again",
        )),
    }
}

async fn store(parts: &Parts, call: &PluginCall, checked: &Checked) -> Result<Stored> {
    let (user, cx) = caller(call)?;
    let records = &parts.workers.records;
    let actor = call.cx.get_actor();
    let tenant = actor.and_then(|actor| actor.tenant_id.clone());
    cx.transaction(async |cx| {
        if let Some(known) = records.by_endpoint(cx, &checked.endpoint).await? {
            if known.user_id == user && known.tenant_id == tenant {
                return renew(parts, cx, call, &known, checked).await;
            }
            // The same keys prove that it is the same browser with another user. Other keys are
            // refused: the endpoint belongs to another browser.
            if known.user_id != user && !has_same_keys(parts, &known, checked) {
                return Ok(Stored::OtherBrowser);
            }
            records.remove(cx, &known.user_id, &known.id).await?;
        }
        let mut browsers = records.of_user(cx, &user, None).await?;
        // Suspended subscriptions are removed first, then the least recently used ones.
        browsers.sort_by_key(|one| (one.status == SubscriptionStatus::Active, one.used_at));
        let over = (browsers.len() + 1).saturating_sub(MAX_SUBSCRIPTIONS);
        for browser in browsers.iter().take(over) {
            records.remove(cx, &user, &browser.id).await?;
        }
        add(parts, cx, call, (&user, tenant.as_deref()), checked)
            .await
            .map(Stored::New)
    })
    .await
}

fn has_same_keys(parts: &Parts, known: &PushSubscription, checked: &Checked) -> bool {
    let auth = parts
        .workers
        .keys
        .open(auth_secret_location(&known.id), &known.auth);
    known.p256dh == checked.p256dh
        && auth.is_ok_and(|auth| verify_slices_are_equal(auth.expose(), &checked.auth).is_ok())
}

fn session(call: &PluginCall) -> Option<String> {
    call.cx
        .get_actor()
        .and_then(|actor| actor.session_id.clone())
}

fn user_agent(call: &PluginCall) -> Option<String> {
    let text = call.headers.get(USER_AGENT)?.to_str().ok()?;
    Some(text.chars().take(USER_AGENT_LENGTH).collect())
}

/// Updates the keys and the session of a known browser.
async fn renew(
    parts: &Parts,
    cx: &Cx,
    call: &PluginCall,
    known: &PushSubscription,
    checked: &Checked,
) -> Result<Stored> {
    let id = known.id.as_str();
    let auth = parts
        .workers
        .keys
        .seal(auth_secret_location(id), &checked.auth)?;
    let patch = PushSubscriptionPatch {
        session_id: Some(session(call)),
        p256dh: Some(checked.p256dh.clone()),
        auth: Some(auth),
        vapid_kid: Some(checked.vapid_kid.clone()),
        expiration_time: Some(checked.expiration_time),
        user_agent: Some(user_agent(call)),
        status: Some(SubscriptionStatus::Active),
        used_at: Some(cx.now()),
        ..PushSubscriptionPatch::default()
    };
    let subscriptions = &parts.workers.records.subscriptions;
    subscriptions.update(cx, id, patch, None).await?;
    Ok(Stored::Known(known.id.clone()))
}

async fn add(
    parts: &Parts,
    cx: &Cx,
    call: &PluginCall,
    (user, tenant): (&str, Option<&str>),
    checked: &Checked,
) -> Result<String> {
    let id = linchpin::Uuid::new_v7().to_string();
    let record = PushSubscriptionCreate {
        id: id.clone(),
        user_id: user.to_owned(),
        session_id: session(call),
        endpoint: checked.endpoint.clone(),
        endpoint_host: checked.located.host.clone(),
        origin: checked.located.origin.clone(),
        p256dh: checked.p256dh.clone(),
        auth: parts
            .workers
            .keys
            .seal(auth_secret_location(&id), &checked.auth)?,
        vapid_kid: checked.vapid_kid.clone(),
        expiration_time: checked.expiration_time,
        user_agent: user_agent(call),
        status: None,
        failure_count: None,
        last_success_at: None,
        used_at: cx.now(),
        due_at: None,
        held_until: None,
        lease_token: None,
        lease_until: None,
    };
    let tenant_cx = match tenant {
        Some(tenant) => cx.clone().within(push_subscription::tenant_id, tenant),
        None => cx.clone(),
    };
    let subscriptions = &parts.workers.records.subscriptions;
    subscriptions.create(&tenant_cx, record).await?;
    Ok(id)
}

async fn unsubscribe(cell: PartsCell, call: PluginCall, input: Unsubscribe) -> Result<Reply> {
    let parts = cell.parts()?;
    check_origin(parts, &call)?;
    let (user, cx) = caller(&call)?;
    let records = &parts.workers.records;
    cx.transaction(
        async |cx| match records.by_endpoint(cx, &input.endpoint).await? {
            Some(known) if known.user_id == user => records.remove(cx, &user, &known.id).await,
            _ => Ok(()),
        },
    )
    .await?;
    Reply::empty(204)
}

async fn list(cell: PartsCell, call: PluginCall) -> Result<Reply> {
    let (user, cx) = caller(&call)?;
    let records = &cell.parts()?.workers.records;
    let mut browsers = records.of_user(&cx, &user, None).await?;
    browsers.sort_by_key(|one| std::cmp::Reverse(one.created_at));
    let current = session(&call);
    let items = browsers.into_iter().map(|one| Browser {
        current: current.is_some() && one.session_id == current,
        id: one.id,
        endpoint_host: one.endpoint_host,
        user_agent: one.user_agent,
        created_at: one.created_at,
    });
    let page = Subscriptions {
        items: items.collect(),
        next_cursor: None,
        has_more: false,
    };
    Reply::json(200, &page)
}

async fn remove(cell: PartsCell, call: PluginCall) -> Result<Reply> {
    let parts = cell.parts()?;
    check_origin(parts, &call)?;
    let (user, cx) = caller(&call)?;
    let records = &parts.workers.records;
    cx.transaction(async |cx| records.remove(cx, &user, call.param(0)).await)
        .await?;
    Reply::empty(204)
}

async fn ack(cell: PartsCell, call: PluginCall) -> Result<Reply> {
    let parts = cell.parts()?;
    check_origin_and_content_type(parts, &call)?;
    let (user, cx) = caller(&call)?;
    let (deliveries, id) = (&parts.workers.records.deliveries, call.param(0));
    if deliveries.ack(&cx, id, user.as_str()).await? == 0 {
        // A repeated acknowledgement of a delivered message succeeds.
        let known = deliveries.get(&cx, id).await?;
        known
            .filter(|one| one.user_id == user && one.status == DeliveryStatus::Delivered)
            .ok_or_else(Error::not_found)?;
    }
    Reply::json(200, &Done { ok: true })
}

async fn test(cell: PartsCell, call: PluginCall) -> Result<Reply> {
    let parts = cell.parts()?;
    check_origin_and_content_type(parts, &call)?;
    let (user, cx) = caller(&call)?;
    let message = PushMessage::new(user, "It works").body("Messages of this app arrive here.");
    let queued = parts.queue.send(&cx, &message).await?;
    let queued = i64::try_from(queued).unwrap_or(i64::MAX);
    Reply::json(202, &Queued { queued })
}
