//! The channels and SSE endpoints of an app, and their checks at start-up.

use std::collections::{BTreeMap, HashMap};

use linchpin::EntityEntry;
use linchpin::entity::EntityDesc;

use super::{Change, Channel, ChannelDesc, Mark, On, RoomName, RoomScope, Sse, SseDesc};

/// The channels and SSE endpoints of an app.
///
/// The plugin serves only the declarations in this list. For a declaration that is not in the list,
/// the compiler warns that it "is never used", unless it is `pub` in a public module.
#[derive(Clone, Debug, Default)]
#[must_use = "pass the list to the plugin: `Realtime::new(declared)`; otherwise nothing is served"]
pub struct Declared {
    channels: Vec<&'static ChannelDesc>,
    endpoints: Vec<&'static SseDesc>,
}

/// The data of an app with which its declarations are compared.
#[derive(Debug)]
pub struct Facts<'a> {
    /// The entities of all packages.
    pub entities: &'a [&'a EntityEntry],
    /// Method and path of each mounted route, except SSE endpoints and WebSocket endpoints.
    pub routes: &'a [(String, String)],
    /// The paths of the WebSocket endpoints: `/__ws`.
    pub sockets: &'a [String],
    /// The name of the engine: `memory`.
    pub engine: &'a str,
    /// Whether several processes share the engine.
    pub shared: bool,
    /// Whether the engine keeps history.
    pub persistent: bool,
    /// Whether the configuration says that there are several nodes.
    pub cluster: bool,
}

impl Declared {
    /// Adds a channel.
    pub fn channel<C: Channel>(mut self) -> Self {
        self.channels.push(C::DESC);
        self
    }

    /// Adds an SSE endpoint.
    pub fn sse(mut self, endpoint: Sse) -> Self {
        self.endpoints.push(endpoint.desc());
        self
    }

    /// Returns the channels, in the order of registration.
    pub fn channels(&self) -> &[&'static ChannelDesc] {
        &self.channels
    }

    /// Returns the SSE endpoints, in the order of registration.
    pub fn endpoints(&self) -> &[&'static SseDesc] {
        &self.endpoints
    }

