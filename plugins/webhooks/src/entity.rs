//! The entities: endpoints of customers, messages, deliveries of messages, and attempts of
//! deliveries.

use linchpin::prelude::*;
use serde_json::Value as Json;

/// The kind of an endpoint's owner.
#[derive(FieldEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum OwnerType {
    /// A tenant: the endpoint gets events of this tenant only.
    Tenant,
    /// The app itself, because the endpoint has no tenant.
    App,
}

/// Whether an endpoint gets deliveries.
#[derive(FieldEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum EndpointStatus {
    /// Deliveries are sent.
    Active,
    /// Deliveries are written and held.
    Paused,
    /// No deliveries are written. Only the system sets this status.
    Disabled,
}

/// The reason for disabling an endpoint.
#[derive(FieldEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum DisabledReason {
    /// All attempts failed for `disable_after` (5 days by default).
    Failing,
    /// It answered 410.
    Gone,
    /// Its host name resolves to an address that is not public.
    BlockedAddress,
}

/// A URL of a customer to which events are sent by HTTP.
#[entity(
    namespace = "webhooks",
    path = "endpoints",
    tenant(tenant_id, optional),
    index(status, due_at, global),
    sort = desc(created_at),
    routes(
        auth = "userAuth",
        guards(manage_webhooks),
        list(paging = "page"),
        create(output_once(secret: String)),
    )
)]
#[derive(Clone, Debug)]
pub struct WebhookEndpoint {
    /// The id.
    #[field(primary, default = uuid)]
    pub id: String,
    /// The tenant of the endpoint; none for an endpoint of the app.
    pub tenant_id: Option<String>,
    /// The kind of the owner.
    #[field(read_only, default = OwnerType::App)]
    pub owner_type: OwnerType,
    /// The id of the owner; none for the app.
    #[field(read_only)]
    pub owner_id: Option<String>,
    /// The address: `https`, a public host.
    #[field(length = 1..=2048)]
    pub url: String,
    /// A description of the endpoint for users.
    #[field(length = ..=256)]
    pub description: Option<String>,
    /// Names of events, or patterns: `tasks.*`, `*`.
    #[field(items = 1..=100, unique_items, each(length = 1..=128))]
    pub events: Vec<String>,
    /// Whether the endpoint gets deliveries.
    #[field(filterable, default = EndpointStatus::Active)]
    pub status: EndpointStatus,
    /// The same as `status == active`; may be written in place of `status`.
    pub is_active: Option<bool>,
    /// The same as `is_active`.
    pub enabled: Option<bool>,
    /// The reason for which the system disabled the endpoint.
    #[field(read_only)]
    pub disabled_reason: Option<DisabledReason>,
    /// When the system disabled the endpoint.
    #[field(read_only)]
    pub disabled_at: Option<Timestamp>,
    /// A secret to use in place of a random one, when the endpoint is created. It is never stored here.
    #[field(write_only)]
    pub secret: Option<String>,
    /// The last four characters of the newest secret.
    #[field(read_only, default = "")]
    pub secret_hint: String,
    /// The secrets, encrypted.
    #[field(private, default = "")]
    pub sealed: String,
    /// The version of the format of bodies.
    #[field(read_only, default = 1)]
    pub payload_version: i64,
    /// The time limit of one attempt, in milliseconds.
    #[field(range = 1_000..=30_000, default = 15_000)]
    pub delivery_timeout_ms: i64,
    /// The maximum number of attempts per second.
    #[field(range = 1..=1_000, default = 20)]
    pub max_per_second: i64,
    /// The maximum number of concurrent attempts.
    #[field(range = 1..=50, default = 5)]
    pub max_in_flight: i64,
    /// Whether a delivery waits for the end of the one before it.
    #[field(default = false)]
    pub ordered: bool,
    /// Further headers of each request.
    #[field(write_only)]
    pub headers: Option<Json>,
    /// The first failure after the last success.
    #[field(read_only)]
    pub failing_since: Option<Timestamp>,
    /// The last success.
    #[field(read_only)]
    pub last_success_at: Option<Timestamp>,
    /// The last failure.
    #[field(read_only)]
    pub last_failure_at: Option<Timestamp>,
    /// The failures since the last success.
    #[field(read_only, default = 0)]
    pub consecutive_failures: i64,
    /// Attempts that failed in a row because of a forbidden address.
    #[field(private, default = 0)]
    pub blocked_in_a_row: i64,
    /// The time at which the next delivery is due; `None` if no delivery waits.
    #[field(private)]
    pub due_at: Option<Timestamp>,
    /// The last time at which a delivery to the endpoint was written.
    #[field(private)]
    pub written_at: Option<Timestamp>,
    /// No attempt is made before this time, because of `retry-after` in a response.
    #[field(private)]
    pub held_until: Option<Timestamp>,
    /// The end of the lease of a running recovery.
    #[field(private)]
    pub recovering_until: Option<Timestamp>,
    /// The attempts that the rate allows at `allowance_at`, in thousandths.
    #[field(private, default = 0)]
    pub allowance: i64,
    /// The time of `allowance`.
    #[field(private)]
    pub allowance_at: Option<Timestamp>,
    /// The worker that sends to the endpoint, until `lease_until`.
    #[field(private)]
    pub lease_token: Option<String>,
    /// The end of the lease.
    #[field(private)]
    pub lease_until: Option<Timestamp>,
    /// When it was created.
    #[field(default = now)]
    pub created_at: Timestamp,
    /// When a client or the system last changed its settings.
    #[field(read_only)]
    pub updated_at: Option<Timestamp>,
}

