//! Route policy as declared.

use crate::entity::FieldDesc;

/// Who may call a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthDesc {
    /// Anybody; written out as `auth = none`.
    None,
    /// A name of the route-auth registry, such as `userAuth`.
    Named(&'static str),
}

/// So many calls in so long, counted for each caller of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    /// Most calls in one window.
    pub max: u32,
    /// In milliseconds.
    pub window: u64,
    /// Counts addresses, even of callers who are known.
    pub by_address: bool,
    /// Lets calls pass while the counters cannot be reached; else they are answered 503.
    pub fail_open: bool,
}

impl RateLimit {
    /// So many calls in a window of so many milliseconds.
    #[doc(hidden)]
    #[must_use]
    pub const fn new(max: u32, window: u64) -> Self {
        Self { max, window, by_address: false, fail_open: false }
    }

    /// Counts addresses.
    #[doc(hidden)]
    #[must_use]
    pub const fn by_address(self) -> Self {
        Self { by_address: true, ..self }
    }

    /// Lets calls pass without counters.
    #[doc(hidden)]
    #[must_use]
    pub const fn fail_open(self) -> Self {
        Self { fail_open: true, ..self }
    }
}

/// A guard that a route names: `require_mfa`, `require_step_up(300)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuardDesc {
    /// What the route-auth registry knows it by.
    pub name: &'static str,
    /// What stands in parentheses behind it.
    pub argument: Option<GuardArg>,
}

/// The argument of a guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuardArg {
    /// `require_step_up(300)`
    Int(i64),
    /// `require_plan("pro")`
    Text(&'static str),
}

impl GuardArg {
    /// As the API document and the route report show it.
    #[cfg(feature = "server")]
    pub(crate) fn to_json(self) -> serde_json::Value {
        match self {
            Self::Int(number) => number.into(),
            Self::Text(text) => text.into(),
        }
    }
}

#[doc(hidden)]
impl GuardDesc {
    /// Without an argument.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self { name, argument: None }
    }

    /// With a number.
    #[must_use]
    pub const fn int(self, argument: i64) -> Self {
        Self { argument: Some(GuardArg::Int(argument)), ..self }
    }

    /// With a text.
    #[must_use]
    pub const fn text(self, argument: &'static str) -> Self {
        Self { argument: Some(GuardArg::Text(argument)), ..self }
    }
}

/// Who may do with a record what a route does: an action that a permission evaluator grants, or the record's owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PermissionDesc {
    /// The action asked for.
    pub requires: &'static str,
    /// Further actions, any of which suffices.
    pub or: &'static [&'static str],
    /// The field that holds the id of a record's owner, by its name in the declaration.
    pub owner_field: Option<&'static str>,
    /// The field that holds what the evaluator judges by, by its name in the declaration.
    pub resource: Option<&'static str>,
    /// The field that holds the id of the user whom a record is about, by its name in the declaration: whoever a grant lets in is
    /// compared with them.
    pub rank: Option<&'static str>,
    /// Whether who is refused is told 404 instead of 403.
    pub hide: bool,
}

#[doc(hidden)]
impl PermissionDesc {
    /// An action.
    #[must_use]
    pub const fn new(requires: &'static str) -> Self {
        Self { requires, or: &[], owner_field: None, resource: None, rank: None, hide: false }
    }

    /// Compared with the user that this field names.
    #[must_use]
    pub const fn rank(self, field: &'static str) -> Self {
        Self { rank: Some(field), ..self }
    }

    /// Or one of these.
    #[must_use]
    pub const fn or(self, or: &'static [&'static str]) -> Self {
        Self { or, ..self }
    }

    /// Or the owner.
    #[must_use]
    pub const fn owner(self, field: &'static str) -> Self {
        Self { owner_field: Some(field), ..self }
    }

    /// Judged by a field of the record.
    #[must_use]
    pub const fn resource(self, field: &'static str) -> Self {
        Self { resource: Some(field), ..self }
    }

    /// Told 404.
    #[must_use]
    pub const fn hide(self) -> Self {
        Self { hide: true, ..self }
    }
}

/// What runs around a route.
#[derive(Debug, Clone, Copy)]
pub enum MiddlewareDesc {
    /// A function, and its path as written.
    #[cfg(feature = "server")]
    Function(&'static str, super::MiddlewareFn),
    /// What somebody registers under a name.
    Named(&'static str),
}

impl MiddlewareDesc {
    /// The path of the function as written, or the name.
    #[cfg(feature = "server")]
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Function(name, _) | Self::Named(name) => name,
        }
    }
}

