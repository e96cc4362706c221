//! Route policy as declared.

mod keys;

use crate::entity::FieldDesc;

pub use keys::{AuthDesc, EventDesc, GuardArg, GuardDesc, Idempotency, MiddlewareDesc, PermissionDesc, RateLimit};

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
    /// What names those, where it is a projection.
    pub shape: Option<&'static str>,
    /// Members that the answer of a call has, and no later one; never inherited.
    pub once: &'static [FieldDesc],
    /// For the API document.
    pub summary: Option<&'static str>,
    /// For the API document; never inherited.
    pub description: Option<&'static str>,
    /// For the API document.
    pub tags: Option<&'static [&'static str]>,
    /// Answers say so in the header `Deprecation`.
    pub deprecated: bool,
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
        shape: None,
        once: &[],
        summary: None,
        description: None,
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

    /// With the fields of a projection, by its name.
    #[doc(hidden)]
    #[must_use]
    pub const fn show(self, (name, fields): (&'static str, &'static [&'static str])) -> Self {
        Self { output: Some(fields), shape: Some(name), ..self }
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

    /// With a description.
    #[doc(hidden)]
    #[must_use]
    pub const fn description(self, text: &'static str) -> Self {
        Self { description: Some(text), ..self }
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

    /// These keys, with those of `defaults` where they are absent. `disabled`, `once` and `description` are never inherited.
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
            shape: if self.output.is_some() { self.shape } else { defaults.shape },
            once: self.once,
            summary: if self.summary.is_some() { self.summary } else { defaults.summary },
            description: self.description,
            tags: if self.tags.is_some() { self.tags } else { defaults.tags },
            deprecated: self.deprecated || defaults.deprecated,
        }
    }
}
