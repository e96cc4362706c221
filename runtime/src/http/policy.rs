//! Route policy as declared.

/// Who may call a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthDesc {
    /// Anybody; written out as `auth = none`.
    None,
    /// A name of the route-auth registry, such as `userAuth`.
    Named(&'static str),
}

/// The keys of a route policy; `None` inherits `routes.defaults`, and those the contract's default.
#[derive(Debug, Clone, Copy)]
pub struct PolicyDesc {
    /// Default `userAuth`: closed unless opened.
    pub auth: Option<AuthDesc>,
    /// Any one of them suffices.
    pub roles: Option<&'static [&'static str]>,
    /// The route is not mounted.
    pub disabled: bool,
    /// Largest body in bytes; default 1 MiB.
    pub max_body: Option<u64>,
    /// In milliseconds; default 30,000.
    pub timeout: Option<u64>,
}

impl PolicyDesc {
    /// Inherits everything.
    pub const INHERIT: Self = Self { auth: None, roles: None, disabled: false, max_body: None, timeout: None };

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

    /// These keys, with those of `defaults` where they are absent. `disabled` is never inherited.
    #[must_use]
    pub const fn or(self, defaults: Self) -> Self {
        Self {
            auth: if self.auth.is_some() { self.auth } else { defaults.auth },
            roles: if self.roles.is_some() { self.roles } else { defaults.roles },
            disabled: self.disabled,
            max_body: if self.max_body.is_some() { self.max_body } else { defaults.max_body },
            timeout: if self.timeout.is_some() { self.timeout } else { defaults.timeout },
        }
    }
}
