//! The events of an app: its consumers, the entities that record events, and the start of delivery.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use linchpin_core::store::Audience;

use super::relay::{self, Consumer, Health, Relay, Shared};
use super::{Batch, EntityEvent, Event, EventBus, EventSink};
use crate::clock::Clock;
use crate::emitter::plan::{self, Routes};
use crate::emitter::{Emitter, Handover, LiveQueue};
use crate::entity::{Entity, EntityDesc, FieldSet};
use crate::resource::{Adapters, Table};
use crate::store::Store;
use crate::{BoxFuture, EntityEntry, Error, Result, Timestamp};

/// The default retention of delivered events.
const DEFAULT_RETENTION: Duration = Duration::from_hours(1);

/// The consumers of an app and what they need.
pub(crate) struct Hub {
    pub(crate) bus: EventBus,
    /// The consumers that have stopped at an event.
    pub(crate) health: Health,
    consumers: Vec<Consumer>,
    /// The adapters for listeners; set before the first delivery.
    adapters: Arc<OnceLock<Adapters>>,
    keep: Duration,
    handover: Arc<Handover>,
    /// The queues of live consumers.
    live: BTreeMap<String, Arc<LiveQueue>>,
    /// Whether any entity records events.
    active: bool,
    /// The entities that record events, and the names of their events.
    recorded: Option<(BTreeSet<Cow<'static, str>>, BTreeSet<String>)>,
}

impl Default for Hub {
    fn default() -> Self {
        let bus = EventBus::default();
        Self {
            handover: Arc::new(Handover::new(bus.clone())),
            bus,
            health: Health::default(),
            consumers: Vec::new(),
            adapters: Arc::default(),
            keep: DEFAULT_RETENTION,
            live: BTreeMap::new(),
            active: false,
            recorded: None,
        }
    }
}

impl Hub {
    /// Adds a consumer of every entity's events.
    pub(crate) fn sink(&mut self, name: String, sink: Arc<dyn EventSink>) {
        self.consumers.push(Consumer::new(name, sink, None));
    }

