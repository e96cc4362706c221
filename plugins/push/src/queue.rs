//! The queue: writes messages for the workers.

use std::sync::Arc;
use std::time::Duration;

use linchpin::entity::ListQuery;
use linchpin::{BoxFuture, Cx, Field, Result, Uuid};
use linchpin_worker::later;
use tokio::sync::Notify;

use crate::entity::{
    DeliveryReason, DeliveryStatus, PushDeliveryCreate, SubscriptionStatus, push_delivery,
};
use crate::message::PushMessage;
use crate::records::Records;

/// The record of a message is kept for this long after the message has expired.
const RETENTION: Duration = Duration::from_hours(7 * 24);

/// Sends messages to the browsers of users. [`PushQueue`] implements it. Packages that notify users
/// accept any implementation.
pub trait PushSender: Send + Sync + 'static {
    /// Writes a message for every active browser of its user, in the transaction of `cx` if there
    /// is one. Returns the number of browsers.
    ///
    /// # Errors
    /// The errors of the store.
    fn send<'a>(&'a self, cx: &'a Cx, message: &'a PushMessage) -> BoxFuture<'a, Result<usize>>;
}

/// Writes messages for browsers. Handlers get it with `adapters.provided::<PushQueue>()`.
#[derive(Clone, Debug)]
pub struct PushQueue {
    pub(crate) records: Records,
    pub(crate) wake: Arc<Notify>,
}

impl PushQueue {
    /// Writes a message for every active browser of its user, in the transaction of `cx` if there
    /// is one. Workers send it after the commit. A waiting message of the same
    /// [key](PushMessage::dedup_key) is replaced. Returns the number of browsers.
    ///
    /// # Errors
    /// The errors of the store; `conflict` if another call writes the same
    /// [event](PushMessage::event) at the same time.
    pub async fn send(&self, cx: &Cx, message: &PushMessage) -> Result<usize> {
        let cx = cx.as_system("messages to browsers");
        cx.transaction(async |cx| self.write(cx, message).await)
            .await
    }

    async fn write(&self, cx: &Cx, message: &PushMessage) -> Result<usize> {
        let active = Some(SubscriptionStatus::Active);
        let mut subscriptions = self.records.of_user(cx, &message.user, active).await?;
        if let Some(event) = &message.event_id {
            let same = ListQuery::new()
                .filter(push_delivery::event_id.eq(event.clone()))
                .filter(push_delivery::user_id.eq(message.user.clone()))
                .limit(u32::MAX);
            let known = self.records.deliveries.list(cx, same).await?.items;
            subscriptions.retain(|one| !known.iter().any(|known| known.subscription_id == one.id));
        }
        if subscriptions.is_empty() {
            return Ok(0);
        }
        let ids: Vec<String> = subscriptions.iter().map(|one| one.id.clone()).collect();
        let topic = message.topic();
        if let Some(topic) = &topic {
            self.records
                .deliveries
                .replace(cx, ids.clone(), topic.as_str())
                .await?;
        }
        let due_at = message.at.unwrap_or_else(|| cx.now()).max(cx.now());
        let ttl = message.ttl_seconds();
        let expires_at = later(due_at, Duration::from_secs(ttl.unsigned_abs()));
        let new_event = Uuid::new_v7().to_string();
        for subscription in &subscriptions {
            let id = Uuid::new_v7().to_string();
            let json = message.json(&id);
            let fits = json.is_some();
            let record = PushDeliveryCreate {
                id,
                user_id: message.user.clone(),
                subscription_id: subscription.id.clone(),
                notification_id: message.notification_id.clone(),
                event_id: message
                    .event_id
                    .clone()
                    .unwrap_or_else(|| new_event.clone()),
                topic: topic.clone(),
                urgency: message.urgency(),
                ttl,
                expires_at,
                status: (!fits).then_some(DeliveryStatus::Dead),
                reason: (!fits).then_some(DeliveryReason::PayloadTooLarge),
                attempts: None,
                next_retry_at: fits.then_some(due_at),
                provider_status: None,
                sent_at: None,
                delivered_at: None,
                message: Some(json.unwrap_or_default()),
                kept_until: Some(later(expires_at, RETENTION)),
            };
            let tenant_cx = match subscription.tenant_id.as_deref() {
                Some(tenant) => cx.clone().within(push_delivery::tenant_id, tenant),
                None => cx.clone(),
            };
            self.records.deliveries.create(&tenant_cx, record).await?;
        }
        self.records.subscriptions.wake(cx, ids, due_at).await?;
        let wake = Arc::clone(&self.wake);
        cx.after_commit(move || wake.notify_one());
        Ok(subscriptions.len())
    }
}

impl PushSender for PushQueue {
    fn send<'a>(&'a self, cx: &'a Cx, message: &'a PushMessage) -> BoxFuture<'a, Result<usize>> {
        Box::pin(self.send(cx, message))
    }
}
