//! Endpoints: every route an application mounts, as data.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::overrides::Override;
use super::path;
use super::path_guard::PathGuard;
use super::plugin_routes::{PluginHandler, PluginRoute, RouteDesc};
use super::{
    AuthDesc, EventDesc, ExtraRouteSpec, GuardDesc, Idempotency, MiddlewareDesc, PermissionDesc,
    PolicyDesc, RateLimit,
};
use crate::entity::{FieldDesc, FieldSet, Paging, SourceLine};
use crate::operation::{Answer, Method, OpSpec, Place, RouteSpec, Seg};
use crate::resource::{Adapters, Table};
use crate::{EntityEntry, Package};

/// One route: its method and path, its policy and its action.
#[derive(Clone)]
pub struct Endpoint {
    /// The method. `GET` also accepts `HEAD`.
    pub method: Method,
    /// The full path in axum's form, with the names of the parameters: `/posts/{id}`.
    pub path: String,
    /// The table of the route's entity.
    pub table: Option<Arc<Table>>,
    /// The action of the route.
    pub action: Action,
    /// The policy of the route: the callers that it accepts, and its limits.
    pub policy: Policy,
    /// `create`, `list`, `get`, `update`, `delete`, or the name of the operation or extra route.
    pub name: String,
    /// The source line of its declaration.
    pub at: SourceLine,
    /// A function of the app that replaces the executor; parsing, validation and projection are the
    /// same.
    pub run: Option<Override>,
    /// The function of a plugin's route.
    pub(crate) plugin: Option<PluginHandler>,
    /// Guards of the app on prefixes of its path. They run before its policy.
    pub guards: Vec<PathGuard>,
    /// The middleware of its package. It runs before the route's own middleware.
    pub around: &'static [MiddlewareDesc],
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("method", &self.method)
            .field("path", &self.path)
            .field("name", &self.name)
            .field("action", &self.action)
            .field("policy", &self.policy)
            .field("overridden", &self.run.is_some())
            .finish_non_exhaustive()
    }
}

impl Endpoint {
    /// The middleware of the route; the first is the outermost.
    pub(crate) fn middleware(&self) -> impl Iterator<Item = &'static MiddlewareDesc> + use<> {
        self.around.iter().chain(self.policy.middleware)
    }

    /// Whether its declaration allows it to change records.
    pub(crate) fn changes(&self) -> bool {
        match self.action {
            Action::Create | Action::Update | Action::Delete => true,
            Action::List | Action::Get => false,
            Action::Operation(spec, _) => !spec.kind.reads(),
            Action::Extra(_) | Action::Plugin(_) => self.method != Method::Get,
        }
    }

    /// The fields of its entity's records that it may change: all fields if it creates or deletes
    /// records, or if a function of the app decides.
    pub(crate) fn touches(&self) -> FieldSet {
        let desc = self.table.as_ref().map(|table| table.desc);
        match self.action {
            _ if self.run.is_some() && self.changes() => FieldSet::ALL,
            Action::List | Action::Get => FieldSet::NONE,
            Action::Create | Action::Delete => FieldSet::ALL,
            Action::Update => {
                let fields = desc.map_or(&[][..], |desc| desc.fields).iter().enumerate();
                fields
                    .filter(|(_, field)| field.updatable())
                    .map(|(at, _)| at)
                    .collect()
            }
            Action::Operation(spec, _) => {
                desc.map_or(FieldSet::NONE, |desc| spec.kind.touches(desc))
            }
            Action::Extra(_) | Action::Plugin(_) => FieldSet::ALL,
        }
    }

    /// Whether its entity has counters of other records.
    pub(crate) fn has_counters(&self) -> bool {
        self.table
            .as_ref()
            .is_some_and(|table| table.has_counters())
    }

    /// Whether anonymous callers may call it, so that shared caches may keep its responses.
    pub(crate) fn is_public(&self) -> bool {
        self.policy.is_public() && self.guards.is_empty()
    }

    /// Whether the route returns pages.
    pub(crate) fn pages(&self) -> bool {
        match self.action {
            Action::List => true,
            Action::Operation(spec, _) => spec.kind.returns() == Answer::Page,
            _ => false,
        }
    }

    /// The form in which calls request pages.
    pub(crate) fn paging(&self) -> Paging {
        match (self.action, &self.table) {
            (Action::List, Some(table)) => table.paging(),
            (Action::Operation(spec, _), Some(table)) => {
                spec.kind.paging().within(table.desc.pagination.max_limit)
            }
            _ => Paging::Limit,
        }
    }

    /// Whether `include` adds related records to its response.
    pub fn includes(&self) -> bool {
        let related = self
            .table
            .as_ref()
            .is_some_and(|table| !table.desc.relations.is_empty());
        related
            && match self.action {
                Action::Get | Action::List => true,
                Action::Operation(spec, _) => {
                    self.method == Method::Get && spec.kind.facts().includes
                }
                Action::Create
                | Action::Update
                | Action::Delete
                | Action::Extra(_)
                | Action::Plugin(_) => false,
            }
    }
}

