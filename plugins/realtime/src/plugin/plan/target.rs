//! The rooms of one declaration, and the frames that an event becomes in them.

use std::sync::Arc;

use bytes::Bytes;
use linchpin::entity::FieldSet;
use linchpin::filter::Filter;
use linchpin::resource::{EventGuard, EventState};
use linchpin::{EntityEvent, Error, Result};
use linchpin_core::entity::SoftDelete;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::channel::{On, Payload, RoomKey, RoomScope};
use crate::engine::Stream;
use crate::rooms::{About, Carrier, Origin, StoredEvent, StoredFrame, stream_name};

/// The rooms of one channel, or the streams of one SSE endpoint, that some events of an entity reach.
pub(super) struct Target {
    /// The routes whose events it takes; `None` for every route. Then clients get no event, only
    /// what follows from a change of who sees the record.
    pub(super) routes: Option<Vec<&'static str>>,
    pub(super) carrier: Carrier,
    pub(super) payload: Payload,
    pub(super) on: On,
    /// The conditions on the record, one of which must hold, and the fields that each reads; empty
    /// if there is none.
    pub(super) when: Vec<(Filter, FieldSet)>,
    pub(super) guard: Arc<EventGuard>,
}

/// The rooms of the record of an event.
pub(super) struct Places<'e> {
    record: &'e str,
    /// After the event, or before a deletion.
    state: &'e Map<String, Value>,
    /// Before an update.
    before: Option<&'e Map<String, Value>>,
    deleted: bool,
    /// The room that it belongs to.
    pub(super) new: Option<Stream>,
    /// The room that it has left, and its state there.
    old: Option<(&'e Map<String, Value>, Stream)>,
}

impl Target {
    pub(super) fn is_quiet(&self) -> bool {
        self.routes.is_none()
    }

    /// The rooms of the record of an event; `None` if none of them gets a frame.
    pub(super) fn places<'e>(&self, event: &'e EntityEvent) -> Option<Places<'e>> {
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
    pub(super) fn abouts<'p>(
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
    pub(super) fn frame(&self, event: &EntityEvent, about: About) -> Result<Bytes> {
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
