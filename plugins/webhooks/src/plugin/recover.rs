//! Recovery: sends missed messages to an endpoint again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use linchpin::entity::{Direction, ListQuery};
use linchpin::http::{AnswerDesc, PluginCall, PluginRoute, PolicyDesc, Reply, Route};
use linchpin::{Code, Cx, Embedded, Error, Field, FieldEnum, Problem, Result, Timestamp};
use serde_json::json;

use super::audit::{self, Target};
use super::routes::{MANAGERS, MOUNT, endpoint};
use super::{PLUGIN, Parts, PartsCell};
use crate::catalogue::wants;
use crate::delivery::{later, of_endpoint, of_tenant};
use crate::entity::{
    DeliveryReason, DeliveryStatus, EndpointStatus, Trigger, WebhookDelivery, WebhookEndpoint,
    WebhookMessage, webhook_delivery, webhook_message,
};

const ACTION: &str = "recover_endpoint";
/// The maximum age of recovered messages: 14 days in milliseconds.
const MAX_AGE_MILLIS: i64 = 14 * 86_400_000;
/// The lease of a recovery. After it has ended, another recovery may begin.
const LEASE: Duration = Duration::from_mins(10);
/// The maximum number of messages, and so of their deliveries, in one transaction.
const CHUNK: u32 = 100;

static RECOVER: Route<Recovery> = Route::post(ACTION, "endpoints/{id}/recover")
    .of(PLUGIN)
    .doc(
        "Sends the missed messages of a period again, oldest first. Only events that the endpoint \
         subscribes to are sent.\n\nDead and cancelled deliveries are sent again, and missing \
         deliveries are created. 409 if a recovery of the endpoint is already running, or if the endpoint is disabled.",
    )
    .policy(PolicyDesc::INHERIT.audit(ACTION))
    .auth("userAuth")
    .guards(MANAGERS)
    .answers(&[AnswerDesc::of::<Recovered>(
        202,
        "The number of deliveries.",
    )])
    .errors(&[
        Code::Unauthorized,
        Code::Forbidden,
        Code::NotFound,
        Code::Conflict,
    ]);

/// The period whose messages are sent again to an endpoint.
#[derive(Embedded)]
pub(super) struct Recovery {
    /// The beginning: at most 14 days ago.
    since: Timestamp,
    /// The end; now by default.
    until: Option<Timestamp>,
    /// The states of deliveries that are sent again; `dead` and `cancelled` by default.
    #[field(items = 1..=3, unique_items)]
    statuses: Option<Vec<String>>,
}

/// The answer to a recovery.
#[derive(Embedded)]
struct Recovered {
    /// The deliveries that are due.
    queued: i64,
}

pub(super) fn route(cell: &PartsCell) -> PluginRoute {
    let cell = cell.clone();
    RECOVER.bind(MOUNT, move |call, input| recover(cell.clone(), call, input))
}

async fn recover(cell: PartsCell, call: PluginCall, input: Recovery) -> Result<Reply> {
    let parts = cell.parts()?;
    let endpoint = endpoint(&parts.workers, &call).await?;
    let now = call.cx.now();
    let mut problems = Vec::new();
    let statuses = statuses(input.statuses.as_deref(), &mut problems);
    if input.since.millis() < now.millis().saturating_sub(MAX_AGE_MILLIS) || input.since > now {
        problems.push(Problem::new(
            "since",
            "range",
            "must be within the last 14 days",
        ));
    }
    super::checks::refuse(problems)?;
    if endpoint.status == EndpointStatus::Disabled {
        let text = "the endpoint is disabled: set its status to `active` first";
        return Err(Error::new(Code::Conflict, text));
    }
    let records = &parts.workers.records;
    let cx = Cx::system("a recovery of webhooks").at(now);
    let lease_end = later(now, LEASE);
    let begun = records
        .endpoints
        .begin_recovery(&cx, endpoint.id.as_str(), lease_end)
        .await?;
    if begun == 0 {
        let text = "a recovery of the endpoint is already running";
        return Err(Error::new(Code::Conflict, text));
    }
    let period = (input.since, input.until.unwrap_or(now));
    let target = Target {
        entity: "WebhookEndpoint",
        id: &endpoint.id,
        tenant: endpoint.tenant_id.as_deref(),
    };
    let states: Vec<&str> = statuses.iter().map(|status| status.as_str()).collect();
    let after = json!({
        "since": period.0.to_string(), "until": period.1.to_string(), "statuses": states,
    });
    let caller = audit::caller(&call)?;
    let audited = audit::add(&call, &caller, ACTION, target, (None, Some(after))).await;
    let queued = match audited {
        Ok(()) => recover_messages(parts, &cx, &endpoint, period, &statuses).await,
        Err(error) => Err(error),
    };
    records
        .endpoints
        .end_recovery(&cx, endpoint.id.as_str(), lease_end)
        .await?;
    let queued = i64::try_from(queued?).unwrap_or(i64::MAX);
    Reply::json(202, &Recovered { queued })
}