/// The action of an endpoint.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::large_enum_variant)] // an app has one per route, and it is copied as a whole
pub enum Action {
    /// `POST /{e}`
    Create,
    /// `GET /{e}`
    List,
    /// `GET /{e}/{id}`
    Get,
    /// `PATCH /{e}/{id}`
    Update,
    /// `DELETE /{e}/{id}`
    Delete,
    /// An operation; `true` for the form that carries parameters as path segments.
    Operation(&'static OpSpec, bool),
    /// A function of the app.
    Extra(ExtraRouteSpec),
    /// A route of a plugin.
    Plugin(&'static RouteDesc),
}

impl Action {
    /// The description of a plugin route.
    pub fn described(&self) -> Option<&'static RouteDesc> {
        match self {
            Self::Plugin(desc) => Some(desc),
            _ => None,
        }
    }

    /// `create`, `list` and so on, or the name of the operation or function.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::List => "list",
            Self::Get => "get",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Operation(spec, _) => spec.name,
            Self::Extra(spec) => spec.name,
            Self::Plugin(desc) => desc.name,
        }
    }
}

/// The policy of a route after all merging.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// The check of credentials; `None` only if declared as `auth = none`.
    pub auth: AuthDesc,
    /// The caller needs one of these roles; empty: no role.
    pub roles: &'static [&'static str],
    /// Guards, which run after roles. All of them must accept the call.
    pub guards: &'static [GuardDesc],
    /// The permission that the route needs on a record.
    pub permission: Option<&'static PermissionDesc>,
    /// Middleware, which runs after roles and guards; the first is the outermost.
    pub middleware: &'static [MiddlewareDesc],
    /// The largest body, in bytes. Larger: 413.
    pub max_body: u64,
    /// The time limit. Longer: 504.
    pub timeout: Duration,
    /// The rate limit. More calls: 429.
    pub rate_limit: Option<RateLimit>,
    /// Idempotency: several calls with the same key have one effect.
    pub idempotency: Option<Idempotency>,
    /// The declared name and payload of its events.
    pub event: Option<&'static EventDesc>,
    /// The action of the route in the audit log.
    pub audit: Option<&'static str>,
    /// The fields that bodies of create and update may contain; `None`: all writable fields.
    pub input: Option<&'static [&'static str]>,
    /// The fields of responses; `None`: all readable fields.
    pub output: Option<&'static [&'static str]>,
    /// The schema name of those fields in the API document, if a projection lists them.
    pub shape: Option<&'static str>,
    /// Members that only the first response of a call contains.
    pub once: &'static [FieldDesc],
    /// Replaces the summary in the API document.
    pub summary: Option<&'static str>,
    /// Replaces the description in the API document.
    pub description: Option<&'static str>,
    /// Replaces the name of the entity as the tag in the API document.
    pub tags: Option<&'static [&'static str]>,
    /// Whether responses have the header `Deprecation: true`.
    pub deprecated: bool,
}

impl Policy {
    /// The defaults: an authenticated user, a body of at most 1 MiB, 30 s.
    pub const DEFAULT: Self = Self {
        auth: AuthDesc::Named("userAuth"),
        roles: &[],
        guards: &[],
        permission: None,
        middleware: &[],
        max_body: 1 << 20,
        timeout: Duration::from_secs(30),
        rate_limit: None,
        idempotency: None,
        event: None,
        audit: None,
        input: None,
        output: None,
        shape: None,
        once: &[],
        summary: None,
        description: None,
        tags: None,
        deprecated: false,
    };