    /// Adds a consumer of the events of `E`.
    pub(crate) fn handler<E, F, Fut>(&mut self, name: String, handle: F)
    where
        E: Entity,
        F: Fn(Event<E>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<()>> + Send + 'static,
    {
        let adapters = Arc::clone(&self.adapters);
        let sink = Handler(move |event| {
            Event::of(event).map(|event| handle(event.with_adapters(adapters.get())))
        });
        self.consumers.push(Consumer::new(
            name,
            Arc::new(sink),
            Some(E::DESC.storage_name),
        ));
    }

    /// Sets the adapters for listeners. Only the first call has an effect.
    pub(crate) fn set_adapters(&self, adapters: &Adapters) {
        self.adapters.get_or_init(|| adapters.clone());
    }

    /// Sets how long delivered events are kept.
    pub(crate) fn keep(&mut self, keep: Duration) {
        self.keep = keep;
    }

    /// Adds the consumers that plugins have registered.
    pub(crate) fn add_consumers(&mut self, consumers: Vec<Consumer>) {
        self.consumers.extend(consumers);
    }

    /// Enables recording for every entity that has a consumer or a route with an `event`, and
    /// stores the start position of new consumers.
    ///
    /// # Errors
    /// If two consumers share a name, a consumer subscribes to an event that does not exist, or the
    /// store has no outbox.
    pub(crate) async fn activate(
        &mut self,
        entries: &[&EntityEntry],
        tables: &[Arc<Table>],
        store: &Arc<dyn Store>,
    ) -> Result<()> {
        let mut names = BTreeSet::new();
        if let Some(twice) = self
            .consumers
            .iter()
            .find(|consumer| !names.insert(consumer.name.as_str()))
        {
            return Err(failed(format!(
                "two consumers of events are named `{}`: each needs a name of its own",
                twice.name
            )));
        }
        let planned: Vec<(&EntityEntry, Routes)> = entries
            .iter()
            .map(|entry| {
                let (reads, largest) = (self.reads(entry.desc), self.largest(entry.desc));
                (*entry, plan::routes(entry, reads, largest))
            })
            .collect();
        let unknown = self.bus.interest(|interest| {
            let exists = |name: &&String| {
                !planned
                    .iter()
                    .any(|(_, routes)| plan::names(routes).any(|known| known == **name))
            };
            interest.names.iter().find(exists).cloned()
        });
        if let Some(name) = unknown {
            let known: Vec<&str> = planned
                .iter()
                .flat_map(|(_, routes)| plan::names(routes))
                .collect();
            let hint = crate::suggest::did_you_mean(&name, known.iter().copied());
            let hint = if hint.is_empty() {
                "; for events that code emits, use `listen`".to_owned()
            } else {
                hint
            };
            return Err(failed(format!(
                "no route emits the subscribed event `{name}`{hint}"
            )));
        }
        let stored = |entity: &str| {
            planned
                .iter()
                .any(|(entry, _)| entry.desc.storage_name == entity)
        };
        if let Some((name, entity)) = self.consumers.iter().find_map(|c| {
            c.entity
                .filter(|entity| !stored(entity))
                .map(|e| (&c.name, e))
        }) {
            return Err(failed(format!(
                "the consumer `{name}` takes events of the table `{entity}`, whose entity is in no package of this app: list the entity in a package"
            )));
        }
        let descs: Vec<&'static EntityDesc> = entries.iter().map(|entry| entry.desc).collect();
        self.choose_entities(&descs);
        let mut entities = BTreeSet::new();
        let mut event_names = BTreeSet::new();
        let mut outbox_needed = false;
        for (entry, routes) in planned {
            let storage = entry.desc.storage_name;
            let wanted = self.bus.interest(|interest| {
                interest.entities.contains(storage)
                    || plan::names(&routes).any(|name| interest.names.contains(name))
            });
            // A search index needs the events of its entity, even if its consumer is added only
            // after the set-up of plugins.
            let searched = entry.desc.search.is_some();
            let consumers = || self.consumers.iter().filter(|c| c.takes(entry.desc));
            if !(wanted || searched || plan::sets_event(entry) || consumers().next().is_some()) {
                continue;
            }
            let audience = Audience {
                listed: searched || consumers().any(|consumer| consumer.needs_records),
                states: consumers().any(|consumer| consumer.sink.needs_states(entry.desc)),
                stored: searched || consumers().any(|consumer| !consumer.sink.is_live()),
            };
            outbox_needed |= audience.stored;
            entities.insert(Cow::Borrowed(storage));
            event_names.extend(plan::names(&routes).map(str::to_owned));
            let table = tables
                .iter()
                .find(|table| table.desc.storage_name == storage);
            if let Some(table) = table {
                let reads = self.reads(entry.desc);
                table.emit(Emitter::new(routes, audience, reads, &self.handover));
            }
        }
        self.active = !entities.is_empty();
        match store.outbox() {
            Some(outbox) if self.active => {
                let stored = self.consumers.iter().filter(|c| !c.sink.is_live());
                let names: Vec<&str> = stored.map(|consumer| consumer.name.as_str()).collect();
                let names = if outbox_needed { names } else { Vec::new() };
                let handover = Arc::clone(&self.handover);
                outbox.open(&names, handover).await?;
            }
            None if outbox_needed => {
                return Err(failed(format!(
                    "store `{}` has no outbox, but a consumer needs stored events",
                    store.name()
                )));
            }
            _ => {}
        }
        self.recorded = Some((entities, event_names));
        Ok(())
    }

    /// The fields of an entity that conditions of consumers read.
    fn reads(&self, desc: &'static EntityDesc) -> FieldSet {
        let consumers = self.consumers.iter().filter(|c| c.takes(desc));
        consumers.fold(FieldSet::NONE, |all, consumer| {
            all.or(consumer.sink.reads(desc))
        })
    }

    /// The largest payload that any consumer of an entity accepts, in bytes.
    fn largest(&self, desc: &'static EntityDesc) -> usize {
        let consumers = self.consumers.iter().filter(|c| c.takes(desc));
        let largest = consumers.map(|consumer| consumer.sink.largest_payload());
        largest.fold(EntityEvent::PAYLOAD, usize::max)
    }

    /// Sets the entities of each consumer, and creates the queues of live consumers.
    fn choose_entities(&mut self, descs: &[&'static EntityDesc]) {
        for consumer in &mut self.consumers {
            let taken = descs.iter().filter(|desc| consumer.takes(desc));
            let taken: BTreeSet<_> = taken.map(|desc| desc.storage_name).collect();
            let states = descs.iter().filter(|desc| consumer.sink.needs_states(desc));
            consumer.states = states.map(|desc| desc.storage_name).collect();
            let all = consumer.entity.is_none() && taken.len() == descs.len();
            consumer.entities = (!all).then_some(taken);
            if consumer.sink.is_live() && !self.live.contains_key(&consumer.name) {
                let queue = Arc::new(LiveQueue::new(consumer.entities.clone()));
                self.handover.add_live(Arc::clone(&queue));
                self.live.insert(consumer.name.clone(), queue);
            }
        }
    }

    /// Starts delivery. After that, subscriptions to entities that do not record events are
    /// refused.
    pub(crate) fn start(mut self, store: Arc<dyn Store>, clock: Clock) -> Option<Relay> {
        let (entities, names) = self.recorded.take().unwrap_or_default();
        self.bus.seal(entities, names);
        if !self.active {
            return None;
        }
        let consumers = std::mem::take(&mut self.consumers);
        let (consumers, keep) = (self.queued(consumers), self.keep);
        Some(relay::start(consumers, self.shared(store, clock), keep))
    }

    /// Starts delivery in a process that runs a command. It delivers only to the search indexes
    /// that the command maintains; `None` if there are none.
    pub(crate) fn start_in_command(&mut self, store: &Arc<dyn Store>) -> Option<Relay> {
        let consumers: Vec<Consumer> = std::mem::take(&mut self.consumers)
            .into_iter()
            .filter(|consumer| consumer.in_commands)
            .collect();
        (self.active && !consumers.is_empty()).then(|| {
            let clock: Clock = Arc::new(Timestamp::system_now);
            relay::start_with_queues(
                self.queued(consumers),
                self.shared(Arc::clone(store), clock),
            )
        })
    }

    /// Consumers with their queues.
    fn queued(&self, consumers: Vec<Consumer>) -> Vec<(Consumer, Option<Arc<LiveQueue>>)> {
        let queue = |consumer: Consumer| {
            let queue = self.live.get(&consumer.name).cloned();
            (consumer, queue)
        };
        consumers.into_iter().map(queue).collect()
    }

    fn shared(&self, store: Arc<dyn Store>, clock: Clock) -> Shared {
        Shared {
            store,
            handover: Arc::clone(&self.handover),
            bus: self.bus.clone(),
            clock,
            health: self.health.clone(),
        }
    }
}

fn failed(text: String) -> Error {
    crate::startup::startup(text)
}

/// Passes one event at a time to a function.
struct Handler<F>(F);

impl<F, Fut> EventSink for Handler<F>
where
    F: Fn(Arc<EntityEvent>) -> Option<Fut> + Send + Sync + 'static,
    Fut: Future<Output = Result<()>> + Send + 'static,
{
    fn publish<'a>(&'a self, batch: &'a Batch) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            for (done, event) in batch.iter().enumerate() {
                // If this event fails, earlier events are not delivered again.
                batch.done(done);
                if let Some(handled) = (self.0)(Arc::clone(event)) {
                    handled.await?;
                }
            }
            Ok(())
        })
    }
}
