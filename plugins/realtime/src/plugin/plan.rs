//! The rooms that each event reaches, and the frames that they get.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use linchpin::entity::{EntityDesc, FieldSet};
use linchpin::filter::Filter;
use linchpin::resource::{EventGuard, EventScope, EventState};
use linchpin::{Adapters, Entity, EntityEvent, Error, Result};
use linchpin_core::entity::SoftDelete;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::many;
use super::queued::{self, QueuedFrame};
use crate::channel::{Change, Declared, On, Payload, RoomKey, RoomScope, SseDesc};
use crate::engine::{Append, EventId, Stream};
use crate::rooms::{About, Carrier, Origin, StoredEvent, StoredFrame, stream_name};

/// The rooms that each event reaches, computed once at start-up.
pub(super) struct Plan {
    /// By the storage name of the event's entity.
    entities: HashMap<&'static str, Planned>,
    /// Whether code publishes frames in transactions.
    queues: bool,
    /// The guards of collections, by the position of the channel: they know the partition of a
    /// caller.
    collections: HashMap<usize, Arc<EventGuard>>,
}

#[derive(Default)]
struct Planned {
    /// What declarations list.
    targets: Vec<Target>,
    /// The targets of every other event: they report that a record is out of sight now.
    quiet: Vec<Target>,
    reads: FieldSet,
    /// Whether a target takes events about many records.
    many: bool,
}

/// Whether an event has the states of its records, which the checks of subscribers need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventStates {
    /// It has them, or no room takes the event.
    Known,
    /// It has none: an earlier release has written it.
    Missing,
}

/// The rooms of one channel, or the streams of one SSE endpoint, that some events of an entity reach.
struct Target {
    /// The routes whose events it takes; `None` for every route. Then clients get no event, only
    /// what follows from a change of who sees the record.
    routes: Option<Vec<&'static str>>,
    carrier: Carrier,
    payload: Payload,
    on: On,
    /// The conditions on the record, one of which must hold, and the fields that each reads; empty
    /// if there is none.
    when: Vec<(Filter, FieldSet)>,
    guard: Arc<EventGuard>,
}

/// The rooms of the record of an event.
struct Places<'e> {
    record: &'e str,
    /// After the event, or before a deletion.
    state: &'e Map<String, Value>,
    /// Before an update.
    before: Option<&'e Map<String, Value>>,
    deleted: bool,
    /// The room that it belongs to.
    new: Option<Stream>,
    /// The room that it has left, and its state there.
    old: Option<(&'e Map<String, Value>, Stream)>,
}

