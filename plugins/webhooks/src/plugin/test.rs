//! Test: a manager sends one event to an endpoint immediately.

use std::time::Duration;

use linchpin::http::{
    AnswerDesc, Caller, PluginCall, PluginRoute, PolicyDesc, RateKey, RateLimit, RateReply,
    RateVerdict, Reply, Route,
};
use linchpin::{Code, Cx, Embedded, Error, FieldEnum, Problem, Result, Timestamp, Uuid};
use serde_json::{Value as Json, json};

use super::audit::{self, Target};
use super::routes::{MANAGERS, MOUNT, endpoint};
use super::{PLUGIN, Parts, PartsCell, Workers};
use crate::catalogue::TEST;
use crate::delivery::{Attempt, Content, Next, later, of_tenant};
use crate::entity::{
    DeliveryReason, DeliveryStatus, Trigger, WebhookDelivery, WebhookDeliveryCreate,
    WebhookEndpoint, WebhookMessage, WebhookMessageCreate, webhook_delivery, webhook_message,
};
use crate::message;
use crate::metrics;
use crate::secrets::Secrets;

const ACTION: &str = "test_endpoint";
/// The records of a test are kept for this long.
const TEST_RETENTION: Duration = Duration::from_hours(24);
/// The rate limit of tests: 10 per endpoint and minute.
const LIMIT: RateLimit = RateLimit::new(10, 60_000);
const POLICY: PolicyDesc = PolicyDesc::INHERIT.audit(ACTION);

/// 502: the endpoint sent no HTTP response to a test.
const TEST_FAILED: Code = Code::Other(502, "test_delivery_failed");

/// The event of a test.
#[derive(Embedded)]
struct TestEvent {
    /// The name of an event; its example is sent. `webhook.test` by default.
    #[field(length = 1..=128)]
    event: Option<String>,
}

static SEND_TEST: Route<TestEvent> = Route::post(ACTION, "endpoints/{id}/test")
    .of(PLUGIN)
    .doc(
        "Sends one event to an endpoint immediately, even if the endpoint is paused or \
         disabled.\n\nThe data is the example of the event in the catalogue. 429 after 10 tests of \
         an endpoint within a minute.",
    )
    .policy(POLICY)
    .auth("userAuth")
    .guards(MANAGERS)
    .answers(&[AnswerDesc::of::<Tested>(
        200,
        "The response of the endpoint.",
    )])
    .errors(&[
        Code::Unauthorized,
        Code::Forbidden,
        Code::NotFound,
        Code::RateLimited,
        TEST_FAILED,
    ]);

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

pub(super) fn route(cell: &PartsCell) -> PluginRoute {
    let cell = cell.clone();
    SEND_TEST.bind(MOUNT, move |call, input| test(cell.clone(), call, input))
}

