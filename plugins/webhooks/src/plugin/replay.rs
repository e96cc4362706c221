//! Replay: sends an ended delivery again.

use std::sync::Arc;

use linchpin::FieldEnum;
use linchpin::http::{AnswerDesc, Nothing, PluginCall, PluginRoute, PolicyDesc, Reply, Route};
use linchpin::{Code, Embedded, Error, Result};
use serde_json::json;

use super::audit::{self, Target};
use super::routes::{MANAGERS, MOUNT};
use super::{PLUGIN, PartsCell};
use crate::entity::{
    DeliveryReason, DeliveryStatus, EndpointStatus, Trigger, WebhookDelivery, WebhookDeliveryPatch,
    WebhookEndpoint,
};

const ACTION: &str = "replay_delivery";

const ERRORS: &[Code] = &[
    Code::Unauthorized,
    Code::Forbidden,
    Code::NotFound,
    Code::Conflict,
];
const POLICY: PolicyDesc = PolicyDesc::INHERIT.audit(ACTION);

static REPLAY: Route<Nothing> = Route::post(ACTION, "deliveries/{id}/replay")
    .of(PLUGIN)
    .doc(
        "Sends a dead, cancelled or delivered message again, with the same id.\n\n409 if \
         the delivery is pending or will be retried, or if its endpoint is disabled.",
    )
    .policy(POLICY)
    .auth("userAuth")
    .guards(MANAGERS)
    .answers(&[AnswerDesc::of::<Replayed>(200, "The delivery is due.")])
    .errors(ERRORS);

static ADMIN_REPLAY: Route<Nothing> =
    Route::post("admin_replay_delivery", "admin/deliveries/{id}/replay")
        .of(PLUGIN)
        .doc("Does the same as `POST /webhooks/deliveries/{id}/replay`.")
        .policy(POLICY)
        .auth("userAuth")
        .guards(MANAGERS)
        .answers(&[AnswerDesc::of::<Replayed>(200, "The delivery is due.")])
        .errors(ERRORS);

/// The answer to a replay.
#[derive(Embedded)]
struct Replayed {
    replayed: bool,
    delivery_id: String,
}

pub(super) fn all(cell: &PartsCell) -> [PluginRoute; 2] {
    let [a, b] = [cell.clone(), cell.clone()];
    [
        REPLAY.bind(MOUNT, move |call, _| replay(a.clone(), call)),
        ADMIN_REPLAY.bind(MOUNT, move |call, _| replay(b.clone(), call)),
    ]
}

async fn replay(cell: PartsCell, call: PluginCall) -> Result<Reply> {
    let workers = &cell.parts()?.workers;
    let records = &workers.records;
    let delivery = super::reads::find_delivery(workers, &call, call.param(0)).await?;
    let endpoint = records
        .endpoints
        .get(&call.cx, delivery.endpoint_id.as_str())
        .await?;
    let endpoint = endpoint.ok_or_else(Error::not_found)?;
    refuse_replay(&delivery, &endpoint)?;
    let now = call.cx.now();
    audit::caller(&call)?
        .transaction(async |cx| {
            let id = delivery.id.as_str();
            // After the lock, the status of the endpoint cannot change before the commit.
            let endpoint = records.lock(cx, &endpoint.id).await?;
            refuse_replay(&delivery, &endpoint)?;
            let active = endpoint.status == EndpointStatus::Active;
            let patch = WebhookDeliveryPatch {
                status: Some(DeliveryStatus::Pending),
                reason: Some((!active).then_some(DeliveryReason::EndpointDisabled)),
                attempts: Some(0),
                next_retry_at: Some(active.then_some(now)),
                delivered_at: Some(None),
                trigger: Some(Trigger::Replay),
                ..WebhookDeliveryPatch::default()
            };
            let changed = records
                .deliveries
                .update(cx, id, patch, Some(delivery.version))
                .await;
            changed.map_err(|error| match error.code() {
                Code::PreconditionFailed => {
                    conflict("the delivery was changed at the same time: try again")
                }
                _ => error,
            })?;
            records
                .endpoints
                .wake(cx, vec![endpoint.id.clone()], now)
                .await?;
            let target = Target {
                entity: "WebhookDelivery",
                id,
                tenant: delivery.tenant_id.as_deref(),
            };
            let status = |status: DeliveryStatus| Some(json!({ "status": status.as_str() }));
            let states = (status(delivery.status), status(DeliveryStatus::Pending));
            audit::add(&call, cx, ACTION, target, states).await?;
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
        return Err(conflict("the delivery has not ended yet"));
    }
    if endpoint.status == EndpointStatus::Disabled {
        return Err(conflict(
            "the endpoint is disabled: set its status to `active` first",
        ));
    }
    Ok(())
}

fn conflict(text: &'static str) -> Error {
    Error::new(Code::Conflict, text)
}