impl Plan {
    /// Plans the events of channels.
    ///
    /// # Errors
    /// `internal` if an entity is not mounted, or if its read policy cannot be judged in memory.
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
            let of = guard(channel.of)?;
            plan.read(channel.of, fields_of(&of, channel.of));
            let carrier = Carrier::Channel(channel);
            if channel.scope == RoomScope::Record {
                plan.quiet(carrier, On::new(channel.of, &[]), Vec::new(), of);
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
        // The own entity of a collection may have no events in it.
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

    /// Plans what the rooms of a carrier get of the events that it does not list: each change of
    /// who sees a record. Variants that lead to the same rooms share it.
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
            // Without a condition, every record is in the room.
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

    /// The guard of a collection, for the partition of a caller.
    pub(super) fn collection(&self, channel: usize) -> Option<&Arc<EventGuard>> {
        self.collections.get(&channel)
    }

    /// Whether rooms take events of an entity.
    pub(super) fn takes(&self, entity: &EntityDesc) -> bool {
        let own = self.queues && entity.storage_name == QueuedFrame::DESC.storage_name;
        own || self.entities.contains_key(entity.storage_name)
    }

    /// The fields of an entity that conditions read.
    pub(super) fn reads(&self, entity: &EntityDesc) -> FieldSet {
        if entity.storage_name == QueuedFrame::DESC.storage_name {
            return (0..entity.fields.len()).collect();
        }
        let planned = self.entities.get(entity.storage_name);
        planned.map_or(FieldSet::NONE, |planned| planned.reads)
    }

    /// Whether rooms take events about many records of an entity.
    pub(super) fn takes_many(&self, entity: &EntityDesc) -> bool {
        let planned = self.entities.get(entity.storage_name);
        planned.is_some_and(|planned| planned.many)
    }

    /// Adds the frames of an event.
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
            None => match many::records(event) {
                Some(each) => {
                    records = each;
                    &records[..]
                }
                None if is_listed || !event.keys.is_empty() => return Ok(EventStates::Missing),
                // No client misses a frame; rights are checked again anyway.
                None => return Ok(EventStates::Known),
            },
        };
        let mut streams: HashMap<String, u32> = HashMap::new();
        for event in events {
            let first = out.len();
            let places = targets.iter();
            let places = places.filter_map(|target| Some((*target, target.places(event)?)));
            let places: Vec<(&Target, Places<'_>)> = places.collect();
            // It leaves no room for one variant in which another one sends the event.
            let stays_in = |stream: &Stream| {
                let listed = places.iter().filter(|(target, _)| !target.is_quiet());
                let mut rooms = listed.filter_map(|(_, places)| places.new.as_ref());
                rooms.any(|new| new.name() == stream.name())
            };
            for (target, places) in &places {
                for (stream, about) in target.abouts(event, places) {
                    // A listed frame says who sees the record now, too.
                    let same = |append: &Append| append.stream.name() == stream.name();
                    let is_sent = || out[first..].iter().any(same);
                    if (about.left && stays_in(stream))
                        || ((about.left || about.quiet) && is_sent())
                    {
                        continue;
                    }
                    // An engine knows an event of a stream by its id.
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

/// Whether one event of a change is about many records.
fn is_about_many(change: Change, entity: &EntityDesc) -> bool {
    change.events(entity).iter().any(|event| event.counts)
}

/// The guard of an entity.
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

/// The positions of the fields that a guard reads.
fn fields_of(guard: &EventGuard, entity: &EntityDesc) -> FieldSet {
    let position = |name: &str| entity.fields.iter().position(|field| field.name == name);
    guard
        .fields()
        .filter_map(|field| position(field.name))
        .collect()
}

/// A frame for the engine.
pub(super) fn append(stream: Stream, id: &str, frame: Bytes) -> Result<Append> {
    let event = EventId::new(id).ok_or_else(|| Error::internal("an event has no legal id"))?;
    Ok(Append {
        stream,
        event,
        frame,
        fence: None,
    })
}

impl Target {
    fn is_quiet(&self) -> bool {
        self.routes.is_none()
    }

    /// The rooms of the record of an event; `None` if none of them gets a frame.
    fn places<'e>(&self, event: &'e EntityEvent) -> Option<Places<'e>> {
        // Nobody saw a new record before, and an update has `before` if a condition may change.
        if self.is_quiet() && event.after.is_some() && event.before.is_none() {
            return None;
        }
        let state = event
            .after
            .as_ref()
            .or(event.before.as_ref())?
            .as_object()?;
        let record = event.record_id.as_deref()?;
        let before = match event.after {
            Some(_) => event.before.as_ref().and_then(|before| before.as_object()),
            None => None,
        };
        // Who saw the record before its deletion hears of it, also if the record stays in the store.
        let marked = before.filter(|before| self.marks_deleted(before, state));
        let deleted = event.after.is_none() || marked.is_some();
        let (state, before) = match marked {
            Some(before) => (before, None),
            None => (state, before),
        };
        let stream = |of| self.holds(of).then(|| self.stream(record, of)).flatten();
        let new = stream(state);
        let old = before.and_then(|before| Some((before, stream(before)?)));
        let old = old.filter(|(_, old)| new.as_ref().is_none_or(|new| new.name() != old.name()));
        Some(Places {
            record,
            state,
            before,
            deleted,
            new,
            old,
        })
    }

    /// The records of an event as frames carry them: for the room that its record belongs to, and for the room that the
    /// record has left.
    fn abouts<'p>(
        &self,
        event: &EntityEvent,
        places: &'p Places<'_>,
    ) -> impl Iterator<Item = (&'p Stream, About)> {
        let (state, before) = (places.state, places.before);
        let about = |before, left| About {
            left,
            ..self.about(event, places.record, (state, before), places.deleted)
        };
        let is_sent = !self.is_quiet() || self.changes_sight(state, before, places.deleted);
        let new = places.new.as_ref().filter(|_| is_sent);
        let new = new.map(|stream| (stream, about(before, false)));
        let old = places.old.as_ref();
        let old = old.map(|(before, stream)| (stream, about(Some(*before), true)));
        new.into_iter().chain(old)
    }

    /// Whether an update sets the mark of deleted records.
    fn marks_deleted(&self, before: &Map<String, Value>, after: &Map<String, Value>) -> bool {
        let Some(mark) = self.on.entity.soft_delete else {
            return false;
        };
        let wire = self.on.entity.fields[mark.field()].wire;
        let is_set = |record: &Map<String, Value>| {
            let value = record.get(wire).unwrap_or(&Value::Null);
            match mark {
                SoftDelete::At(_) => !value.is_null(),
                SoftDelete::Is(_, deleted) => match deleted() {
                    linchpin::Value::Text(deleted) => value.as_str() == Some(&*deleted),
                    _ => false,
                },
            }
        };
        is_set(after) && !is_set(before)
    }

    /// Whether the record satisfies the condition of the declaration.
    fn holds(&self, record: &Map<String, Value>) -> bool {
        let holds = |(filter, fields): &(Filter, FieldSet)| {
            EventState::read(self.on.entity, *fields, record)
                .is_some_and(|state| state.satisfies(filter))
        };
        self.when.is_empty() || self.when.iter().any(holds)
    }

    /// Whether members of the room may see the record no longer, or see it anew: an update changed
    /// a field that the guard reads, or the room's own record is gone.
    fn changes_sight(
        &self,
        state: &Map<String, Value>,
        before: Option<&Map<String, Value>>,
        deleted: bool,
    ) -> bool {
        let is_own = self
            .carrier
            .record_of()
            .is_some_and(|of| of.storage_name == self.on.entity.storage_name);
        let differs = |before: &Map<String, Value>| {
            self.guard
                .fields()
                .any(|f| state.get(f.wire) != before.get(f.wire))
        };
        (deleted && is_own && self.on.by.is_none()) || before.is_some_and(differs)
    }

    /// The key of the record whose room an event belongs to.
    fn key(&self, record: &str, state: &Map<String, Value>) -> Option<String> {
        let Some(by) = self.on.by else {
            return Some(record.to_owned());
        };
        EventState::read(self.on.entity, FieldSet::NONE.with(by), state)?.key(by)
    }

    /// The stream of the room of a record in this state; `None` if it belongs to no room.
    fn stream(&self, record: &str, state: &Map<String, Value>) -> Option<Stream> {
        let (key, owners) = match self.carrier.scope() {
            RoomScope::Record => (RoomKey::Record(self.key(record, state)?), Vec::new()),
            RoomScope::Collection => {
                let owners = self.guard.owners(&self.guard.state(state)?);
                (RoomKey::Collection, owners)
            }
        };
        let room = match self.carrier {
            // Nobody can join a room whose name is too long.
            Carrier::Channel(channel) => key.name(channel).ok()?,
            Carrier::Endpoint(endpoint) => endpoint.path.to_owned(),
        };
        let name = stream_name(&room, &owners);
        Some(Stream::new(name, self.carrier.history()))
    }

    /// The record of an event, as the checks of subscribers need it.
    fn about(
        &self,
        event: &EntityEvent,
        record: &str,
        (state, before): (&Map<String, Value>, Option<&Map<String, Value>>),
        deleted: bool,
    ) -> About {
        let read = |from: &Map<String, Value>| -> Map<String, Value> {
            let fields = self.guard.fields();
            let value = |wire: &str| Some((wire.to_owned(), from.get(wire)?.clone()));
            fields.filter_map(|field| value(field.wire)).collect()
        };
        About {
            entity: event.entity.clone().into_owned(),
            record: record.to_owned(),
            state: read(state),
            before: before.map(read),
            deleted,
            left: false,
            quiet: self.is_quiet(),
        }
    }

    /// The bytes of an event for the engine.
    fn frame(&self, event: &EntityEvent, about: About) -> Result<Bytes> {
        let payload = if about.left || about.quiet {
            "null".to_owned()
        } else {
            self.payload(event)
        };
        let frame = StoredFrame {
            event: self.on.name.unwrap_or(&event.name).to_owned(),
            aliases: self
                .on
                .alias
                .iter()
                .map(|name| (*name).to_owned())
                .collect(),
            payload: RawValue::from_string(payload).map_err(Error::internal)?,
            truncated: event.payload_ref.is_some(),
            id: event.id.to_string(),
            at: event.at.to_string(),
            about: Some(about),
        };
        match self.carrier {
            Carrier::Channel(_) => frame.encode(),
            Carrier::Endpoint(endpoint) => StoredEvent {
                frame,
                origin: endpoint.filter.map(|_| Origin::of(event)),
            }
            .encode(),
        }
    }

    /// The payload as clients get it.
    fn payload(&self, event: &EntityEvent) -> String {
        match self.payload {
            Payload::Record => event.payload.text().into_owned(),
            Payload::Projection(_, names) => {
                let fields = self.on.entity.fields.iter();
                let named = fields.filter(|field| names.contains(&field.name));
                let members = named.filter_map(|field| {
                    let value = event.payload.get(field.wire)?.clone();
                    Some((field.wire.to_owned(), value))
                });
                Value::Object(members.collect()).to_string()
            }
            Payload::None | Payload::Members(_) => "null".to_owned(),
        }
    }
}
