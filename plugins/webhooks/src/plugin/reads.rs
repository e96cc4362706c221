//! Routes that read the deliveries of an endpoint and the attempts of a delivery.

use linchpin::entity::{FieldDesc, Kind, ListQuery, Page};
use linchpin::filter::Filter;
use linchpin::http::{AnswerDesc, Nothing, PluginCall, PluginRoute, Reply, Route};
use linchpin::{Code, Embedded, Error, Field, FieldEnum, Result, Timestamp};
use serde_json::Value as Json;

use super::routes::{MANAGERS, MOUNT, REFUSALS, endpoint};
use super::{PLUGIN, PartsCell, Workers};
use crate::entity::{
    DeliveryReason, DeliveryStatus, ErrorKind, Trigger, WebhookAttempt, WebhookDelivery,
    webhook_attempt, webhook_delivery,
};

const PAGE: FieldDesc = FieldDesc::new("page", "page", "page", Kind::Integer, true);
const SIZE: FieldDesc = FieldDesc::new("page_size", "pageSize", "page_size", Kind::Integer, true);
const CURSOR: FieldDesc = FieldDesc::new("cursor", "cursor", "cursor", Kind::String, true);
const STATUS: FieldDesc = FieldDesc::new(
    "status",
    "status",
    "status",
    Kind::Enum(DeliveryStatus::DESC),
    true,
);
const EVENT: FieldDesc = FieldDesc::new("event", "event", "event", Kind::String, true);

const READ_ERRORS: &[Code] = &[
    Code::Unauthorized,
    Code::Forbidden,
    Code::NotFound,
    Code::InvalidCursor,
];

static DELIVERIES: Route<Nothing> =
    Route::get("endpoint_deliveries", "endpoints/{endpointId}/deliveries")
        .of(PLUGIN)
        .doc("Lists the deliveries of an endpoint, newest first.")
        .auth("userAuth")
        .guards(MANAGERS)
        .query(&[PAGE, SIZE, CURSOR, STATUS, EVENT])
        .answers(&[AnswerDesc::of::<DeliveryPage>(200, "A page.")])
        .errors(READ_ERRORS);

static ENDPOINT_DELIVERY: Route<Nothing> = Route::get(
    "endpoint_delivery",
    "endpoints/{endpointId}/deliveries/{id}",
)
.of(PLUGIN)
.doc("Returns a delivery of an endpoint with the body of its message.")
.auth("userAuth")
.guards(MANAGERS)
.answers(&[AnswerDesc::of::<FullDelivery>(200, "The delivery.")])
.errors(REFUSALS);

static DELIVERY: Route<Nothing> = Route::get("delivery", "deliveries/{id}")
    .of(PLUGIN)
    .doc("Returns a delivery with the body of its message.")
    .auth("userAuth")
    .guards(MANAGERS)
    .answers(&[AnswerDesc::of::<FullDelivery>(200, "The delivery.")])
    .errors(REFUSALS);

static ATTEMPTS: Route<Nothing> = Route::get("delivery_attempts", "deliveries/{id}/attempts")
    .of(PLUGIN)
    .doc("Lists the attempts of a delivery, newest first.")
    .auth("userAuth")
    .guards(MANAGERS)
    .query(&[PAGE, SIZE, CURSOR])
    .answers(&[AnswerDesc::of::<AttemptPage>(200, "A page.")])
    .errors(READ_ERRORS);

