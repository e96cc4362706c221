//! Serves one leased endpoint: sends its due deliveries and writes their results.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use linchpin::{Code, Cx, Error, Result, Timestamp};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};

use super::attempt::{Attempt, Content, timeout_of};
use super::outcome::{count_attempt, later};
use super::slots::Slot;
use super::throttle::Bucket;
use super::worker::{LEASE, LEASE_MARGIN, Leased, Workers};
use crate::entity::{
    DisabledReason, EndpointStatus, Trigger, WebhookDelivery, WebhookEndpoint,
    WebhookEndpointPatch, WebhookMessage,
};
use crate::secrets::Secrets;

/// The pauses before results are written again, if the store was not available or rolled back the
/// transaction because of a deadlock. Deliveries whose results cannot be written are sent again
/// after the lease.
const WRITE_PAUSES: [Duration; 4] = [
    Duration::from_millis(50),
    Duration::from_millis(500),
    Duration::from_secs(2),
    Duration::from_secs(5),
];
/// After an error, an endpoint is served again after this time.
const ERROR_PAUSE: Duration = Duration::from_secs(1);
/// One read returns at most this number of deliveries for each allowed concurrent attempt.
const DELIVERIES_PER_ATTEMPT: usize = 4;

/// A delivery with its finished attempt.
pub(super) struct FinishedAttempt {
    pub(super) delivery: WebhookDelivery,
    pub(super) attempt: Attempt,
}

/// The service of a leased endpoint.
struct Serving {
    workers: Arc<Workers>,
    leased: Leased,
    secrets: Arc<Secrets>,
    /// Due deliveries that were read but not yet sent.
    queue: VecDeque<(WebhookDelivery, WebhookMessage)>,
    /// The ids of the deliveries that are being sent.
    under_way: HashSet<String>,
    /// The running attempts. They are tasks, so that they continue while results are written.
    running: JoinSet<FinishedAttempt>,
    /// The time at which the rate allows the next attempt; `None` if it allows one now.
    rate_free_at: Option<Timestamp>,
    /// Whether an attempt waits for a slot of the process.
    wants_slot: bool,
    slot: Option<Slot>,
}

/// The event that continues the loop.
enum NextEvent {
    /// An attempt has ended; `None` if no attempt is running.
    Ended(Option<Box<std::result::Result<FinishedAttempt, JoinError>>>),
    /// A slot is free.
    Slot(Slot),
    /// The rate allows an attempt again.
    Rate,
    /// The lease must be extended.
    Renewal,
}

impl Workers {
    /// Sends the due deliveries of an endpoint, then frees it.
    pub(super) async fn serve(self: Arc<Self>, leased: Leased, stopped: watch::Receiver<bool>) {
        if let Err(error) = Arc::clone(&self).send_due(leased.clone(), &stopped).await {
            let endpoint = leased.endpoint.id.as_str();
            tracing::warn!(
                %error,
                endpoint,
                "sending deliveries to an endpoint failed; a worker tries again soon"
            );
            self.release(&leased).await;
        }
    }

    /// Frees an endpoint after an error, such as a lost connection to the store. If the store is
    /// not available for longer, the endpoint is free after its lease.
    async fn release(&self, leased: &Leased) {
        for pause in WRITE_PAUSES {
            tokio::time::sleep(pause).await;
            // The endpoint is due after a pause, because the error may occur again.
            let again = later(self.now(), ERROR_PAUSE);
            match self.free(leased, Some(again)).await {
                Ok(()) => return,
                Err(error) => {
                    let endpoint = leased.endpoint.id.as_str();
                    tracing::debug!(
                        %error,
                        endpoint,
                        "could not release the lease of an endpoint yet"
                    );
                }
            }
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
            running: JoinSet::new(),
            rate_free_at: None,
            wants_slot: false,
            slot: None,
        };
        serving.run(stopped).await
    }

    fn secrets(&self, endpoint: &WebhookEndpoint) -> Result<Arc<Secrets>> {
        Secrets::open(&self.keys, &endpoint.id, &endpoint.sealed).map(Arc::new)
    }

    /// The maximum number of concurrent attempts. One endpoint takes at most half of the slots of
    /// the process.
    fn max_in_flight_of(&self, endpoint: &WebhookEndpoint) -> usize {
        if endpoint.ordered {
            return 1;
        }
        let own = usize::try_from(endpoint.max_in_flight).unwrap_or(1);
        own.min(self.config.workers.div_ceil(2)).max(1)
    }

    async fn attempt_delivery(
        self: Arc<Self>,
        endpoint: WebhookEndpoint,
        secrets: Arc<Secrets>,
        delivery: WebhookDelivery,
        (message, slot): (WebhookMessage, Slot),
    ) -> FinishedAttempt {
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
        FinishedAttempt { delivery, attempt }
    }
}

