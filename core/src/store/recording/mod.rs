//! The events of one statement.
//!
//! The runtime creates a recording. The store fills it and writes it in the transaction.

mod many;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use self::many::Chunk;
use super::{Plan, Projection, Row};
use crate::entity::EntityDesc;
use crate::event::{ActorRef, EntityEvent, Entry, Payload, RecordRef};
use crate::json::{write_str, write_value};
use crate::{Timestamp, Uuid, Value, ValueRef};

/// The events of one route: names, payload and audience.
#[derive(Debug)]
pub struct RouteEvent {
    /// The entity of the changed records.
    pub entity: &'static EntityDesc,
    /// The name of the route or of the operation.
    pub route: &'static str,
    /// The names of the events.
    pub name: Name,
    /// The fields that clients receive.
    pub payload: Projection,
    /// The fields beyond the payload that conditions of consumers read; `None` if there are none.
    pub beyond: Option<Projection>,
    /// All fields that conditions of consumers read; `None` if there are none.
    pub read: Option<Projection>,
    /// Whether one event for all records replaces one event per record. It contains the number of
    /// records.
    pub counts: bool,
    /// Whether only consumers that need every record receive it.
    pub internal: bool,
    /// The maximum number of bytes of a payload that a consumer accepts. A larger payload is
    /// replaced by a reference.
    pub largest: usize,
}

impl RouteEvent {
    /// Returns all possible names of the events.
    pub fn names(&self) -> Vec<&str> {
        match &self.name {
            Name::Of(name) => vec![name],
            Name::Upsert { created, updated } => vec![created, updated],
        }
    }
}

/// The name of an event.
#[derive(Debug)]
pub enum Name {
    /// The name for all statements except upserts.
    Of(String),
    /// The names for an upsert.
    Upsert {
        /// The name if the record is new.
        created: String,
        /// The name if the record existed.
        updated: String,
    },
}

/// The audience of the events of a statement.
#[derive(Clone, Copy, Debug, Default)]
pub struct Audience {
    /// Whether a consumer needs the keys of events about many records.
    pub listed: bool,
    /// Whether a consumer needs the keys and the states of events about many records.
    pub states: bool,
    /// Whether a consumer needs the events after a crash, so that the outbox stores them.
    pub stored: bool,
}

/// The events that one statement records.
#[derive(Clone, Debug)]
pub struct Recording {
    route: Arc<RouteEvent>,
    actor: ActorRef,
    /// Tenant of the actor. Used for entities without a tenant, and for events about many records.
    tenant: Option<String>,
    request: String,
    at: Timestamp,
    stored: bool,
    inserts: bool,
    removes: bool,
    records: Vec<Recorded>,
    /// The keys for an event about many records; `None` if no consumer needs them.
    keys: Option<Vec<String>>,
    /// The states of the records with these keys; `None` if no consumer needs them.
    states: Option<Vec<Vec<u8>>>,
    /// Keys of records, sorted, with the earlier values of the fields that conditions read.
    before: Vec<(String, Vec<u8>)>,
    /// The id of the first event; `None` if the events are internal.
    pub first: Option<Uuid>,
}

/// The recorded data of one record.
#[derive(Clone, Debug)]
struct Recorded {
    key: String,
    version: Option<i64>,
    tenant: Option<String>,
    /// The payload, and then the fields beyond it.
    data: Vec<u8>,
    /// The length of the payload.
    payload: usize,
    /// The state of a record whose payload is too large.
    state: Option<Vec<u8>>,
}

impl Recording {
    /// Creates an empty recording for a call of `actor`, with the actor's tenant.
    pub fn new(
        route: Arc<RouteEvent>,
        (actor, tenant): (ActorRef, Option<String>),
        request: &str,
        at: Timestamp,
        audience: Audience,
    ) -> Self {
        let keys = ((audience.listed || audience.states) && route.counts).then(Vec::new);
        let states = (audience.states && route.counts).then(Vec::new);
        Self {
            route,
            actor,
            tenant,
            request: request.to_owned(),
            at,
            stored: audience.stored,
            inserts: false,
            removes: false,
            records: Vec::new(),
            keys,
            states,
            before: Vec::new(),
            first: None,
        }
    }

