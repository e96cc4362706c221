//! The records that deliveries read and write.

use linchpin::entity::{Direction, ListQuery};
use linchpin::filter::Filter;
use linchpin::{Adapters, Code, Cx, Error, Field, Result, Timestamp};
use serde_json::json;

use super::attempt::Attempt;
use super::outcome::Next;
use crate::entity::{
    DeliveryReason, DeliveryStatus, DisabledReason, EndpointStatus, Trigger, WebhookAttemptAdapter,
    WebhookAttemptCreate, WebhookDelivery, WebhookDeliveryAdapter, WebhookDeliveryPatch,
    WebhookEndpoint, WebhookEndpointAdapter, WebhookEndpointPatch, WebhookMessage,
    WebhookMessageAdapter, webhook_attempt, webhook_delivery, webhook_message,
};

/// The maximum number of endpoints that one statement locks, and of records that one list returns.
pub(crate) const CHUNK: usize = 200;

/// The adapters of the entities.
#[derive(Clone, Debug)]
pub(crate) struct Records {
    pub(crate) endpoints: WebhookEndpointAdapter,
    pub(crate) messages: WebhookMessageAdapter,
    pub(crate) deliveries: WebhookDeliveryAdapter,
    pub(crate) attempts: WebhookAttemptAdapter,
}

impl Records {
    /// The adapters of an app with the plugin.
    pub(crate) fn new(adapters: &Adapters) -> Result<Self> {
        Ok(Self {
            endpoints: adapters.get::<WebhookEndpoint>()?,
            messages: adapters.get::<WebhookMessage>()?,
            deliveries: adapters.get::<WebhookDelivery>()?,
            attempts: adapters.get::<crate::entity::WebhookAttempt>()?,
        })
    }

    /// Reads all endpoints that a filter matches, page after page.
    pub(crate) async fn endpoints_with(
        &self,
        cx: &Cx,
        filter: Filter,
    ) -> Result<Vec<WebhookEndpoint>> {
        let query = ListQuery::new().filter(filter).limit(u32::MAX);
        let mut page = self.endpoints.list(cx, query.clone()).await?;
        let mut all = page.items;
        while let Some(cursor) = page.next_cursor {
            page = self
                .endpoints
                .list(cx, query.clone().cursor(cursor))
                .await?;
            all.extend(page.items);
        }
        Ok(all)
    }

    /// Locks endpoints until the end of the transaction, and returns those that exist.
    pub(crate) async fn locked(&self, cx: &Cx, ids: &[String]) -> Result<Vec<WebhookEndpoint>> {
        let mut all = Vec::with_capacity(ids.len());
        for ids in ids.chunks(CHUNK) {
            all.extend(self.endpoints.lock(cx, ids.to_vec()).await?);
        }
        Ok(all)
    }

    /// Locks an endpoint until the end of the transaction, and returns its current record.
    ///
    /// # Errors
    /// `not_found` if it was deleted.
    pub(crate) async fn lock(&self, cx: &Cx, id: &str) -> Result<WebhookEndpoint> {
        let locked = self.locked(cx, &[id.to_owned()]).await?.pop();
        locked.ok_or_else(Error::not_found)
    }

