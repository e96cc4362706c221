//! The consumer of events that writes messages and their deliveries.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use linchpin::entity::{EntityDesc, FieldSet, ListQuery};
use linchpin::event::Batch;
use linchpin::{BoxFuture, Code, Cx, EntityEvent, EventSink, Field, Result};

use crate::catalogue::{Catalogue, wants};
use crate::delivery::{CHUNK, NewMessage, Workers};
use crate::entity::{EndpointStatus, WebhookEndpoint, webhook_endpoint, webhook_message};
use crate::message;

/// The name of the consumer.
pub(crate) const CONSUMER: &str = "webhooks";

/// The maximum number of events in a batch. Endpoints are read and updated once per batch.
const MAX_BATCH: usize = 250;

/// Writes a message and its deliveries for each event that an endpoint wants.
pub(crate) struct Intake {
    pub(crate) catalogue: Arc<Catalogue>,
    pub(crate) workers: Arc<Workers>,
}

impl EventSink for Intake {
    fn publish<'a>(&'a self, batch: &'a Batch) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let offered: Vec<&EntityEvent> = batch
                .iter()
                .map(|event| &**event)
                .filter(|event| self.catalogue.offers(event))
                .collect();
            if offered.is_empty() {
                return Ok(());
            }
            let cx = Cx::system("webhooks of committed events");
            let taken = cx.transaction(async |cx| self.take(cx, &offered, false).await);
            match taken.await {
                // The conflict means that an event was delivered a second time.
                Err(error) if error.code() == Code::Conflict => {
                    cx.transaction(async |cx| self.take(cx, &offered, true).await)
                        .await
                }
                taken => taken,
            }
        })
    }

    fn takes(&self, entity: &'static EntityDesc) -> bool {
        self.catalogue.has_events_of(entity)
    }

    fn reads(&self, entity: &'static EntityDesc) -> FieldSet {
        self.catalogue.condition_fields(entity)
    }

    fn largest_payload(&self) -> usize {
        message::MAX_BODY
    }

    fn largest_batch(&self) -> usize {
        MAX_BATCH
    }

    fn stops_at_failure(&self) -> bool {
        true
    }
}

impl Intake {
    /// Writes the messages and deliveries of these events. Events are rarely delivered twice, so
    /// only a second run (`may_exist`) looks for existing messages.
    async fn take(&self, cx: &Cx, events: &[&EntityEvent], may_exist: bool) -> Result<()> {
        let endpoints = self.endpoints(cx, events).await?;
        let records = &self.workers.records;
        let wanted: Vec<(&EntityEvent, Vec<&WebhookEndpoint>)> = events
            .iter()
            .map(|event| {
                let wants = |endpoint: &&WebhookEndpoint| self.is_for(event, endpoint);
                (*event, endpoints.iter().filter(wants).collect())
            })
            .filter(|(_, endpoints): &(_, Vec<_>)| !endpoints.is_empty())
            .collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let wanting = wanted.iter().flat_map(|(_, endpoints)| endpoints);
        let ids: BTreeSet<&String> = wanting.map(|endpoint| &endpoint.id).collect();
        let ids: Vec<String> = ids.into_iter().cloned().collect();
        // After the lock, the status of the endpoints cannot change before the commit.
        let locked = records.locked(cx, &ids).await?.into_iter();
        let locked: HashMap<String, WebhookEndpoint> = locked
            .map(|endpoint| (endpoint.id.clone(), endpoint))
            .collect();
        let known = if may_exist {
            self.known(cx, &wanted).await?
        } else {
            HashSet::new()
        };
        let mut due = BTreeSet::new();
        for (event, endpoints) in wanted {
            let id = message::id_of(event);
            // The event was delivered a second time. Its deliveries were written with the message.
            if known.contains(&id) {
                continue;
            }
            let endpoints: Vec<&WebhookEndpoint> = endpoints
                .iter()
                .filter_map(|endpoint| locked.get(&endpoint.id))
                .filter(|endpoint| endpoint.status != EndpointStatus::Disabled)
                .collect();
            if endpoints.is_empty() {
                continue;
            }
            let body = message::body(event);
            let message = NewMessage {
                id,
                tenant_id: event.tenant_id.clone(),
                event: event.name.clone(),
                event_id: event.id.to_string(),
                occurred_at: event.at,
                body: body.text,
                truncated: body.truncated,
            };
            records
                .enqueue(cx, message, &endpoints, &self.workers.config)
                .await?;
            let active = endpoints
                .iter()
                .filter(|endpoint| endpoint.status == EndpointStatus::Active);
            due.extend(active.map(|endpoint| endpoint.id.clone()));
        }
        if due.is_empty() {
            return Ok(());
        }
        // Endpoints that are already due need no update.
        let is_due = |one: &WebhookEndpoint| one.due_at.is_some_and(|at| at <= cx.now());
        due.retain(|id| !locked.get(id).is_some_and(is_due));
        if !due.is_empty() {
            let due = due.into_iter().collect::<Vec<String>>();
            records.endpoints.wake(cx, due, cx.now()).await?;
        }
        let workers = Arc::clone(&self.workers);
        cx.after_commit(move || workers.wake.notify_one());
        Ok(())
    }

    /// The endpoints that may want one of these events.
    async fn endpoints(&self, cx: &Cx, events: &[&EntityEvent]) -> Result<Vec<WebhookEndpoint>> {
        let tenants: BTreeSet<&String> = events
            .iter()
            .filter_map(|event| event.tenant_id.as_ref())
            .collect();
        let of_tenant = webhook_endpoint::tenant_id.one_of(tenants.into_iter().cloned());
        let concerned = webhook_endpoint::tenant_id.eq(None).or(of_tenant);
        let enabled =
            webhook_endpoint::status.one_of([EndpointStatus::Active, EndpointStatus::Paused]);
        let filter = enabled.and(concerned);
        self.workers.records.endpoints_with(cx, filter).await
    }

    /// Whether an endpoint gets an event: an entry of its `events` matches, and the event is of its
    /// tenant. With `app_sees_tenants`, an endpoint without tenant gets the events of all tenants.
    fn is_for(&self, event: &EntityEvent, endpoint: &WebhookEndpoint) -> bool {
        let same = endpoint.tenant_id == event.tenant_id;
        let sees_all = endpoint.tenant_id.is_none() && self.workers.config.app_sees_tenants;
        (same || sees_all) && wants(&endpoint.events, &event.name)
    }

    /// The messages that exist already.
    async fn known(
        &self,
        cx: &Cx,
        wanted: &[(&EntityEvent, Vec<&WebhookEndpoint>)],
    ) -> Result<HashSet<String>> {
        let ids: Vec<String> = wanted
            .iter()
            .map(|(event, _)| message::id_of(event))
            .collect();
        let mut all = HashSet::new();
        // A list returns at most one page, so the ids are read in chunks.
        for ids in ids.chunks(CHUNK) {
            let query = ListQuery::new()
                .filter(webhook_message::id.one_of(ids.to_vec()))
                .limit(u32::MAX);
            let known = self.workers.records.messages.list(cx, query).await?;
            all.extend(known.items.into_iter().map(|message| message.id));
        }
        Ok(all)
    }
}
