//! Workers: they lease endpoints with due deliveries, and send these.
//!
//! One worker at a time sends to an endpoint. So the rate, the order and the number of attempts at
//! the same time hold over all processes, and a slow endpoint takes no time from the others.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use linchpin::http::Clock;
use linchpin::seal::DataKeys;
use linchpin::{BoxFuture, Cx, Error, Result, Timestamp};
use linchpin_worker::Source;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::JoinSet;

use super::attempt::{Attempt, Content, Sender, timeout_of};
use super::flight::Records;
use super::outcome::{self, later, note};
use super::throttle::Bucket;
use crate::entity::{
    DeliveryStatus, EndpointStatus, Trigger, WebhookDelivery, WebhookEndpoint,
    WebhookEndpointPatch, WebhookMessage,
};
use crate::metrics;
use crate::plugin::WebhooksConfig;
use crate::secrets::Secrets;

/// How long a worker leads an endpoint without a sign of life.
const LEASE: Duration = Duration::from_mins(1);
/// The time that a lease must last beyond the longest attempt.
const BEYOND: Duration = Duration::from_secs(15);
/// How long attempts are kept.
const ATTEMPTS_KEPT: Duration = Duration::from_hours(30 * 24);

/// The parts that all workers of a process share.
pub(crate) struct Workers {
    pub(crate) records: Records,
    pub(crate) sender: Sender,
    pub(crate) keys: Arc<DataKeys>,
    pub(crate) config: WebhooksConfig,
    pub(crate) clock: Clock,
    /// Attempts of this process at the same time.
    pub(crate) slots: Semaphore,
    /// Wakes the worker after new deliveries.
    pub(crate) wake: Arc<Notify>,
}

/// A leased endpoint.
pub(crate) struct Leased {
    endpoint: WebhookEndpoint,
    token: String,
    until: Timestamp,
}

/// A delivery under way, or its result.
struct Flight {
    delivery: WebhookDelivery,
    attempt: Attempt,
}

impl Source for Workers {
    type Item = Leased;

    fn name(&self) -> &'static str {
        "webhooks"
    }

    fn at_once(&self) -> usize {
        self.config.workers
    }

    fn claim(&self) -> BoxFuture<'_, Result<Vec<Leased>>> {
        Box::pin(self.lease())
    }

    fn run(
        self: Arc<Self>,
        leased: Leased,
        stopped: watch::Receiver<bool>,
    ) -> BoxFuture<'static, ()> {
        Box::pin(self.serve(leased, stopped))
    }
}

impl Workers {
    fn now(&self) -> Timestamp {
        (self.clock)()
    }

    fn cx(&self) -> Cx {
        Cx::system("deliveries of webhooks").at(self.now())
    }

    /// Leases some endpoints with due deliveries.
    async fn lease(&self) -> Result<Vec<Leased>> {
        let (token, now) = (linchpin::Uuid::new_v7().to_string(), self.now());
        let until = later(now, LEASE);
        let endpoints = self
            .records
            .endpoints
            .lease(&self.cx(), token.clone(), until)
            .await?;
        let leased = endpoints.into_iter().map(|endpoint| Leased {
            endpoint,
            token: token.clone(),
            until,
        });
        Ok(leased.collect())
    }

    /// Sends the due deliveries of an endpoint, then frees it.
    async fn serve(self: Arc<Self>, mut leased: Leased, stopped: watch::Receiver<bool>) {
        let sent = self.send_due(&mut leased, &stopped).await;
        if let Err(error) = sent {
            // The endpoint is free again after its lease.
            tracing::warn!(%error, endpoint = leased.endpoint.id, "deliveries of an endpoint stopped; they go on after its lease");
        }
    }

