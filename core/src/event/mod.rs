//! Events: what a committed change leaves behind, and how a statement records it.
//!
//! A statement that changes records carries a [`Recording`]; the store fills it from the rows it touches and writes its
//! [entries](Entry) in the same transaction.

mod record;

use std::borrow::Cow;

use crate::{Timestamp, Uuid};

pub use record::{Entry, Name, Recording, RouteEvent};

/// A committed mutation.
#[derive(Clone, Debug, PartialEq)]
pub struct EntityEvent {
    /// Of this event for ever, however often it is delivered: consumers tell repetitions by it.
    pub id: Uuid,
    /// `blog.posts.created`, or what the route's `event` says.
    pub name: String,
    /// The storage name of the entity, unique within an app: `blog_posts`.
    pub entity: Cow<'static, str>,
    /// `create`, `update`, `delete`, or the name of the operation.
    pub route: Cow<'static, str>,
    /// The key of the record; `None` when the event is about many.
    pub record_id: Option<String>,
    /// What clients may see: the record's readable fields, or `{ "count": n }`.
    pub payload: serde_json::Value,
    /// The record before, where the statement knew it: of removed records. Never leaves the server.
    pub before: Option<serde_json::Value>,
    /// The record after; `None` when it was removed, or the event is about many. Never leaves the server.
    pub after: Option<serde_json::Value>,
    /// Who did it.
    pub actor: ActorRef,
    /// Whose record it is.
    pub tenant_id: Option<String>,
    /// The request it belongs to; empty outside HTTP.
    pub request_id: String,
    /// The instant of the call.
    pub at: Timestamp,
    /// The record's version, if it has one.
    pub version: Option<i64>,
    /// The keys of the records of an event about many, 500 at most: filled when a consumer of the entity
    /// [needs them](EventSink::needs_records). Never leaves the server.
    pub keys: Vec<String>,
}

impl EntityEvent {
    /// The keys of all records that it is about, as far as it tells.
    pub fn affected(&self) -> impl Iterator<Item = &str> {
        self.record_id.iter().chain(&self.keys).map(String::as_str)
    }
}

/// Who caused an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActorRef {
    /// `user`, `service`, `anonymous`, a plugin's own kind, or `system` for the application itself.
    pub kind: String,
    /// `None` for anonymous callers and the application.
    pub id: Option<String>,
}
