//! The names and contents of events for each route of an entity, computed once at start-up.

use std::collections::HashMap;
use std::sync::Arc;

use linchpin_core::event::EntityEvent;
use linchpin_core::operation::OpSpec;
use linchpin_core::policy::EventDesc;
use linchpin_core::store::{Name, RouteEvent};
use linchpin_vocabulary::kind::Changes;

use crate::EntityEntry;
use crate::entity::{EntityDesc, FieldSet};
use crate::store::Projection;

/// The events of an entity, by route.
pub(crate) type Routes = HashMap<&'static str, Arc<RouteEvent>>;

/// The route name of events for expired records that were removed. No operation can have this name.
pub(crate) const EXPIRED: &str = "(expired)";

/// The route name of events for changes by an operation of another entity. No operation can have
/// this name.
pub(crate) const ELSEWHERE: &str = "(elsewhere)";

/// The prefix of the names of an entity's events: `blog.posts`.
fn prefix(desc: &EntityDesc) -> String {
    let segment = desc.path.rsplit('/').next().unwrap_or(desc.path);
    desc.namespace.map_or_else(
        || segment.to_owned(),
        |namespace| format!("{namespace}.{segment}"),
    )
}

/// Whether the policy of a route of the entity sets `event`.
pub(crate) fn sets_event(entry: &EntityEntry) -> bool {
    let crud = entry.desc.routes.iter().chain([&entry.desc.defaults]);
    crud.chain(entry.mounted().map(|spec| &spec.policy))
        .any(|policy| policy.event.is_some())
}

/// The events of every route that changes records. `reads` are the fields that conditions of
/// consumers read; `largest` is the maximum size of a payload in bytes.
pub(crate) fn routes(entry: &EntityEntry, reads: FieldSet, largest: usize) -> Routes {
    let desc = entry.desc;
    let prefix = prefix(desc);
    let read = |at: usize| reads.has(at);
    let mut all = Routes::new();
    let mut add =
        |route: &'static str, event: Option<&'static EventDesc>, name: Name, counts: bool| {
            let name = event
                .and_then(|event| event.name)
                .map_or(name, |name| Name::Of(name.to_owned()));
            let narrowed = event.and_then(|event| event.payload);
            let seen = |at: usize| {
                desc.fields[at].readable()
                    && narrowed.is_none_or(|fields| fields.contains(&desc.fields[at].name))
            };
            let payload = Projection::of(desc, |at, _| seen(at));
            let of = |keep: &dyn Fn(usize) -> bool| {
                let any = (0..desc.fields.len()).any(keep);
                any.then(|| Projection::of(desc, |at, _| keep(at)))
            };
            let beyond = of(&|at| read(at) && !seen(at));
            let read = of(&read);
            let counts = counts && !event.is_some_and(|event| event.records);
            let internal = route == EXPIRED || route == ELSEWHERE;
            all.insert(
                route,
                Arc::new(RouteEvent {
                    entity: desc,
                    route,
                    name,
                    payload,
                    beyond,
                    read,
                    counts,
                    internal,
                    largest,
                }),
            );
        };
    let [create, _, _, update, delete] = desc.routes.map(|policy| policy.or(desc.defaults).event);
    let deleted = || Name::Of(format!("{prefix}.deleted"));
    add(
        "create",
        create,
        Name::Of(format!("{prefix}.created")),
        false,
    );
    add(
        "update",
        update,
        Name::Of(format!("{prefix}.updated")),
        false,
    );
    add("delete", delete, deleted(), false);
    for spec in entry.mounted().filter(|spec| !spec.kind.reads()) {
        let event = spec.policy.or(desc.defaults).event;
        let changes = spec.kind.facts().changes;
        let name = match changes {
            Changes::NewOrOne => Name::Upsert {
                created: format!("{prefix}.created"),
                updated: format!("{prefix}.updated"),
            },
            Changes::Removed => deleted(),
            _ => Name::Of(format!("{prefix}.{}", kebab(spec))),
        };
        add(spec.name, event, name, changes == Changes::Many);
    }
    add(ELSEWHERE, None, Name::Of(format!("{prefix}.changed")), true);
    if desc.ttl.is_some() {
        add(EXPIRED, None, Name::Of(format!("{prefix}.expired")), true);
    }
    all
}

fn kebab(spec: &OpSpec) -> String {
    spec.name.replace('_', "-")
}

/// Every name that an entity's events can have.
pub(crate) fn names(routes: &Routes) -> impl Iterator<Item = &str> {
    routes
        .values()
        .filter(|event| !event.internal)
        .flat_map(|event| event.names())
}

/// The event names of each route that changes records.
pub(crate) fn names_by_route(entry: &EntityEntry) -> HashMap<&'static str, Vec<String>> {
    routes(entry, FieldSet::NONE, EntityEvent::PAYLOAD)
        .iter()
        .filter(|(_, event)| !event.internal)
        .map(|(route, event)| {
            (
                *route,
                event.names().into_iter().map(str::to_owned).collect(),
            )
        })
        .collect()
}