/// Calls of a route under one `Idempotency-Key` have one effect and one answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Idempotency {
    /// How long an answer is kept, in milliseconds.
    pub ttl: u64,
    /// Whether a call without a key is refused.
    pub required: bool,
}

impl Idempotency {
    /// Answers are kept for so many milliseconds.
    #[doc(hidden)]
    #[must_use]
    pub const fn new(ttl: u64) -> Self {
        Self { ttl, required: false }
    }

    /// Refuses calls without a key.
    #[doc(hidden)]
    #[must_use]
    pub const fn required(self) -> Self {
        Self { required: true, ..self }
    }
}

/// The keys of a route policy; `None` inherits `routes.defaults`, and those the contract's default.
#[derive(Debug, Clone, Copy)]
pub struct PolicyDesc {
    /// Default `userAuth`: closed unless opened.
    pub auth: Option<AuthDesc>,
    /// Any one of them suffices.
    pub roles: Option<&'static [&'static str]>,
    /// All of them must let the call pass, after roles.
    pub guards: Option<&'static [GuardDesc]>,
    /// Who may do with a record what the route does.
    pub permission: Option<&'static PermissionDesc>,
    /// What runs around the route, after roles and guards, the first outermost.
    pub middleware: Option<&'static [MiddlewareDesc]>,
    /// The route is not mounted.
    pub disabled: bool,
    /// Largest body in bytes; default 1 MiB.
    pub max_body: Option<u64>,
    /// In milliseconds; default 30,000.
    pub timeout: Option<u64>,
    /// What its events are called and hold.
    pub event: Option<&'static EventDesc>,
    /// How often one caller may call.
    pub rate_limit: Option<RateLimit>,
    /// Whether calls can be repeated safely; read on routes that change something.
    pub idempotency: Option<Idempotency>,
    /// What the audit log calls it; read on routes that change something.
    pub audit: Option<&'static str>,
    /// The fields that create and update bodies may hold, by their names in the declaration.
    pub input: Option<&'static [&'static str]>,
    /// The fields that answers hold, by their names in the declaration.
    pub output: Option<&'static [&'static str]>,
    /// Members that the answer of a call has, and no later one; never inherited.
    pub once: &'static [FieldDesc],
    /// For the API document.
    pub summary: Option<&'static str>,
    /// For the API document.
    pub tags: Option<&'static [&'static str]>,
    /// Answers say so in the header `Deprecation`.
    pub deprecated: bool,
}

/// The events of a route as declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventDesc {
    /// Replaces the default name.
    pub name: Option<&'static str>,
    /// The only fields in the payload, by their names in the declaration; all readable ones by default.
    pub payload: Option<&'static [&'static str]>,
    /// Of a batch: an event for each record.
    pub records: bool,
}

#[doc(hidden)]
impl EventDesc {
    /// As by default.
    pub const DEFAULT: Self = Self { name: None, payload: None, records: false };

    /// With a name.
    #[must_use]
    pub const fn name(self, name: &'static str) -> Self {
        Self { name: Some(name), ..self }
    }

    /// With a narrower payload.
    #[must_use]
    pub const fn payload(self, fields: &'static [&'static str]) -> Self {
        Self { payload: Some(fields), ..self }
    }

    /// One event per record.
    #[must_use]
    pub const fn records(self) -> Self {
        Self { records: true, ..self }
    }
}

impl PolicyDesc {
    /// Inherits everything.
    pub const INHERIT: Self = Self {
        auth: None,
        roles: None,
        guards: None,
        permission: None,
        middleware: None,
        disabled: false,
        max_body: None,
        timeout: None,
        event: None,
        rate_limit: None,
        idempotency: None,
        audit: None,
        input: None,
        output: None,
        once: &[],
        summary: None,
        tags: None,
        deprecated: false,
    };

    /// With who may call.
    #[doc(hidden)]
    #[must_use]
    pub const fn auth(self, auth: AuthDesc) -> Self {
        Self { auth: Some(auth), ..self }
    }

