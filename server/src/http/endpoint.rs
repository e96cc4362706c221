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

/// One route: where it is, who may call it, what it does.
#[derive(Clone)]
pub struct Endpoint {
    /// The method. A `GET` answers `HEAD` as well.
    pub method: Method,
    /// The full path in axum's form, with the parameters' own names: `/posts/{id}`.
    pub path: String,
    /// The entity it works on.
    pub table: Option<Arc<Table>>,
    /// What it does.
    pub action: Action,
    /// Who may call it, and its limits.
    pub policy: Policy,
    /// `create`, `list`, `get`, `update`, `delete`, or the name of the operation or extra route.
    pub name: String,
    /// Where it is declared.
    pub at: SourceLine,
    /// Replaces the executor; parsing, validation and projection stay.
    pub run: Option<Override>,
    /// What a plugin's route does.
    pub(crate) plugin: Option<PluginHandler>,
    /// What stands before its policy: guards of the app that its path lies below.
    pub guards: Vec<PathGuard>,
    /// What runs around all routes of its package, outside of its own middleware.
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
    /// What runs around it, the first outermost.
    pub(crate) fn middleware(&self) -> impl Iterator<Item = &'static MiddlewareDesc> + use<> {
        self.around.iter().chain(self.policy.middleware)
    }

    /// Whether it changes anything, as far as its declaration says.
    pub(crate) fn changes(&self) -> bool {
        match self.action {
            Action::Create | Action::Update | Action::Delete => true,
            Action::List | Action::Get => false,
            Action::Operation(spec, _) => !spec.kind.reads(),
            Action::Extra(_) | Action::Plugin(_) => self.method != Method::Get,
        }
    }

    /// Which fields of its entity's records it may change; all of them where it makes or removes
    /// records, and where code of the user decides.
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

    /// Whether the records of its entity keep numbers of others.
    pub(crate) fn keeps(&self) -> bool {
        self.table.as_ref().is_some_and(|table| table.keeps())
    }

    /// Whether anybody may call it, so that its answers may be cached by others.
    pub(crate) fn is_public(&self) -> bool {
        self.policy.is_public() && self.guards.is_empty()
    }

    /// Whether it answers pages.
    pub(crate) fn pages(&self) -> bool {
        match self.action {
            Action::List => true,
            Action::Operation(spec, _) => spec.kind.returns() == Answer::Page,
            _ => false,
        }
    }

    /// How its pages are asked for.
    pub(crate) fn paging(&self) -> Paging {
        match (self.action, &self.table) {
            (Action::List, Some(table)) => table.paging(),
            (Action::Operation(spec, _), Some(table)) => {
                spec.kind.paging().within(table.desc.pagination.max_limit)
            }
            _ => Paging::Limit,
        }
    }

    /// Whether `include` shows further records beside its own: it reads records of its entity.
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

/// What an endpoint does.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::large_enum_variant)] // there is one per route of an app, and it is copied as a whole
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
    /// A function of the user.
    Extra(ExtraRouteSpec),
    /// A route of a plugin.
    Plugin(&'static RouteDesc),
}

impl Action {
    /// What a plugin says of it.
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
    /// Closed unless `none` was written.
    pub auth: AuthDesc,
    /// Any one of them suffices; empty: none is asked for.
    pub roles: &'static [&'static str],
    /// All of them must let the call pass, after roles.
    pub guards: &'static [GuardDesc],
    /// Who may do with a record what the route does.
    pub permission: Option<&'static PermissionDesc>,
    /// What runs around the route, after roles and guards, the first outermost.
    pub middleware: &'static [MiddlewareDesc],
    /// Largest body in bytes.
    pub max_body: u64,
    /// After this, 504.
    pub timeout: Duration,
    /// Beyond it, 429.
    pub rate_limit: Option<RateLimit>,
    /// Calls under one key have one effect.
    pub idempotency: Option<Idempotency>,
    /// What its events are called and hold, where it says so.
    pub event: Option<&'static EventDesc>,
    /// What the audit log calls it.
    pub audit: Option<&'static str>,
    /// The fields that create and update bodies may hold; `None`: all writable ones.
    pub input: Option<&'static [&'static str]>,
    /// The fields that answers hold; `None`: all readable ones.
    pub output: Option<&'static [&'static str]>,
    /// What the API document calls what holds those, where a projection names them.
    pub shape: Option<&'static str>,
    /// Members that the answer of a call has, and no later one.
    pub once: &'static [FieldDesc],
    /// Replaces what the API document says in one line.
    pub summary: Option<&'static str>,
    /// Replaces what the API document says at length.
    pub description: Option<&'static str>,
    /// Replaces the name of the entity as the tag in the API document.
    pub tags: Option<&'static [&'static str]>,
    /// Whether answers carry `Deprecation: true`.
    pub deprecated: bool,
}

impl Policy {
    /// The contract's defaults: a user, 1 MiB, 30 s.
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

    /// What a declared policy means once `routes.defaults` has been merged in.
    pub fn effective(declared: PolicyDesc) -> Self {
        // Every key is named, without `..`: a new key does not compile until it is read here.
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

    /// Whether anybody may call the route, so that its answers may be cached by others.
    pub fn is_public(&self) -> bool {
        self.auth == AuthDesc::None
    }
}

/// Everything a package mounts below `mount`, in the order of declaration.
///
/// Entities without a table in `adapters` are left out: they are mounted nowhere.
pub fn endpoints(package: &Package, mount: &str, adapters: &Adapters) -> Vec<Endpoint> {
    let mut out = Vec::new();
    for entry in package.entities {
        if let Some(table) = adapters.table(entry.desc.storage_name) {
            entity_endpoints(package, entry, mount, table, &mut out);
        }
    }
    out
}

/// What a plugin mounts.
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
