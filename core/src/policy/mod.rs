//! The declared route policy.

mod keys;

use crate::field::FieldDesc;

pub use keys::{
    AuthDesc, EventDesc, GuardArg, GuardDesc, Idempotency, MiddlewareDesc, PermissionDesc,
    RateLimit,
};

/// The keys of a route policy. `None` inherits the key from `routes.defaults`, and then the default
/// of the framework.
#[derive(Debug, Clone, Copy)]
pub struct PolicyDesc {
    /// The authentication of callers. The default is `userAuth`, so a route is not public by
    /// default.
    pub auth: Option<AuthDesc>,
    /// The roles; the caller needs one of them.
    pub roles: Option<&'static [&'static str]>,
    /// The guards. They run after the check of roles, and all must pass.
    pub guards: Option<&'static [GuardDesc]>,
    /// The permission that the route needs on a record.
    pub permission: Option<&'static PermissionDesc>,
    /// The middleware of the route. It runs after roles and guards; the first is the outermost.
    pub middleware: Option<&'static [MiddlewareDesc]>,
    /// Whether the route is not mounted.
    pub disabled: bool,
    /// The maximum length of a body in bytes; the default is 1 MiB.
    pub max_body: Option<u64>,
    /// The timeout in milliseconds; the default is 30,000.
    pub timeout: Option<u64>,
    /// Names and payloads of the events.
    pub event: Option<&'static EventDesc>,
    /// The rate limit per caller.
    pub rate_limit: Option<RateLimit>,
    /// The idempotency of calls. Only routes that change records use it.
    pub idempotency: Option<Idempotency>,
    /// The action in the audit log. Only routes that change records use it.
    pub audit: Option<&'static str>,
    /// The allowed fields in bodies of create and update, by their declared names.
    pub input: Option<&'static [&'static str]>,
    /// The fields in responses, by their declared names.
    pub output: Option<&'static [&'static str]>,
    /// The name of the projection, if `output` has the fields of a projection.
    pub shape: Option<&'static str>,
    /// Members that the response of a call contains, but no later response. Never inherited.
    pub once: &'static [FieldDesc],
    /// The summary in the API document.
    pub summary: Option<&'static str>,
    /// The description in the API document; never inherited.
    pub description: Option<&'static str>,
    /// The tags in the API document.
    pub tags: Option<&'static [&'static str]>,
    /// Whether the route is deprecated. Responses then have the header `Deprecation`.
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

    /// Sets the authentication.
    #[doc(hidden)]
    #[must_use]
    pub const fn auth(self, auth: AuthDesc) -> Self {
        Self {
            auth: Some(auth),
            ..self
        }
    }

    /// Sets the roles.
    #[doc(hidden)]
    #[must_use]
    pub const fn roles(self, roles: &'static [&'static str]) -> Self {
        Self {
            roles: Some(roles),
            ..self
        }
    }

    /// Sets the guards.
    #[doc(hidden)]
    #[must_use]
    pub const fn guards(self, guards: &'static [GuardDesc]) -> Self {
        Self {
            guards: Some(guards),
            ..self
        }
    }

    /// Sets the permission.
    #[doc(hidden)]
    #[must_use]
    pub const fn permission(self, permission: &'static PermissionDesc) -> Self {
        Self {
            permission: Some(permission),
            ..self
        }
    }

    /// Sets the middleware.
    #[doc(hidden)]
    #[must_use]
    pub const fn middleware(self, middleware: &'static [MiddlewareDesc]) -> Self {
        Self {
            middleware: Some(middleware),
            ..self
        }
    }

    /// Does not mount the route.
    #[doc(hidden)]
    #[must_use]
    pub const fn disable(self) -> Self {
        Self {
            disabled: true,
            ..self
        }
    }

    /// Sets the maximum length of a body, in bytes.
    #[doc(hidden)]
    #[must_use]
    pub const fn max_body(self, bytes: u64) -> Self {
        Self {
            max_body: Some(bytes),
            ..self
        }
    }

    /// Sets the timeout, in milliseconds.
    #[doc(hidden)]
    #[must_use]
    pub const fn timeout(self, millis: u64) -> Self {
        Self {
            timeout: Some(millis),
            ..self
        }
    }

    /// Sets the events.
    #[doc(hidden)]
    #[must_use]
    pub const fn event(self, event: &'static EventDesc) -> Self {
        Self {
            event: Some(event),
            ..self
        }
    }

    /// Sets the rate limit.
    #[doc(hidden)]
    #[must_use]
    pub const fn rate_limit(self, limit: RateLimit) -> Self {
        Self {
            rate_limit: Some(limit),
            ..self
        }
    }

    /// Sets the idempotency.
    #[doc(hidden)]
    #[must_use]
    pub const fn idempotent(self, idempotency: Idempotency) -> Self {
        Self {
            idempotency: Some(idempotency),
            ..self
        }
    }

    /// Writes calls to the audit log.
    #[doc(hidden)]
    #[must_use]
    pub const fn audit(self, action: &'static str) -> Self {
        Self {
            audit: Some(action),
            ..self
        }
    }

    /// Sets the allowed fields in bodies.
    #[doc(hidden)]
    #[must_use]
    pub const fn input(self, fields: &'static [&'static str]) -> Self {
        Self {
            input: Some(fields),
            ..self
        }
    }

    /// Sets the fields in responses.
    #[doc(hidden)]
    #[must_use]
    pub const fn output(self, fields: &'static [&'static str]) -> Self {
        Self {
            output: Some(fields),
            ..self
        }
    }

    /// Sets the fields in responses to those of a projection, by its name.
    #[doc(hidden)]
    #[must_use]
    pub const fn show(self, (name, fields): (&'static str, &'static [&'static str])) -> Self {
        Self {
            output: Some(fields),
            shape: Some(name),
            ..self
        }
    }

    /// Sets the members that only the response of the call contains.
    #[doc(hidden)]
    #[must_use]
    pub const fn once(self, once: &'static [FieldDesc]) -> Self {
        Self { once, ..self }
    }

    /// Sets the summary.
    #[doc(hidden)]
    #[must_use]
    pub const fn summary(self, text: &'static str) -> Self {
        Self {
            summary: Some(text),
            ..self
        }
    }

    /// Sets the description.
    #[doc(hidden)]
    #[must_use]
    pub const fn description(self, text: &'static str) -> Self {
        Self {
            description: Some(text),
            ..self
        }
    }

    /// Sets the tags.
    #[doc(hidden)]
    #[must_use]
    pub const fn tags(self, tags: &'static [&'static str]) -> Self {
        Self {
            tags: Some(tags),
            ..self
        }
    }

    /// Marks the route as deprecated.
    #[doc(hidden)]
    #[must_use]
    pub const fn deprecated(self) -> Self {
        Self {
            deprecated: true,
            ..self
        }
    }

    /// Returns these keys; absent keys come from `defaults`. `disabled`, `once` and `description`
    /// are never inherited.
    #[must_use]
    pub const fn or(self, defaults: Self) -> Self {
        Self {
            auth: if self.auth.is_some() {
                self.auth
            } else {
                defaults.auth
            },
            roles: if self.roles.is_some() {
                self.roles
            } else {
                defaults.roles
            },
            guards: if self.guards.is_some() {
                self.guards
            } else {
                defaults.guards
            },
            permission: if self.permission.is_some() {
                self.permission
            } else {
                defaults.permission
            },
            middleware: if self.middleware.is_some() {
                self.middleware
            } else {
                defaults.middleware
            },
            disabled: self.disabled,
            max_body: if self.max_body.is_some() {
                self.max_body
            } else {
                defaults.max_body
            },
            timeout: if self.timeout.is_some() {
                self.timeout
            } else {
                defaults.timeout
            },
            event: if self.event.is_some() {
                self.event
            } else {
                defaults.event
            },
            rate_limit: if self.rate_limit.is_some() {
                self.rate_limit
            } else {
                defaults.rate_limit
            },
            idempotency: if self.idempotency.is_some() {
                self.idempotency
            } else {
                defaults.idempotency
            },
            audit: if self.audit.is_some() {
                self.audit
            } else {
                defaults.audit
            },
            input: if self.input.is_some() {
                self.input
            } else {
                defaults.input
            },
            output: if self.output.is_some() {
                self.output
            } else {
                defaults.output
            },
            shape: if self.output.is_some() {
                self.shape
            } else {
                defaults.shape
            },
            once: self.once,
            summary: if self.summary.is_some() {
                self.summary
            } else {
                defaults.summary
            },
            description: self.description,
            tags: if self.tags.is_some() {
                self.tags
            } else {
                defaults.tags
            },
            deprecated: self.deprecated || defaults.deprecated,
        }
    }
}