    /// With roles.
    #[doc(hidden)]
    #[must_use]
    pub const fn roles(self, roles: &'static [&'static str]) -> Self {
        Self { roles: Some(roles), ..self }
    }

    /// With guards.
    #[doc(hidden)]
    #[must_use]
    pub const fn guards(self, guards: &'static [GuardDesc]) -> Self {
        Self { guards: Some(guards), ..self }
    }

    /// With a permission.
    #[doc(hidden)]
    #[must_use]
    pub const fn permission(self, permission: &'static PermissionDesc) -> Self {
        Self { permission: Some(permission), ..self }
    }

    /// With middleware.
    #[doc(hidden)]
    #[must_use]
    pub const fn middleware(self, middleware: &'static [MiddlewareDesc]) -> Self {
        Self { middleware: Some(middleware), ..self }
    }

    /// Not mounted.
    #[doc(hidden)]
    #[must_use]
    pub const fn disable(self) -> Self {
        Self { disabled: true, ..self }
    }

    /// With a limit of the body, in bytes.
    #[doc(hidden)]
    #[must_use]
    pub const fn max_body(self, bytes: u64) -> Self {
        Self { max_body: Some(bytes), ..self }
    }

    /// With a timeout, in milliseconds.
    #[doc(hidden)]
    #[must_use]
    pub const fn timeout(self, millis: u64) -> Self {
        Self { timeout: Some(millis), ..self }
    }

    /// With events of their own.
    #[doc(hidden)]
    #[must_use]
    pub const fn event(self, event: &'static EventDesc) -> Self {
        Self { event: Some(event), ..self }
    }

    /// With a limit of calls.
    #[doc(hidden)]
    #[must_use]
    pub const fn rate_limit(self, limit: RateLimit) -> Self {
        Self { rate_limit: Some(limit), ..self }
    }

    /// With calls that can be repeated.
    #[doc(hidden)]
    #[must_use]
    pub const fn idempotent(self, idempotency: Idempotency) -> Self {
        Self { idempotency: Some(idempotency), ..self }
    }

    /// With entries in the audit log.
    #[doc(hidden)]
    #[must_use]
    pub const fn audit(self, action: &'static str) -> Self {
        Self { audit: Some(action), ..self }
    }

    /// With the fields that bodies may hold.
    #[doc(hidden)]
    #[must_use]
    pub const fn input(self, fields: &'static [&'static str]) -> Self {
        Self { input: Some(fields), ..self }
    }

    /// With the fields that answers hold.
    #[doc(hidden)]
    #[must_use]
    pub const fn output(self, fields: &'static [&'static str]) -> Self {
        Self { output: Some(fields), ..self }
    }

    /// With members that are given once.
    #[doc(hidden)]
    #[must_use]
    pub const fn once(self, once: &'static [FieldDesc]) -> Self {
        Self { once, ..self }
    }

    /// With a summary.
    #[doc(hidden)]
    #[must_use]
    pub const fn summary(self, text: &'static str) -> Self {
        Self { summary: Some(text), ..self }
    }

    /// With tags.
    #[doc(hidden)]
    #[must_use]
    pub const fn tags(self, tags: &'static [&'static str]) -> Self {
        Self { tags: Some(tags), ..self }
    }

    /// Deprecated.
    #[doc(hidden)]
    #[must_use]
    pub const fn deprecated(self) -> Self {
        Self { deprecated: true, ..self }
    }

    /// These keys, with those of `defaults` where they are absent. `disabled` and `once` are never inherited.
    #[must_use]
    pub const fn or(self, defaults: Self) -> Self {
        Self {
            auth: if self.auth.is_some() { self.auth } else { defaults.auth },
            roles: if self.roles.is_some() { self.roles } else { defaults.roles },
            guards: if self.guards.is_some() { self.guards } else { defaults.guards },
            permission: if self.permission.is_some() { self.permission } else { defaults.permission },
            middleware: if self.middleware.is_some() { self.middleware } else { defaults.middleware },
            disabled: self.disabled,
            max_body: if self.max_body.is_some() { self.max_body } else { defaults.max_body },
            timeout: if self.timeout.is_some() { self.timeout } else { defaults.timeout },
            event: if self.event.is_some() { self.event } else { defaults.event },
            rate_limit: if self.rate_limit.is_some() { self.rate_limit } else { defaults.rate_limit },
            idempotency: if self.idempotency.is_some() { self.idempotency } else { defaults.idempotency },
            audit: if self.audit.is_some() { self.audit } else { defaults.audit },
            input: if self.input.is_some() { self.input } else { defaults.input },
            output: if self.output.is_some() { self.output } else { defaults.output },
            once: self.once,
            summary: if self.summary.is_some() { self.summary } else { defaults.summary },
            tags: if self.tags.is_some() { self.tags } else { defaults.tags },
            deprecated: self.deprecated || defaults.deprecated,
        }
    }
}
