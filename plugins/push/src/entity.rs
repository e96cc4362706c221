//! The entities: subscriptions of browsers, and deliveries of messages to them.

use linchpin::prelude::*;

/// Whether a subscription gets messages.
#[derive(FieldEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum SubscriptionStatus {
    /// Messages are sent.
    Active,
    /// Its session has ended, or the app no longer has its VAPID key. The browser may subscribe
    /// again.
    Suspended,
}

/// A subscription of a browser of a user.
#[entity(
    namespace = "push",
    path = "subscriptions",
    tenant(tenant_id, optional),
    unique(endpoint, global),
    index(user_id, status, global),
    index(status, due_at, global),
    index(session_id, global),
    sort = desc(created_at),
    routes(disabled)
)]
#[derive(Clone, Debug)]
pub(crate) struct PushSubscription {
    #[field(primary)]
    pub(crate) id: String,
    pub(crate) tenant_id: Option<String>,
    pub(crate) user_id: String,
    /// The handle of the session that subscribed, or used the subscription last.
    pub(crate) session_id: Option<String>,
    /// The URL at the push service. Anyone who has it and the keys can send messages to the
    /// browser.
    #[field(private, length = 1..=2048)]
    pub(crate) endpoint: String,
    pub(crate) endpoint_host: String,
    /// Scheme, host and port of the endpoint URL.
    #[field(private)]
    pub(crate) origin: String,
    /// The public key of the browser.
    pub(crate) p256dh: String,
    /// The secret of the browser, encrypted.
    #[field(private)]
    pub(crate) auth: String,
    /// The id of the app's key that the browser subscribed with.
    pub(crate) vapid_kid: String,
    pub(crate) expiration_time: Option<Timestamp>,
    pub(crate) user_agent: Option<String>,
    #[field(default = SubscriptionStatus::Active)]
    pub(crate) status: SubscriptionStatus,
    /// The failures since the last success.
    #[field(default = 0)]
    pub(crate) failure_count: i64,
    pub(crate) last_success_at: Option<Timestamp>,
    /// The last time at which the browser subscribed or its push service accepted a message.
    pub(crate) used_at: Timestamp,
    /// The time at which the next message is due; `None` if no message waits.
    pub(crate) due_at: Option<Timestamp>,
    /// No message is sent before this time, because the push service has answered 429 or 503.
    pub(crate) held_until: Option<Timestamp>,
    /// Identifies the worker that sends to the browser. It is valid until `lease_until`.
    pub(crate) lease_token: Option<String>,
    pub(crate) lease_until: Option<Timestamp>,
    #[field(default = now)]
    pub(crate) created_at: Timestamp,
    #[field(default = now, on_update = now)]
    pub(crate) updated_at: Timestamp,
}

/// The most subscriptions that [`LEASE`] leases.
pub(crate) const MAX_LEASED: usize = 16;

/// Leases at most 16 subscriptions with due messages, oldest due time first.
#[operation(
    kind = "batch",
    action = "update",
    filter = (status == SubscriptionStatus::Active && due_at <= now()
        && (held_until.is_none() || held_until <= now())
        && (lease_until.is_none() || lease_until <= now())),
    set(lease_token = param(lease_token), lease_until = param(lease_until)),
    limit = 16,
    sort = asc(due_at),
    returns = "records",
)]
pub(crate) const LEASE: Operation<PushSubscription>;

/// Leases the subscription with the oldest due message.
#[operation(
    kind = "batch",
    action = "update",
    filter = (status == SubscriptionStatus::Active && due_at <= now()
        && (held_until.is_none() || held_until <= now())
        && (lease_until.is_none() || lease_until <= now())),
    set(lease_token = param(lease_token), lease_until = param(lease_until)),
    limit = 1,
    sort = asc(due_at),
    returns = "records",
)]
pub(crate) const LEASE_ONE: Operation<PushSubscription>;

/// Ends a lease in which no message was sent, unless another worker has taken it. Clears the due
/// time.
#[operation(
    kind = "batch",
    action = "update",
    filter = (id == param(id) && lease_token == param(held_token)),
    set(lease_token = None, lease_until = None, due_at = None, failure_count = param(failure_count)),
    route(disabled),
)]
pub(crate) const FREE: Operation<PushSubscription>;