    /// Returns the channel of a room.
    pub fn channel_of(&self, room: &RoomName<'_>) -> Option<&'static ChannelDesc> {
        self.channels.iter().copied().find(|channel| {
            channel.of.storage_name == room.entity
                && channel.name == room.channel
                && (channel.scope == RoomScope::Record) == room.id.is_some()
        })
    }

    /// Returns every contradiction, one sentence each; empty if the app can start.
    pub fn check(&self, facts: &Facts<'_>) -> Vec<String> {
        let mut problems = Vec::new();
        self.check_channels(facts, &mut problems);
        self.check_paths(facts, &mut problems);
        self.check_sources(facts, &mut problems);
        self.check_engine(facts, &mut problems);
        problems
    }

    fn check_channels(&self, facts: &Facts<'_>, problems: &mut Vec<String>) {
        let mut seen: BTreeMap<(&str, &str), &ChannelDesc> = BTreeMap::new();
        for channel in &self.channels {
            let (subject, name) = (subject(channel), channel.name);
            if let Some(first) = seen.insert((channel.of.storage_name, name), channel) {
                problems.push(if std::ptr::eq(first, *channel) {
                    format!("{subject} is registered twice")
                } else {
                    format!(
                        "{} and {subject} have the same name `{name}`: give one of them another \
                         `name`",
                        self::subject(first)
                    )
                });
            }
            if !facts.sockets.iter().any(|path| path == channel.endpoint) {
                problems.push(format!(
                    "{subject} uses `{}`, which is not a WebSocket endpoint: add this path to \
                     `realtime.endpoints` (now {})",
                    channel.endpoint,
                    facts.sockets.join(", ")
                ));
            }
            problems.extend(check_own_gate(channel, &subject));
            let mut names: HashMap<String, &str> = HashMap::new();
            for variant in channel.variants {
                for name in channel.names_of(variant) {
                    if let Err(flaw) = linchpin_vocabulary::event::check(&name) {
                        problems.push(format!(
                            "variant `{}` of {subject} has the event name `{name}`, which {}: set \
                             another name with `event = \"..\"`",
                            variant.ident,
                            flaw_text(flaw)
                        ));
                    }
                    let first = names.entry(name.clone()).or_insert(variant.ident);
                    if *first != variant.ident {
                        problems.push(format!(
                            "variants `{first}` and `{}` of {subject} share the event name \
                             `{name}`: set another name with `event = \"..\"`",
                            variant.ident
                        ));
                    }
                }
            }
        }
    }

    fn check_paths(&self, facts: &Facts<'_>, problems: &mut Vec<String>) {
        let mut taken: BTreeMap<String, String> = BTreeMap::new();
        for (method, path) in facts.routes {
            let subject = format!("route `{method} {path}`");
            taken.entry(comparable(path)).or_insert(subject);
        }
        let sockets = facts
            .sockets
            .iter()
            .map(|path| (path.as_str(), format!("WebSocket endpoint `{path}`")));
        let endpoints = self.endpoints.iter().map(|sse| {
            (
                sse.path,
                format!("SSE endpoint `{}` ({})", sse.ident, sse.at),
            )
        });
        for (path, subject) in sockets.chain(endpoints) {
            match taken.get(&comparable(path)) {
                Some(first) => {
                    problems.push(format!("{first} and {subject} share the path `{path}`"));
                }
                None => {
                    taken.insert(comparable(path), subject);
                }
            }
        }
        for sse in &self.endpoints {
            for name in sse.names() {
                if let Err(flaw) = linchpin_vocabulary::event::check(&name) {
                    problems.push(format!(
                        "SSE endpoint `{}` ({}) has the event name `{name}`, which {}: set another \
                         name with `as \"..\"`",
                        sse.ident,
                        sse.at,
                        flaw_text(flaw)
                    ));
                }
            }
        }
    }

    /// Reports entities and operations that the app lacks, and operations of `on` that only read.
    fn check_sources(&self, facts: &Facts<'_>, problems: &mut Vec<String>) {
        for channel in &self.channels {
            let subject = subject(channel);
            check_entity(channel.of, facts, &subject, problems);
            for (_, on, change) in channel.events() {
                check_source(on.entity, change, facts, &subject, problems);
            }
            for variant in channel.variants {
                if let Mark::Operation(incoming) = variant.mark {
                    let operation = Change::Operation(incoming.operation);
                    check_listed(incoming.entity, operation, facts, &subject, problems);
                }
            }
        }
        for sse in &self.endpoints {
            let subject = format!("SSE endpoint `{}` ({})", sse.ident, sse.at);
            for from in sse.sources {
                for event in from.events {
                    check_source(from.entity, event.change, facts, &subject, problems);
                }
            }
        }
        problems.dedup();
    }

    fn check_engine(&self, facts: &Facts<'_>, problems: &mut Vec<String>) {
        let engine = facts.engine;
        if facts.cluster && !facts.shared {
            problems.push(format!(
                "several nodes need an engine that they share, and `realtime.engine` is `{engine}`: \
                 set it to `postgres`, `redis` or `nats`"
            ));
        } else if facts.cluster && !facts.persistent {
            let channels = self
                .channels
                .iter()
                .filter(|channel| channel.history.recoverable())
                .map(|channel| subject(channel));
            let endpoints = self
                .endpoints
                .iter()
                .filter(|sse| sse.history.recoverable())
                .map(|sse| format!("SSE endpoint `{}` ({})", sse.ident, sse.at));
            problems.extend(channels.chain(endpoints).map(|subject| {
                format!(
                    "{subject} keeps history, but engine `{engine}` does not store any: set \
                     `history(size = 0)`, or another `realtime.engine`"
                )
            }));
        }
    }
}

/// Returns a path without trailing slash and without the names of its parameters, for comparisons.
fn comparable(path: &str) -> String {
    path.split('/')
        .filter(|segment| !segment.is_empty())
        .map(|segment| {
            if segment.starts_with('{') {
                "{}"
            } else {
                segment
            }
        })
        .collect::<Vec<_>>()
        .join("/")
}

/// Reports a channel that forwards events of its own entity if a gate of that entity leads to a
/// record other than the room's. A change of that record would not end the subscription, so the
/// events would reach no member.
fn check_own_gate(channel: &ChannelDesc, subject: &str) -> Option<String> {
    let is_own = |on: &On| channel.scope == RoomScope::Record && on.by.is_none();
    let (_, on, _) = channel.events().find(|(_, on, _)| is_own(on))?;
    let gate = on.entity.gates.first()?;
    let (field, target) = (on.entity.fields[gate.field].name, gate.target.name);
    Some(format!(
        "{subject} forwards events of its own entity `{}`, but the gate `{field} -> {target}` of this \
         entity leads to a record other than the room's: declare a channel of `{target}`, and forward the events there with `by = {field}`",
        on.entity.name
    ))
}

/// Returns the subject of a message about a channel.
fn subject(channel: &ChannelDesc) -> String {
    format!("channel `{}` ({})", channel.ident, channel.at)
}

/// Returns the reason why a text is not a valid event name.
fn flaw_text(flaw: linchpin_vocabulary::event::Flaw) -> &'static str {
    use linchpin_vocabulary::event::Flaw;
    match flaw {
        Flaw::Grammar => "is not a valid event name",
        Flaw::Length => "is longer than 128 bytes",
        Flaw::Reserved => "is reserved",
    }
}

/// Reports an entity that no package of the app lists; otherwise returns its entry.
fn check_entity<'a>(
    desc: &'static EntityDesc,
    facts: &Facts<'a>,
    subject: &str,
    problems: &mut Vec<String>,
) -> Option<&'a EntityEntry> {
    let entry = facts
        .entities
        .iter()
        .copied()
        .find(|entry| std::ptr::eq(entry.desc, desc));
    if entry.is_none() {
        problems.push(format!(
            "{subject} uses entity `{}`, but no package of the app lists it",
            desc.name
        ));
    }
    entry
}

/// Reports an entity or an operation that no package of the app lists.
fn check_listed(
    desc: &'static EntityDesc,
    change: Change,
    facts: &Facts<'_>,
    subject: &str,
    problems: &mut Vec<String>,
) {
    let Some(entry) = check_entity(desc, facts, subject, problems) else {
        return;
    };
    if let Change::Operation(spec) = change
        && !entry
            .operations
            .iter()
            .any(|other| std::ptr::eq(*other, spec))
    {
        problems.push(format!(
            "{subject} uses operation `{}` of `{}`, but no package of the app lists it",
            spec.name, desc.name
        ));
    }
}

/// Reports a forwarded operation that the app lacks, or that only reads.
fn check_source(
    desc: &'static EntityDesc,
    change: Change,
    facts: &Facts<'_>,
    subject: &str,
    problems: &mut Vec<String>,
) {
    check_listed(desc, change, facts, subject, problems);
    if change.only_reads() {
        problems.push(format!(
            "{subject} forwards events of `{}`, which emits no event because it only reads `{}`",
            change.word(),
            desc.name
        ));
    }
}