impl Serving {
    /// Sends until no delivery is due, or none may be sent now.
    async fn run(mut self, stopped: &watch::Receiver<bool>) -> Result<()> {
        loop {
            let stopping = *stopped.borrow();
            if !stopping {
                self.start_attempts().await?;
            }
            let first = match self.next_event(stopping).await {
                NextEvent::Ended(Some(first)) => *first,
                NextEvent::Ended(None) => break,
                next_event @ (NextEvent::Slot(_) | NextEvent::Rate | NextEvent::Renewal) => {
                    if let NextEvent::Slot(slot) = next_event {
                        self.slot = Some(slot);
                    }
                    // The endpoint may have changed since it was last read.
                    let cx = self.workers.cx();
                    match self.renew(&cx).await? {
                        Some(endpoint) => self.refresh(endpoint)?,
                        None => return self.end_without_lease(Vec::new()).await,
                    }
                    continue;
                }
            };
            let mut done = vec![first.map_err(Error::internal)?];
            while let Some(finished) = self.running.try_join_next() {
                done.push(finished.map_err(Error::internal)?);
            }
            for finished in &done {
                self.under_way.remove(&finished.delivery.id);
            }
            match self.settle(&done).await? {
                Some(endpoint) => self.refresh(endpoint)?,
                None => return self.end_without_lease(done).await,
            }
        }
        self.workers.free(&self.leased, self.rate_free_at).await
    }

    /// Waits for the next event.
    async fn next_event(&mut self, stopped: bool) -> NextEvent {
        let wants_slot = self.wants_slot && !stopped;
        if self.running.is_empty() && !wants_slot {
            return NextEvent::Ended(None);
        }
        let rate = self.rate_free_at.map(|at| {
            let wait = at.millis().saturating_sub(self.workers.now().millis());
            Duration::from_millis(u64::try_from(wait).unwrap_or(0))
        });
        let slots = Arc::clone(&self.workers.slots);
        let tenant = self.leased.endpoint.tenant_id.as_deref();
        tokio::select! {
            Some(first) = self.running.join_next() => NextEvent::Ended(Some(Box::new(first))),
            Some(slot) = slots.take(tenant), if wants_slot => NextEvent::Slot(slot),
            () = tokio::time::sleep(rate.unwrap_or_default()), if rate.is_some() && !stopped => NextEvent::Rate,
            () = tokio::time::sleep(LEASE / 3) => NextEvent::Renewal,
        }
    }

    /// Ends the service after another worker has leased the endpoint, or after it was deleted.
    /// Results are not counted, and nothing more is sent.
    async fn end_without_lease(mut self, mut done: Vec<FinishedAttempt>) -> Result<()> {
        while let Some(finished) = self.running.join_next().await {
            done.extend(finished);
        }
        self.workers.too_late(done).await;
        Ok(())
    }

    /// Starts as many attempts as the endpoint allows now.
    async fn start_attempts(&mut self) -> Result<()> {
        let slot = self.slot.take();
        self.wants_slot = false;
        let endpoint = &self.leased.endpoint;
        let now = self.workers.now();
        let held = endpoint.held_until.is_some_and(|until| until > now);
        let max_in_flight = self.workers.max_in_flight_of(endpoint);
        self.rate_free_at = self.rate_free_at.filter(|at| *at > now);
        if held || self.rate_free_at.is_some() || self.under_way.len() >= max_in_flight {
            return Ok(());
        }
        if endpoint.status != EndpointStatus::Active {
            self.queue.clear();
            return Ok(());
        }
        if self.queue.is_empty() {
            self.queue = self.due(max_in_flight).await?;
        }
        let endpoint = &mut self.leased.endpoint;
        let mut bucket = Bucket::new(
            endpoint.max_per_second,
            endpoint.allowance,
            endpoint.allowance_at,
            now,
        );
        let mut free = slot;
        while self.under_way.len() < max_in_flight && !self.queue.is_empty() {
            // An attempt starts only after it has a slot, so that it uses the current URL and
            // secrets.
            let try_take = || self.workers.slots.try_take(endpoint.tenant_id.as_deref());
            let Some(slot) = free.take().or_else(try_take) else {
                self.wants_slot = true;
                break;
            };
            if !bucket.take(now) {
                self.rate_free_at = Some(bucket.free_at());
                break;
            }
            let Some((delivery, message)) = self.queue.pop_front() else {
                break;
            };
            self.under_way.insert(delivery.id.clone());
            let (workers, secrets) = (Arc::clone(&self.workers), Arc::clone(&self.secrets));
            let attempt =
                workers.attempt_delivery(endpoint.clone(), secrets, delivery, (message, slot));
            self.running.spawn(attempt);
        }
        let (allowance, at) = bucket.stored();
        (endpoint.allowance, endpoint.allowance_at) = (allowance, Some(at));
        Ok(())
    }

