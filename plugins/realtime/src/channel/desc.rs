//! Descriptors of channels: the declaration of a kind of room as data.

use linchpin::entity::{EntityDesc, SourceLine};
use linchpin::filter::FilterSpec;
use linchpin::http::{PolicyDesc, RateLimit};
use linchpin::{BoxFuture, Cx, Result};
use linchpin_core::operation::OpSpec;

use super::{Change, RoomKey, Rooms};

/// The declaration of a channel: the events that one kind of room can carry.
#[derive(Debug)]
pub struct ChannelDesc {
    /// The name of the enum: `ContainerLive`. Typed clients name the channel by it.
    pub ident: &'static str,
    /// `live`; unique per entity, the last part of a room's name.
    pub name: &'static str,
    /// The doc comment.
    pub doc: &'static str,
    /// The entity that the rooms belong to.
    pub of: &'static EntityDesc,
    /// Whether each record has a room, or the entity has one.
    pub scope: RoomScope,
    /// The limits of the stored history.
    pub history: History,
    /// Whether members of a room see who else is in it.
    pub presence: bool,
    /// `auth`, `roles` and `rate_limit` of joins, in addition to those of the read route. All other
    /// keys are unset.
    pub policy: PolicyDesc,
    /// The path of the WebSocket endpoint: `/__ws`.
    pub endpoint: &'static str,
    /// The variants of the enum, in their order.
    pub variants: &'static [VariantDesc],
    /// The source location of the declaration.
    pub at: SourceLine,
}

/// The rooms of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoomScope {
    /// One room per record: `<storage_name>:<id>:<name>`.
    Record,
    /// One room for the entity: `<storage_name>:<name>`, with one stream per partition.
    Collection,
}

/// The limits of a stored history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct History {
    /// The number of frames that are kept, 0 to 10,000. With 0 a client cannot resume.
    pub size: u32,
    /// The milliseconds for which a frame is kept, one second to seven days.
    pub ttl: u64,
}

impl History {
    /// The default limits: 200 frames for ten minutes.
    pub const DEFAULT: Self = Self {
        size: 200,
        ttl: 600_000,
    };

    /// Converts the limits to the engine's type.
    pub const fn of_stream(self) -> crate::engine::History {
        crate::engine::History {
            size: self.size,
            ttl: std::time::Duration::from_millis(self.ttl),
        }
    }

    /// Whether frames are kept at all.
    pub const fn recoverable(self) -> bool {
        self.size > 0
    }
}

/// One variant of the enum of a channel.
#[derive(Debug)]
pub struct VariantDesc {
    /// `Thread`.
    pub ident: &'static str,
    /// The doc comment.
    pub doc: &'static str,
    /// The name on the wire. For [`Mark::On`] it is empty: each of its events has a name.
    pub name: &'static str,
    /// Further names. The frame is sent once more under each, with the same id and offset. Empty
    /// for [`Mark::On`], [`Mark::Operation`] and [`Mark::Handler`].
    pub alias: &'static [&'static str],
    /// The payload.
    pub payload: Payload,
    /// The direction and the action.
    pub mark: Mark,
}