    async fn send_due(
        self: &Arc<Self>,
        leased: &mut Leased,
        stopped: &watch::Receiver<bool>,
    ) -> Result<()> {
        let secrets = Secrets::open(&self.keys, &leased.endpoint.id, &leased.endpoint.sealed);
        let mut secrets = match secrets {
            Ok(secrets) => Arc::new(secrets),
            Err(error) => return self.skip(leased, &error).await,
        };
        // Tasks, so that requests go on while results are written.
        let mut flights = JoinSet::new();
        let mut under_way: HashSet<String> = HashSet::new();
        let mut rate_free_at = None;
        loop {
            let most = self.most_in_flight(&leased.endpoint);
            let held = leased
                .endpoint
                .held_until
                .is_some_and(|until| until > self.now());
            if under_way.len() < most && !held && !*stopped.borrow() && rate_free_at.is_none() {
                let Some(endpoint) = self.refreshed(leased).await? else {
                    return Ok(());
                };
                if endpoint.sealed != leased.endpoint.sealed {
                    secrets = Arc::new(Secrets::open(&self.keys, &endpoint.id, &endpoint.sealed)?);
                }
                leased.endpoint = endpoint;
                let found = self.due(leased, &under_way, most).await?;
                let now = self.now();
                let endpoint = &mut leased.endpoint;
                let mut bucket = Bucket::new(
                    endpoint.max_per_second,
                    endpoint.allowance,
                    endpoint.allowance_at,
                    now,
                );
                for (delivery, message) in found {
                    if !bucket.take(now) {
                        rate_free_at = Some(bucket.free_at());
                        break;
                    }
                    under_way.insert(delivery.id.clone());
                    let (worker, secrets) = (Arc::clone(self), Arc::clone(&secrets));
                    flights.spawn(worker.fly(endpoint.clone(), secrets, delivery, message));
                }
                let (allowance, at) = bucket.stored();
                (endpoint.allowance, endpoint.allowance_at) = (allowance, Some(at));
            }
            let renewal = tokio::time::sleep(LEASE / 3);
            let first = tokio::select! {
                first = flights.join_next() => first,
                () = renewal => {
                    if !self.renew(leased).await? {
                        return Ok(());
                    }
                    continue;
                }
            };
            let Some(first) = first else { break };
            let mut done = vec![first.map_err(Error::internal)?];
            while let Some(flight) = flights.try_join_next() {
                done.push(flight.map_err(Error::internal)?);
            }
            for flight in &done {
                under_way.remove(&flight.delivery.id);
            }
            if !self.settle(leased, done).await? {
                // Another worker has taken the endpoint over: it sends the rest.
                let mut rest = Vec::new();
                while let Some(flight) = flights.join_next().await {
                    rest.extend(flight);
                }
                self.too_late(rest).await;
                return Ok(());
            }
        }
        self.free(leased, rate_free_at).await
    }

    /// The most attempts at the same time. One endpoint never takes all slots of the process.
    fn most_in_flight(&self, endpoint: &WebhookEndpoint) -> usize {
        if endpoint.ordered {
            return 1;
        }
        let own = usize::try_from(endpoint.max_in_flight).unwrap_or(1);
        own.min(self.config.workers.div_ceil(2)).max(1)
    }

    /// The present state of a leased endpoint; `None` if it was deleted. Its facts about attempts stay
    /// those of this worker, which alone changes them.
    async fn refreshed(&self, leased: &Leased) -> Result<Option<WebhookEndpoint>> {
        let Some(endpoint) = self
            .records
            .endpoints
            .get(&self.cx(), leased.endpoint.id.as_str())
            .await?
        else {
            return Ok(None);
        };
        Ok(Some(WebhookEndpoint {
            allowance: leased.endpoint.allowance,
            allowance_at: leased.endpoint.allowance_at,
            ..endpoint
        }))
    }

    /// Due deliveries that are not under way, with their messages.
    async fn due(
        &self,
        leased: &Leased,
        under_way: &HashSet<String>,
        most: usize,
    ) -> Result<Vec<(WebhookDelivery, WebhookMessage)>> {
        if leased.endpoint.status != EndpointStatus::Active {
            return Ok(Vec::new());
        }
        let cx = self.cx();
        let mut due = self
            .records
            .due(&cx, &leased.endpoint, self.now(), most + under_way.len())
            .await?;
        due.retain(|delivery| !under_way.contains(&delivery.id));
        due.truncate(most - under_way.len());
        if due.is_empty() {
            return Ok(Vec::new());
        }
        let messages = self.records.messages(&cx, &due).await?;
        let mut with_message = Vec::with_capacity(due.len());
        for delivery in due {
            let mut of_delivery = messages.iter();
            match of_delivery.find(|message| message.id == delivery.message_id) {
                Some(message) => with_message.push((delivery, message.clone())),
                None => self.records.cancel_lost(&cx, &delivery).await?,
            }
        }
        Ok(with_message)
    }

    async fn fly(
        self: Arc<Self>,
        endpoint: WebhookEndpoint,
        secrets: Arc<Secrets>,
        delivery: WebhookDelivery,
        message: WebhookMessage,
    ) -> Flight {
        let slot = self.slots.acquire().await;
        let content = Content {
            message: &message.id,
            event: &message.event,
            event_id: &message.event_id,
            occurred_at: message.occurred_at,
            body: &message.body,
            truncated: message.truncated,
            delivery: &delivery.id,
            number: delivery.attempts + 1,
            is_test: delivery.is_test,
        };
        let attempt = self
            .sender
            .send(&endpoint, &secrets, content, self.now())
            .await;
        drop(slot);
        Flight { delivery, attempt }
    }

    /// Extends a lease; returns whether it still was this worker's.
    async fn renew(&self, leased: &mut Leased) -> Result<bool> {
        self.renew_with(&self.cx(), leased).await
    }

    async fn renew_with(&self, cx: &Cx, leased: &mut Leased) -> Result<bool> {
        let lease = LEASE.max(timeout_of(&leased.endpoint) + BEYOND);
        let until = later(self.now(), lease);
        let (id, token) = (leased.endpoint.id.clone(), leased.token.clone());
        let held = self.records.endpoints.renew(cx, id, token, until).await? > 0;
        if held {
            leased.until = until;
        }
        Ok(held)
    }

