//! Events of committed changes, and how a statement records them.
//!
//! A statement that changes records has a [`Recording`]. The store fills it from the changed rows
//! and writes its [entries](Entry) in the same transaction.

mod record;

use std::borrow::Cow;

use crate::{Timestamp, Uuid};

pub use record::{Entry, Name, Recording, RouteEvent};

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
    /// The data that clients may read: the record's readable fields, or `{ "count": n }`.
    pub payload: serde_json::Value,
    /// The record before the change; only for removed records. It never leaves the server.
    pub before: Option<serde_json::Value>,
    /// The record after the change; `None` if it was removed, or if the event is about many
    /// records. It never leaves the server.
    pub after: Option<serde_json::Value>,
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
    /// The keys of an event about many records, 500 at most. Empty unless
    /// `EventSink::needs_records` of a consumer returns true. They never leave the server.
    pub keys: Vec<String>,
}

impl EntityEvent {
    /// Returns the known keys of the changed records.
    pub fn affected(&self) -> impl Iterator<Item = &str> {
        self.record_id.iter().chain(&self.keys).map(String::as_str)
    }
}

/// The actor of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActorRef {
    /// `user`, `service`, `anonymous`, a plugin's own kind, or `system` for the application itself.
    pub kind: String,
    /// `None` for anonymous callers and the application.
    pub id: Option<String>,
}
