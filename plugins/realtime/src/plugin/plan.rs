//! The rooms that each event reaches, and the frames that they get.

mod target;

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use linchpin::entity::{EntityDesc, FieldSet};
use linchpin::filter::Filter;
use linchpin::resource::{EventGuard, EventScope};
use linchpin::{Adapters, Entity, EntityEvent, Error, Result};

use self::target::{RecordRooms, Target};
use super::many;
use super::queued::{self, QueuedFrame};
use crate::channel::{Change, Declared, On, Payload, RoomScope, SseDesc};
use crate::engine::{Append, EventId, Stream};
use crate::rooms::Carrier;

/// The rooms that each event reaches, computed once at start-up.
pub(super) struct Plan {
    /// The targets by the storage name of the event's entity.
    entities: HashMap<&'static str, EntityPlan>,
    /// Whether code publishes frames in transactions.
    queues: bool,
    /// The guards of collections, by the index of the channel. They return the partition of a
    /// caller.
    collections: HashMap<usize, Arc<EventGuard>>,
}

#[derive(Default)]
struct EntityPlan {
    /// The targets of the events that declarations list.
    targets: Vec<Target>,
    /// The targets of all events. Their frames only report that a record is no longer visible.
    quiet: Vec<Target>,
    /// The fields that conditions read.
    reads: FieldSet,
    /// Whether a target accepts events about many records.
    many: bool,
}

/// Whether an event has the states of its records, which the checks of subscribers need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventStates {
    /// The event has them, or no room receives the event.
    Known,
    /// The event lacks them, because an earlier release has written it.
    Missing,
}

impl Plan {
    /// Plans the events of channels and of SSE endpoints.
    ///
    /// # Errors
    /// `internal` if an entity is not mounted, or if its read policy cannot be evaluated in memory.
    pub(super) fn new(declared: &Declared, adapters: &Adapters) -> Result<Self> {
        let mut plan = Self {
            entities: HashMap::new(),
            queues: queued::is_needed(declared),
            collections: HashMap::new(),
        };
        for (at, channel) in declared.channels().iter().copied().enumerate() {
            let scope = match channel.scope {
                RoomScope::Record => EventScope::Record,
                RoomScope::Collection => EventScope::Collection,
            };
            let guard = |entity| guard(entity, scope, adapters);
            if channel.scope == RoomScope::Collection {
                plan.collections.insert(at, guard(channel.of)?);
            }
            // The room's own record decides who stays in the room.
            let own_guard = guard(channel.of)?;
            plan.read(channel.of, fields_of(&own_guard, channel.of));
            let carrier = Carrier::Channel(channel);
            if channel.scope == RoomScope::Record {
                plan.quiet(carrier, On::new(channel.of, &[]), Vec::new(), own_guard);
            }
            for (variant, on, change) in channel.events() {
                let entity = on.entity;
                let guard = guard(entity)?;
                let when = on
                    .when
                    .as_ref()
                    .map(|when| (Filter::from(when), when.fields()));
                let mut reads = fields_of(&guard, entity);
                reads = reads.or(on.by.into_iter().collect());
                reads = when.iter().fold(reads, |all, (_, fields)| all.or(*fields));
                plan.read(entity, reads);
                let when: Vec<_> = when.into_iter().collect();
                plan.quiet(carrier, *on, when.clone(), Arc::clone(&guard));
                let planned = plan.entities.entry(entity.storage_name).or_default();
                planned.many |= is_about_many(change, entity);
                planned.targets.push(Target {
                    routes: Some(change.routes()),
                    carrier,
                    payload: variant.payload,
                    on: *on,
                    when,
                    guard,
                });
            }
        }
        for endpoint in declared.endpoints().iter().copied() {
            plan.endpoint(endpoint, adapters)?;
        }
        // Remove entities without targets. Such an entity is a collection's own entity if the
        // collection lists no events of it.
        plan.entities
            .retain(|_, planned| !planned.targets.is_empty() || !planned.quiet.is_empty());
        Ok(plan)
    }