/// Leases endpoints with due deliveries, oldest due time first. `busy` are tenants that have
/// reached their share of the served endpoints of the process.
#[operation(
    kind = "batch",
    action = "update",
    filter = (status == EndpointStatus::Active && due_at <= now()
        && (lease_until.is_none() || lease_until <= now())
        && tenant_id.none_of(param(busy))),
    set(lease_token = param(lease_token), lease_until = param(lease_until)),
    limit = 8,
    sort = asc(due_at),
    returns = "records",
)]
pub(crate) const LEASE: Operation<WebhookEndpoint>;

/// Extends a lease, unless another worker has taken it.
#[operation(
    kind = "batch",
    action = "update",
    filter = (id == param(id) && lease_token == param(held_token)),
    set(lease_until = param(lease_until)),
    limit = 1,
    sort = asc(id),
    returns = "records",
)]
pub(crate) const RENEW: Operation<WebhookEndpoint>;

/// Extends a lease after attempts that all succeeded, unless another worker has taken it.
#[operation(
    kind = "batch",
    action = "update",
    filter = (id == param(id) && lease_token == param(held_token)),
    set(lease_until = param(lease_until), last_success_at = now(), failing_since = None,
        consecutive_failures = 0, blocked_in_a_row = 0, allowance = param(allowance),
        allowance_at = param(allowance_at)),
    limit = 1,
    sort = asc(id),
    returns = "records",
)]
pub(crate) const SUCCEED: Operation<WebhookEndpoint>;

/// Ends a lease, unless another worker has taken it. Clears the due time of the endpoint.
#[operation(
    kind = "batch",
    action = "update",
    filter = (id == param(id) && lease_token == param(held_token)),
    set(lease_token = None, lease_until = None, due_at = None),
    route(disabled),
)]
pub(crate) const FREE: Operation<WebhookEndpoint>;

/// Begins a recovery, unless another one is running.
#[operation(
    kind = "batch",
    action = "update",
    filter = (id == param(id) && (recovering_until.is_none() || recovering_until <= now())),
    set(recovering_until = param(recovering_until)),
    route(disabled),
)]
pub(crate) const BEGIN_RECOVERY: Operation<WebhookEndpoint>;

/// Ends a recovery. If its lease has ended and another recovery has begun, nothing changes.
#[operation(
    kind = "batch",
    action = "update",
    filter = (id == param(id) && recovering_until == param(held_until)),
    set(recovering_until = None),
    route(disabled),
)]
pub(crate) const END_RECOVERY: Operation<WebhookEndpoint>;

/// Sets the due time of endpoints, unless they are due earlier.
#[operation(
    kind = "batch",
    action = "update",
    filter = (id.one_of(param(ids)) && (due_at.is_none() || due_at > param(due_at))),
    set(due_at = param(due_at)),
    route(disabled),
)]
pub(crate) const WAKE: Operation<WebhookEndpoint>;

/// Locks endpoints until the end of the transaction, and returns them. The status of an endpoint
/// decides whether deliveries are written, so it must not change before the commit.
#[operation(
    kind = "batch",
    action = "update",
    filter = (id.one_of(param(ids))),
    set(written_at = now()),
    limit = 200,
    sort = asc(id),
    returns = "records",
)]
pub(crate) const LOCK: Operation<WebhookEndpoint>;