    /// Stores whether the plan inserts or deletes.
    #[doc(hidden)]
    pub fn set_plan(&mut self, plan: &Plan) {
        self.inserts = matches!(plan, Plan::Insert);
        self.removes = matches!(plan, Plan::Delete { .. });
    }

    /// Whether the recording needs only the number of records, and no rows.
    #[doc(hidden)]
    pub fn only_counts(&self) -> bool {
        self.route.counts && self.keys.is_none()
    }

    /// Stores the earlier states of the records that the statement changes. `before` has the
    /// records before the statement; only the fields that conditions of consumers read are kept.
    #[doc(hidden)]
    pub fn set_before(&mut self, before: &[Box<[Value]>]) {
        let unread = self.route.counts && self.states.is_none();
        let (Some(read), false) = (&self.route.read, unread) else {
            return;
        };
        let primary = self.route.entity.primary;
        let kept = before.iter().map(|record| {
            let mut out = Vec::with_capacity(64);
            read.write(&**record, &mut out);
            (key_of(record[primary].as_ref()), out)
        });
        self.before = kept.collect();
        self.before.sort_unstable();
    }

    /// Adds a record that the statement wrote or removed.
    #[doc(hidden)]
    pub fn add<R: Row + ?Sized>(&mut self, row: &R) {
        let entity = self.route.entity;
        if self.route.counts {
            if let Some(keys) = &mut self.keys {
                keys.push(key_of(row.value(entity.primary)));
            }
            if let Some(states) = &mut self.states {
                states.push(state_of(self.route.read.as_ref(), row));
            }
            return;
        }
        let version = entity
            .version
            .and_then(|version| match row.value(version.field) {
                ValueRef::Int(version) => Some(version),
                _ => None,
            });
        let tenant = entity
            .tenant
            .and_then(|tenant| match row.value(tenant.field) {
                ValueRef::Text(tenant) => Some(tenant.to_owned()),
                // The actor's tenant is text, so an integer tenant becomes text.
                ValueRef::Int(tenant) => Some(tenant.to_string()),
                _ => None,
            });
        let mut data = Vec::with_capacity(512);
        self.route.payload.write(row, &mut data);
        let (mut payload, mut state) = (data.len(), None);
        if payload > self.route.largest {
            data = b"null".to_vec();
            payload = data.len();
            state = Some(state_of(self.route.read.as_ref(), row));
        } else if let Some(beyond) = &self.route.beyond {
            beyond.write(row, &mut data);
        }
        self.records.push(Recorded {
            key: key_of(row.value(entity.primary)),
            version,
            tenant,
            data,
            payload,
            state,
        });
    }

    /// Returns the events of the statement, after it changed `count` records. `created` says
    /// whether an upsert made the record.
    #[doc(hidden)]
    pub fn entries(&mut self, count: usize, created: bool) -> Vec<Entry> {
        let mut entries = Vec::with_capacity(self.records.len().max(1));
        if self.route.counts {
            if count > 0 {
                let keys = self.keys.take().unwrap_or_default();
                let states = self.states.take();
                let parts = many::chunks(&keys, states.as_deref(), &self.before);
                for (n, part) in parts.iter().enumerate() {
                    let internal = self.route.internal || n > 0;
                    entries.push(self.entry_for_many(count, created, part, internal));
                }
            }
        } else {
            for record in std::mem::take(&mut self.records) {
                entries.push(self.entry_for_one(record, created));
            }
        }
        self.first = entries
            .first()
            .filter(|_| !self.route.internal)
            .map(|entry| entry.event.id.clone());
        entries
    }

