//! The events of an app: its consumers, the entities that record events, and the start of delivery.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::watch;

use super::plan::{self, Routes};
use super::relay::{self, Consumer, Relay};
use super::{ActorRef, Event, EventBus, EventSink};
use crate::EntityEntry;
use crate::clock::Clock;
use crate::entity::Entity;
use crate::event::Recording;
use crate::resource::{Adapters, BoxFuture, Table};
use crate::store::Store;
use crate::{Cx, Error, Result};

/// How long delivered events are kept by default.
const KEEP: Duration = Duration::from_hours(7 * 24);

/// The name of the bus among the consumers.
const BUS: &str = "linchpin.bus";

/// Makes the statements of one entity record events.
pub(crate) struct Emitter {
    routes: Routes,
    wake: watch::Sender<()>,
    /// Whether a consumer needs the key of every changed record.
    listed: AtomicBool,
}

impl Emitter {
    /// The recording for a statement of a route.
    pub(crate) fn recording(&self, cx: &Cx, route: &str) -> Option<Box<Recording>> {
        let known = |name: &&str| self.routes.contains_key(name);
        let route = cx.operation().filter(known).or(Some(route).filter(known));
        self.record(cx, route.unwrap_or(plan::ELSEWHERE))
    }

    /// The recording for the removal of expired records; `None` unless a consumer needs the key of
    /// every record.
    pub(crate) fn expiry(&self, cx: &Cx) -> Option<Box<Recording>> {
        self.record(cx, plan::EXPIRED)
    }

    /// From now on events about many records list their keys.
    pub(crate) fn list_records(&self) {
        self.listed.store(true, Ordering::Relaxed);
    }

    fn record(&self, cx: &Cx, route: &str) -> Option<Box<Recording>> {
        let event = self.routes.get(route)?;
        let listed = self.listed.load(Ordering::Relaxed);
        if event.internal && !listed {
            return None;
        }
        let (actor, tenant) = match cx.get_actor() {
            Some(actor) => (
                ActorRef {
                    kind: actor.kind.as_str().to_owned(),
                    id: actor.id.clone(),
                },
                actor.tenant_id.clone(),
            ),
            None => (
                ActorRef {
                    kind: "system".to_owned(),
                    id: None,
                },
                None,
            ),
        };
        Some(Box::new(Recording::new(
            Arc::clone(event),
            actor,
            tenant,
            cx.request_id(),
            cx.now(),
            listed,
        )))
    }

    /// The channel that wakes the relay when there are events to deliver.
    pub(crate) fn wake(&self) -> &watch::Sender<()> {
        &self.wake
    }
}

/// The consumers of an app and what they need.
pub(crate) struct Hub {
    pub(crate) bus: EventBus,
    consumers: Vec<Consumer>,
    /// The adapters for listeners; set before the first delivery.
    adapters: Arc<OnceLock<Adapters>>,
    keep: Duration,
    wake: watch::Sender<()>,
    /// Whether any entity records events.
    active: bool,
    /// The entities that record events, and the names of their events.
    heard: Option<(BTreeSet<Cow<'static, str>>, BTreeSet<String>)>,
}

impl Default for Hub {
    fn default() -> Self {
        Self {
            bus: EventBus::default(),
            consumers: Vec::new(),
            adapters: Arc::default(),
            keep: KEEP,
            wake: watch::Sender::new(()),
            active: false,
            heard: None,
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
            Event::of(event).map(|event| handle(event.reaching(adapters.get())))
        });
        self.consumers.push(Consumer::new(
            name,
            Arc::new(sink),
            Some(E::DESC.storage_name),
        ));
    }

    /// Sets the adapters for listeners. Only the first call has an effect.
    pub(crate) fn reach(&self, adapters: &Adapters) {
        self.adapters.get_or_init(|| adapters.clone());
    }

    /// Sets how long delivered events are kept.
    pub(crate) fn keep(&mut self, keep: Duration) {
        self.keep = keep;
    }

    /// Adds the consumers that plugins have registered.
    pub(crate) fn adopt(&mut self, consumers: Vec<Consumer>) {
        self.consumers.extend(consumers);
    }

