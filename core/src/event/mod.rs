//! Events of committed changes, and how a statement records them.
//!
//! A statement that changes records has a [`Recording`](crate::store::Recording). The store fills
//! it from the changed rows. The store writes the stored [entries](Entry) of a commit as rows of
//! its outbox, in the same transaction. After the commit it passes all entries to
//! [`Committed`](crate::store::Committed).

mod change;
mod payload;
mod stored;

use std::borrow::Cow;
use std::sync::Arc;

use crate::entity::{EntityDesc, FieldSet};
use crate::{Timestamp, Uuid};

pub use change::{Change, ChangeEvent};
pub use payload::Payload;
pub use stored::{Entry, OutboxRow, StoredText};

/// A committed mutation.
#[derive(Clone, Debug, PartialEq)]
pub struct EntityEvent {
    /// The id of the event. It is the same in each delivery, so consumers can recognize duplicates.
    pub id: Uuid,
    /// `blog.posts.created`, or the name in the route's `event` option.
    pub name: String,
    /// The storage name of the entity, unique within an app: `blog_posts`.
    pub entity: Cow<'static, str>,
    /// `create`, `update`, `delete`, or the name of the operation.
    pub route: Cow<'static, str>,
    /// The key of the record; `None` if the event is about many records.
    pub record_id: Option<String>,
    /// The data that clients may read: the record's readable fields, or `{ "count": n }`. Null if
    /// the data is larger than 64 KiB; then `payload_ref` names the record.
    pub payload: Payload,
    /// The record to read instead of a payload of more than 64 KiB.
    pub payload_ref: Option<RecordRef>,
    /// The record before the change. For a removed record, it has the same members as `after` has
    /// for other changes. For an update, it has the fields that conditions of consumers read
    /// (`EventSink::reads`), and only if the statement touched one of these fields. For an event
    /// about many records, it is an array like `after`; it contains null for a record that the
    /// store did not read before the change. It never leaves the server.
    pub before: Option<Payload>,
    /// The record after the change: the payload, and the other fields that conditions of consumers
    /// read (`EventSink::reads`). `None` if the record was removed. For an event about many records
    /// it is `None`, unless `EventSink::needs_states` of the consumer returns true: then it is an
    /// array with the fields that conditions read, one object for each of `keys`. It never leaves
    /// the server.
    pub after: Option<Payload>,
    /// The actor of the call.
    pub actor: ActorRef,
    /// The tenant of the record.
    pub tenant_id: Option<String>,
    /// The id of the request; empty outside HTTP.
    pub request_id: String,
    /// The time of the call.
    pub at: Timestamp,
    /// The record's version, if it has one.
    pub version: Option<i64>,
    /// The keys of the records of an event about many records, 500 at most. Empty unless
    /// `EventSink::needs_records` or `EventSink::needs_states` of the consumer returns true. They
    /// never leave the server.
    pub keys: Vec<String>,
}

impl EntityEvent {
    /// The maximum number of bytes of a payload, unless a consumer requests larger payloads.
    pub const PAYLOAD: usize = 64 << 10;

    /// The event for a consumer that wants payloads of at most `largest` bytes: a larger payload is
    /// replaced by a reference.
    #[must_use]
    pub fn within(self: &Arc<Self>, largest: usize) -> Arc<Self> {
        match &self.record_id {
            Some(id) if self.payload.text().len() > largest => Arc::new(Self {
                payload: Payload::null(),
                payload_ref: Some(RecordRef {
                    entity: self.entity.clone(),
                    id: id.clone(),
                }),
                ..(**self).clone()
            }),
            _ => Arc::clone(self),
        }
    }

    /// The event without `keys`, `before` and `after` if it is about many records. For a consumer
    /// that does not need the individual records.
    #[must_use]
    pub fn without_records(self: &Arc<Self>) -> Arc<Self> {
        if self.keys.is_empty() {
            return Arc::clone(self);
        }
        Arc::new(Self {
            keys: Vec::new(),
            before: None,
            after: None,
            ..(**self).clone()
        })
    }

    /// Returns the known keys of the changed records.
    pub fn affected(&self) -> impl Iterator<Item = &str> {
        self.record_id.iter().chain(&self.keys).map(String::as_str)
    }
}

/// A record that a consumer reads by its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordRef {
    /// The storage name of the entity.
    pub entity: Cow<'static, str>,
    /// The key of the record.
    pub id: String,
}

/// The actor of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActorRef {
    /// `user`, `service`, `anonymous`, a plugin's own kind, or `system` for the application itself.
    pub kind: String,
    /// `None` for anonymous callers and the application.
    pub id: Option<String>,
}

/// The fields of an entity that decide who may see its records: tenant, scopes, deletion, expiry,
/// gates, and the fields of `visible` and `action` conditions.
///
/// A consumer that checks which callers may receive the event of a record returns these fields from
/// `EventSink::reads`.
pub fn guard_fields(desc: &EntityDesc) -> FieldSet {
    let scopes = desc.tenant.map(|tenant| tenant.field).into_iter();
    let scopes = scopes.chain(desc.scope.iter().map(|scope| scope.field));
    let lifetime = desc.soft_delete.map(|mark| mark.field()).into_iter();
    let lifetime = lifetime.chain(desc.ttl.map(|ttl| ttl.field));
    let gates = desc.gates.iter().map(|gate| gate.field);
    let named: FieldSet = scopes.chain(lifetime).chain(gates).collect();
    let conditions = desc
        .visible
        .iter()
        .chain(desc.actions.iter().map(|action| &action.filter));
    conditions.fold(named, |all, filter| all.or(filter.fields()))
}