/// The body that is sent for an event.
#[entity(
    namespace = "webhooks",
    path = "messages",
    tenant(tenant_id, optional),
    ttl(expires_at),
    routes(disabled)
)]
#[derive(Clone, Debug)]
pub(crate) struct WebhookMessage {
    /// `msg_` and the id of the event without hyphens.
    #[field(primary)]
    pub(crate) id: String,
    pub(crate) tenant_id: Option<String>,
    pub(crate) event: String,
    pub(crate) event_id: String,
    pub(crate) occurred_at: Timestamp,
    /// The body that is sent, as text. A JSON column would change the order of members, and so the
    /// signature.
    pub(crate) body: String,
    #[field(default = false)]
    pub(crate) truncated: bool,
    #[field(default = 1)]
    pub(crate) version: i64,
    /// Whether the message was written to test an endpoint. A recovery does not send it.
    #[field(default = false)]
    pub(crate) is_test: bool,
    pub(crate) expires_at: Option<Timestamp>,
}

/// The state of a delivery.
#[derive(FieldEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeliveryStatus {
    /// Not tried yet.
    Pending,
    /// The endpoint answered 2xx.
    Delivered,
    /// An attempt failed; another one follows.
    Failed,
    /// No attempt follows, unless a manager replays the delivery.
    Dead,
    /// It ended early, because its endpoint was deleted or its message was removed.
    Cancelled,
}

/// The reason why a delivery is dead, cancelled or held.
#[derive(FieldEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeliveryReason {
    /// Every attempt failed.
    Exhausted,
    /// The endpoint answered `webhook-delivery: abort-message`.
    Aborted,
    /// The endpoint answered 410.
    Gone,
    /// The address of the endpoint is not public.
    BlockedAddress,
    /// The endpoint was deleted.
    EndpointDeleted,
    /// The endpoint is paused or disabled.
    EndpointDisabled,
    /// Its message was removed, so there is nothing to send.
    MessageMissing,
}

/// The reason for an attempt.
#[derive(FieldEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trigger {
    /// By the schedule.
    Schedule,
    /// A manager replayed the delivery.
    Replay,
    /// A manager recovered the endpoint.
    Recover,
    /// A manager tested the endpoint.
    Test,
}

/// The delivery of one message to one endpoint.
#[entity(
    namespace = "webhooks",
    path = "deliveries",
    tenant(tenant_id, optional),
    unique(message_id, endpoint_id),
    index(endpoint_id, next_retry_at),
    index(endpoint_id, created_at),
    ttl(expires_at),
    version(required_on_write = false),
    sort = desc(created_at),
    routes(
        auth = "userAuth",
        guards(manage_webhooks),
        list(paging = "page"),
        get(disabled),
        create(disabled),
        update(disabled),
        delete(disabled),
    )
)]
#[derive(Clone, Debug)]
pub struct WebhookDelivery {
    /// The id.
    #[field(primary, default = uuid)]
    pub id: String,
    /// The tenant of the endpoint.
    pub tenant_id: Option<String>,
    /// The endpoint.
    #[field(filterable)]
    pub endpoint_id: String,
    /// The id of the message. Receivers recognize repeated deliveries by it.
    pub message_id: String,
    /// The name of the event.
    #[field(filterable)]
    pub event: String,
    /// The id of the event.
    pub event_id: String,
    /// The time of the event.
    pub occurred_at: Timestamp,
    /// The state.
    #[field(filterable, default = DeliveryStatus::Pending)]
    pub status: DeliveryStatus,
    /// Why it is dead, cancelled or held.
    pub reason: Option<DeliveryReason>,
    /// The attempts so far.
    #[field(default = 0)]
    pub attempts: i64,
    /// The maximum number of attempts.
    pub max_attempts: i64,
    /// The time of the next attempt; none while the delivery is held or ended.
    pub next_retry_at: Option<Timestamp>,
    /// The time of the last attempt.
    pub last_attempt_at: Option<Timestamp>,
    /// The time at which the endpoint accepted the message.
    pub delivered_at: Option<Timestamp>,
    /// The newest attempt, without the body of the response.
    pub last_attempt: Option<Json>,
    /// Whether it was sent to test the endpoint.
    #[field(default = false)]
    pub is_test: bool,
    /// The reason for its attempts.
    #[field(private, default = Trigger::Schedule)]
    pub trigger: Trigger,
    /// When it is removed.
    #[field(private)]
    pub expires_at: Option<Timestamp>,
    /// When it was created.
    #[field(default = now)]
    pub created_at: Timestamp,
    /// When it was last changed.
    #[field(default = now, on_update = now)]
    pub updated_at: Timestamp,
}

