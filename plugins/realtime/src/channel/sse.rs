//! Descriptors of SSE endpoints.

use linchpin::entity::{EntityDesc, SourceLine};
use linchpin::http::PolicyDesc;
use linchpin::{Actor, EntityEvent};

use super::{Change, History};

/// The declaration of an SSE endpoint.
#[derive(Debug)]
pub struct SseDesc {
    /// The name of the const: `NOTIFICATIONS`. Typed clients name the endpoint by it.
    pub ident: &'static str,
    /// The path, below `/__sse/`.
    pub path: &'static str,
    /// The doc comment.
    pub doc: &'static str,
    /// The events that it sends, by entity. All entities have the same partitions.
    pub sources: &'static [SseSource],
    /// `auth` and `roles` of the endpoint. All other keys are unset.
    pub policy: PolicyDesc,
    /// A further condition per event and connection. It can only exclude events.
    pub filter: Option<SseFilter>,
    /// The milliseconds between heartbeats, 5,000 to 60,000; `None` turns them off.
    pub heartbeat: Option<u64>,
    /// The limits of the stored history.
    pub history: History,
    /// The maximum number of connections per user.
    pub max_connections: u32,
    /// The source location of the declaration.
    pub at: SourceLine,
}

/// The function of `filter = ..`, and its path as written.
#[derive(Clone, Copy)]
pub struct SseFilter {
    /// The path as written.
    pub function: &'static str,
    /// The function.
    pub admits: fn(&Actor, &EntityEvent) -> bool,
}

impl std::fmt::Debug for SseFilter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("SseFilter").field(&self.function).finish()
    }
}

/// The events of one entity.
#[derive(Clone, Copy, Debug)]
pub struct SseSource {
    /// The entity.
    pub entity: &'static EntityDesc,
    /// Its events.
    pub events: &'static [SseEvent],
}

/// One event of an endpoint.
#[derive(Clone, Copy, Debug)]
pub struct SseEvent {
    /// The route whose events are sent.
    pub change: Change,
    /// The name that replaces the event's own name.
    pub name: Option<&'static str>,
    /// Further names. The event is sent once more under each, before the block with the position.
    pub alias: &'static [&'static str],
}

/// The const that `sse!` declares. It dereferences to its descriptor.
#[derive(Clone, Copy, Debug)]
pub struct Sse(&'static SseDesc);

impl Sse {
    /// Wraps the output of the macro.
    #[doc(hidden)]
    pub const fn new(desc: &'static SseDesc) -> Self {
        Self(desc)
    }

    /// Returns the declaration.
    pub const fn desc(self) -> &'static SseDesc {
        self.0
    }
}

impl std::ops::Deref for Sse {
    type Target = SseDesc;

    fn deref(&self) -> &SseDesc {
        self.0
    }
}

impl SseDesc {
    /// The default time between heartbeats in milliseconds: 15 seconds.
    pub const HEARTBEAT: u64 = 15_000;
    /// The default maximum number of connections per user: 8.
    pub const MAX_CONNECTIONS: u32 = 8;
    /// The default limits of the history: 500 events for one hour.
    pub const HISTORY: History = History {
        size: 500,
        ttl: 3_600_000,
    };

    /// Returns the names that its events have, each once.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for source in self.sources {
            for event in source.events {
                let own = match event.name {
                    Some(name) => vec![name.to_owned()],
                    None => event.change.event_names(source.entity),
                };
                for name in own
                    .into_iter()
                    .chain(event.alias.iter().map(|name| (*name).to_owned()))
                {
                    if !names.contains(&name) {
                        names.push(name);
                    }
                }
            }
        }
        names
    }
}

// Builders for expansions, one per option.

#[doc(hidden)]
impl SseDesc {
    /// Creates an endpoint with the default options. It records the source location of the call.
    #[track_caller]
    pub const fn new(
        ident: &'static str,
        path: &'static str,
        sources: &'static [SseSource],
    ) -> Self {
        Self {
            ident,
            path,
            doc: "",
            sources,
            policy: PolicyDesc::INHERIT,
            filter: None,
            heartbeat: Some(Self::HEARTBEAT),
            history: Self::HISTORY,
            max_connections: Self::MAX_CONNECTIONS,
            at: SourceLine::here(),
        }
    }

    /// Sets the doc comment.
    #[must_use]
    pub const fn doc(self, doc: &'static str) -> Self {
        Self { doc, ..self }
    }

    /// Sets the policy.
    #[must_use]
    pub const fn policy(self, policy: PolicyDesc) -> Self {
        Self { policy, ..self }
    }

    /// Sets the condition.
    #[must_use]
    pub const fn filter(
        self,
        function: &'static str,
        admits: fn(&Actor, &EntityEvent) -> bool,
    ) -> Self {
        Self {
            filter: Some(SseFilter { function, admits }),
            ..self
        }
    }

    /// Sets the milliseconds between heartbeats; 0 turns them off.
    #[must_use]
    pub const fn heartbeat(self, millis: u64) -> Self {
        Self {
            heartbeat: if millis == 0 { None } else { Some(millis) },
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

    /// Sets the maximum number of connections per user.
    #[must_use]
    pub const fn max_connections(self, max: u32) -> Self {
        Self {
            max_connections: max,
            ..self
        }
    }
}

#[doc(hidden)]
impl SseSource {
    /// The events of an entity.
    pub const fn new(entity: &'static EntityDesc, events: &'static [SseEvent]) -> Self {
        Self { entity, events }
    }
}

#[doc(hidden)]
impl SseEvent {
    /// An event under its own name.
    pub const fn new(change: Change) -> Self {
        Self {
            change,
            name: None,
            alias: &[],
        }
    }

    /// Replaces the event's own name.
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