    /// Plans the events of an SSE endpoint.
    fn endpoint(&mut self, endpoint: &'static SseDesc, adapters: &Adapters) -> Result<()> {
        for from in endpoint.sources {
            let guard = guard(from.entity, EventScope::Collection, adapters)?;
            self.read(from.entity, fields_of(&guard, from.entity));
            let carrier = Carrier::Endpoint(endpoint);
            let on = On::new(from.entity, &[]);
            self.quiet(carrier, on, Vec::new(), Arc::clone(&guard));
            let planned = self.entities.entry(from.entity.storage_name).or_default();
            let mut changes = from.events.iter().map(|event| event.change);
            planned.many |= changes.any(|change| is_about_many(change, from.entity));
            planned
                .targets
                .extend(from.events.iter().map(|event| Target {
                    routes: Some(event.change.routes()),
                    carrier,
                    payload: Payload::Record,
                    on: On {
                        name: event.name,
                        ..On::new(from.entity, &[]).alias(event.alias)
                    },
                    when: Vec::new(),
                    guard: Arc::clone(&guard),
                }));
        }
        Ok(())
    }

    /// Plans the quiet target of a carrier. For events that the carrier does not list, it sends a
    /// frame if the set of callers who may see the record changes. Variants that lead to the same
    /// rooms share one quiet target.
    fn quiet(
        &mut self,
        carrier: Carrier,
        on: On,
        when: Vec<(Filter, FieldSet)>,
        guard: Arc<EventGuard>,
    ) {
        let is_own = carrier
            .record_of()
            .is_some_and(|of| on.by.is_none() && of.storage_name == on.entity.storage_name);
        let changes = !when.is_empty() || on.by.is_some() || guard.fields().next().is_some();
        let planned = self.entities.entry(on.entity.storage_name).or_default();
        let same = |quiet: &&mut Target| quiet.carrier.is(carrier) && quiet.on.by == on.by;
        if let Some(quiet) = planned.quiet.iter_mut().find(same) {
            // Without a condition, all records belong to the room.
            if when.is_empty() || quiet.when.is_empty() {
                quiet.when.clear();
            } else {
                quiet.when.extend(when);
            }
        } else if is_own || changes {
            planned.many = true;
            planned.quiet.push(Target {
                routes: None,
                carrier,
                payload: Payload::None,
                on: On {
                    by: on.by,
                    ..On::new(on.entity, &[])
                },
                when,
                guard,
            });
        }
    }

    fn read(&mut self, entity: &'static EntityDesc, fields: FieldSet) {
        let planned = self.entities.entry(entity.storage_name).or_default();
        planned.reads = planned.reads.or(fields);
    }

    /// Returns the guard of a collection, which returns the partition of a caller.
    pub(super) fn collection(&self, channel: usize) -> Option<&Arc<EventGuard>> {
        self.collections.get(&channel)
    }

    /// Whether events of an entity can reach rooms.
    pub(super) fn takes(&self, entity: &EntityDesc) -> bool {
        let own = self.queues && entity.storage_name == QueuedFrame::DESC.storage_name;
        own || self.entities.contains_key(entity.storage_name)
    }

    /// Returns the fields of an entity that conditions read.
    pub(super) fn reads(&self, entity: &EntityDesc) -> FieldSet {
        if entity.storage_name == QueuedFrame::DESC.storage_name {
            return (0..entity.fields.len()).collect();
        }
        let planned = self.entities.get(entity.storage_name);
        planned.map_or(FieldSet::NONE, |planned| planned.reads)
    }

    /// Whether events about many records of an entity can reach rooms.
    pub(super) fn takes_many(&self, entity: &EntityDesc) -> bool {
        let planned = self.entities.get(entity.storage_name);
        planned.is_some_and(|planned| planned.many)
    }