/// The payload of a variant.
#[derive(Clone, Copy, Debug)]
pub enum Payload {
    /// No payload: null on the wire. With [`Mark::Operation`], the parameters of the operation.
    None,
    /// The payload of the event: the readable fields of the record.
    Record,
    /// These fields of the record, by their declared names, and the name of the projection.
    Projection(&'static str, &'static [&'static str]),
    /// An object with these members. The descriptor is an entity that is not stored; its only field
    /// is a list of items with these members.
    /// [`PayloadReader`](super::PayloadReader) reads it.
    Members(&'static EntityDesc),
}

/// The direction and the action of a variant.
#[derive(Clone, Copy, Debug)]
pub enum Mark {
    /// Server to client: forwards events of committed changes.
    On(&'static [On]),
    /// Server to client: sent from code.
    Publish {
        /// Whether its frames are never stored.
        ephemeral: bool,
    },
    /// Client to the other members of the room; never stored.
    Relay {
        /// The limit per room and user; `None` means `Limits::relays_per_second` (10 by default).
        rate: Option<RateLimit>,
        /// Whether the sender gets the frame too.
        echo: bool,
    },
    /// Client to server: runs an operation through the policy of its route.
    Operation(Incoming),
    /// Client to server: runs a function.
    Handler {
        /// The path of the function as written.
        function: &'static str,
        /// Decodes the payload and calls the function.
        handle: Handle,
    },
}

/// The events of one entity that a variant forwards.
#[derive(Clone, Copy, Debug)]
pub struct On {
    /// The entity of the events.
    pub entity: &'static EntityDesc,
    /// The routes whose events are forwarded.
    pub changes: &'static [Change],
    /// The position of the field with the key of the room's record; `None` if the event's record is
    /// the room's record, and in rooms of a collection.
    pub by: Option<usize>,
    /// A further condition on the record. It depends only on the record, not on the caller.
    pub when: Option<FilterSpec>,
    /// The name that replaces the events' own names.
    pub name: Option<&'static str>,
    /// Further names. The frame is sent once more under each.
    pub alias: &'static [&'static str],
}

/// The operation that a variant runs.
#[derive(Clone, Copy, Debug)]
pub struct Incoming {
    /// The entity of the operation.
    pub entity: &'static EntityDesc,
    /// The operation.
    pub operation: &'static OpSpec,
    /// The position of the entity's field that must hold the key of the room's record. The
    /// payload's `id` then names the record to change. `None` for an operation of the room's own
    /// entity: it changes the room's record.
    pub by: Option<usize>,
}

/// A handler of a client's event. `payload` is valid JSON text that a
/// [`PayloadReader`](super::PayloadReader) returned, or `null`.
pub type Handle =
    for<'a> fn(&'a Cx, Rooms, RoomKey, &'a str) -> BoxFuture<'a, Result<serde_json::Value>>;

impl ChannelDesc {
    /// Returns the variant, and its position, for a client's event of this name.
    pub fn incoming(&self, event: &str) -> Option<(usize, &'static VariantDesc)> {
        let accepts = |variant: &&'static VariantDesc| {
            variant.name == event
                && matches!(
                    variant.mark,
                    Mark::Relay { .. } | Mark::Operation(_) | Mark::Handler { .. }
                )
        };
        let at = self.variants.iter().position(|variant| accepts(&variant))?;
        Some((at, &self.variants[at]))
    }

    /// Returns the events that the channel forwards: the variant, its `On` and its change.
    pub fn events(&self) -> impl Iterator<Item = (&'static VariantDesc, &'static On, Change)> {
        self.variants.iter().flat_map(|variant| {
            let on = match variant.mark {
                Mark::On(on) => on,
                _ => &[],
            };
            on.iter()
                .flat_map(move |on| on.changes.iter().map(move |change| (variant, on, *change)))
        })
    }

    /// Returns the names that frames and incoming events of this variant have, each once.
    pub fn names_of(&self, variant: &'static VariantDesc) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        let mut add = |name: String| {
            if !name.is_empty() && !names.contains(&name) {
                names.push(name);
            }
        };
        add(variant.name.to_owned());
        variant
            .alias
            .iter()
            .for_each(|name| add((*name).to_owned()));
        if let Mark::On(all) = variant.mark {
            for on in all {
                match on.name {
                    Some(name) => add(name.to_owned()),
                    None => on
                        .changes
                        .iter()
                        .flat_map(|change| change.event_names(on.entity))
                        .for_each(&mut add),
                }
                on.alias.iter().for_each(|name| add((*name).to_owned()));
            }
        }
        names
    }
}

// Builders for expansions, one per option.

#[doc(hidden)]
impl ChannelDesc {
    /// A channel without options and variants. It records the source location of the call.
    #[track_caller]
    pub const fn new(ident: &'static str, name: &'static str, of: &'static EntityDesc) -> Self {
        Self {
            ident,
            name,
            doc: "",
            of,
            scope: RoomScope::Record,
            history: History::DEFAULT,
            presence: false,
            policy: PolicyDesc::INHERIT,
            endpoint: "/__ws",
            variants: &[],
            at: SourceLine::here(),
        }
    }

