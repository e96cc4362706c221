//! Routes beside those of the entities: rotation of secrets, tests, replays, and the catalogue.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use http::header::CACHE_CONTROL;
use linchpin::http::{AnswerDesc, GuardDesc, Nothing, PluginCall, PluginRoute, Reply, Route};
use linchpin::{Code, Cx, Embedded, Error, FieldEnum, Problem, Result, Timestamp, Uuid};
use serde_json::json;

use super::{MANAGE, PLUGIN, Place, Workers};
use crate::catalogue::TEST;
use crate::delivery::{Attempt, Content, Next, later, of_tenant};
use crate::entity::{
    DeliveryReason, DeliveryStatus, EndpointStatus, Trigger, WebhookDelivery,
    WebhookDeliveryCreate, WebhookDeliveryPatch, WebhookEndpoint, WebhookEndpointPatch,
    WebhookMessage, WebhookMessageCreate, webhook_delivery, webhook_message,
};
use crate::event_types::EventType;
use crate::message;
use crate::secrets::Secrets;
use crate::signature::SigningSecret;

/// Where the package is mounted.
pub(crate) const MOUNT: &str = "/webhooks";
/// How long a former secret signs along, in seconds, by default.
const OVERLAP: i64 = 86_400;
/// How long the records of a test are kept.
const TESTS_KEPT: Duration = Duration::from_hours(24);

/// 502: a test got no HTTP answer.
const TEST_FAILED: Code = Code::Other(502, "test_delivery_failed");

pub(super) const MANAGERS: &[GuardDesc] = &[GuardDesc {
    name: MANAGE,
    argument: None,
}];

const REFUSALS: &[Code] = &[Code::Unauthorized, Code::Forbidden, Code::NotFound];

static ROTATE: Route<Rotation> = Route::post("rotate_secret", "endpoints/{id}/rotate-secret")
    .of(PLUGIN)
    .doc(
        "Gives an endpoint a new secret, and answers it once.\n\nThe former secret signs along \
         for `overlapSeconds`, so that receivers can change over.",
    )
    .auth("userAuth")
    .guards(MANAGERS)
    .answers(&[AnswerDesc::of::<Rotated>(200, "The new secret.")])
    .errors(REFUSALS);

static SEND_TEST: Route<Nothing> = Route::post("test_endpoint", "endpoints/{id}/test")
    .of(PLUGIN)
    .doc(
        "Sends the event `webhook.test` to an endpoint now, once, also if it is paused or \
         disabled.",
    )
    .auth("userAuth")
    .guards(MANAGERS)
    .answers(&[AnswerDesc::of::<Tested>(200, "The answer of the endpoint.")])
    .errors(&[
        Code::Unauthorized,
        Code::Forbidden,
        Code::NotFound,
        Code::RateLimited,
        TEST_FAILED,
    ]);

static REPLAY: Route<Nothing> = Route::post("replay_delivery", "deliveries/{id}/replay")
    .of(PLUGIN)
    .doc(
        "Sends a dead, cancelled or delivered message again, with the same id.\n\n409 if it is \
         pending, will be tried again anyway, or if its endpoint is disabled.",
    )
    .auth("userAuth")
    .guards(MANAGERS)
    .answers(&[AnswerDesc::of::<Replayed>(200, "The delivery is due.")])
    .errors(&[
        Code::Unauthorized,
        Code::Forbidden,
        Code::NotFound,
        Code::Conflict,
    ]);

static EVENT_TYPES: Route<Nothing> = Route::get("event_types", "event-types")
    .of(PLUGIN)
    .doc("Lists the events that endpoints can subscribe to, with their schemas.")
    .auth("userAuth")
    .guards(MANAGERS)
    .answers(&[AnswerDesc::of::<EventTypes>(200, "The events.")])
    .errors(&[Code::Unauthorized, Code::Forbidden]);

static EVENT_TYPE: Route<Nothing> = Route::get("event_type", "event-types/{name}")
    .of(PLUGIN)
    .doc("Returns an event that endpoints can subscribe to, with the JSON Schema of its bodies.")
    .auth("userAuth")
    .guards(MANAGERS)
    .answers(&[AnswerDesc::of::<EventType>(200, "The event.")])
    .errors(REFUSALS);

/// A new secret.
#[derive(Embedded)]
struct Rotation {
    /// The secret, as `whsec_` and 24 to 64 bytes in base64; a random one by default.
    secret: Option<String>,
    /// How long the former secret signs along; 86400 by default.
    #[field(range = 0..=604_800)]
    overlap_seconds: Option<i64>,
}

/// The answer to a rotation.
#[derive(Embedded)]
struct Rotated {
    secret: String,
    secret_hint: String,
    previous_expires_at: Option<Timestamp>,
}