/// Declares the struct of a response: fields of the record, and then the fields in `and { .. }`.
macro_rules! response {
    ($(#[$doc:meta])* $name:ident of $entity:ident {
        $($field:ident: $type:ty),* $(,)?
    } $(and { $($more:ident: $more_type:ty),* })?) => {
        $(#[$doc])*
        #[derive(Embedded)]
        struct $name {
            $($field: $type,)*
            $($($more: $more_type,)*)?
        }

        impl $name {
            fn of(record: $entity $($(, $more: $more_type)*)?) -> Self {
                Self {
                    $($field: record.$field,)*
                    $($($more,)*)?
                }
            }
        }
    };
}

macro_rules! delivery {
    ($(#[$doc:meta])* $name:ident $($rest:tt)*) => {
        response! {
            $(#[$doc])* $name of WebhookDelivery {
                id: String,
                tenant_id: Option<String>,
                endpoint_id: String,
                message_id: String,
                event: String,
                event_id: String,
                occurred_at: Timestamp,
                status: DeliveryStatus,
                reason: Option<DeliveryReason>,
                attempts: i64,
                max_attempts: i64,
                next_retry_at: Option<Timestamp>,
                last_attempt_at: Option<Timestamp>,
                delivered_at: Option<Timestamp>,
                last_attempt: Option<Json>,
                is_test: bool,
                created_at: Timestamp,
                updated_at: Timestamp,
                version: i64,
            } $($rest)*
        }
    };
}

delivery! {
    /// A delivery in a list.
    Delivery
}

delivery! {
    /// A delivery with the body of its message, which is null after the message was removed.
    FullDelivery and { payload: Option<Json> }
}

response! {
    /// An attempt.
    Attempt of WebhookAttempt {
        id: String,
        tenant_id: Option<String>,
        delivery_id: String,
        number: i64,
        started_at: Timestamp,
        duration_ms: i64,
        trigger: Trigger,
        url: String,
        address: Option<String>,
        status_code: Option<i64>,
        error_kind: Option<ErrorKind>,
        error: Option<String>,
        response_headers: Option<Json>,
        response_body: Option<String>,
    }
}

/// A page of deliveries.
#[derive(Embedded)]
struct DeliveryPage {
    items: Vec<Delivery>,
    next_cursor: Option<String>,
    has_more: bool,
}

/// A page of attempts.
#[derive(Embedded)]
struct AttemptPage {
    items: Vec<Attempt>,
    next_cursor: Option<String>,
    has_more: bool,
}

pub(super) fn all(cell: &PartsCell) -> Vec<PluginRoute> {
    let [a, b, c, d] = [cell.clone(), cell.clone(), cell.clone(), cell.clone()];
    vec![
        DELIVERIES.bind(MOUNT, move |call, _| deliveries(a.clone(), call)),
        ENDPOINT_DELIVERY.bind(MOUNT, move |call, _| endpoint_delivery(b.clone(), call)),
        DELIVERY.bind(MOUNT, move |call, _| delivery(c.clone(), call)),
        ATTEMPTS.bind(MOUNT, move |call, _| attempts(d.clone(), call)),
    ]
}

/// The list query for `page`, `pageSize` and `cursor`. The list of the entity checks them.
fn page<E: linchpin::Entity>(call: &PluginCall, filter: Filter) -> Result<ListQuery<E>> {
    // A negative number becomes 0, and a number that is too large becomes `u32::MAX`. The list
    // checks both like other numbers.
    let number = |number: i64| u32::try_from(number.max(0)).unwrap_or(u32::MAX);
    let mut query = ListQuery::new().filter(filter);
    if let Some(page) = call.query::<i64>(0)? {
        query = query.page(number(page));
    }
    if let Some(size) = call.query::<i64>(1)? {
        query = query.limit(number(size));
    }
    if let Some(cursor) = call.query::<String>(2)? {
        query = query.cursor(cursor);
    }
    Ok(query)
}

async fn deliveries(cell: PartsCell, call: PluginCall) -> Result<Reply> {
    let workers = &cell.parts()?.workers;
    let endpoint = endpoint(workers, &call).await?;
    let mut filter = webhook_delivery::endpoint_id.eq(endpoint.id);
    if let Some(status) = call.query::<DeliveryStatus>(3)? {
        filter = filter.and(webhook_delivery::status.eq(status));
    }
    if let Some(event) = call.query::<String>(4)? {
        filter = filter.and(webhook_delivery::event.eq(event));
    }
    let query = page(&call, filter)?;
    let Page {
        items,
        next_cursor,
        has_more,
    } = workers.records.deliveries.list(&call.cx, query).await?;
    let page = DeliveryPage {
        items: items.into_iter().map(Delivery::of).collect(),
        next_cursor,
        has_more,
    };
    Reply::json(200, &page)
}

async fn endpoint_delivery(cell: PartsCell, call: PluginCall) -> Result<Reply> {
    let workers = &cell.parts()?.workers;
    let endpoint = endpoint(workers, &call).await?;
    let delivery = find_delivery(workers, &call, call.param(1)).await?;
    if delivery.endpoint_id != endpoint.id {
        return Err(Error::not_found());
    }
    full_reply(workers, &call, delivery).await
}

async fn delivery(cell: PartsCell, call: PluginCall) -> Result<Reply> {
    let workers = &cell.parts()?.workers;
    let delivery = find_delivery(workers, &call, call.param(0)).await?;
    full_reply(workers, &call, delivery).await
}

/// Reads a delivery; `not_found` if the caller may not see it.
pub(super) async fn find_delivery(
    workers: &Workers,
    call: &PluginCall,
    id: &str,
) -> Result<WebhookDelivery> {
    let found = workers.records.deliveries.get(&call.cx, id).await?;
    found.ok_or_else(Error::not_found)
}

/// The response with a delivery and its payload.
async fn full_reply(
    workers: &Workers,
    call: &PluginCall,
    delivery: WebhookDelivery,
) -> Result<Reply> {
    let id = delivery.message_id.as_str();
    let message = workers.records.messages.get(&call.cx, id).await?;
    let payload = message
        .map(|message| serde_json::from_str(&message.body).map_err(Error::internal))
        .transpose()?;
    Reply::json(200, &FullDelivery::of(delivery, payload))
}

async fn attempts(cell: PartsCell, call: PluginCall) -> Result<Reply> {
    let workers = &cell.parts()?.workers;
    let delivery = find_delivery(workers, &call, call.param(0)).await?;
    let query = page(&call, webhook_attempt::delivery_id.eq(delivery.id))?;
    let Page {
        items,
        next_cursor,
        has_more,
    } = workers.records.attempts.list(&call.cx, query).await?;
    let page = AttemptPage {
        items: items.into_iter().map(Attempt::of).collect(),
        next_cursor,
        has_more,
    };
    Reply::json(200, &page)
}