/// Ends a lease in which a message was sent, unless another worker has taken it. Clears the due
/// time.
#[operation(
    kind = "batch",
    action = "update",
    filter = (id == param(id) && lease_token == param(held_token)),
    set(lease_token = None, lease_until = None, due_at = None, failure_count = 0, used_at = now(),
        last_success_at = now()),
    route(disabled),
)]
pub(crate) const FREE_SENT: Operation<PushSubscription>;

/// Sets the due time of subscriptions, unless they are due earlier.
#[operation(
    kind = "batch",
    action = "update",
    filter = (id.one_of(param(ids)) && (due_at.is_none() || due_at > param(due_at))),
    set(due_at = param(due_at)),
    route(disabled),
)]
pub(crate) const WAKE: Operation<PushSubscription>;

/// Sets `held_until` for the active subscriptions of a push service that have messages due before
/// that time. Other subscriptions are not written, because there may be millions of them.
#[operation(
    kind = "batch",
    action = "update",
    filter = (origin == param(origin) && status == SubscriptionStatus::Active
        && due_at <= param(held_until) && (held_until.is_none() || held_until < param(held_until))),
    set(held_until = param(held_until)),
    route(disabled),
)]
pub(crate) const HOLD: Operation<PushSubscription>;

/// Suspends the subscriptions of a session that has ended.
#[operation(
    kind = "batch",
    action = "update",
    filter = (user_id == param(user_id) && session_id == param(session_id)
        && status == SubscriptionStatus::Active),
    set(status = SubscriptionStatus::Suspended),
    route(disabled),
)]
pub(crate) const SUSPEND: Operation<PushSubscription>;

/// Suspends the subscriptions of a VAPID key that the app no longer has.
#[operation(
    kind = "batch",
    action = "update",
    filter = (vapid_kid == param(vapid_kid) && status == SubscriptionStatus::Active),
    set(status = SubscriptionStatus::Suspended),
    route(disabled),
)]
pub(crate) const SUSPEND_KEY: Operation<PushSubscription>;

/// Removes a subscription of a user.
#[operation(
    kind = "batch",
    action = "delete",
    filter = (user_id == param(user_id) && id == param(id)),
    route(disabled),
)]
pub(crate) const REMOVE: Operation<PushSubscription>;

/// Removes a subscription that its push service no longer knows, unless the browser has renewed it
/// with new keys.
#[operation(
    kind = "batch",
    action = "delete",
    filter = (id == param(id) && user_id == param(user_id) && p256dh == param(p256dh)),
    route(disabled),
)]
pub(crate) const GONE: Operation<PushSubscription>;

/// Removes all subscriptions of a deleted account.
#[operation(
    kind = "batch",
    action = "delete",
    filter = (user_id == param(user_id)),
    route(disabled),
)]
pub(crate) const FORGET: Operation<PushSubscription>;

/// The urgency of a message. To save its battery, a device may delay less urgent messages.
#[derive(FieldEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Urgency {
    /// It may wait until the device is in use.
    Low,
    /// It may wait for a short time.
    Normal,
    /// It wakes the device.
    High,
}

/// The state of a message to a browser.
#[derive(FieldEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeliveryStatus {
    /// Not tried yet.
    Pending,
    /// The push service has accepted it.
    Sent,
    /// The browser has shown it.
    Delivered,
    /// An attempt failed; another one follows.
    Failed,
    /// No attempt follows.
    Dead,
}

/// The reason why a message was not sent.
#[derive(FieldEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeliveryReason {
    /// The push service no longer knows the subscription (404 or 410).
    Gone,
    /// The message is longer than push services accept.
    PayloadTooLarge,
    /// The push service refused the sender or the request.
    Rejected,
    /// Its lifetime ended before it was sent.
    Expired,
    /// Every attempt failed.
    Exhausted,
    /// The address of the push service is not allowed, for example because it is private.
    BlockedAddress,
    /// `Push::wanted` returned `false` when the message was due.
    Suppressed,
}