/// The answer to a test.
#[derive(Embedded)]
struct Tested {
    delivery_id: String,
    /// The status of the endpoint's answer.
    status: i64,
    /// Whether the status is 2xx.
    ok: bool,
    /// The first 4,096 characters of the answer.
    body: String,
    duration_ms: i64,
}

/// The answer to a replay.
#[derive(Embedded)]
struct Replayed {
    replayed: bool,
    delivery_id: String,
}

/// The catalogue.
#[derive(Embedded)]
struct EventTypes {
    items: Vec<EventType>,
}

pub(super) fn all(place: &Place) -> Vec<PluginRoute> {
    let bound = || place.clone();
    let [a, b, c, d, e] = [bound(), bound(), bound(), bound(), bound()];
    vec![
        ROTATE.bind(MOUNT, move |call, input| rotate(a.clone(), call, input)),
        SEND_TEST.bind(MOUNT, move |call, _| test(b.clone(), call)),
        REPLAY.bind(MOUNT, move |call, _| replay(c.clone(), call)),
        super::recover::route(place),
        EVENT_TYPES.bind(MOUNT, move |_, _| ready(event_types(&d))),
        EVENT_TYPE.bind(MOUNT, move |call, _| ready(event_type(&e, call.param(0)))),
    ]
}

/// The endpoint that the path names, as the caller may see it.
pub(super) async fn endpoint(workers: &Workers, call: &PluginCall) -> Result<WebhookEndpoint> {
    let found = workers
        .records
        .endpoints
        .get(&call.cx, call.param(0))
        .await?;
    found.ok_or_else(Error::not_found)
}

async fn rotate(place: Place, call: PluginCall, input: Rotation) -> Result<Reply> {
    let workers = &place.parts()?.workers;
    let secret = match &input.secret {
        Some(text) => SigningSecret::parse(text).map_err(|error| {
            Error::validation(vec![Problem::new("secret", "format", error.to_string())])
        })?,
        None => SigningSecret::generate()?,
    };
    let seconds = input.overlap_seconds.unwrap_or(OVERLAP).unsigned_abs();
    let (text, hint) = (secret.text().to_owned(), secret.hint().to_owned());
    endpoint(workers, &call).await?;
    let previous = call
        .cx
        .transaction(async |cx| {
            let (endpoints, id) = (&workers.records.endpoints, call.param(0));
            // The row is locked from here on, so a rotation at the same time waits.
            let hint = WebhookEndpointPatch {
                secret_hint: Some(hint.clone()),
                updated_at: Some(Some(cx.now())),
                ..WebhookEndpointPatch::default()
            };
            let endpoint = endpoints.update(cx, id, hint, None).await?;
            let mut secrets = Secrets::open(&workers.keys, id, &endpoint.sealed)?;
            let previous = secrets.rotate(secret, Duration::from_secs(seconds), cx.now());
            let sealed = WebhookEndpointPatch {
                sealed: Some(secrets.seal(&workers.keys, id)?),
                ..WebhookEndpointPatch::default()
            };
            endpoints.update(cx, id, sealed, None).await?;
            Ok(previous)
        })
        .await?;
    let rotated = Rotated {
        secret: text,
        secret_hint: hint,
        previous_expires_at: previous,
    };
    Ok(Reply::json(200, &rotated)?.header(CACHE_CONTROL, HeaderValue::from_static("no-store")))
}

async fn test(place: Place, call: PluginCall) -> Result<Reply> {
    let workers = &place.parts()?.workers;
    let endpoint = endpoint(workers, &call).await?;
    let secrets = Secrets::open(&workers.keys, &endpoint.id, &endpoint.sealed)?;
    let now = (workers.clock)();
    let (delivery, message) = written(workers, &endpoint, now).await?;
    let content = Content {
        message: &message.id,
        event: TEST,
        event_id: &message.event_id,
        occurred_at: now,
        body: &message.body,
        truncated: false,
        delivery: &delivery.id,
        number: 1,
        is_test: true,
    };
    let attempt = workers.sender.send(&endpoint, &secrets, content, now).await;
    ended(workers, &delivery, &attempt).await?;
    let Some(status) = attempt.status else {
        let kind = attempt.kind().map_or("protocol", FieldEnum::as_str);
        let text = "the endpoint gave no HTTP answer";
        let details = vec![Problem::new("url", kind, text)];
        return Err(Error::new(TEST_FAILED, text).with_details(details));
    };
    let tested = Tested {
        delivery_id: delivery.id,
        status: i64::from(status),
        ok: attempt.is_success(),
        body: attempt.body.unwrap_or_default(),
        duration_ms: i64::try_from(attempt.duration.as_millis()).unwrap_or(i64::MAX),
    };
    Reply::json(200, &tested)
}

