//! The rooms of one declaration, and the frames that they get for an event.

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

/// The rooms of one channel, or the streams of one SSE endpoint, that some events of an entity
/// reach.
pub(super) struct Target {
    /// The routes whose events reach the target. `None` for a quiet target: events of every route
    /// reach it, but clients get no event, only a notice if the record is no longer visible to
    /// them.
    pub(super) routes: Option<Vec<&'static str>>,
    pub(super) carrier: Carrier,
    pub(super) payload: Payload,
    pub(super) on: On,
    /// The conditions on the record, each with the fields that it reads. At least one condition
    /// must be true. The list is empty if there is no condition.
    pub(super) when: Vec<(Filter, FieldSet)>,
    pub(super) guard: Arc<EventGuard>,
}

/// The rooms of the record of an event.
pub(super) struct RecordRooms<'e> {
    record: &'e str,
    /// The state after the event, or before a deletion.
    state: &'e Map<String, Value>,
    /// The state before an update.
    before: Option<&'e Map<String, Value>>,
    deleted: bool,
    /// The stream of the room that the record belongs to.
    pub(super) new: Option<Stream>,
    /// The stream of the room that the record has left, and its state there.
    old: Option<(&'e Map<String, Value>, Stream)>,
}

impl Target {
    pub(super) fn is_quiet(&self) -> bool {
        self.routes.is_none()
    }

    /// Returns the rooms of the record of an event; `None` if none of them gets a frame.
    pub(super) fn rooms_of<'e>(&self, event: &'e EntityEvent) -> Option<RecordRooms<'e>> {
        // A new record was not visible before. An update has `before` if a condition may change.
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
        // Callers who could see the record before its deletion are notified, even if the deletion
        // only marks it as deleted.
        let marked = before.filter(|before| self.marks_deleted(before, state));
        let deleted = event.after.is_none() || marked.is_some();
        let (state, before) = match marked {
            Some(before) => (before, None),
            None => (state, before),
        };
        let stream = |state| {
            self.satisfies_condition(state)
                .then(|| self.stream(record, state))
                .flatten()
        };
        let new = stream(state);
        let old = before.and_then(|before| Some((before, stream(before)?)));
        let old = old.filter(|(_, old)| new.as_ref().is_none_or(|new| new.name() != old.name()));
        Some(RecordRooms {
            record,
            state,
            before,
            deleted,
            new,
            old,
        })
    }

    /// Returns the record of an event as frames carry it: for the room that the record belongs to,
    /// and for the room that it has left.
    pub(super) fn abouts<'p>(
        &self,
        event: &EntityEvent,
        places: &'p RecordRooms<'_>,
    ) -> impl Iterator<Item = (&'p Stream, About)> {
        let (state, before) = (places.state, places.before);
        let about = |before, left| About {
            left,
            ..self.about(event, places.record, (state, before), places.deleted)
        };
        let is_sent = !self.is_quiet() || self.may_change_visibility(state, before, places.deleted);
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
    fn satisfies_condition(&self, record: &Map<String, Value>) -> bool {
        let holds = |(filter, fields): &(Filter, FieldSet)| {
            EventState::read(self.on.entity, *fields, record)
                .is_some_and(|state| state.satisfies(filter))
        };
        self.when.is_empty() || self.when.iter().any(holds)
    }

    /// Whether the record may have become visible or invisible to members of the room: an update
    /// changed a field that the guard reads, or the room's own record was deleted.
    fn may_change_visibility(
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

    /// Returns the key of the record whose room an event belongs to.
    fn key(&self, record: &str, state: &Map<String, Value>) -> Option<String> {
        let Some(by) = self.on.by else {
            return Some(record.to_owned());
        };
        EventState::read(self.on.entity, FieldSet::NONE.with(by), state)?.key(by)
    }

    /// Returns the stream of the room of a record in this state; `None` if it belongs to no room.
    fn stream(&self, record: &str, state: &Map<String, Value>) -> Option<Stream> {
        let (key, owners) = match self.carrier.scope() {
            RoomScope::Record => (RoomKey::Record(self.key(record, state)?), Vec::new()),
            RoomScope::Collection => {
                let owners = self.guard.owners(&self.guard.state(state)?);
                (RoomKey::Collection, owners)
            }
        };
        let room = match self.carrier {
            // A room with a name that is too long has no members, because no client can join it.
            Carrier::Channel(channel) => key.name(channel).ok()?,
            Carrier::Endpoint(endpoint) => endpoint.path.to_owned(),
        };
        let name = stream_name(&room, &owners);
        Some(Stream::new(name, self.carrier.history()))
    }

    /// Returns the record of an event in the form that the checks of subscribers need.
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

    /// Encodes an event for the engine.
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

    /// Returns the payload that clients get.
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
