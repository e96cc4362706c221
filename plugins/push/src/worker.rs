//! Workers: they lease subscriptions with due messages, and send the messages.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use linchpin::http::{Clock, Credentials};
use linchpin::seal::DataKeys;
use linchpin::{BoxFuture, Code, Cx, Result, Timestamp};
use linchpin_worker::{Source, later};
use tokio::sync::{Notify, watch};

use crate::config::PushConfig;
use crate::crypto::Receiver;
use crate::entity::{
    DeliveryReason, DeliveryStatus, MAX_LEASED, PushDelivery, PushDeliveryPatch, PushSubscription,
    SubscriptionStatus,
};
use crate::metrics;
use crate::plugin::{Waiting, Wanted};
use crate::records::{Records, receiver};
use crate::sender::{Attempt, Outcome, Sender, postponed};

/// The lease time of a subscription. It is longer than the request timeout (10 s) and the writes of
/// the results together.
const LEASE: Duration = Duration::from_mins(1);
/// The maximum number of concurrent messages to a browser.
const MAX_CONCURRENT_MESSAGES: u32 = 8;

/// The parts that all workers of a process share.
pub(crate) struct Workers {
    pub(crate) records: Records,
    pub(crate) sender: Sender,
    pub(crate) keys: Arc<DataKeys>,
    pub(crate) config: PushConfig,
    pub(crate) clock: Clock,
    pub(crate) credentials: Option<Arc<dyn Credentials>>,
    pub(crate) wanted: Option<Wanted>,
    /// Wakes the worker after new messages.
    pub(crate) wake: Arc<Notify>,
}

/// A leased subscription.
pub(crate) struct Leased {
    subscription: PushSubscription,
    token: String,
}

impl Source for Workers {
    type Item = Leased;

    fn name(&self) -> &'static str {
        "push"
    }

    fn at_once(&self) -> usize {
        self.config.workers
    }

    fn claim(&self, free: usize) -> BoxFuture<'_, Result<Vec<Leased>>> {
        Box::pin(async move {
            let (cx, token) = (self.cx(), linchpin::Uuid::new_v7().to_string());
            let until = later(cx.now(), LEASE);
            let subscriptions = &self.records.subscriptions;
            let found = if free < MAX_LEASED {
                subscriptions.lease_one(&cx, token.clone(), until).await?
            } else {
                subscriptions.lease(&cx, token.clone(), until).await?
            };
            let leased = found.into_iter().map(|subscription| Leased {
                subscription,
                token: token.clone(),
            });
            Ok(leased.collect())
        })
    }

    fn run(self: Arc<Self>, leased: Leased, _: watch::Receiver<bool>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let id = leased.subscription.id.clone();
            if let Err(error) = self.serve(leased).await {
                // The lease ends by itself; then a worker tries again.
                tracing::warn!(
                    %error,
                    subscription = id,
                    "sending messages to a browser failed; a worker tries again after the lease ends"
                );
            }
        })
    }
}

impl Workers {
    fn now(&self) -> Timestamp {
        (self.clock)()
    }

    fn cx(&self) -> Cx {
        Cx::system("messages to browsers").at(self.now())
    }

    /// Sends the due messages of a subscription, then ends the lease.
    async fn serve(&self, leased: Leased) -> Result<()> {
        let cx = self.cx();
        let due = self
            .records
            .due(&cx, &leased.subscription, MAX_CONCURRENT_MESSAGES)
            .await?;
        // The subscription may have been suspended or removed since the lease began.
        let id = leased.subscription.id.as_str();
        let Some(subscription) = self.records.subscriptions.get(&cx, id).await? else {
            return Ok(());
        };
        if !self.may_send(&cx, &subscription).await? {
            return self.free(&leased, &subscription, Vec::new()).await;
        }
        let receiver = receiver(&self.keys, &subscription)?;
        let attempts = due.iter().map(async |delivery| {
            let attempt = self.attempt(&cx, &subscription, &receiver, delivery);
            attempt.await.unwrap_or_else(|error| {
                // One failed message must not stop the others.
                tracing::warn!(%error, delivery = delivery.id, "a message to a browser is postponed");
                postponed(self.now())
            })
        });
        let attempts = join_all(attempts).await;
        let done = due.into_iter().zip(attempts).collect();
        self.free(&leased, &subscription, done).await
    }

    /// Sends a message, unless `Push::wanted` returns `false` for it.
    async fn attempt(
        &self,
        cx: &Cx,
        subscription: &PushSubscription,
        receiver: &Receiver,
        delivery: &PushDelivery,
    ) -> Result<Attempt> {
        if !self.is_wanted(cx, delivery).await? {
            return Ok(Attempt {
                outcome: Outcome::Dead(DeliveryReason::Suppressed),
                status: None,
            });
        }
        let now = self.now();
        self.sender
            .send(&self.config, subscription, receiver, delivery, now)
            .await
    }

