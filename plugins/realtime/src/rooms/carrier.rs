//! The declaration of a stream: a channel, or an endpoint of server-sent events.

use linchpin::entity::EntityDesc;
use linchpin::http::{AuthDesc, PolicyDesc};

use crate::channel::{ChannelDesc, RoomScope, SseDesc};
use crate::engine::History;

/// The declaration of a stream. Rooms and endpoints share the code for members, guards and replay.
/// They differ in the form of the sent frames.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Carrier {
    /// A channel. The members of its rooms are sockets.
    Channel(&'static ChannelDesc),
    /// An SSE endpoint. Its members are responses.
    Endpoint(&'static SseDesc),
}

impl Carrier {
    /// Whether both are the same declaration.
    pub(crate) fn is(self, other: Self) -> bool {
        match (self, other) {
            (Self::Channel(one), Self::Channel(other)) => std::ptr::eq(one, other),
            (Self::Endpoint(one), Self::Endpoint(other)) => std::ptr::eq(one, other),
            _ => false,
        }
    }

    /// Returns the scope: one stream for each record, or one for each partition of a collection.
    pub(crate) fn scope(self) -> RoomScope {
        match self {
            Self::Channel(channel) => channel.scope,
            Self::Endpoint(_) => RoomScope::Collection,
        }
    }

    /// Returns the entity whose records have the rooms; `None` for collections.
    pub(crate) fn record_of(self) -> Option<&'static EntityDesc> {
        match self {
            Self::Channel(channel) if channel.scope == RoomScope::Record => Some(channel.of),
            Self::Channel(_) | Self::Endpoint(_) => None,
        }
    }

    /// Returns the entities of its events. Each comes with the index of the field that contains the
    /// key of the room's record, if there is such a field. The policy of the first entity decides
    /// who may join.
    pub(crate) fn entities(self) -> Vec<(&'static EntityDesc, Option<usize>)> {
        match self {
            Self::Channel(channel) => {
                let events = channel.events().map(|(_, on, _)| (on.entity, on.by));
                std::iter::once((channel.of, None)).chain(events).collect()
            }
            Self::Endpoint(sse) => sse.sources.iter().map(|from| (from.entity, None)).collect(),
        }
    }

    /// Returns the `auth` and `roles` that a join requires in addition to those of the read route.
    pub(crate) fn policy(self) -> PolicyDesc {
        match self {
            Self::Channel(channel) => channel.policy,
            Self::Endpoint(sse) => {
                let auth = sse.policy.auth.unwrap_or(AuthDesc::Named("userAuth"));
                sse.policy.auth(auth)
            }
        }
    }

    /// Returns the limits of the stored history.
    pub(crate) fn history(self) -> History {
        match self {
            Self::Channel(channel) => channel.history.of_stream(),
            Self::Endpoint(sse) => sse.history.of_stream(),
        }
    }

    /// Whether members see the other members.
    pub(crate) fn presence(self) -> bool {
        match self {
            Self::Channel(channel) => channel.presence,
            Self::Endpoint(_) => false,
        }
    }
}
