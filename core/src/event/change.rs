//! Routes of an entity that change records.

use linchpin_vocabulary::kind::Changes;

use crate::entity::{EntityDesc, FieldDesc};
use crate::operation::OpSpec;
use crate::policy::PolicyDesc;

/// A route of an entity that changes records. Its committed calls are events.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// `Entity::created`.
    Created,
    /// `Entity::updated`.
    Updated,
    /// `Entity::deleted`.
    Deleted,
    /// `Entity::OPERATION`.
    Operation(&'static OpSpec),
}

impl Change {
    /// The word in a declaration: `created`, or the name of the operation.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Updated => "updated",
            Self::Deleted => "deleted",
            Self::Operation(spec) => spec.name,
        }
    }

    /// Returns the route names that appear in `EntityEvent::route`: one name, or for a collection
    /// the name of each method that changes records.
    pub fn routes(self) -> Vec<&'static str> {
        match self {
            Self::Created => vec!["create"],
            Self::Updated => vec!["update"],
            Self::Deleted => vec!["delete"],
            Self::Operation(_) => self.specs().map(|spec| spec.name).collect(),
        }
    }

    /// Whether no call of the route changes records.
    pub fn only_reads(self) -> bool {
        matches!(self, Self::Operation(_)) && self.specs().next().is_none()
    }

    /// Returns the names of its events: the name in the route's `event` option, or the default
    /// names.
    pub fn event_names(self, entity: &EntityDesc) -> Vec<String> {
        let events = self.events(entity).into_iter();
        events.map(|event| event.name).collect()
    }

    /// Returns the events of its committed calls. An upsert has two events. A collection has the
    /// events of each method that changes records.
    pub fn events(self, entity: &EntityDesc) -> Vec<ChangeEvent> {
        let default = |last: &str| format!("{}.{last}", prefix(entity));
        let [create, _, _, update, delete] = entity.routes;
        let event = |policy: PolicyDesc, name: &str, doc| {
            ChangeEvent::of(&policy.or(entity.defaults), default(name), doc, false)
        };
        match self {
            Self::Created => vec![event(create, "created", "A record was created.")],
            Self::Updated => vec![event(update, "updated", "A record was updated.")],
            Self::Deleted => vec![event(delete, "deleted", "A record was deleted.")],
            Self::Operation(_) => self
                .specs()
                .flat_map(|spec| {
                    let changes = spec.kind.facts().changes;
                    let names = match changes {
                        Changes::NewOrOne => vec![default("created"), default("updated")],
                        Changes::Removed => vec![default("deleted")],
                        _ => vec![default(&spec.name.replace('_', "-"))],
                    };
                    let policy = spec.policy.or(entity.defaults);
                    let event =
                        |name| ChangeEvent::of(&policy, name, spec.doc, changes == Changes::Many);
                    let mut events: Vec<ChangeEvent> = names.into_iter().map(event).collect();
                    // If the `event` option sets one name for both events of an upsert, only one
                    // event remains.
                    events.dedup_by(|one, other| one.name == other.name);
                    events
                })
                .collect(),
        }
    }

    /// Returns the operation itself, or the methods of a collection. Operations and methods that
    /// only read are left out.
    fn specs(self) -> impl Iterator<Item = &'static OpSpec> {
        let spec = match self {
            Self::Operation(spec) => Some(spec),
            _ => None,
        };
        let own = spec.filter(|spec| spec.parts.is_empty());
        let parts = spec.map_or(&[][..], |spec| spec.parts).iter().copied();
        own.into_iter()
            .chain(parts)
            .filter(|spec| !spec.kind.reads())
    }
}

/// An event of a [`Change`], as the declaration describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeEvent {
    /// `blog.posts.created`, or the name in the route's `event` option.
    pub name: String,
    /// The only fields in the payload, by their names in the declaration; `None` means all readable
    /// fields.
    pub payload: Option<&'static [&'static str]>,
    /// Whether the event is about many records. Its payload is their number: `{ "count": n }`.
    pub counts: bool,
    /// The `description` of the route, or the doc comment of the operation.
    pub doc: &'static str,
    /// Whether the route is `deprecated`.
    pub deprecated: bool,
}

impl ChangeEvent {
    fn of(policy: &PolicyDesc, name: String, doc: &'static str, many: bool) -> Self {
        let event = policy.event;
        Self {
            name: event
                .and_then(|event| event.name)
                .map_or(name, str::to_owned),
            payload: event.and_then(|event| event.payload),
            counts: many && !event.is_some_and(|event| event.records),
            doc: policy.description.unwrap_or(doc),
            deprecated: policy.deprecated,
        }
    }

    /// Whether the payload contains a field of the entity. Private and write-only fields never
    /// leave the server.
    pub fn shows(&self, field: &FieldDesc) -> bool {
        let named = self
            .payload
            .is_none_or(|fields| fields.contains(&field.name));
        !self.counts && field.readable() && named
    }
}

/// The prefix of the default names of an entity's events: `blog.posts`.
fn prefix(entity: &EntityDesc) -> String {
    let segment = entity.path.rsplit('/').next().unwrap_or(entity.path);
    entity.namespace.map_or_else(
        || segment.to_owned(),
        |namespace| format!("{namespace}.{segment}"),
    )
}