    /// The effective policy, after `routes.defaults` has been merged in.
    pub fn effective(declared: PolicyDesc) -> Self {
        // Every field is named, without `..`: code with a new field does not compile until the
        // field is read here.
        let PolicyDesc {
            auth,
            roles,
            guards,
            permission,
            middleware,
            disabled: _, // such a route is never mounted
            max_body,
            timeout,
            event,
            rate_limit,
            idempotency,
            audit,
            input,
            output,
            shape,
            once,
            summary,
            description,
            tags,
            deprecated,
        } = declared;
        let default = Self::DEFAULT;
        Self {
            auth: auth.unwrap_or(default.auth),
            roles: roles.unwrap_or(default.roles),
            guards: guards.unwrap_or(default.guards),
            permission,
            middleware: middleware.unwrap_or(default.middleware),
            max_body: max_body.unwrap_or(default.max_body),
            timeout: timeout.map_or(default.timeout, Duration::from_millis),
            rate_limit,
            idempotency,
            event,
            audit,
            input,
            output,
            shape,
            once,
            summary,
            description,
            tags,
            deprecated,
        }
    }

    /// Whether anonymous callers may call the route, so that shared caches may keep its responses.
    pub fn is_public(&self) -> bool {
        self.auth == AuthDesc::None
    }
}

/// All routes that a package mounts below `mount`, in the order of declaration.
///
/// Skips entities without a table in `adapters`, because they are not mounted.
pub fn endpoints(package: &Package, mount: &str, adapters: &Adapters) -> Vec<Endpoint> {
    let mut out = Vec::new();
    for entry in package.entities {
        if let Some(table) = adapters.table(entry.desc.storage_name) {
            entity_endpoints(package, entry, mount, table, &mut out);
        }
    }
    out
}

/// The endpoints of plugin routes.
pub(crate) fn plugin_endpoints(routes: Vec<PluginRoute>) -> Vec<Endpoint> {
    let endpoint = |route: PluginRoute| Endpoint {
        method: route.desc.method,
        path: route.path,
        table: None,
        action: Action::Plugin(route.desc),
        policy: Policy::effective(route.desc.policy),
        name: route.desc.name.to_owned(),
        at: route.desc.at,
        run: None,
        plugin: Some(route.run),
        guards: Vec::new(),
        around: &[],
    };
    routes
        .into_iter()
        .filter(|route| !route.desc.policy.disabled)
        .map(endpoint)
        .collect()
}

fn entity_endpoints(
    package: &Package,
    entry: &EntityEntry,
    mount: &str,
    table: &Arc<Table>,
    out: &mut Vec<Endpoint>,
) {
    let desc = entry.desc;
    let base = path::join(
        &path::join(mount, desc.parent_path.unwrap_or_default()),
        desc.path,
    );
    let crud = [
        Action::Create,
        Action::List,
        Action::Get,
        Action::Update,
        Action::Delete,
    ];
    for ((action, mount), declared) in crud.into_iter().zip(desc.mounts).zip(desc.routes) {
        if declared.disabled {
            continue;
        }
        out.push(Endpoint {
            method: mount.method,
            path: path::append(&base, mount.segments),
            table: Some(Arc::clone(table)),
            action,
            policy: Policy::effective(declared.or(desc.defaults)),
            name: action.name().to_owned(),
            at: desc.at,
            run: None,
            plugin: None,
            guards: Vec::new(),
            around: package.middleware,
        });
    }
    for spec in entry.mounted() {
        if spec.policy.disabled {
            continue;
        }
        for route in spec.routes {
            out.push(Endpoint {
                method: route.method,
                path: path::append(&base, route.segments),
                table: Some(Arc::clone(table)),
                action: Action::Operation(spec, is_path_form(spec, route)),
                policy: Policy::effective(spec.policy.or(desc.defaults)),
                name: spec.name.to_owned(),
                at: spec.at,
                run: None,
                plugin: None,
                guards: Vec::new(),
                around: package.middleware,
            });
        }
    }
    for extra in entry.routes {
        if extra.policy.disabled {
            continue;
        }
        out.push(Endpoint {
            method: extra.route.method,
            path: path::append(&base, extra.route.segments),
            table: Some(Arc::clone(table)),
            action: Action::Extra(*extra),
            policy: Policy::effective(extra.policy.or(desc.defaults)),
            name: extra.name.to_owned(),
            at: extra.at,
            run: None,
            plugin: None,
            guards: Vec::new(),
            around: package.middleware,
        });
    }
}

fn is_path_form(spec: &OpSpec, route: &RouteSpec) -> bool {
    route.segments.iter().any(|segment| match segment {
        Seg::Param(name) => spec
            .params
            .iter()
            .any(|p| p.name == *name && p.place == Place::Segment),
        Seg::Lit(_) => false,
    })
}