    /// Adds the frames of an event to `out`. Returns whether the event has the states of its
    /// records.
    pub(super) fn frames(&self, event: &EntityEvent, out: &mut Vec<Append>) -> Result<EventStates> {
        let Some(planned) = self.entities.get(&*event.entity) else {
            return Ok(EventStates::Known);
        };
        let wants = |target: &&Target| {
            let routes = target.routes.as_ref();
            routes.is_none_or(|routes| routes.contains(&&*event.route))
        };
        let mut targets: Vec<&Target> = planned.targets.iter().filter(wants).collect();
        let is_listed = !targets.is_empty();
        targets.extend(&planned.quiet);
        if targets.is_empty() {
            return Ok(EventStates::Known);
        }
        let records;
        let events = match &event.record_id {
            Some(_) => std::slice::from_ref(event),
            None => match many::split_by_record(event) {
                Some(each) => {
                    records = each;
                    &records[..]
                }
                None if is_listed || !event.keys.is_empty() => return Ok(EventStates::Missing),
                // No client misses a frame, and the rights of subscribers are checked again anyway.
                None => return Ok(EventStates::Known),
            },
        };
        let mut streams: HashMap<String, u32> = HashMap::new();
        for event in events {
            let first = out.len();
            let places = targets.iter();
            let places = places.filter_map(|target| Some((*target, target.rooms_of(event)?)));
            let places: Vec<(&Target, RecordRooms<'_>)> = places.collect();
            // If another variant sends the event to a room, the record has not left this room.
            let stays_in = |stream: &Stream| {
                let listed = places.iter().filter(|(target, _)| !target.is_quiet());
                let mut rooms = listed.filter_map(|(_, places)| places.new.as_ref());
                rooms.any(|new| new.name() == stream.name())
            };
            for (target, places) in &places {
                for (stream, about) in target.abouts(event, places) {
                    // A frame of a listed event also reports a change of visibility.
                    let same = |append: &Append| append.stream.name() == stream.name();
                    let is_sent = || out[first..].iter().any(same);
                    if (about.left && stays_in(stream))
                        || ((about.left || about.quiet) && is_sent())
                    {
                        continue;
                    }
                    // An engine identifies an event of a stream by its id, so each frame needs a
                    // different one.
                    let count = streams.entry(stream.name().to_owned()).or_default();
                    let id = match *count {
                        0 => event.id.to_string(),
                        n => format!("{}.{n}", event.id),
                    };
                    *count += 1;
                    let frame = target.frame(event, about)?;
                    out.push(append(stream.clone(), &id, frame)?);
                }
            }
        }
        Ok(EventStates::Known)
    }
}

/// Whether an event of a change may be about many records.
fn is_about_many(change: Change, entity: &EntityDesc) -> bool {
    change.events(entity).iter().any(|event| event.counts)
}

/// Returns the guard of an entity.
fn guard(
    entity: &'static EntityDesc,
    scope: EventScope,
    adapters: &Adapters,
) -> Result<Arc<EventGuard>> {
    let table = adapters
        .table(entity.storage_name)
        .ok_or_else(|| Error::internal(format!("`{}` is not part of the app", entity.name)))?;
    EventGuard::new(table, scope, &[]).map(Arc::new)
}

/// Returns the indexes of the fields that a guard reads.
fn fields_of(guard: &EventGuard, entity: &EntityDesc) -> FieldSet {
    let position = |name: &str| entity.fields.iter().position(|field| field.name == name);
    guard
        .fields()
        .filter_map(|field| position(field.name))
        .collect()
}

/// Returns a frame for the engine.
pub(super) fn append(stream: Stream, id: &str, frame: Bytes) -> Result<Append> {
    let event = EventId::new(id).ok_or_else(|| Error::internal("an event has an invalid id"))?;
    Ok(Append {
        stream,
        event,
        frame,
        fence: None,
    })
}