    /// Writes results, unless the lease was lost. Returns whether it is still this worker's.
    async fn settle(&self, leased: &mut Leased, done: Vec<Flight>) -> Result<bool> {
        let cx = self.cx();
        let held = cx
            .transaction(async |cx| {
                if !self.renew_with(cx, leased).await? {
                    return Ok(false);
                }
                let mut disabled = None;
                for flight in &done {
                    disabled = self.settle_one(cx, leased, flight).await?.or(disabled);
                }
                self.store_facts(cx, &leased.endpoint).await?;
                if let Some(reason) = disabled {
                    cx.after_commit(move || metrics::disabled(reason));
                    self.announce_disabled(cx, &leased.endpoint, reason).await?;
                    self.records
                        .disable(cx, &leased.endpoint, reason, self.now())
                        .await?;
                }
                Ok(true)
            })
            .await?;
        if !held {
            self.too_late(done).await;
        }
        Ok(held)
    }

    async fn settle_one(
        &self,
        cx: &Cx,
        leased: &mut Leased,
        Flight { delivery, attempt }: &Flight,
    ) -> Result<Option<crate::entity::DisabledReason>> {
        let (now, number) = (self.now(), delivery.attempts + 1);
        let next = outcome::next(&self.config, delivery, attempt, number, now);
        self.records
            .settle(cx, delivery, attempt, (number, next), now)
            .await?;
        let kept = later(now, ATTEMPTS_KEPT);
        self.records
            .record(cx, delivery, attempt, (number, delivery.trigger), kept)
            .await?;
        let (ended, trigger) = ((attempt.kind(), attempt.duration), delivery.trigger);
        cx.after_commit(move || metrics::attempted(ended, trigger, next));
        if next.status == DeliveryStatus::Dead {
            self.announce_dead(cx, &leased.endpoint, delivery, next.reason)
                .await?;
        }
        let counts = delivery.trigger != Trigger::Replay;
        Ok(note(
            &self.config,
            &mut leased.endpoint,
            (attempt, counts),
            now,
        ))
    }

    /// Writes the facts of an endpoint that attempts change.
    async fn store_facts(&self, cx: &Cx, endpoint: &WebhookEndpoint) -> Result<()> {
        let patch = WebhookEndpointPatch {
            failing_since: Some(endpoint.failing_since),
            last_success_at: Some(endpoint.last_success_at),
            last_failure_at: Some(endpoint.last_failure_at),
            consecutive_failures: Some(endpoint.consecutive_failures),
            blocked_in_a_row: Some(endpoint.blocked_in_a_row),
            held_until: Some(endpoint.held_until),
            allowance: Some(endpoint.allowance),
            allowance_at: Some(endpoint.allowance_at),
            ..WebhookEndpointPatch::default()
        };
        self.records
            .endpoints
            .update(cx, endpoint.id.as_str(), patch, None)
            .await
            .map(drop)
    }

    /// Records attempts whose lease has ended: their results are not counted.
    async fn too_late(&self, flights: Vec<Flight>) {
        let (cx, now) = (self.cx(), self.now());
        for Flight {
            delivery,
            mut attempt,
        } in flights
        {
            metrics::too_late(delivery.trigger);
            let text = "the lease ended during the attempt".to_owned();
            attempt.error = Some((crate::entity::ErrorKind::LeaseLost, text));
            let kept = later(now, ATTEMPTS_KEPT);
            let number = (delivery.attempts + 1, delivery.trigger);
            if let Err(error) = self
                .records
                .record(&cx, &delivery, &attempt, number, kept)
                .await
            {
                tracing::warn!(%error, delivery = delivery.id, "a late attempt was not recorded");
            }
        }
    }

    /// Frees an endpoint until its next delivery is due.
    async fn free(&self, leased: &Leased, rate_free_at: Option<Timestamp>) -> Result<()> {
        let endpoint = &leased.endpoint;
        self.cx()
            .transaction(async |cx| {
                let (id, token) = (endpoint.id.clone(), leased.token.clone());
                // The row is locked from here on, so new deliveries make it due after this commit.
                if self.records.endpoints.free(cx, id, token).await? == 0 {
                    return Ok(());
                }
                self.store_facts(cx, endpoint).await?;
                let next = self.records.next_due(cx, endpoint).await?;
                let Some(next) = next else { return Ok(()) };
                let holds = [rate_free_at, endpoint.held_until];
                let due = holds.into_iter().flatten().fold(next, Timestamp::max);
                self.records
                    .endpoints
                    .wake(cx, vec![endpoint.id.clone()], due)
                    .await
                    .map(drop)
            })
            .await
    }

    /// Leaves an endpoint whose secrets cannot be read. It is tried again after a minute.
    async fn skip(&self, leased: &Leased, error: &Error) -> Result<()> {
        tracing::error!(%error, endpoint = leased.endpoint.id, "the secrets of an endpoint cannot be decrypted, so nothing is sent to it");
        let again = later(self.now(), LEASE);
        self.free(leased, Some(again)).await
    }
}