/// The delivery of a message to one browser.
#[entity(
    namespace = "push",
    path = "deliveries",
    tenant(tenant_id, optional),
    unique(event_id, subscription_id),
    index(subscription_id, next_retry_at, global),
    index(user_id, global),
    ttl(kept_until),
    version(required_on_write = false),
    sort = desc(created_at),
    routes(disabled)
)]
#[derive(Clone, Debug)]
pub(crate) struct PushDelivery {
    #[field(primary)]
    pub(crate) id: String,
    pub(crate) tenant_id: Option<String>,
    pub(crate) user_id: String,
    pub(crate) subscription_id: String,
    pub(crate) notification_id: Option<String>,
    /// One event leads to at most one message for each browser.
    pub(crate) event_id: String,
    /// A newer message with the same topic replaces this one.
    pub(crate) topic: Option<String>,
    pub(crate) urgency: Urgency,
    /// The time for which the push service keeps the message, in seconds.
    pub(crate) ttl: i64,
    pub(crate) expires_at: Timestamp,
    #[field(default = DeliveryStatus::Pending)]
    pub(crate) status: DeliveryStatus,
    pub(crate) reason: Option<DeliveryReason>,
    #[field(default = 0)]
    pub(crate) attempts: i64,
    /// The time of the next attempt; none after the last one.
    pub(crate) next_retry_at: Option<Timestamp>,
    /// The HTTP status of the last response of the push service.
    pub(crate) provider_status: Option<i64>,
    pub(crate) sent_at: Option<Timestamp>,
    pub(crate) delivered_at: Option<Timestamp>,
    /// The message as JSON; empty after it was sent or given up.
    #[field(private, default = "")]
    pub(crate) message: String,
    /// The time at which the record is removed.
    pub(crate) kept_until: Option<Timestamp>,
    #[field(default = now)]
    pub(crate) created_at: Timestamp,
}

/// Removes waiting messages of a topic, before a newer one is written.
#[operation(
    kind = "batch",
    action = "delete",
    filter = (subscription_id.one_of(param(subscriptions)) && topic == param(topic)
        && (status == DeliveryStatus::Pending || status == DeliveryStatus::Failed)),
    route(disabled),
)]
pub(crate) const REPLACE: Operation<PushDelivery>;

/// Records that a browser has shown a message.
#[operation(
    kind = "batch",
    action = "update",
    filter = (id == param(id) && user_id == param(user_id) && status == DeliveryStatus::Sent),
    set(status = DeliveryStatus::Delivered, delivered_at = now()),
    route(disabled),
)]
pub(crate) const ACK: Operation<PushDelivery>;

/// Removes all messages to a user.
#[operation(
    kind = "batch",
    action = "delete",
    filter = (user_id == param(user_id)),
    route(disabled),
)]
pub(crate) const DROP: Operation<PushDelivery>;

/// Gives up the waiting messages to a subscription, because its push service no longer knows it.
#[operation(
    kind = "batch",
    action = "update",
    filter = (subscription_id == param(subscription_id) && next_retry_at.is_some()),
    set(status = DeliveryStatus::Dead, reason = DeliveryReason::Gone, next_retry_at = None,
        message = ""),
    route(disabled),
)]
pub(crate) const ABANDON: Operation<PushDelivery>;

/// Removes all messages to a browser.
#[operation(
    kind = "batch",
    action = "delete",
    filter = (subscription_id == param(subscription_id)),
    route(disabled),
)]
pub(crate) const DISCARD: Operation<PushDelivery>;

/// Subscriptions and deliveries.
pub(crate) static ENTITIES: Package = package!(
    name = "linchpin-push",
    mount = "/push",
    entities = [
        entity(
            PushSubscription,
            [
                LEASE,
                LEASE_ONE,
                FREE,
                FREE_SENT,
                WAKE,
                HOLD,
                SUSPEND,
                SUSPEND_KEY,
                REMOVE,
                GONE,
                FORGET
            ]
        ),
        entity(PushDelivery, [REPLACE, ACK, DROP, ABANDON, DISCARD]),
    ],
);
