//! The service of one leased endpoint: its due deliveries are sent, and their results written.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use linchpin::{Cx, Error, Result, Timestamp};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::attempt::{Attempt, Content, timeout_of};
use super::outcome::{self, Next, later, note};
use super::throttle::Bucket;
use super::worker::{ATTEMPTS_KEPT, BEYOND, LEASE, Leased, Workers};
use crate::entity::{
    DeliveryStatus, DisabledReason, EndpointStatus, Trigger, WebhookDelivery, WebhookEndpoint,
    WebhookEndpointPatch, WebhookMessage,
};
use crate::metrics;
use crate::secrets::Secrets;

/// How many rounds of attempts are read at once.
const ROUNDS: usize = 4;

/// A delivery under way, or its result.
pub(super) struct Flight {
    pub(super) delivery: WebhookDelivery,
    pub(super) attempt: Attempt,
}

/// The service of a leased endpoint.
struct Serving {
    workers: Arc<Workers>,
    leased: Leased,
    secrets: Arc<Secrets>,
    /// Due deliveries that were read and are not sent.
    queue: VecDeque<(WebhookDelivery, WebhookMessage)>,
    /// The ids of those that are sent.
    under_way: HashSet<String>,
    /// Tasks, so that requests go on while results are written.
    flights: JoinSet<Flight>,
    /// When the rate allows the next attempt, if it does not at present.
    rate_free_at: Option<Timestamp>,
}

impl Workers {
    /// Sends the due deliveries of an endpoint, then frees it.
    pub(super) async fn serve(self: Arc<Self>, leased: Leased, stopped: watch::Receiver<bool>) {
        let endpoint = leased.endpoint.id.clone();
        if let Err(error) = self.send_due(leased, &stopped).await {
            // The endpoint is free again after its lease.
            tracing::warn!(%error, endpoint, "deliveries of an endpoint stopped; they go on after its lease");
        }
    }

    async fn send_due(
        self: Arc<Self>,
        leased: Leased,
        stopped: &watch::Receiver<bool>,
    ) -> Result<()> {
        let secrets = match self.secrets(&leased.endpoint) {
            Ok(secrets) => secrets,
            Err(error) => return self.skip(&leased, &error).await,
        };
        let serving = Serving {
            workers: self,
            leased,
            secrets,
            queue: VecDeque::new(),
            under_way: HashSet::new(),
            flights: JoinSet::new(),
            rate_free_at: None,
        };
        serving.run(stopped).await
    }

    fn secrets(&self, endpoint: &WebhookEndpoint) -> Result<Arc<Secrets>> {
        Secrets::open(&self.keys, &endpoint.id, &endpoint.sealed).map(Arc::new)
    }

    /// The most attempts at the same time. One endpoint never takes all slots of the process.
    fn most_in_flight(&self, endpoint: &WebhookEndpoint) -> usize {
        if endpoint.ordered {
            return 1;
        }
        let own = usize::try_from(endpoint.max_in_flight).unwrap_or(1);
        own.min(self.config.workers.div_ceil(2)).max(1)
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
}

impl Serving {
    /// Sends until nothing is due, or nothing may be sent for now.
    async fn run(mut self, stopped: &watch::Receiver<bool>) -> Result<()> {
        loop {
            if !*stopped.borrow() {
                self.launch().await?;
            }
            let renewal = tokio::time::sleep(LEASE / 3);
            let first = tokio::select! {
                first = self.flights.join_next() => first,
                () = renewal => {
                    let cx = self.workers.cx();
                    match self.renew(&cx).await? {
                        Some(endpoint) => self.refresh(endpoint)?,
                        None => return Ok(()),
                    }
                    continue;
                }
            };
            let Some(first) = first else { break };
            let mut done = vec![first.map_err(Error::internal)?];
            while let Some(flight) = self.flights.try_join_next() {
                done.push(flight.map_err(Error::internal)?);
            }
            for flight in &done {
                self.under_way.remove(&flight.delivery.id);
            }
            let Some(endpoint) = self.settle(&done).await? else {
                // Another worker has taken the endpoint over: it sends the rest.
                while let Some(flight) = self.flights.join_next().await {
                    done.extend(flight);
                }
                self.workers.too_late(done).await;
                return Ok(());
            };
            self.refresh(endpoint)?;
        }
        self.workers.free(&self.leased, self.rate_free_at).await
    }

