//! Workers: they lease subscriptions with due messages, and send these.

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
    DeliveryReason, DeliveryStatus, PushDelivery, PushDeliveryPatch, PushSubscription,
    SubscriptionStatus,
};
use crate::metrics;
use crate::plugin::{Waiting, Wanted};
use crate::records::{Records, receiver};
use crate::sender::{Attempt, Outcome, Sender, postponed};

/// How long a worker has a subscription: longer than the longest requests to it and the writes of
/// their results.
const LEASE: Duration = Duration::from_mins(1);
/// The most messages to a browser at the same time.
const AT_ONCE: u32 = 8;

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

    fn claim(&self) -> BoxFuture<'_, Result<Vec<Leased>>> {
        Box::pin(async {
            let (cx, token) = (self.cx(), linchpin::Uuid::new_v7().to_string());
            let until = later(cx.now(), LEASE);
            let found = self
                .records
                .subscriptions
                .lease(&cx, token.clone(), until)
                .await?;
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
                // It is free again after its lease.
                tracing::warn!(%error, subscription = id, "messages to a browser stopped; they go on after the lease");
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

    /// Sends the due messages of a subscription, then frees it.
    async fn serve(&self, leased: Leased) -> Result<()> {
        let cx = self.cx();
        let due = self.records.due(&cx, &leased.subscription, AT_ONCE).await?;
        // It may have been suspended or removed since the lease began.
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
                // The other messages are sent, and their results written.
                tracing::warn!(%error, delivery = delivery.id, "a message to a browser is postponed");
                postponed(self.now())
            })
        });
        let attempts = join_all(attempts).await;
        let done = due.into_iter().zip(attempts).collect();
        self.free(&leased, &subscription, done).await
    }

    /// Sends a message, if it is still wanted.
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

    /// Whether messages may be sent to a subscription now. One whose key or session has ended is
    /// suspended.
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

    /// Writes results and ends the lease, unless it was lost.
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
            // The row is locked from here on, so new messages make it due after this commit.
            let freed = if done.iter().any(|(_, one)| one.outcome == Outcome::Sent) {
                subscriptions.free_sent(cx, id, token).await?
            } else {
                let failures = done.iter().filter(|(_, one)| one.outcome.counts()).count();
                let failures = i64::try_from(failures).unwrap_or(i64::MAX);
                let count = subscription.failure_count.saturating_add(failures);
                subscriptions.free(cx, id, token, count).await?
            };
            if freed == 0 {
                // Another worker has it, or it was removed: that worker's results count.
                return Ok(());
            }
            let mut held = None;
            for (delivery, attempt) in &done {
                self.write(cx, delivery, *attempt).await?;
                let attempt = *attempt;
                cx.after_commit(move || metrics::attempted(attempt));
                match attempt.outcome {
                    Outcome::Held(until) => held = held.max(Some(until)),
                    Outcome::Dead(DeliveryReason::Gone) => {
                        let (user, key) = (&subscription.user_id, &subscription.p256dh);
                        let gone = subscriptions.gone(cx, id, user.as_str(), key.as_str());
                        // With new keys it is another browser, whose messages wait.
                        if gone.await? > 0 {
                            self.records.deliveries.abandon(cx, id).await?;
                        }
                    }
                    _ => {}
                }
            }
            if let Some(next) = self.records.next_due(cx, subscription).await? {
                let due = held.map_or(next, |held| next.max(held));
                subscriptions.wake(cx, vec![id.to_owned()], due).await?;
            }
            let origin = subscription.origin.as_str();
            if let Some(until) = held
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
            // A newer message has replaced it during the attempt.
            Err(error) if matches!(error.code(), Code::PreconditionFailed | Code::NotFound) => {
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}
