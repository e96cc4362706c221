//! What a statement records: made where the call is known, filled where the rows are, written where the transaction is.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::{ActorRef, EntityEvent};
use crate::entity::EntityDesc;
use crate::json::{write_str, write_value};
use crate::store::{Plan, Projection, Row};
use crate::{Error, Result, Timestamp, Uuid, ValueRef};

/// The keys that one event about many records lists.
const KEYS: usize = 500;

/// What the mutations of one route are called, and what their events hold.
#[derive(Debug)]
pub struct RouteEvent {
    /// Whose records change.
    pub entity: &'static EntityDesc,
    /// The route, or the operation's name.
    pub route: &'static str,
    /// The name of its events.
    pub name: Name,
    /// What clients see.
    pub payload: Projection,
    /// What the server's own consumers see; `None` when that is the same.
    pub state: Option<Projection>,
    /// One event for all records, with their number.
    pub counts: bool,
    /// Told to nobody but consumers that need every record.
    pub internal: bool,
}

impl RouteEvent {
    /// Every name that its events can have.
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
    /// Of every statement but an upsert.
    Of(String),
    /// Of a statement that creates or changes.
    Upsert {
        /// The name when the record is new.
        created: String,
        /// The name when the record was there.
        updated: String,
    },
}

/// What one statement records.
#[derive(Clone, Debug)]
pub struct Recording {
    route: Arc<RouteEvent>,
    actor: ActorRef,
    /// The actor's, for records that have none.
    tenant: Option<String>,
    request: String,
    at: Timestamp,
    inserts: bool,
    removes: bool,
    records: Vec<Recorded>,
    /// The keys of an event about many records; `None` when nobody needs them.
    keys: Option<Vec<String>>,
    /// The first event that was written.
    pub first: Option<Uuid>,
}

/// What is kept of one record.
#[derive(Clone, Debug)]
struct Recorded {
    key: String,
    version: Option<i64>,
    tenant: Option<String>,
    payload: Vec<u8>,
    state: Option<Vec<u8>>,
}

/// An event as a store writes it: a row of `linchpin_outbox`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Unique, and ascending within a process.
    pub id: Uuid,
    /// The storage name of the entity.
    pub entity: Cow<'static, str>,
    /// The key of the record.
    pub record: Option<String>,
    /// The instant of the call.
    pub at: Timestamp,
    /// Everything else: JSON.
    pub event: String,
}

impl Recording {
    /// `listed` says that somebody needs the keys of events about many records.
    pub fn new(route: Arc<RouteEvent>, actor: ActorRef, tenant: Option<String>, request: &str, at: Timestamp, listed: bool) -> Self {
        let (request, records) = (request.to_owned(), Vec::new());
        let keys = (listed && route.counts).then(Vec::new);
        Self { route, actor, tenant, request, at, inserts: false, removes: false, records, keys, first: None }
    }

    /// Notes what the statement does that is going to run.
    #[doc(hidden)]
    pub fn of(&mut self, plan: &Plan) {
        self.inserts = matches!(plan, Plan::Insert);
        self.removes = matches!(plan, Plan::Delete { .. });
    }

    /// Whether the number of records is enough.
    #[doc(hidden)]
    pub fn only_counts(&self) -> bool {
        self.route.counts && self.keys.is_none()
    }

    /// Takes a record that the statement has written or removed.
    #[doc(hidden)]
    pub fn take<R: Row + ?Sized>(&mut self, row: &R) {
        let entity = self.route.entity;
        let key = || match row.value(entity.primary) {
            ValueRef::Text(text) => text.to_owned(),
            ValueRef::Int(key) => key.to_string(),
            _ => String::new(),
        };
        if self.route.counts {
            if let Some(keys) = &mut self.keys {
                keys.push(key());
            }
            return;
        }
        let json = |projection: &Projection| {
            let mut out = Vec::with_capacity(256);
            projection.write(row, &mut out);
            out
        };
        let key = key();
        let version = entity.version.and_then(|version| match row.value(version.field) {
            ValueRef::Int(version) => Some(version),
            _ => None,
        });
        let tenant = entity.tenant.and_then(|tenant| match row.value(tenant.field) {
            ValueRef::Text(tenant) => Some(tenant.to_owned()),
            // As the actor has it, whose tenant is text always.
            ValueRef::Int(tenant) => Some(tenant.to_string()),
            _ => None,
        });
        let (payload, state) = (json(&self.route.payload), self.route.state.as_ref().map(json));
        self.records.push(Recorded { key, version, tenant, payload, state });
    }