    /// Begins as many attempts as the endpoint allows at present.
    async fn launch(&mut self) -> Result<()> {
        let endpoint = &self.leased.endpoint;
        let now = self.workers.now();
        let held = endpoint.held_until.is_some_and(|until| until > now);
        let most = self.workers.most_in_flight(endpoint);
        if held || self.rate_free_at.is_some() || self.under_way.len() >= most {
            return Ok(());
        }
        if endpoint.status != EndpointStatus::Active {
            self.queue.clear();
            return Ok(());
        }
        if self.queue.is_empty() {
            self.queue = self.due(most).await?;
        }
        let endpoint = &mut self.leased.endpoint;
        let mut bucket = Bucket::new(
            endpoint.max_per_second,
            endpoint.allowance,
            endpoint.allowance_at,
            now,
        );
        while self.under_way.len() < most && !self.queue.is_empty() {
            if !bucket.take(now) {
                self.rate_free_at = Some(bucket.free_at());
                break;
            }
            let Some((delivery, message)) = self.queue.pop_front() else {
                break;
            };
            self.under_way.insert(delivery.id.clone());
            let (workers, secrets) = (Arc::clone(&self.workers), Arc::clone(&self.secrets));
            self.flights
                .spawn(workers.fly(endpoint.clone(), secrets, delivery, message));
        }
        let (allowance, at) = bucket.stored();
        (endpoint.allowance, endpoint.allowance_at) = (allowance, Some(at));
        Ok(())
    }

    /// Due deliveries that are not under way, with their messages.
    async fn due(&self, most: usize) -> Result<VecDeque<(WebhookDelivery, WebhookMessage)>> {
        let (cx, records) = (self.workers.cx(), &self.workers.records);
        let endpoint = &self.leased.endpoint;
        // The next one of an ordered endpoint depends on the result of the one before it.
        let wanted = if endpoint.ordered { 1 } else { most * ROUNDS };
        let mut due = records
            .due(
                &cx,
                endpoint,
                self.workers.now(),
                wanted + self.under_way.len(),
            )
            .await?;
        due.retain(|delivery| !self.under_way.contains(&delivery.id));
        due.truncate(wanted);
        if due.is_empty() {
            return Ok(VecDeque::new());
        }
        let messages = records.messages(&cx, &due).await?;
        let mut with_message = VecDeque::with_capacity(due.len());
        for delivery in due {
            let mut of_delivery = messages.iter();
            match of_delivery.find(|message| message.id == delivery.message_id) {
                Some(message) => with_message.push_back((delivery, message.clone())),
                None => records.cancel_lost(&cx, &delivery).await?,
            }
        }
        Ok(with_message)
    }

    /// Takes over what was changed in the settings of the endpoint.
    fn refresh(&mut self, endpoint: WebhookEndpoint) -> Result<()> {
        if endpoint.sealed != self.leased.endpoint.sealed {
            self.secrets = self.workers.secrets(&endpoint)?;
        }
        let known = &self.leased.endpoint;
        // Attempts that are under way have taken of the rate, which is stored with their results.
        self.leased.endpoint = WebhookEndpoint {
            allowance: known.allowance,
            allowance_at: known.allowance_at,
            ..endpoint
        };
        Ok(())
    }