    /// Enables recording for every entity that has a consumer or names an event, and stores the
    /// start position of new consumers.
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
        let mut names = BTreeSet::from([BUS]);
        if let Some(twice) = self
            .consumers
            .iter()
            .find(|consumer| !names.insert(&consumer.name))
        {
            return Err(failed(format!(
                "two consumers of events are named `{}`: each needs a name of its own",
                twice.name
            )));
        }
        let planned: Vec<(&EntityEntry, Routes)> = entries
            .iter()
            .map(|entry| (*entry, plan::routes(entry)))
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
                "; for what code emits there is `listen`".to_owned()
            } else {
                hint
            };
            return Err(failed(format!(
                "no route has the event `{name}`, which is subscribed to{hint}"
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
                "the consumer `{name}` hears of the records of `{entity}`, whose entity is in no package of this app: list it in one"
            )));
        }
        let mut entities = BTreeSet::new();
        let mut heard = BTreeSet::new();
        for (entry, routes) in planned {
            let storage = entry.desc.storage_name;
            let wanted = self.bus.interest(|interest| {
                interest.entities.contains(storage)
                    || plan::names(&routes).any(|name| interest.names.contains(name))
            });
            let consumed = self
                .consumers
                .iter()
                .any(|consumer| consumer.entity.is_none_or(|entity| entity == storage));
            // A search index follows the entity; its consumer may be added after the set-up of
            // plugins.
            let searched = entry.desc.search.is_some();
            if !(wanted || consumed || searched || plan::names_one(entry)) {
                continue;
            }
            let of = |consumer: &&Consumer| consumer.entity.is_none_or(|entity| entity == storage);
            let listed = searched
                || self
                    .consumers
                    .iter()
                    .filter(of)
                    .any(|consumer| consumer.sink.needs_records());
            entities.insert(Cow::Borrowed(storage));
            heard.extend(plan::names(&routes).map(str::to_owned));
            if let Some(table) = tables
                .iter()
                .find(|table| table.desc.storage_name == storage)
            {
                let emitter = table.emit(Arc::new(Emitter {
                    routes,
                    wake: self.wake.clone(),
                    listed: AtomicBool::new(listed),
                }));
                if listed {
                    emitter.list_records();
                }
            }
        }
        self.active = !entities.is_empty();
        if self.active {
            let Some(outbox) = store.outbox() else {
                return Err(failed(format!(
                    "store `{}` cannot keep events, and somebody listens to them",
                    store.name()
                )));
            };
            let names: Vec<&str> = names.into_iter().collect();
            outbox.open(&names).await?;
        }
        self.heard = Some((entities, heard));
        Ok(())
    }

    /// Starts delivery. After that, subscriptions to entities without earlier subscribers are
    /// refused.
    pub(crate) fn start(self, store: Arc<dyn Store>, clock: Clock) -> Option<Relay> {
        let Self {
            bus,
            mut consumers,
            keep,
            wake,
            active,
            heard,
            ..
        } = self;
        let (entities, names) = heard.unwrap_or_default();
        bus.seal(entities, names);
        if !active {
            return None;
        }
        consumers.push(Consumer::new(
            BUS.to_owned(),
            Arc::new(ToBus(bus.clone())),
            None,
        ));
        Some(relay::start(consumers, store, clock, keep, wake, bus))
    }

    /// Starts delivery within a command: only changes for the search indexes that the command
    /// maintains, if any.
    pub(crate) fn start_in_command(&mut self, store: &Arc<dyn Store>) -> Option<Relay> {
        let consumers: Vec<Consumer> = std::mem::take(&mut self.consumers)
            .into_iter()
            .filter(|consumer| consumer.in_commands)
            .collect();
        (self.active && !consumers.is_empty())
            .then(|| relay::feed(consumers, store, &self.wake, self.bus.clone()))
    }
}

fn failed(text: String) -> Error {
    crate::startup::startup(text)
}

/// Passes every event to the bus.
struct ToBus(EventBus);

impl EventSink for ToBus {
    fn publish<'a>(&'a self, events: &'a [super::EntityEvent]) -> BoxFuture<'a, Result<()>> {
        for event in events {
            self.0.send(event.clone());
        }
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Passes one event at a time to a function; if it fails, the rest of the batch waits.
struct Handler<F>(F);

impl<F, Fut> EventSink for Handler<F>
where
    F: Fn(super::EntityEvent) -> Option<Fut> + Send + Sync + 'static,
    Fut: Future<Output = Result<()>> + Send + 'static,
{
    fn publish<'a>(&'a self, events: &'a [super::EntityEvent]) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            for event in events {
                if let Some(handled) = (self.0)(event.clone()) {
                    handled.await?;
                }
            }
            Ok(())
        })
    }
}
