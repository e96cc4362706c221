//! The channels and SSE endpoints of an app, and their checks at start-up.

use std::collections::{BTreeMap, HashMap};

use linchpin::EntityEntry;
use linchpin::entity::EntityDesc;

use super::{Change, Channel, ChannelDesc, Mark, On, RoomName, RoomScope, Sse, SseDesc};

/// The channels and SSE endpoints of an app.
///
/// What is not in the list of the plugin is not served. The compiler warns that such a declaration
/// "is never used", unless it is `pub` in a public module.
#[derive(Clone, Debug, Default)]
#[must_use = "nothing is served until the plugin has the list: `Realtime::new(declared)`"]
pub struct Declared {
    channels: Vec<&'static ChannelDesc>,
    endpoints: Vec<&'static SseDesc>,
}

/// The facts of an app that declarations must agree with.
#[derive(Debug)]
pub struct Facts<'a> {
    /// The entities of all packages.
    pub entities: &'a [&'a EntityEntry],
    /// Method and path of each mounted route, without those of the endpoints and of the WebSocket
    /// endpoints.
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
            let (shown, name) = (shown(channel), channel.name);
            if let Some(first) = seen.insert((channel.of.storage_name, name), channel) {
                problems.push(if std::ptr::eq(first, *channel) {
                    format!("{shown} is registered twice")
                } else {
                    format!(
                        "{} and {shown} are both called `{name}`: give one of them another `name`",
                        self::shown(first)
                    )
                });
            }
            if !facts.sockets.iter().any(|path| path == channel.endpoint) {
                problems.push(format!(
                    "{shown} is carried by `{}`, which is no WebSocket endpoint: add it to \
                     `realtime.endpoints` ({})",
                    channel.endpoint,
                    facts.sockets.join(", ")
                ));
            }
            problems.extend(unsettled(channel, &shown));
            let mut names: HashMap<String, &str> = HashMap::new();
            for variant in channel.variants {
                for name in channel.names_of(variant) {
                    if let Err(flaw) = linchpin_vocabulary::event::check(&name) {
                        problems.push(format!(
                            "variant `{}` of {shown} has the event name `{name}`, which {}: set \
                             another by `event = \"..\"`",
                            variant.ident,
                            flaw_text(flaw)
                        ));
                    }
                    let first = names.entry(name.clone()).or_insert(variant.ident);
                    if *first != variant.ident {
                        problems.push(format!(
                            "variants `{first}` and `{}` of {shown} share the event name `{name}`: \
                             set another by `event = \"..\"`",
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
            let shown = format!("route `{method} {path}`");
            taken.entry(normal(path)).or_insert(shown);
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
        for (path, shown) in sockets.chain(endpoints) {
            match taken.get(&normal(path)) {
                Some(first) => {
                    problems.push(format!("{first} and {shown} share the path `{path}`"));
                }
                None => {
                    taken.insert(normal(path), shown);
                }
            }
        }
        for sse in &self.endpoints {
            for name in sse.names() {
                if let Err(flaw) = linchpin_vocabulary::event::check(&name) {
                    problems.push(format!(
                        "SSE endpoint `{}` ({}) has the event name `{name}`, which {}: set another \
                         by `as \"..\"`",
                        sse.ident,
                        sse.at,
                        flaw_text(flaw)
                    ));
                }
            }
        }
    }

    /// Every entity and operation that a declaration names is part of the app, and operations of
    /// `on` change records.
    fn check_sources(&self, facts: &Facts<'_>, problems: &mut Vec<String>) {
        for channel in &self.channels {
            let shown = shown(channel);
            entity(channel.of, facts, &shown, problems);
            for (_, on, change) in channel.events() {
                source(on.entity, change, facts, &shown, problems);
            }
            for variant in channel.variants {
                if let Mark::Operation(incoming) = variant.mark {
                    let operation = Change::Operation(incoming.operation);
                    listed(incoming.entity, operation, facts, &shown, problems);
                }
            }
        }
        for sse in &self.endpoints {
            let shown = format!("SSE endpoint `{}` ({})", sse.ident, sse.at);
            for from in sse.sources {
                for event in from.events {
                    source(from.entity, event.change, facts, &shown, problems);
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
                .map(|channel| shown(channel));
            let endpoints = self
                .endpoints
                .iter()
                .filter(|sse| sse.history.recoverable())
                .map(|sse| format!("SSE endpoint `{}` ({})", sse.ident, sse.at));
            problems.extend(channels.chain(endpoints).map(|shown| {
                format!(
                    "{shown} keeps history, and engine `{engine}` keeps none: set \
                     `history(size = 0)`, or another `realtime.engine`"
                )
            }));
        }
    }
}

/// A path without its trailing slash and with anonymous parameters, for comparisons.
fn normal(path: &str) -> String {
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

/// A channel that forwards events of its own entity, whose gate leads to another record than the
/// room's. A change of that record would not end the subscription, so nobody gets these events.
fn unsettled(channel: &ChannelDesc, shown: &str) -> Option<String> {
    let is_own = |on: &On| channel.scope == RoomScope::Record && on.by.is_none();
    let (_, on, _) = channel.events().find(|(_, on, _)| is_own(on))?;
    let gate = on.entity.gates.first()?;
    let (field, target) = (on.entity.fields[gate.field].name, gate.target.name);
    Some(format!(
        "{shown} forwards events of `{}` itself, whose gate `{field} -> {target}` leads to another \
         record than the room's: forward them by a channel of `{target}`, with `by = {field}`",
        on.entity.name
    ))
}

fn shown(channel: &ChannelDesc) -> String {
    format!("channel `{}` ({})", channel.ident, channel.at)
}

/// The reason why a text is not a valid event name.
fn flaw_text(flaw: linchpin_vocabulary::event::Flaw) -> &'static str {
    use linchpin_vocabulary::event::Flaw;
    match flaw {
        Flaw::Grammar => "is not a valid event name",
        Flaw::Length => "is longer than 128 bytes",
        Flaw::Reserved => "is reserved",
    }
}

fn entity<'a>(
    desc: &'static EntityDesc,
    facts: &Facts<'a>,
    shown: &str,
    problems: &mut Vec<String>,
) -> Option<&'a EntityEntry> {
    let entry = facts
        .entities
        .iter()
        .copied()
        .find(|entry| std::ptr::eq(entry.desc, desc));
    if entry.is_none() {
        problems.push(format!(
            "{shown} names entity `{}`, which no package of the app lists",
            desc.name
        ));
    }
    entry
}

fn listed(
    desc: &'static EntityDesc,
    change: Change,
    facts: &Facts<'_>,
    shown: &str,
    problems: &mut Vec<String>,
) {
    let Some(entry) = entity(desc, facts, shown, problems) else {
        return;
    };
    if let Change::Operation(spec) = change
        && !entry
            .operations
            .iter()
            .any(|other| std::ptr::eq(*other, spec))
    {
        problems.push(format!(
            "{shown} names operation `{}` of `{}`, which no package of the app lists",
            spec.name, desc.name
        ));
    }
}

fn source(
    desc: &'static EntityDesc,
    change: Change,
    facts: &Facts<'_>,
    shown: &str,
    problems: &mut Vec<String>,
) {
    listed(desc, change, facts, shown, problems);
    if change.only_reads() {
        problems.push(format!(
            "{shown} forwards events of `{}`, which only reads `{}`",
            change.word(),
            desc.name
        ));
    }
}