async fn test(cell: PartsCell, call: PluginCall, input: TestEvent) -> Result<Reply> {
    let parts = cell.parts()?;
    let workers = &parts.workers;
    let endpoint = endpoint(workers, &call).await?;
    let event = input.event.as_deref().unwrap_or(TEST);
    let data = data(parts, &endpoint, event)?;
    admit(parts, &endpoint, call.cx.now()).await?;
    let secrets = Secrets::open(&workers.keys, &endpoint.id, &endpoint.sealed)?;
    let target = Target {
        entity: "WebhookEndpoint",
        id: &endpoint.id,
        tenant: endpoint.tenant_id.as_deref(),
    };
    let cx = audit::caller(&call)?;
    let after = Some(json!({ "event": event }));
    audit::add(&call, &cx, ACTION, target, (None, after)).await?;
    let now = (workers.clock)();
    let (delivery, message) = write_records(workers, &endpoint, event, &data, now).await?;
    let content = Content {
        message: &message.id,
        event,
        event_id: &message.event_id,
        occurred_at: now,
        body: &message.body,
        truncated: false,
        delivery: &delivery.id,
        number: 1,
        is_test: true,
    };
    let attempt = workers.sender.send(&endpoint, &secrets, content, now).await;
    write_result(workers, &delivery, &attempt).await?;
    let Some(status) = attempt.status else {
        let kind = attempt.kind().map_or("protocol", FieldEnum::as_str);
        let text = "the endpoint sent no HTTP response";
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

/// The data of a test.
fn data(parts: &Parts, endpoint: &WebhookEndpoint, event: &str) -> Result<Json> {
    if event == TEST {
        return Ok(json!({ "test": true, "endpointId": endpoint.id }));
    }
    let mut all = parts.catalogue.event_types().into_iter();
    match all.find(|one| one.name == event) {
        Some(mut found) => Ok(found.example["data"].take()),
        None => Err(Error::invalid(Problem::new(
            "event",
            "enum",
            "is not an event of this app",
        ))),
    }
}

/// Counts a test of an endpoint. Refuses it if there were too many.
async fn admit(parts: &Parts, endpoint: &WebhookEndpoint, now: Timestamp) -> Result<()> {
    let key = RateKey {
        route: "webhooks.test",
        tenant: endpoint.tenant_id.as_deref(),
        caller: Caller::Actor(&endpoint.id),
    };
    let verdict = match parts.rates.count(&key, LIMIT, now) {
        RateReply::Ready(verdict) => verdict,
        RateReply::Later(verdict) => verdict.await,
    };
    match verdict.map_err(Error::unavailable)? {
        RateVerdict::Admitted => Ok(()),
        RateVerdict::Refused(wait) => {
            let seconds = u32::try_from(wait.div_ceil(1_000)).unwrap_or(u32::MAX);
            let text = "too many tests of this endpoint";
            Err(Error::new(Code::RateLimited, text).retry_after(seconds.max(1)))
        }
    }
}

/// Writes the message and the delivery of a test. The delivery has no due time, so no worker sends
/// it.
async fn write_records(
    workers: &Workers,
    endpoint: &WebhookEndpoint,
    event: &str,
    data: &Json,
    now: Timestamp,
) -> Result<(WebhookDelivery, WebhookMessage)> {
    let records = &workers.records;
    let event_id = Uuid::new_v7().to_string();
    let id = format!("msg_{}", event_id.replace('-', ""));
    let expires_at = Some(later(now, TEST_RETENTION));
    let message = WebhookMessageCreate {
        id: id.clone(),
        event: event.to_owned(),
        event_id: event_id.clone(),
        occurred_at: now,
        body: message::plain(event, &now.to_string(), data),
        truncated: None,
        version: None,
        is_test: Some(true),
        expires_at,
    };
    let delivery = WebhookDeliveryCreate {
        endpoint_id: endpoint.id.clone(),
        message_id: id,
        event: event.to_owned(),
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
        trigger: Some(Trigger::Test),
        expires_at,
    };
    let tenant = endpoint.tenant_id.as_deref();
    Cx::system("a test of a webhook")
        .transaction(async |cx| {
            let tenant_cx = of_tenant(cx, webhook_message::tenant_id, tenant);
            let message = records.messages.create(&tenant_cx, message).await?;
            let tenant_cx = of_tenant(cx, webhook_delivery::tenant_id, tenant);
            let delivery = records.deliveries.create(&tenant_cx, delivery).await?;
            Ok((delivery, message))
        })
        .await
}

/// Writes the result of a test. There is no further attempt.
async fn write_result(
    workers: &Workers,
    delivery: &WebhookDelivery,
    attempt: &Attempt,
) -> Result<()> {
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
            let expires_at = later(now, TEST_RETENTION);
            records
                .record(cx, delivery, attempt, (1, Trigger::Test), expires_at)
                .await
        })
        .await?;
    metrics::attempted((attempt.kind(), attempt.duration), Trigger::Test, next);
    Ok(())
}