    /// Whether messages may be sent to a subscription now. A subscription is suspended if the app
    /// no longer has its key, or if `require_live_session` is set and its session is over.
    async fn may_send(&self, cx: &Cx, subscription: &PushSubscription) -> Result<bool> {
        if subscription.status != SubscriptionStatus::Active {
            return Ok(false);
        }
        let subscriptions = &self.records.subscriptions;
        let (user, kid) = (&subscription.user_id, &subscription.vapid_kid);
        if self.config.key(kid).is_none() {
            subscriptions.suspend_key(cx, kid.as_str()).await?;
            return Ok(false);
        }
        if let Some(credentials) = &self.credentials
            && let Some(session) = &subscription.session_id
            && self.config.require_live_session
            && !credentials.is_open(user, session).await?
        {
            subscriptions
                .suspend(cx, user.as_str(), session.as_str())
                .await?;
            return Ok(false);
        }
        Ok(true)
    }

    async fn is_wanted(&self, cx: &Cx, delivery: &PushDelivery) -> Result<bool> {
        let Some(wanted) = &self.wanted else {
            return Ok(true);
        };
        let waiting = Waiting {
            user: delivery.user_id.clone(),
            notification_id: delivery.notification_id.clone(),
            event_id: delivery.event_id.clone(),
        };
        wanted(cx.clone(), waiting).await
    }

    /// Writes results and ends the lease, unless another worker has taken it.
    async fn free(
        &self,
        leased: &Leased,
        subscription: &PushSubscription,
        done: Vec<(PushDelivery, Attempt)>,
    ) -> Result<()> {
        let cx = self.cx();
        cx.transaction(async |cx| {
            let subscriptions = &self.records.subscriptions;
            let (id, token) = (subscription.id.as_str(), leased.token.as_str());
            // This update locks the row. A new message can set the due time only after this commit.
            let freed = if done.iter().any(|(_, one)| one.outcome == Outcome::Sent) {
                subscriptions.free_sent(cx, id, token).await?
            } else {
                let failures = done.iter().filter(|(_, one)| one.outcome.counts()).count();
                let failures = i64::try_from(failures).unwrap_or(i64::MAX);
                let count = subscription.failure_count.saturating_add(failures);
                subscriptions.free(cx, id, token, count).await?
            };
            if freed == 0 {
                // Another worker has leased the subscription and writes its results, or the
                // subscription was removed.
                return Ok(());
            }
            let mut held_until = None;
            for (delivery, attempt) in &done {
                self.write(cx, delivery, *attempt).await?;
                let attempt = *attempt;
                cx.after_commit(move || metrics::attempted(attempt));
                match attempt.outcome {
                    Outcome::Held(until) => held_until = held_until.max(Some(until)),
                    Outcome::Dead(DeliveryReason::Gone) => {
                        let (user, key) = (&subscription.user_id, &subscription.p256dh);
                        let gone = subscriptions.gone(cx, id, user.as_str(), key.as_str());
                        // If the keys are new, the browser has renewed the subscription. Then the
                        // subscription and its messages are kept.
                        if gone.await? > 0 {
                            self.records.deliveries.abandon(cx, id).await?;
                        }
                    }
                    _ => {}
                }
            }
            if let Some(next) = self.records.next_due(cx, subscription).await? {
                let due = held_until.map_or(next, |until| next.max(until));
                subscriptions.wake(cx, vec![id.to_owned()], due).await?;
            }
            let origin = subscription.origin.as_str();
            if let Some(until) = held_until
                && self.sender.origins.hold(origin, until)
            {
                subscriptions.hold(cx, origin, until).await?;
            }
            Ok(())
        })
        .await
    }

    /// Writes the result of an attempt.
    async fn write(&self, cx: &Cx, delivery: &PushDelivery, attempt: Attempt) -> Result<()> {
        let counted = attempt.outcome.counts();
        let mut patch = PushDeliveryPatch {
            attempts: counted.then_some(delivery.attempts + 1),
            provider_status: attempt.status.map(|status| Some(i64::from(status))),
            ..PushDeliveryPatch::default()
        };
        match attempt.outcome {
            Outcome::Sent => {
                patch.status = Some(DeliveryStatus::Sent);
                patch.sent_at = Some(Some(cx.now()));
                patch.next_retry_at = Some(None);
                patch.message = Some(String::new());
            }
            Outcome::Dead(reason) => {
                patch.status = Some(DeliveryStatus::Dead);
                patch.reason = Some(Some(reason));
                patch.next_retry_at = Some(None);
                patch.message = Some(String::new());
            }
            Outcome::Again(at) => {
                patch.status = Some(DeliveryStatus::Failed);
                patch.next_retry_at = Some(Some(at));
            }
            Outcome::Held(at) | Outcome::Postponed(at) => patch.next_retry_at = Some(Some(at)),
        }
        let written =
            self.records
                .deliveries
                .update(cx, delivery.id.as_str(), patch, Some(delivery.version));
        match written.await {
            Ok(_) => Ok(()),
            // The message was replaced by a newer one or removed during the attempt.
            Err(error) if matches!(error.code(), Code::PreconditionFailed | Code::NotFound) => {
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}