    /// The due deliveries of an endpoint, oldest first.
    pub(crate) async fn due(
        &self,
        cx: &Cx,
        endpoint: &WebhookEndpoint,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<WebhookDelivery>> {
        let open = ListQuery::new()
            .filter(of_endpoint(endpoint))
            .limit(u32::try_from(limit).unwrap_or(u32::MAX));
        let query = if endpoint.ordered {
            open.filter(in_turn())
                .sort(webhook_delivery::occurred_at, Direction::Asc)
                .sort(webhook_delivery::event_id, Direction::Asc)
        } else {
            open.filter(webhook_delivery::next_retry_at.lte(now))
                .sort(webhook_delivery::next_retry_at, Direction::Asc)
        };
        let due = self.deliveries.list(cx, query).await?.items.into_iter();
        let is_due =
            |delivery: &WebhookDelivery| delivery.next_retry_at.is_some_and(|at| at <= now);
        // If the first delivery of an ordered endpoint is not due, the others wait for it.
        Ok(due.take_while(is_due).collect())
    }

    /// The messages of deliveries.
    pub(crate) async fn messages(
        &self,
        cx: &Cx,
        deliveries: &[WebhookDelivery],
    ) -> Result<Vec<WebhookMessage>> {
        let ids: Vec<String> = deliveries
            .iter()
            .map(|one| one.message_id.clone())
            .collect();
        let query = ListQuery::new()
            .filter(webhook_message::id.one_of(ids))
            .limit(u32::MAX);
        Ok(self.messages.list(cx, query).await?.items)
    }

    /// The time at which the next delivery of an endpoint is due.
    pub(crate) async fn next_due(
        &self,
        cx: &Cx,
        endpoint: &WebhookEndpoint,
    ) -> Result<Option<Timestamp>> {
        let deliveries = of_endpoint(endpoint);
        let query = if endpoint.ordered {
            ListQuery::new()
                .filter(deliveries.and(in_turn()))
                .sort(webhook_delivery::occurred_at, Direction::Asc)
                .sort(webhook_delivery::event_id, Direction::Asc)
        } else {
            ListQuery::new()
                .filter(deliveries.and(webhook_delivery::next_retry_at.ne(None)))
                .sort(webhook_delivery::next_retry_at, Direction::Asc)
        };
        let first = self.deliveries.list(cx, query.limit(1)).await?.items.pop();
        Ok(first.and_then(|first| first.next_retry_at))
    }

    /// Writes the result of an attempt to its delivery. Returns whether it was written: a delivery
    /// that was cancelled, held or removed during the attempt is not changed.
    pub(crate) async fn settle(
        &self,
        cx: &Cx,
        delivery: &WebhookDelivery,
        attempt: &Attempt,
        (number, next): (i64, Next),
        now: Timestamp,
    ) -> Result<bool> {
        let delivered = next.status == DeliveryStatus::Delivered;
        let patch = WebhookDeliveryPatch {
            status: Some(next.status),
            reason: Some(next.reason),
            attempts: Some(number),
            next_retry_at: Some(next.retry_at),
            last_attempt_at: Some(Some(attempt.started_at)),
            delivered_at: Some(delivered.then_some(now)),
            last_attempt: Some(Some(summary(attempt, number))),
            ..WebhookDeliveryPatch::default()
        };
        let written =
            self.deliveries
                .update(cx, delivery.id.as_str(), patch, Some(delivery.version));
        match written.await {
            Ok(_) => Ok(true),
            Err(error) if is_gone(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Cancels a delivery whose message was removed, because it can no longer be sent.
    pub(crate) async fn cancel_lost(&self, cx: &Cx, delivery: &WebhookDelivery) -> Result<()> {
        let patch = WebhookDeliveryPatch {
            status: Some(DeliveryStatus::Cancelled),
            reason: Some(Some(DeliveryReason::MessageMissing)),
            next_retry_at: Some(None),
            ..WebhookDeliveryPatch::default()
        };
        let id = delivery.id.as_str();
        let written = self
            .deliveries
            .update(cx, id, patch, Some(delivery.version));
        match written.await {
            Err(error) if !is_gone(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Adds an attempt to the history of a delivery.
    pub(crate) async fn record(
        &self,
        cx: &Cx,
        delivery: &WebhookDelivery,
        attempt: &Attempt,
        (number, trigger): (i64, Trigger),
        expires_at: Timestamp,
    ) -> Result<()> {
        let record = WebhookAttemptCreate {
            delivery_id: delivery.id.clone(),
            number,
            started_at: attempt.started_at,
            duration_ms: i64::try_from(attempt.duration.as_millis()).unwrap_or(i64::MAX),
            trigger,
            url: attempt.url.clone(),
            address: attempt.address.clone(),
            status_code: attempt.status.map(i64::from),
            error_kind: attempt.kind(),
            error: attempt.error.as_ref().map(|(_, text)| text.clone()),
            response_headers: (!attempt.headers.is_null()).then(|| attempt.headers.clone()),
            response_body: attempt.body.clone(),
            expires_at: Some(expires_at),
        };
        let cx = of_tenant(
            cx,
            webhook_attempt::tenant_id,
            delivery.tenant_id.as_deref(),
        );
        self.attempts.create(&cx, record).await.map(drop)
    }

    /// Disables an endpoint, and holds its deliveries.
    pub(crate) async fn disable(
        &self,
        cx: &Cx,
        endpoint: &WebhookEndpoint,
        reason: DisabledReason,
        now: Timestamp,
    ) -> Result<()> {
        let patch = WebhookEndpointPatch {
            status: Some(EndpointStatus::Disabled),
            is_active: Some(Some(false)),
            enabled: Some(Some(false)),
            disabled_reason: Some(Some(reason)),
            disabled_at: Some(Some(now)),
            due_at: Some(None),
            ..WebhookEndpointPatch::default()
        };
        let id = endpoint.id.as_str();
        self.endpoints.update(cx, id, patch, None).await?;
        let tenant = endpoint.tenant_id.as_deref();
        let tenant_cx = of_tenant(cx, webhook_delivery::tenant_id, tenant);
        self.deliveries.hold(&tenant_cx, id).await.map(drop)
    }
}

/// The open deliveries that are sent one after the other to an ordered endpoint. A held delivery
/// does not stop those after it.
fn in_turn() -> Filter {
    webhook_delivery::status
        .one_of([DeliveryStatus::Pending, DeliveryStatus::Failed])
        .and(webhook_delivery::next_retry_at.ne(None))
}

/// The filter for the deliveries of an endpoint. It includes the tenant, because every index begins
/// with it.
pub(crate) fn of_endpoint(endpoint: &WebhookEndpoint) -> Filter {
    let of_tenant = webhook_delivery::tenant_id.eq(endpoint.tenant_id.clone());
    of_tenant.and(webhook_delivery::endpoint_id.eq(endpoint.id.clone()))
}

/// The context for the records of a tenant: new records get the tenant, and changes use an index
/// that begins with it.
pub(crate) fn of_tenant<F>(cx: &Cx, field: F, tenant: Option<&str>) -> Cx
where
    F: Field<Ty = Option<String>>,
{
    match tenant {
        Some(tenant) => cx.clone().within(field, tenant),
        None => cx.clone(),
    }
}

fn is_gone(error: &Error) -> bool {
    matches!(error.code(), Code::PreconditionFailed | Code::NotFound)
}

/// The newest attempt as JSON for its delivery.
fn summary(attempt: &Attempt, number: i64) -> serde_json::Value {
    json!({
        "number": number,
        "startedAt": attempt.started_at.to_string(),
        "durationMs": u64::try_from(attempt.duration.as_millis()).unwrap_or(u64::MAX),
        "statusCode": attempt.status,
        "errorKind": attempt.kind().map(linchpin::FieldEnum::as_str),
        "error": attempt.error.as_ref().map(|(_, text)| text),
    })
}