    /// An event without payload.
    fn event(&self, created: bool) -> EntityEvent {
        let route = &self.route;
        let name = match &route.name {
            Name::Of(name) => name,
            Name::Upsert { created: name, .. } if created || self.inserts => name,
            Name::Upsert { updated, .. } => updated,
        };
        EntityEvent {
            id: Uuid::new_v7(),
            name: name.clone(),
            entity: Cow::Borrowed(route.entity.storage_name),
            route: Cow::Borrowed(route.route),
            record_id: None,
            payload: Payload::null(),
            payload_ref: None,
            before: None,
            after: None,
            actor: self.actor.clone(),
            tenant_id: self.tenant.clone(),
            request_id: self.request.clone(),
            at: self.at,
            version: None,
            keys: Vec::new(),
        }
    }

    /// An entry about many records: their number, and the keys and states of one chunk of them.
    fn entry_for_many(
        &self,
        count: usize,
        created: bool,
        part: &Chunk<'_>,
        internal: bool,
    ) -> Entry {
        let mut event = self.event(created);
        event.keys = part.keys.to_vec();
        let data = format!("{{\"count\":{count}}}").into_bytes();
        let before = part.before.as_deref().filter(|_| !self.removes);
        let state_time = if self.removes { "before" } else { "after" };
        let parts = Parts {
            payload: data.len(),
            state_time: part.states.is_some().then_some(state_time),
            state: part.states.as_deref(),
            before,
            internal,
        };
        let (text, at, _) = self.text(&event, data, &parts);
        event.payload = Payload::within(&text, at, None);
        let json = |array: &[u8]| Payload::of(&String::from_utf8_lossy(array));
        let states = part.states.as_deref().map(json);
        if self.removes {
            event.before = states;
        } else {
            (event.before, event.after) = (before.map(json), states);
        }
        self.finish(event, text, internal)
    }

    fn entry_for_one(&self, record: Recorded, created: bool) -> Entry {
        let mut event = self.event(created);
        if self.route.entity.tenant.is_some() {
            event.tenant_id = record.tenant;
        }
        event.version = record.version;
        if record.state.is_some() {
            event.payload_ref = Some(RecordRef {
                entity: event.entity.clone(),
                id: record.key.clone(),
            });
        }
        let before = (!self.removes)
            .then(|| many::before_of(&self.before, &record.key))
            .flatten();
        event.record_id = Some(record.key);
        let parts = Parts {
            payload: record.payload,
            state_time: Some(if self.removes { "before" } else { "after" }),
            state: record.state.as_deref(),
            before,
            internal: self.route.internal,
        };
        let (text, at, beyond) = self.text(&event, record.data, &parts);
        event.payload = Payload::within(&text, at.clone(), None);
        let state = match (&record.state, beyond) {
            (Some(state), _) => Payload::of(&String::from_utf8_lossy(state)),
            (None, None) => event.payload.clone(),
            (None, beyond) => Payload::within(&text, at, beyond),
        };
        if self.removes {
            event.before = Some(state);
        } else {
            event.before = before.map(|json| Payload::of(&String::from_utf8_lossy(json)));
            event.after = Some(state);
        }
        self.finish(event, text, self.route.internal)
    }

    fn finish(&self, event: EntityEvent, text: Arc<str>, internal: bool) -> Entry {
        Entry {
            event: Arc::new(event),
            internal,
            stored: self.stored,
            text,
        }
    }

    /// Returns the text that the payload shares, and the ranges of the payload and of the fields
    /// beyond it. The text is the JSON for the outbox if the event is stored, else only the payload
    /// and the fields beyond it.
    fn text(
        &self,
        event: &EntityEvent,
        data: Vec<u8>,
        parts: &Parts<'_>,
    ) -> (Arc<str>, Range<usize>, Option<Range<usize>>) {
        let (text, at, beyond) = if self.stored {
            parts.stored(event, &data)
        } else {
            let end = data.len();
            (data, 0..parts.payload, Some(parts.payload..end))
        };
        // All parts are UTF-8: strings, and JSON written from strings.
        let text = Arc::from(String::from_utf8(text).unwrap_or_default());
        (text, at, beyond.filter(|beyond| !beyond.is_empty()))
    }
}

