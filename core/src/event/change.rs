//! Routes of an entity that change records.

use linchpin_vocabulary::kind::Changes;

use crate::entity::EntityDesc;
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

    /// The routes as events name them in `EntityEvent::route`: one, or one per method of a
    /// collection that changes records.
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

    /// The names that its events have: the one of the route's `event` option, or the default.
    pub fn event_names(self, entity: &EntityDesc) -> Vec<String> {
        let named = |policy: PolicyDesc, default: Vec<String>| {
            let event = policy.or(entity.defaults).event;
            event
                .and_then(|event| event.name)
                .map_or(default, |name| vec![name.to_owned()])
        };
        let default = |last: &str| format!("{}.{last}", prefix(entity));
        let [create, _, _, update, delete] = entity.routes;
        match self {
            Self::Created => named(create, vec![default("created")]),
            Self::Updated => named(update, vec![default("updated")]),
            Self::Deleted => named(delete, vec![default("deleted")]),
            Self::Operation(_) => self
                .specs()
                .flat_map(|spec| {
                    let names = match spec.kind.facts().changes {
                        Changes::NewOrOne => vec![default("created"), default("updated")],
                        Changes::Removed => vec![default("deleted")],
                        _ => vec![default(&spec.name.replace('_', "-"))],
                    };
                    named(spec.policy, names)
                })
                .collect(),
        }
    }

    /// The single operations of it that change records.
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

/// The prefix of the default names of an entity's events: `blog.posts`.
fn prefix(entity: &EntityDesc) -> String {
    let segment = entity.path.rsplit('/').next().unwrap_or(entity.path);
    entity.namespace.map_or_else(
        || segment.to_owned(),
        |namespace| format!("{namespace}.{segment}"),
    )
}