    /// Due deliveries that are not being sent, with their messages.
    async fn due(
        &self,
        max_in_flight: usize,
    ) -> Result<VecDeque<(WebhookDelivery, WebhookMessage)>> {
        let (cx, records) = (self.workers.cx(), &self.workers.records);
        let endpoint = &self.leased.endpoint;
        // The next delivery of an ordered endpoint depends on the result of the one before it.
        let limit = if endpoint.ordered {
            1
        } else {
            max_in_flight * DELIVERIES_PER_ATTEMPT
        };
        let mut due = records
            .due(
                &cx,
                endpoint,
                self.workers.now(),
                limit + self.under_way.len(),
            )
            .await?;
        due.retain(|delivery| !self.under_way.contains(&delivery.id));
        due.truncate(limit);
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

    /// Applies changed settings of the endpoint.
    fn refresh(&mut self, endpoint: WebhookEndpoint) -> Result<()> {
        if endpoint.sealed != self.leased.endpoint.sealed {
            self.secrets = self.workers.secrets(&endpoint)?;
        }
        if endpoint.ordered != self.leased.endpoint.ordered {
            self.queue.clear();
        }
        let known = &self.leased.endpoint;
        // The allowance in memory is newer: running attempts have used it, and it is stored with
        // their results.
        self.leased.endpoint = WebhookEndpoint {
            allowance: known.allowance,
            allowance_at: known.allowance_at,
            ..endpoint
        };
        Ok(())
    }

    /// Extends the lease. Returns the current record, or `None` if the lease was lost or the
    /// endpoint was deleted.
    async fn renew(&self, cx: &Cx) -> Result<Option<WebhookEndpoint>> {
        let (endpoint, token) = (&self.leased.endpoint, &self.leased.token);
        let (id, until) = (endpoint.id.as_str(), self.leased_until());
        let records = &self.workers.records;
        let renewed = records.endpoints.renew(cx, id, token.as_str(), until);
        Ok(renewed.await?.pop())
    }

    /// Extends the lease and updates the failure counters of the endpoint. Returns the current
    /// record, like [`renew`](Self::renew), and the reason if the endpoint must be disabled.
    async fn update_endpoint(
        &self,
        cx: &Cx,
        done: &[FinishedAttempt],
        now: Timestamp,
    ) -> Result<Option<(WebhookEndpoint, Option<DisabledReason>)>> {
        let (known, workers) = (&self.leased.endpoint, &self.workers);
        let endpoints = &workers.records.endpoints;
        let all_succeeded = done.iter().all(|FinishedAttempt { delivery, attempt }| {
            attempt.is_success() && delivery.trigger != Trigger::Replay
        });
        if all_succeeded && let Some(at) = known.allowance_at {
            let (id, token) = (known.id.as_str(), self.leased.token.as_str());
            let (until, allowance) = (self.leased_until(), known.allowance);
            let succeeded = endpoints.succeed(cx, id, token, until, allowance, at);
            return Ok(succeeded.await?.pop().map(|endpoint| (endpoint, None)));
        }
        // The record is read again, so that counters that a manager has reset are not overwritten.
        let Some(mut endpoint) = self.renew(cx).await? else {
            return Ok(None);
        };
        let mut disabled = None;
        for FinishedAttempt { delivery, attempt } in done {
            let counts = delivery.trigger != Trigger::Replay;
            let reason = count_attempt(&workers.config, &mut endpoint, (attempt, counts), now);
            disabled = reason.or(disabled);
        }
        let patch = WebhookEndpointPatch {
            failing_since: Some(endpoint.failing_since),
            last_success_at: Some(endpoint.last_success_at),
            last_failure_at: Some(endpoint.last_failure_at),
            consecutive_failures: Some(endpoint.consecutive_failures),
            blocked_in_a_row: Some(endpoint.blocked_in_a_row),
            held_until: Some(endpoint.held_until),
            allowance: Some(known.allowance),
            allowance_at: Some(known.allowance_at),
            ..WebhookEndpointPatch::default()
        };
        let updated = endpoints.update(cx, endpoint.id.as_str(), patch, None);
        Ok(Some((updated.await?, disabled)))
    }

    fn leased_until(&self) -> Timestamp {
        let lease = LEASE.max(timeout_of(&self.leased.endpoint) + LEASE_MARGIN);
        later(self.workers.now(), lease)
    }

    /// Writes results. Returns the current record, or `None` if the lease was lost; then nothing is
    /// written.
    async fn settle(&self, done: &[FinishedAttempt]) -> Result<Option<WebhookEndpoint>> {
        for pause in WRITE_PAUSES {
            match self.settle_once(done).await {
                Err(error) if error.code() == Code::Unavailable => {
                    let endpoint = self.leased.endpoint.id.as_str();
                    tracing::debug!(%error, endpoint, "results of deliveries are written again");
                    tokio::time::sleep(pause).await;
                }
                settled => return settled,
            }
        }
        self.settle_once(done).await
    }

    async fn settle_once(&self, done: &[FinishedAttempt]) -> Result<Option<WebhookEndpoint>> {
        let (workers, now) = (&self.workers, self.workers.now());
        let cx = workers.cx();
        let settled = cx.transaction(async |cx| {
            let Some((mut endpoint, disabled)) = self.update_endpoint(cx, done, now).await? else {
                return Ok(None);
            };
            for finished in done {
                workers.settle_one(cx, &endpoint, finished, now).await?;
            }
            if let Some(reason) = disabled {
                workers.disable(cx, &mut endpoint, reason).await?;
            }
            Ok(Some(endpoint))
        });
        settled.await
    }
}
