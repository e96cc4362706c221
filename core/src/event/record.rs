//! The events of one statement.
//!
//! The runtime creates a recording. The store fills it and writes it in the transaction.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::{ActorRef, EntityEvent};
use crate::entity::EntityDesc;
use crate::json::{write_str, write_value};
use crate::store::{Plan, Projection, Row};
use crate::{Error, Result, Timestamp, Uuid, ValueRef};

/// The maximum number of keys in one event about many records.
const KEYS: usize = 500;

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
    /// The fields that consumers in the server receive; `None` if they are the same.
    pub state: Option<Projection>,
    /// Whether one event for all records replaces one event per record. It contains the number of
    /// records.
    pub counts: bool,
    /// Only consumers that need every record receive it.
    pub internal: bool,
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

/// The events that one statement records.
#[derive(Clone, Debug)]
pub struct Recording {
    route: Arc<RouteEvent>,
    actor: ActorRef,
    /// Tenant of the actor. Used for entities without a tenant, and for events about many records.
    tenant: Option<String>,
    request: String,
    at: Timestamp,
    inserts: bool,
    removes: bool,
    records: Vec<Recorded>,
    /// The keys for an event about many records; `None` if no consumer needs them.
    keys: Option<Vec<String>>,
    /// The id of the first event; `None` if the events are internal.
    pub first: Option<Uuid>,
}

/// The recorded data of one record.
#[derive(Clone, Debug)]
struct Recorded {
    key: String,
    version: Option<i64>,
    tenant: Option<String>,
    payload: Vec<u8>,
    state: Option<Vec<u8>>,
}

/// An event in the form in which a store writes it: a row of `linchpin_outbox`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Unique, and ascending within a process.
    pub id: Uuid,
    /// The storage name of the entity.
    pub entity: Cow<'static, str>,
    /// The key of the record.
    pub record: Option<String>,
    /// The time of the call.
    pub at: Timestamp,
    /// All other data, as JSON.
    pub event: String,
}

impl Recording {
    /// Creates an empty recording. `listed` is true if a consumer needs the keys of events about
    /// many records.
    pub fn new(
        route: Arc<RouteEvent>,
        actor: ActorRef,
        tenant: Option<String>,
        request: &str,
        at: Timestamp,
        listed: bool,
    ) -> Self {
        let (request, records) = (request.to_owned(), Vec::new());
        let keys = (listed && route.counts).then(Vec::new);
        Self {
            route,
            actor,
            tenant,
            request,
            at,
            inserts: false,
            removes: false,
            records,
            keys,
            first: None,
        }
    }

    /// Stores whether the plan inserts or deletes.
    #[doc(hidden)]
    pub fn of(&mut self, plan: &Plan) {
        self.inserts = matches!(plan, Plan::Insert);
        self.removes = matches!(plan, Plan::Delete { .. });
    }

    /// Whether the recording needs only the number of records, and no rows.
    #[doc(hidden)]
    pub fn only_counts(&self) -> bool {
        self.route.counts && self.keys.is_none()
    }

    /// Adds a record that the statement wrote or removed.
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
        let (payload, state) = (
            json(&self.route.payload),
            self.route.state.as_ref().map(json),
        );
        self.records.push(Recorded {
            key,
            version,
            tenant,
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
                entries.push(self.entry(
                    Some(&record),
                    &record.payload,
                    created,
                    &[],
                    self.route.internal,
                ));
            }
        }
        self.first = entries
            .first()
            .filter(|_| !self.route.internal)
            .map(|entry| entry.id.clone());
        entries
    }

    fn entry(
        &self,
        record: Option<&Recorded>,
        payload: &[u8],
        created: bool,
        keys: &[String],
        internal: bool,
    ) -> Entry {
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
        // Use the record's tenant if the entity has a tenant field, else the actor's tenant.
        let tenant = match record {
            Some(record) if route.entity.tenant.is_some() => record.tenant.as_deref(),
            _ => self.tenant.as_deref(),
        };
        text(b",\"tenant\":", tenant);
        text(b",\"request\":", Some(&self.request));
        if record.is_some() {
            text(
                b",\"of\":",
                Some(if self.removes { "before" } else { "after" }),
            );
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
            // All parts are UTF-8: strings, and JSON written from strings.
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
    /// Returns the event, and whether it is internal (only for consumers that need every record).
    ///
    /// # Errors
    /// If the JSON is invalid, because another program wrote to the outbox.
    #[doc(hidden)]
    pub fn decode(self) -> Result<(EntityEvent, bool)> {
        let read = |text: &str| {
            let stored: Stored<'_> = serde_json::from_str(text)?;
            let payload: serde_json::Value = serde_json::from_str(stored.payload.get())?;
            let (mut before, mut after) = (None, None);
            if let Some(of) = &stored.of {
                let state = stored
                    .state
                    .map(|state| serde_json::from_str(state.get()))
                    .transpose()?;
                let place = if of == "before" {
                    &mut before
                } else {
                    &mut after
                };
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
                actor: ActorRef {
                    kind: stored.actor,
                    id: stored.actor_id,
                },
                tenant_id: stored.tenant,
                request_id: stored.request,
                at: self.at,
                version: stored.version,
                keys: stored.keys,
            };
            Ok((event, stored.internal))
        };
        read(&self.event).map_err(|e: serde_json::Error| {
            Error::internal(format!(
                "the event {} cannot be read: {e}; something else has written to the outbox",
                self.id
            ))
        })
    }
}
