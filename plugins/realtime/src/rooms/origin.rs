//! The stored form of an endpoint's events. It includes the call that caused an event, for filters.

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
    /// The data for clients, and the record of the event.
    pub frame: StoredFrame,
    /// The call that caused the event; absent if the endpoint has no filter.
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
    /// Encodes the event for the engine.
    ///
    /// # Errors
    /// `internal`. It cannot occur, because strings and JSON can always be encoded.
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
    /// Returns the call that caused an event.
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

    /// Returns the event of a stored frame. Its records have the fields that clients may read, and
    /// those that conditions read. Returns `None` if the frame is not about a record, or if another
    /// program has written it.
    pub(super) fn event(self, frame: &StoredFrame) -> Option<EntityEvent> {
        let about = frame.about.as_ref()?;
        let payload: Value = serde_json::from_str(frame.payload.get()).ok()?;
        let record = full_record(&payload, &about.state);
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

/// Merges the members of the payload and the fields that conditions read.
fn full_record(payload: &Value, state: &Map<String, Value>) -> Payload {
    let mut all = state.clone();
    if let Value::Object(members) = payload {
        all.extend(members.clone());
    }
    Payload::from(Value::Object(all))
}
