//! The service of one leased endpoint: its due deliveries are sent, and their results written.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use linchpin::{Code, Cx, Error, Result, Timestamp};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};

use super::attempt::{Attempt, Content, timeout_of};
use super::outcome::{later, note};
use super::slots::Slot;
use super::throttle::Bucket;
use super::worker::{BEYOND, LEASE, Leased, Workers};
use crate::entity::{
    DisabledReason, EndpointStatus, Trigger, WebhookDelivery, WebhookEndpoint,
    WebhookEndpointPatch, WebhookMessage,
};
use crate::secrets::Secrets;

/// The pauses before results are written again, if the store was not available or ended one of two
/// transactions that waited for each other. What is not written is sent again after the lease.
const WRITE_PAUSES: [Duration; 4] = [
    Duration::from_millis(50),
    Duration::from_millis(500),
    Duration::from_secs(2),
    Duration::from_secs(5),
];
/// The time after which an endpoint is served again whose service had an error.
const AFTER_ERROR: Duration = Duration::from_secs(1);
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
    /// Whether an attempt waits for a slot of the process.
    wants_slot: bool,
    slot: Option<Slot>,
}

/// Why the loop goes on.
enum Turn {
    /// An attempt has ended; `None` if none is under way.
    Ended(Option<Box<std::result::Result<Flight, JoinError>>>),
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
            tracing::warn!(%error, endpoint, "deliveries of an endpoint stopped; they go on soon");
            self.release(&leased).await;
        }
    }

    /// Frees an endpoint after an error, such as a connection to the store that has ended. If the
    /// store stays away, the endpoint is free again after its lease.
    async fn release(&self, leased: &Leased) {
        for pause in WRITE_PAUSES {
            tokio::time::sleep(pause).await;
            // Not at once: the error may come again.
            let again = later(self.now(), AFTER_ERROR);
            match self.free(leased, Some(again)).await {
                Ok(()) => return,
                Err(error) => {
                    let endpoint = leased.endpoint.id.as_str();
                    tracing::debug!(%error, endpoint, "an endpoint is not free yet");
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
            flights: JoinSet::new(),
            rate_free_at: None,
            wants_slot: false,
            slot: None,
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
        (message, slot): (WebhookMessage, Slot),
    ) -> Flight {
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
            let stopping = *stopped.borrow();
            if !stopping {
                self.launch().await?;
            }
            let first = match self.turn(stopping).await {
                Turn::Ended(Some(first)) => *first,
                Turn::Ended(None) => break,
                turn @ (Turn::Slot(_) | Turn::Rate | Turn::Renewal) => {
                    if let Turn::Slot(slot) = turn {
                        self.slot = Some(slot);
                    }
                    // The endpoint may have changed since the last look.
                    let cx = self.workers.cx();
                    match self.renew(&cx).await? {
                        Some(endpoint) => self.refresh(endpoint)?,
                        None => return self.leave(Vec::new()).await,
                    }
                    continue;
                }
            };
            let mut done = vec![first.map_err(Error::internal)?];
            while let Some(flight) = self.flights.try_join_next() {
                done.push(flight.map_err(Error::internal)?);
            }
            for flight in &done {
                self.under_way.remove(&flight.delivery.id);
            }
            match self.settle(&done).await? {
                Some(endpoint) => self.refresh(endpoint)?,
                None => return self.leave(done).await,
            }
        }
        self.workers.free(&self.leased, self.rate_free_at).await
    }

    /// Waits for what comes next.
    async fn turn(&mut self, stopped: bool) -> Turn {
        let wants_slot = self.wants_slot && !stopped;
        if self.flights.is_empty() && !wants_slot {
            return Turn::Ended(None);
        }
        let rate = self.rate_free_at.map(|at| {
            let wait = at.millis().saturating_sub(self.workers.now().millis());
            Duration::from_millis(u64::try_from(wait).unwrap_or(0))
        });
        let slots = Arc::clone(&self.workers.slots);
        let tenant = self.leased.endpoint.tenant_id.as_deref();
        tokio::select! {
            Some(first) = self.flights.join_next() => Turn::Ended(Some(Box::new(first))),
            Some(slot) = slots.take(tenant), if wants_slot => Turn::Slot(slot),
            () = tokio::time::sleep(rate.unwrap_or_default()), if rate.is_some() && !stopped => Turn::Rate,
            () = tokio::time::sleep(LEASE / 3) => Turn::Renewal,
        }
    }

    /// Another worker has taken the endpoint over, or it was deleted: results are not counted, and
    /// nothing more is sent.
    async fn leave(mut self, mut done: Vec<Flight>) -> Result<()> {
        while let Some(flight) = self.flights.join_next().await {
            done.extend(flight);
        }
        self.workers.too_late(done).await;
        Ok(())
    }

    /// Begins as many attempts as the endpoint allows at present.
    async fn launch(&mut self) -> Result<()> {
        let slot = self.slot.take();
        self.wants_slot = false;
        let endpoint = &self.leased.endpoint;
        let now = self.workers.now();
        let held = endpoint.held_until.is_some_and(|until| until > now);
        let most = self.workers.most_in_flight(endpoint);
        self.rate_free_at = self.rate_free_at.filter(|at| *at > now);
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
        let mut free = slot;
        while self.under_way.len() < most && !self.queue.is_empty() {
            // An attempt begins with a slot, so that it has the present address and secrets.
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
            let flight = workers.fly(endpoint.clone(), secrets, delivery, (message, slot));
            self.flights.spawn(flight);
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
        if endpoint.ordered != self.leased.endpoint.ordered {
            self.queue.clear();
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

    /// Extends the lease and stores what the attempts say of the endpoint in its record. Returns the
    /// present record, as [`renew`](Self::renew), and why it must be disabled, if it must.
    async fn note(
        &self,
        cx: &Cx,
        done: &[Flight],
        now: Timestamp,
    ) -> Result<Option<(WebhookEndpoint, Option<DisabledReason>)>> {
        let (known, workers) = (&self.leased.endpoint, &self.workers);
        let endpoints = &workers.records.endpoints;
        let all_succeeded = done.iter().all(|Flight { delivery, attempt }| {
            attempt.is_success() && delivery.trigger != Trigger::Replay
        });
        if all_succeeded && let Some(at) = known.allowance_at {
            let (id, token) = (known.id.as_str(), self.leased.token.as_str());
            let (until, allowance) = (self.leased_until(), known.allowance);
            let succeeded = endpoints.succeed(cx, id, token, until, allowance, at);
            return Ok(succeeded.await?.pop().map(|endpoint| (endpoint, None)));
        }
        // What a manager has reset meanwhile is not written again.
        let Some(mut endpoint) = self.renew(cx).await? else {
            return Ok(None);
        };
        let mut disabled = None;
        for Flight { delivery, attempt } in done {
            let counts = delivery.trigger != Trigger::Replay;
            let reason = note(&workers.config, &mut endpoint, (attempt, counts), now);
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
        let noted = endpoints.update(cx, endpoint.id.as_str(), patch, None);
        Ok(Some((noted.await?, disabled)))
    }

    fn leased_until(&self) -> Timestamp {
        let lease = LEASE.max(timeout_of(&self.leased.endpoint) + BEYOND);
        later(self.workers.now(), lease)
    }

    /// Writes results, unless the lease was lost. Returns the present record, if it was not.
    async fn settle(&self, done: &[Flight]) -> Result<Option<WebhookEndpoint>> {
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

    async fn settle_once(&self, done: &[Flight]) -> Result<Option<WebhookEndpoint>> {
        let (workers, now) = (&self.workers, self.workers.now());
        let cx = workers.cx();
        let settled = cx.transaction(async |cx| {
            let Some((mut endpoint, disabled)) = self.note(cx, done, now).await? else {
                return Ok(None);
            };
            for flight in done {
                workers.settle_one(cx, &endpoint, flight, now).await?;
            }
            if let Some(reason) = disabled {
                workers.disable(cx, &mut endpoint, reason).await?;
            }
            Ok(Some(endpoint))
        });
        settled.await
    }
}
