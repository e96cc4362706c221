//! The names and contents of events for each route of an entity, computed once at start-up.

use std::collections::HashMap;
use std::sync::Arc;

use linchpin_core::operation::OpSpec;
use linchpin_core::policy::EventDesc;
use linchpin_vocabulary::kind::Changes;

use crate::EntityEntry;
use crate::entity::{EntityDesc, FieldSet};
use crate::event::{Name, RouteEvent};
use crate::store::Projection;

/// The events of an entity, by route.
pub(super) type Routes = HashMap<&'static str, Arc<RouteEvent>>;

/// The route name in events about removed expired records. No operation can have this name.
pub(crate) const EXPIRED: &str = "(expired)";

/// The route name in events about changes by another entity's operation. No operation can have this
/// name.
pub(super) const ELSEWHERE: &str = "(elsewhere)";

/// The prefix of the names of an entity's events: `blog.posts`.
fn prefix(desc: &EntityDesc) -> String {
    let segment = desc.path.rsplit('/').next().unwrap_or(desc.path);
    desc.namespace.map_or_else(
        || segment.to_owned(),
        |namespace| format!("{namespace}.{segment}"),
    )
}

/// Whether a route of the entity names an event.
pub(super) fn names_one(entry: &EntityEntry) -> bool {
    let crud = entry.desc.routes.iter().chain([&entry.desc.defaults]);
    crud.chain(entry.mounted().map(|spec| &spec.policy))
        .any(|policy| policy.event.is_some())
}

/// The events of every route that changes records.
pub(super) fn routes(entry: &EntityEntry) -> Routes {
    let desc = entry.desc;
    let prefix = prefix(desc);
    let state = state(entry);
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
            let same = (0..desc.fields.len()).all(|at| seen(at) == state.has(at));
            let payload = Projection::of(desc, |at, _| seen(at));
            let state = (!same).then(|| Projection::of(desc, |at, _| state.has(at)));
            let counts = counts && !event.is_some_and(|event| event.records);
            let internal = route == EXPIRED || route == ELSEWHERE;
            all.insert(
                route,
                Arc::new(RouteEvent {
                    entity: desc,
                    route,
                    name,
                    payload,
                    state,
                    counts,
                    internal,
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

/// The fields that the server's own consumers need: readable fields, and fields of guards and
/// declared filters.
fn state(entry: &EntityEntry) -> FieldSet {
    let desc = entry.desc;
    let readable = (0..desc.fields.len()).filter(|at| desc.fields[*at].readable());
    let guard = desc.tenant.map(|tenant| tenant.field).into_iter();
    let guard = guard.chain(desc.scope.iter().map(|scope| scope.field));
    let guard = guard
        .chain(desc.soft_delete.map(|mark| mark.field()))
        .chain(desc.ttl.map(|ttl| ttl.field));
    let guard = guard.chain(desc.gates.iter().map(|gate| gate.field));
    let conditions = desc
        .visible
        .iter()
        .chain(desc.actions.iter().map(|action| &action.filter));
    let conditions = conditions.chain(
        entry
            .operations
            .iter()
            .filter_map(|spec| spec.kind.filter()),
    );
    let named: FieldSet = readable.chain(guard).chain([desc.primary]).collect();
    conditions.fold(named, |all, filter| all.or(filter.fields()))
}

/// Every name that an entity's events can have.
pub(super) fn names(routes: &Routes) -> impl Iterator<Item = &str> {
    routes
        .values()
        .filter(|event| !event.internal)
        .flat_map(|event| event.names())
}

/// The event names of each route that changes records.
pub(crate) fn names_by_route(entry: &EntityEntry) -> HashMap<&'static str, Vec<String>> {
    routes(entry)
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
