//! The stored form of events of an endpoint: with the call that caused them, for filters.

use std::borrow::Cow;

use bytes::Bytes;
use linchpin::event::{Payload, RecordRef};
use linchpin::{ActorRef, EntityEvent, Error, Result, Timestamp, Uuid};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::stored::StoredFrame;

/// An entry of the stream of an SSE endpoint.
#[derive(Debug, Serialize, Deserialize)]
pub struct StoredEvent {
    /// What clients get, and the record of the event.
    pub frame: StoredFrame,
    /// The call that the event comes from; absent if the endpoint has no filter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
}

/// The members of an [`EntityEvent`] that a [`StoredFrame`] lacks. They never leave the server.
#[derive(Debug, Serialize, Deserialize)]
pub struct Origin {
    name: String,
    route: String,
    actor_kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    actor: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    request: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<i64>,
}

impl StoredEvent {
    /// The bytes for the engine.
    ///
    /// # Errors
    /// `internal`, which texts and JSON rule out.
    pub fn encode(&self) -> Result<Bytes> {
        serde_json::to_vec(self)
            .map(Bytes::from)
            .map_err(Error::internal)
    }

    /// Reads the bytes of an engine.
    ///
    /// # Errors
    /// `internal` for bytes that another program has written.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        serde_json::from_slice(bytes).map_err(Error::internal)
    }
}

impl Origin {
    /// The call of an event.
    pub fn of(event: &EntityEvent) -> Self {
        Self {
            name: event.name.clone(),
            route: event.route.to_string(),
            actor_kind: event.actor.kind.clone(),
            actor: event.actor.id.clone(),
            tenant: event.tenant_id.clone(),
            request: event.request_id.clone(),
            version: event.version,
        }
    }

    /// The event of a stored frame. Its records have the fields that clients may read, and those
    /// that conditions read. `None` if the frame is not about a record, or was not written by this
    /// program.
    pub(super) fn event(self, frame: &StoredFrame) -> Option<EntityEvent> {
        let about = frame.about.as_ref()?;
        let payload: Value = serde_json::from_str(frame.payload.get()).ok()?;
        let record = whole(&payload, &about.state);
        let (before, after) = if about.deleted {
            (Some(record), None)
        } else {
            let before = about.before.clone().map(Value::Object).map(Payload::from);
            (before, Some(record))
        };
        Some(EntityEvent {
            id: Uuid::parse(&frame.id)?,
            name: self.name,
            entity: Cow::Owned(about.entity.clone()),
            route: Cow::Owned(self.route),
            record_id: Some(about.record.clone()),
            payload: Payload::from(payload),
            payload_ref: frame.truncated.then(|| RecordRef {
                entity: Cow::Owned(about.entity.clone()),
                id: about.record.clone(),
            }),
            before,
            after,
            actor: ActorRef {
                kind: self.actor_kind,
                id: self.actor,
            },
            tenant_id: self.tenant,
            request_id: self.request,
            at: Timestamp::parse(&frame.at).ok()?,
            version: self.version,
            keys: Vec::new(),
        })
    }
}

/// The members of the payload and those that conditions read.
fn whole(payload: &Value, state: &Map<String, Value>) -> Payload {
    let mut all = state.clone();
    if let Value::Object(members) = payload {
        all.extend(members.clone());
    }
    Payload::from(Value::Object(all))
}