    /// Sets the doc comment.
    #[must_use]
    pub const fn doc(self, doc: &'static str) -> Self {
        Self { doc, ..self }
    }

    /// Sets one room for the entity.
    #[must_use]
    pub const fn collection(self) -> Self {
        Self {
            scope: RoomScope::Collection,
            ..self
        }
    }

    /// Sets the limits of the stored history.
    #[must_use]
    pub const fn history(self, size: u32, ttl: u64) -> Self {
        Self {
            history: History { size, ttl },
            ..self
        }
    }

    /// Lets members of a room see who else is in it.
    #[must_use]
    pub const fn presence(self) -> Self {
        Self {
            presence: true,
            ..self
        }
    }

    /// Sets the policy of joins.
    #[must_use]
    pub const fn policy(self, policy: PolicyDesc) -> Self {
        Self { policy, ..self }
    }

    /// Sets the endpoint.
    #[must_use]
    pub const fn endpoint(self, endpoint: &'static str) -> Self {
        Self { endpoint, ..self }
    }

    /// Sets the variants.
    #[must_use]
    pub const fn variants(self, variants: &'static [VariantDesc]) -> Self {
        Self { variants, ..self }
    }
}

#[doc(hidden)]
impl VariantDesc {
    /// A variant without payload and names.
    pub const fn new(ident: &'static str, mark: Mark) -> Self {
        Self {
            ident,
            doc: "",
            name: "",
            alias: &[],
            payload: Payload::None,
            mark,
        }
    }

    /// Sets the doc comment.
    #[must_use]
    pub const fn doc(self, doc: &'static str) -> Self {
        Self { doc, ..self }
    }

    /// Sets the name on the wire.
    #[must_use]
    pub const fn name(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    /// Sets the further names.
    #[must_use]
    pub const fn alias(self, alias: &'static [&'static str]) -> Self {
        Self { alias, ..self }
    }

    /// Sets the payload.
    #[must_use]
    pub const fn payload(self, payload: Payload) -> Self {
        Self { payload, ..self }
    }
}

#[doc(hidden)]
impl On {
    /// Forwards these events of an entity.
    pub const fn new(entity: &'static EntityDesc, changes: &'static [Change]) -> Self {
        Self {
            entity,
            changes,
            by: None,
            when: None,
            name: None,
            alias: &[],
        }
    }

    /// Sets the field with the key of the room's record.
    #[must_use]
    pub const fn by(self, field: usize) -> Self {
        Self {
            by: Some(field),
            ..self
        }
    }

    /// Sets the condition.
    #[must_use]
    pub const fn when(self, filter: FilterSpec) -> Self {
        Self {
            when: Some(filter),
            ..self
        }
    }

    /// Replaces the events' own names.
    #[must_use]
    pub const fn name(self, name: &'static str) -> Self {
        Self {
            name: Some(name),
            ..self
        }
    }

    /// Sets the further names.
    #[must_use]
    pub const fn alias(self, alias: &'static [&'static str]) -> Self {
        Self { alias, ..self }
    }
}

#[doc(hidden)]
impl Incoming {
    /// Runs an operation on the room's record.
    pub const fn new(entity: &'static EntityDesc, operation: &'static OpSpec) -> Self {
        Self {
            entity,
            operation,
            by: None,
        }
    }

    /// Runs the operation on the record that the payload names, if this field of that record holds
    /// the key of the room's record.
    #[must_use]
    pub const fn by(self, field: usize) -> Self {
        Self {
            by: Some(field),
            ..self
        }
    }
}
