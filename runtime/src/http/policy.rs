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
    /// What its events are called and hold.
    pub event: Option<&'static EventDesc>,
}

/// The events of a route as declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventDesc {
    /// Replaces the default name.
    pub name: Option<&'static str>,
    /// Positions of the only fields in the payload; all readable ones by default.
    pub payload: Option<&'static [usize]>,
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
    pub const fn payload(self, fields: &'static [usize]) -> Self {
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
    pub const INHERIT: Self = Self { auth: None, roles: None, disabled: false, max_body: None, timeout: None, event: None };

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

    /// With events of their own.
    #[doc(hidden)]
    #[must_use]
    pub const fn event(self, event: &'static EventDesc) -> Self {
        Self { event: Some(event), ..self }
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
            event: if self.event.is_some() { self.event } else { defaults.event },
        }
    }
}
