//! The records that routes and workers read and write.

use linchpin::entity::{Direction, ListQuery};
use linchpin::filter::Filter;
use linchpin::seal::{DataKeys, Place};
use linchpin::{Adapters, Cx, Error, Field, Result, Timestamp};

use crate::crypto::{Receiver, decode};
use crate::entity::{
    PushDelivery, PushDeliveryAdapter, PushSubscription, PushSubscriptionAdapter,
    SubscriptionStatus, push_delivery, push_subscription,
};

/// The adapters of the entities.
#[derive(Clone, Debug)]
pub(crate) struct Records {
    pub(crate) subscriptions: PushSubscriptionAdapter,
    pub(crate) deliveries: PushDeliveryAdapter,
}

impl Records {
    /// The adapters of an app with the plugin.
    pub(crate) fn new(adapters: &Adapters) -> Result<Self> {
        Ok(Self {
            subscriptions: adapters.get::<PushSubscription>()?,
            deliveries: adapters.get::<PushDelivery>()?,
        })
    }

    /// The subscriptions of a user, least recently used first.
    pub(crate) async fn of_user(
        &self,
        cx: &Cx,
        user: &str,
        status: Option<SubscriptionStatus>,
    ) -> Result<Vec<PushSubscription>> {
        let mut query = ListQuery::new()
            .filter(push_subscription::user_id.eq(user.to_owned()))
            .sort(push_subscription::used_at, Direction::Asc)
            .limit(u32::MAX);
        if let Some(status) = status {
            query = query.filter(push_subscription::status.eq(status));
        }
        Ok(self.subscriptions.list(cx, query).await?.items)
    }

    /// The subscription with this endpoint URL.
    pub(crate) async fn by_endpoint(
        &self,
        cx: &Cx,
        endpoint: &str,
    ) -> Result<Option<PushSubscription>> {
        let query = ListQuery::new()
            .filter(push_subscription::endpoint.eq(endpoint.to_owned()))
            .limit(1);
        Ok(self.subscriptions.list(cx, query).await?.items.pop())
    }

    /// The due messages of a subscription, oldest first.
    pub(crate) async fn due(
        &self,
        cx: &Cx,
        subscription: &PushSubscription,
        limit: u32,
    ) -> Result<Vec<PushDelivery>> {
        let messages = of_subscription(subscription);
        let query = ListQuery::new()
            .filter(messages.and(push_delivery::next_retry_at.lte(cx.now())))
            .sort(push_delivery::next_retry_at, Direction::Asc)
            .limit(limit);
        Ok(self.deliveries.list(cx, query).await?.items)
    }

    /// The time at which the next message of a subscription is due.
    pub(crate) async fn next_due(
        &self,
        cx: &Cx,
        subscription: &PushSubscription,
    ) -> Result<Option<Timestamp>> {
        let messages = of_subscription(subscription);
        let query = ListQuery::new()
            .filter(messages.and(push_delivery::next_retry_at.ne(None)))
            .sort(push_delivery::next_retry_at, Direction::Asc)
            .limit(1);
        let first = self.deliveries.list(cx, query).await?.items.pop();
        Ok(first.and_then(|first| first.next_retry_at))
    }

    /// Removes a subscription of a user and the messages to it.
    pub(crate) async fn remove(&self, cx: &Cx, user: &str, id: &str) -> Result<()> {
        if self.subscriptions.remove(cx, user, id).await? > 0 {
            self.deliveries.discard(cx, id).await?;
        }
        Ok(())
    }
}

/// The messages to a subscription.
fn of_subscription(subscription: &PushSubscription) -> Filter {
    push_delivery::subscription_id.eq(subscription.id.clone())
}

/// The field and record in which the secret of a subscription is stored. Encryption binds the
/// secret to them.
pub(crate) fn auth_secret_location(subscription: &str) -> Place<'_> {
    Place::of(push_subscription::auth, subscription)
}

/// The keys of a subscription.
///
/// # Errors
/// `internal` if its secret cannot be decrypted.
pub(crate) fn receiver(keys: &DataKeys, subscription: &PushSubscription) -> Result<Receiver> {
    let auth = keys
        .open(auth_secret_location(&subscription.id), &subscription.auth)
        .map_err(Error::internal)?;
    let point = decode(&subscription.p256dh).unwrap_or_default();
    Receiver::new(&point, auth.expose())
        .map_err(|_| Error::internal("the keys of a subscription cannot be read"))
}