/// Writes the message and the delivery of a test. No worker takes it.
async fn written(
    workers: &Workers,
    endpoint: &WebhookEndpoint,
    now: Timestamp,
) -> Result<(WebhookDelivery, WebhookMessage)> {
    let records = &workers.records;
    let event_id = Uuid::new_v7().to_string();
    let id = format!("msg_{}", event_id.replace('-', ""));
    let data = json!({ "test": true, "endpointId": endpoint.id });
    let expires_at = Some(later(now, TESTS_KEPT));
    let message = WebhookMessageCreate {
        id: id.clone(),
        event: TEST.to_owned(),
        event_id: event_id.clone(),
        occurred_at: now,
        body: message::plain(TEST, &now.to_string(), &data),
        truncated: None,
        version: None,
        expires_at,
    };
    let delivery = WebhookDeliveryCreate {
        endpoint_id: endpoint.id.clone(),
        message_id: id,
        event: TEST.to_owned(),
        event_id,
        occurred_at: now,
        status: None,
        reason: None,
        attempts: None,
        max_attempts: 1,
        next_retry_at: None,
        last_attempt_at: None,
        delivered_at: None,
        last_attempt: None,
        is_test: Some(true),
        expires_at,
    };
    let tenant = endpoint.tenant_id.as_deref();
    Cx::system("a test of a webhook")
        .transaction(async |cx| {
            let within = of_tenant(cx, webhook_message::tenant_id, tenant);
            let message = records.messages.create(&within, message).await?;
            let within = of_tenant(cx, webhook_delivery::tenant_id, tenant);
            let delivery = records.deliveries.create(&within, delivery).await?;
            Ok((delivery, message))
        })
        .await
}

/// Writes the result of a test. No attempt follows.
async fn ended(workers: &Workers, delivery: &WebhookDelivery, attempt: &Attempt) -> Result<()> {
    let (records, now) = (&workers.records, (workers.clock)());
    let ok = attempt.is_success();
    let next = Next {
        status: if ok {
            DeliveryStatus::Delivered
        } else {
            DeliveryStatus::Dead
        },
        reason: (!ok).then_some(DeliveryReason::Exhausted),
        retry_at: None,
    };
    Cx::system("a test of a webhook")
        .transaction(async |cx| {
            records
                .settle(cx, delivery, attempt, (1, next), now)
                .await?;
            let kept = later(now, TESTS_KEPT);
            records
                .record(cx, delivery, attempt, (1, Trigger::Test), kept)
                .await
        })
        .await
}

async fn replay(place: Place, call: PluginCall) -> Result<Reply> {
    let workers = &place.parts()?.workers;
    let records = &workers.records;
    let found = records.deliveries.get(&call.cx, call.param(0)).await?;
    let delivery = found.ok_or_else(Error::not_found)?;
    let endpoint = records
        .endpoints
        .get(&call.cx, delivery.endpoint_id.as_str())
        .await?;
    let endpoint = endpoint.ok_or_else(Error::not_found)?;
    refuse_replay(&delivery, &endpoint)?;
    let (now, active) = (call.cx.now(), endpoint.status == EndpointStatus::Active);
    let patch = WebhookDeliveryPatch {
        status: Some(DeliveryStatus::Pending),
        reason: Some((!active).then_some(DeliveryReason::EndpointDisabled)),
        attempts: Some(0),
        next_retry_at: Some(active.then_some(now)),
        delivered_at: Some(None),
        ..WebhookDeliveryPatch::default()
    };
    call.cx
        .transaction(async |cx| {
            let id = delivery.id.as_str();
            let changed = records
                .deliveries
                .update(cx, id, patch, Some(delivery.version))
                .await;
            changed.map_err(|error| match error.code() {
                Code::PreconditionFailed => conflict("the delivery was changed meanwhile"),
                _ => error,
            })?;
            records
                .endpoints
                .wake(cx, vec![endpoint.id.clone()], now)
                .await?;
            let waker = Arc::clone(workers);
            cx.after_commit(move || waker.wake.notify_one());
            Ok(())
        })
        .await?;
    let replayed = Replayed {
        replayed: true,
        delivery_id: delivery.id,
    };
    Reply::json(200, &replayed)
}

fn refuse_replay(delivery: &WebhookDelivery, endpoint: &WebhookEndpoint) -> Result<()> {
    if matches!(
        delivery.status,
        DeliveryStatus::Pending | DeliveryStatus::Failed
    ) {
        return Err(conflict("the delivery is still under way"));
    }
    if endpoint.status == EndpointStatus::Disabled {
        return Err(conflict("the endpoint is disabled: make it active first"));
    }
    Ok(())
}

fn conflict(text: &'static str) -> Error {
    Error::new(Code::Conflict, text)
}

fn event_types(place: &Place) -> Result<Reply> {
    let items = place.parts()?.catalogue.event_types();
    Reply::json(200, &EventTypes { items })
}

fn event_type(place: &Place, name: &str) -> Result<Reply> {
    let all = place.parts()?.catalogue.event_types();
    let found = all.into_iter().find(|one| one.name == name);
    Reply::json(200, &found.ok_or_else(Error::not_found)?)
}