    /// Extends the lease. Returns the present record; `None` if the lease was lost or the endpoint
    /// deleted.
    async fn renew(&self, cx: &Cx) -> Result<Option<WebhookEndpoint>> {
        let (endpoint, token) = (&self.leased.endpoint, &self.leased.token);
        let (id, until) = (endpoint.id.as_str(), self.leased_until());
        let records = &self.workers.records;
        let renewed = records.endpoints.renew(cx, id, token.as_str(), until);
        Ok(renewed.await?.pop())
    }

    /// Extends the lease and stores what the endpoint's attempts have changed in its record. Returns
    /// the present record, as [`renew`](Self::renew).
    async fn note(&self, cx: &Cx, all_succeeded: bool) -> Result<Option<WebhookEndpoint>> {
        let (endpoint, records) = (&self.leased.endpoint, &self.workers.records);
        if all_succeeded && let Some(at) = endpoint.allowance_at {
            let (id, token) = (endpoint.id.as_str(), self.leased.token.as_str());
            let (until, allowance) = (self.leased_until(), endpoint.allowance);
            let succeeded = records
                .endpoints
                .succeed(cx, id, token, until, allowance, at);
            return Ok(succeeded.await?.pop());
        }
        if self.renew(cx).await?.is_none() {
            return Ok(None);
        }
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
        let noted = records
            .endpoints
            .update(cx, endpoint.id.as_str(), patch, None);
        noted.await.map(Some)
    }

    fn leased_until(&self) -> Timestamp {
        let lease = LEASE.max(timeout_of(&self.leased.endpoint) + BEYOND);
        later(self.workers.now(), lease)
    }

    /// Writes results, unless the lease was lost. Returns the present record, if it was not.
    async fn settle(&mut self, done: &[Flight]) -> Result<Option<WebhookEndpoint>> {
        let (workers, now) = (Arc::clone(&self.workers), self.workers.now());
        let (mut outcomes, mut disabled) = (Vec::with_capacity(done.len()), None);
        for Flight { delivery, attempt } in done {
            let number = delivery.attempts + 1;
            outcomes.push(outcome::next(
                &workers.config,
                delivery,
                attempt,
                number,
                now,
            ));
            let endpoint = &mut self.leased.endpoint;
            let of_schedule = delivery.trigger != Trigger::Replay;
            let reason = note(&workers.config, endpoint, (attempt, of_schedule), now);
            disabled = reason.or(disabled);
        }
        let succeeded = |Flight { delivery, attempt }: &Flight| {
            attempt.is_success() && delivery.trigger != Trigger::Replay
        };
        let all_succeeded = done.iter().all(succeeded);
        let settled = workers.cx();
        let settled = settled.transaction(async |cx| {
            let Some(mut endpoint) = self.note(cx, all_succeeded).await? else {
                return Ok(None);
            };
            for (flight, next) in done.iter().zip(&outcomes) {
                workers
                    .settle_one(cx, &endpoint, flight, (*next, now))
                    .await?;
            }
            if let Some(reason) = disabled
                && endpoint.status == EndpointStatus::Active
            {
                workers.disable(cx, &mut endpoint, reason).await?;
            }
            Ok(Some(endpoint))
        });
        settled.await
    }
}

impl Workers {
    async fn settle_one(
        &self,
        cx: &Cx,
        endpoint: &WebhookEndpoint,
        Flight { delivery, attempt }: &Flight,
        (next, now): (Next, Timestamp),
    ) -> Result<()> {
        let number = delivery.attempts + 1;
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
            self.announce_dead(cx, endpoint, delivery, next.reason)
                .await?;
        }
        Ok(())
    }

    async fn disable(
        &self,
        cx: &Cx,
        endpoint: &mut WebhookEndpoint,
        reason: DisabledReason,
    ) -> Result<()> {
        cx.after_commit(move || metrics::disabled(reason));
        self.announce_disabled(cx, endpoint, reason).await?;
        self.records
            .disable(cx, endpoint, reason, self.now())
            .await?;
        endpoint.status = EndpointStatus::Disabled;
        Ok(())
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
}