    /// The events of the statement, once it has run: `count` records, the one of an upsert `created` or not.
    #[doc(hidden)]
    pub fn entries(&mut self, count: usize, created: bool) -> Vec<Entry> {
        let mut entries = Vec::with_capacity(self.records.len().max(1));
        if self.route.counts {
            if count > 0 {
                let payload = format!("{{\"count\":{count}}}").into_bytes();
                let keys = self.keys.take().unwrap_or_default();
                let (first, further) = keys.split_at(keys.len().min(KEYS));
                entries.push(self.entry(None, &payload, created, first, self.route.internal));
                for keys in further.chunks(KEYS) {
                    entries.push(self.entry(None, &payload, created, keys, true));
                }
            }
        } else {
            for record in std::mem::take(&mut self.records) {
                entries.push(self.entry(Some(&record), &record.payload, created, &[], self.route.internal));
            }
        }
        self.first = entries.first().filter(|_| !self.route.internal).map(|entry| entry.id.clone());
        entries
    }

    fn entry(&self, record: Option<&Recorded>, payload: &[u8], created: bool, keys: &[String], internal: bool) -> Entry {
        let route = &self.route;
        let name = match &route.name {
            Name::Of(name) => name,
            Name::Upsert { created: name, .. } if created || self.inserts => name,
            Name::Upsert { updated, .. } => updated,
        };
        let state = record.and_then(|r| r.state.as_deref());
        let mut out = Vec::with_capacity(payload.len() + state.map_or(0, <[u8]>::len) + 256);
        let mut text = |key: &[u8], value: Option<&str>| {
            if let Some(value) = value {
                out.extend_from_slice(key);
                write_str(value, &mut out);
            }
        };
        text(b"{\"name\":", Some(name));
        text(b",\"route\":", Some(route.route));
        text(b",\"actor\":", Some(&self.actor.kind));
        text(b",\"actorId\":", self.actor.id.as_deref());
        // A record says itself whose it is; those of entities without tenants are of whoever wrote them.
        let tenant = match record {
            Some(record) if route.entity.tenant.is_some() => record.tenant.as_deref(),
            _ => self.tenant.as_deref(),
        };
        text(b",\"tenant\":", tenant);
        text(b",\"request\":", Some(&self.request));
        if record.is_some() {
            text(b",\"of\":", Some(if self.removes { "before" } else { "after" }));
        }
        if let Some(version) = record.and_then(|r| r.version) {
            out.extend_from_slice(b",\"version\":");
            write_value(ValueRef::Int(version), &mut out);
        }
        if let Some(state) = state {
            out.extend_from_slice(b",\"state\":");
            out.extend_from_slice(state);
        }
        if internal {
            out.extend_from_slice(b",\"internal\":true");
        }
        for (n, key) in keys.iter().enumerate() {
            out.extend_from_slice(if n == 0 { b",\"keys\":[" } else { b"," });
            write_str(key, &mut out);
        }
        if !keys.is_empty() {
            out.push(b']');
        }
        out.extend_from_slice(b",\"payload\":");
        out.extend_from_slice(payload);
        out.push(b'}');
        Entry {
            id: Uuid::new_v7(),
            entity: Cow::Borrowed(route.entity.storage_name),
            record: record.map(|r| r.key.clone()),
            at: self.at,
            // Made of strings and of JSON that was written from strings.
            event: String::from_utf8(out).unwrap_or_default(),
        }
    }
}

/// The JSON of an [`Entry`].
#[derive(serde::Deserialize)]
struct Stored<'a> {
    name: String,
    route: String,
    actor: String,
    #[serde(rename = "actorId", default)]
    actor_id: Option<String>,
    #[serde(default)]
    tenant: Option<String>,
    request: String,
    #[serde(default)]
    of: Option<String>,
    #[serde(default)]
    version: Option<i64>,
    #[serde(default)]
    internal: bool,
    #[serde(default)]
    keys: Vec<String>,
    #[serde(borrow, default)]
    state: Option<&'a RawValue>,
    #[serde(borrow)]
    payload: &'a RawValue,
}

impl Entry {
    /// The event that was written, and whether it is for consumers alone that need every record.
    ///
    /// # Errors
    /// When something else has written to the outbox.
    #[doc(hidden)]
    pub fn decode(self) -> Result<(EntityEvent, bool)> {
        let read = |text: &str| {
            let stored: Stored<'_> = serde_json::from_str(text)?;
            let payload: serde_json::Value = serde_json::from_str(stored.payload.get())?;
            let (mut before, mut after) = (None, None);
            if let Some(of) = &stored.of {
                let state = stored.state.map(|state| serde_json::from_str(state.get())).transpose()?;
                let place = if of == "before" { &mut before } else { &mut after };
                *place = Some(state.unwrap_or_else(|| payload.clone()));
            }
            let event = EntityEvent {
                id: self.id.clone(),
                name: stored.name,
                entity: self.entity.clone(),
                route: Cow::Owned(stored.route),
                record_id: self.record.clone(),
                payload,
                before,
                after,
                actor: ActorRef { kind: stored.actor, id: stored.actor_id },
                tenant_id: stored.tenant,
                request_id: stored.request,
                at: self.at,
                version: stored.version,
                keys: stored.keys,
            };
            Ok((event, stored.internal))
        };
        read(&self.event).map_err(|e: serde_json::Error| {
            Error::internal(format!("the event {} cannot be read: {e}; something else has written to the outbox", self.id))
        })
    }
}