/// The fields that conditions read, as JSON.
fn state_of<R: Row + ?Sized>(read: Option<&Projection>, row: &R) -> Vec<u8> {
    let mut out = Vec::new();
    match read {
        Some(read) => read.write(row, &mut out),
        None => out.extend_from_slice(b"{}"),
    }
    out
}

/// The key of a record as text.
fn key_of(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Text(text) => text.to_owned(),
        ValueRef::Int(key) => key.to_string(),
        _ => String::new(),
    }
}

/// The parts of the JSON of an event that [`EntityEvent`] does not contain.
#[derive(Default)]
struct Parts<'a> {
    /// The length of the payload. The fields beyond it follow.
    payload: usize,
    /// `before` or `after`: whether the record had the stored state before or after the change. The
    /// stored state is `state`, or else the payload with the fields beyond it.
    state_time: Option<&'static str>,
    /// The state if it is not the payload with the fields beyond it.
    state: Option<&'a [u8]>,
    /// The state before a change that does not remove records.
    before: Option<&'a [u8]>,
    /// Whether only consumers that need every record receive the event.
    internal: bool,
}

impl Parts<'_> {
    /// The JSON of an event for the outbox, and the ranges of the payload and of the fields beyond
    /// it.
    fn stored(
        &self,
        event: &EntityEvent,
        data: &[u8],
    ) -> (Vec<u8>, Range<usize>, Option<Range<usize>>) {
        let mut out = Vec::with_capacity(data.len() + 384);
        let mut text = |key: &[u8], value: Option<&str>| {
            if let Some(value) = value {
                out.extend_from_slice(key);
                write_str(value, &mut out);
            }
        };
        text(b"{\"id\":", Some(event.id.as_str()));
        text(b",\"entity\":", Some(&event.entity));
        text(b",\"record\":", event.record_id.as_deref());
        text(b",\"name\":", Some(&event.name));
        text(b",\"route\":", Some(&event.route));
        text(b",\"actor\":", Some(&event.actor.kind));
        text(b",\"actorId\":", event.actor.id.as_deref());
        text(b",\"tenant\":", event.tenant_id.as_deref());
        text(b",\"request\":", Some(&event.request_id));
        text(b",\"of\":", self.state_time);
        out.extend_from_slice(b",\"at\":");
        write_value(ValueRef::Int(event.at.millis()), &mut out);
        if let Some(version) = event.version {
            out.extend_from_slice(b",\"version\":");
            write_value(ValueRef::Int(version), &mut out);
        }
        for (n, key) in event.keys.iter().enumerate() {
            out.extend_from_slice(if n == 0 { b",\"keys\":[" } else { b"," });
            write_str(key, &mut out);
        }
        if !event.keys.is_empty() {
            out.push(b']');
        }
        let mut json = |key: &[u8], value: Option<&[u8]>| {
            let value = value.filter(|value| !value.is_empty())?;
            out.extend_from_slice(key);
            let from = out.len();
            out.extend_from_slice(value);
            Some(from..out.len())
        };
        let true_if = |flag: bool| flag.then_some(&b"true"[..]);
        json(b",\"internal\":", true_if(self.internal));
        json(b",\"ref\":", true_if(event.payload_ref.is_some()));
        json(b",\"state\":", self.state);
        json(b",\"before\":", self.before);
        let beyond = json(b",\"beyond\":", Some(&data[self.payload..]));
        let at = json(b",\"payload\":", Some(&data[..self.payload])).unwrap_or_default();
        out.push(b'}');
        (out, at, beyond)
    }
}