/// Ends the deliveries of a deleted endpoint.
#[operation(
    kind = "batch",
    action = "update",
    filter = (endpoint_id == param(endpoint_id)
        && (status == DeliveryStatus::Pending || status == DeliveryStatus::Failed)),
    set(status = DeliveryStatus::Cancelled, reason = DeliveryReason::EndpointDeleted, next_retry_at = None),
    route(disabled),
)]
pub(crate) const CANCEL: Operation<WebhookDelivery>;

/// Holds the deliveries of an endpoint that was paused or disabled.
#[operation(
    kind = "batch",
    action = "update",
    filter = (endpoint_id == param(endpoint_id) && next_retry_at.is_some()),
    set(next_retry_at = None, reason = DeliveryReason::EndpointDisabled),
    route(disabled),
)]
pub(crate) const HOLD: Operation<WebhookDelivery>;

/// Releases held deliveries of an endpoint that are not too old.
#[operation(
    kind = "batch",
    action = "update",
    filter = (endpoint_id == param(endpoint_id) && next_retry_at.is_none()
        && reason == DeliveryReason::EndpointDisabled && occurred_at >= param(since)
        && (status == DeliveryStatus::Pending || status == DeliveryStatus::Failed)),
    set(next_retry_at = now(), reason = None),
    route(disabled),
)]
pub(crate) const RELEASE: Operation<WebhookDelivery>;

/// Makes ended and held deliveries of an endpoint due again.
#[operation(
    kind = "batch",
    action = "update",
    filter = (endpoint_id == param(endpoint_id) && message_id.one_of(param(messages))
        && (status == DeliveryStatus::Dead || status == DeliveryStatus::Cancelled
            || status == DeliveryStatus::Delivered
            || reason == DeliveryReason::EndpointDisabled)),
    set(status = DeliveryStatus::Pending, reason = None, attempts = 0, next_retry_at = now(),
        delivered_at = None, trigger = Trigger::Recover),
    route(disabled),
)]
pub(crate) const RESET: Operation<WebhookDelivery>;

/// The reason for the failure of an attempt.
#[derive(FieldEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// The name of the host cannot be resolved.
    Dns,
    /// The URL or an address of its host is forbidden.
    BlockedAddress,
    /// The host accepts no connection.
    Connect,
    /// The TLS certificate is invalid, or the TLS handshake failed.
    Tls,
    /// There was no complete answer in time.
    Timeout,
    /// The answer is not valid HTTP.
    Protocol,
    /// The answer is a redirect, which is not followed.
    Redirect,
    /// The status is not 2xx.
    Status,
    /// The lease ended during the attempt, so its result was not counted.
    LeaseLost,
}

/// One request for a delivery.
#[entity(
    namespace = "webhooks",
    path = "attempts",
    tenant(tenant_id, optional),
    index(delivery_id, number),
    ttl(expires_at),
    sort = desc(number),
    routes(
        auth = "userAuth",
        guards(manage_webhooks),
        list(paging = "page"),
        get(disabled),
        create(disabled),
        update(disabled),
        delete(disabled),
    )
)]
#[derive(Clone, Debug)]
pub struct WebhookAttempt {
    /// The id.
    #[field(primary, default = uuid)]
    pub id: String,
    /// The tenant of the endpoint.
    pub tenant_id: Option<String>,
    /// The delivery.
    #[field(filterable)]
    pub delivery_id: String,
    /// The number of the attempt, from 1.
    pub number: i64,
    /// When it began.
    pub started_at: Timestamp,
    /// How long it took, in milliseconds.
    pub duration_ms: i64,
    /// Why it was made.
    pub trigger: Trigger,
    /// The address.
    pub url: String,
    /// The address of the connection; only with `show_addresses`.
    pub address: Option<String>,
    /// The status of the answer.
    pub status_code: Option<i64>,
    /// Why it failed.
    pub error_kind: Option<ErrorKind>,
    /// A description of the failure.
    pub error: Option<String>,
    /// The first headers of the answer.
    pub response_headers: Option<Json>,
    /// The first 4,096 characters of the response body.
    pub response_body: Option<String>,
    /// When it is removed.
    #[field(private)]
    pub expires_at: Option<Timestamp>,
}

/// Endpoints, messages, deliveries and attempts.
pub(crate) static ENTITIES: Package = package!(
    name = "linchpin-webhooks",
    mount = "/webhooks",
    entities = [
        entity(
            WebhookEndpoint,
            [
                LEASE,
                RENEW,
                SUCCEED,
                FREE,
                BEGIN_RECOVERY,
                END_RECOVERY,
                WAKE,
                LOCK
            ]
        ),
        entity(WebhookMessage),
        entity(WebhookDelivery, [CANCEL, HOLD, RELEASE, RESET]),
        entity(WebhookAttempt),
    ],
);