/// The states of deliveries that are sent again.
fn statuses(texts: Option<&[String]>, problems: &mut Vec<Problem>) -> Vec<DeliveryStatus> {
    let Some(texts) = texts else {
        return vec![DeliveryStatus::Dead, DeliveryStatus::Cancelled];
    };
    let mut ended = Vec::new();
    for (at, text) in texts.iter().enumerate() {
        match text.as_str() {
            "dead" => ended.push(DeliveryStatus::Dead),
            "cancelled" => ended.push(DeliveryStatus::Cancelled),
            "delivered" => ended.push(DeliveryStatus::Delivered),
            _ => problems.push(Problem::new(
                format!("statuses.{at}"),
                "enum",
                "must be `dead`, `cancelled` or `delivered`",
            )),
        }
    }
    ended
}

/// Processes the messages of a period, oldest first, one transaction for each chunk.
async fn recover_messages(
    parts: &Parts,
    cx: &Cx,
    endpoint: &WebhookEndpoint,
    (since, until): (Timestamp, Timestamp),
    statuses: &[DeliveryStatus],
) -> Result<u64> {
    let records = &parts.workers.records;
    let (mut queued, mut cursor) = (0, None);
    loop {
        let mut query = ListQuery::new()
            .filter(
                webhook_message::tenant_id
                    .eq(endpoint.tenant_id.clone())
                    .and(webhook_message::is_test.eq(false))
                    .and(webhook_message::occurred_at.gte(since))
                    .and(webhook_message::occurred_at.lte(until)),
            )
            .sort(webhook_message::occurred_at, Direction::Asc)
            .limit(CHUNK);
        if let Some(cursor) = cursor.take() {
            query = query.cursor(cursor);
        }
        let page = records.messages.list(cx, query).await?;
        let wanted: Vec<WebhookMessage> = page
            .items
            .into_iter()
            .filter(|message| wants(&endpoint.events, &message.event))
            .collect();
        queued += cx
            .transaction(async |cx| chunk(parts, cx, endpoint, &wanted, statuses).await)
            .await?;
        match page.next_cursor {
            Some(next) => cursor = Some(next),
            None => return Ok(queued),
        }
    }
}

/// Resets or writes the deliveries of some messages; returns their number.
async fn chunk(
    parts: &Parts,
    cx: &Cx,
    endpoint: &WebhookEndpoint,
    messages: &[WebhookMessage],
    statuses: &[DeliveryStatus],
) -> Result<u64> {
    let (workers, records) = (&parts.workers, &parts.workers.records);
    if messages.is_empty() {
        return Ok(0);
    }
    // The status of the endpoint may have changed since the previous chunk.
    let endpoint = &records.lock(cx, &endpoint.id).await?;
    let ids: Vec<String> = messages.iter().map(|message| message.id.clone()).collect();
    let query = ListQuery::new()
        .filter(of_endpoint(endpoint).and(webhook_delivery::message_id.one_of(ids)))
        .limit(u32::MAX);
    let known: HashMap<String, WebhookDelivery> = records
        .deliveries
        .list(cx, query)
        .await?
        .items
        .into_iter()
        .map(|delivery| (delivery.message_id.clone(), delivery))
        .collect();
    let active = endpoint.status == EndpointStatus::Active;
    let to_reset: Vec<String> = known
        .values()
        .filter(|delivery| {
            let held = active && delivery.reason == Some(DeliveryReason::EndpointDisabled);
            (held || statuses.contains(&delivery.status)) && !delivery.is_test
        })
        .map(|delivery| delivery.message_id.clone())
        .collect();
    let tenant = endpoint.tenant_id.as_deref();
    let tenant_cx = of_tenant(cx, webhook_delivery::tenant_id, tenant);
    let mut queued = 0;
    if !to_reset.is_empty() {
        queued += records
            .deliveries
            .reset(&tenant_cx, endpoint.id.as_str(), to_reset)
            .await?;
    }
    if !active {
        records
            .deliveries
            .hold(&tenant_cx, endpoint.id.as_str())
            .await?;
    }
    for message in messages
        .iter()
        .filter(|message| !known.contains_key(&message.id))
    {
        records
            .deliver(cx, message, endpoint, (Trigger::Recover, &workers.config))
            .await?;
        queued += 1;
    }
    if queued > 0 && active {
        records
            .endpoints
            .wake(cx, vec![endpoint.id.clone()], cx.now())
            .await?;
        let wake = Arc::clone(&workers.wake);
        cx.after_commit(move || wake.notify_one());
    }
    Ok(queued)
}
