//! Types of the keys of a route policy.

/// The authentication that a route requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthDesc {
    /// The route is public: `auth = none`.
    None,
    /// A name of the route-auth registry, such as `userAuth`.
    Named(&'static str),
}

/// A limit of calls per window, counted for each caller of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    /// The maximum number of calls in one window.
    pub max: u32,
    /// The length of the window, in milliseconds.
    pub window: u64,
    /// Whether calls are counted per IP address, even for authenticated callers.
    pub by_address: bool,
    /// Whether calls pass while the counters are unavailable. Otherwise they get 503.
    pub fail_open: bool,
}

impl RateLimit {
    /// At most `max` calls in a window of `window` milliseconds.
    #[doc(hidden)]
    #[must_use]
    pub const fn new(max: u32, window: u64) -> Self {
        Self {
            max,
            window,
            by_address: false,
            fail_open: false,
        }
    }

    /// Counts calls per IP address.
    #[doc(hidden)]
    #[must_use]
    pub const fn by_address(self) -> Self {
        Self {
            by_address: true,
            ..self
        }
    }

    /// Lets calls pass while the counters are unavailable.
    #[doc(hidden)]
    #[must_use]
    pub const fn fail_open(self) -> Self {
        Self {
            fail_open: true,
            ..self
        }
    }
}

/// A guard that a route names: `require_mfa`, `require_step_up(300)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuardDesc {
    /// The name in the route-auth registry.
    pub name: &'static str,
    /// The argument in parentheses after the name.
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
    /// Returns the JSON for the API document and the route report.
    #[doc(hidden)]
    pub fn to_json(self) -> serde_json::Value {
        match self {
            Self::Int(number) => number.into(),
            Self::Text(text) => text.into(),
        }
    }
}

#[doc(hidden)]
impl GuardDesc {
    /// A guard without an argument.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            argument: None,
        }
    }

    /// A guard with an integer argument.
    #[must_use]
    pub const fn int(self, argument: i64) -> Self {
        Self {
            argument: Some(GuardArg::Int(argument)),
            ..self
        }
    }

    /// A guard with a text argument.
    #[must_use]
    pub const fn text(self, argument: &'static str) -> Self {
        Self {
            argument: Some(GuardArg::Text(argument)),
            ..self
        }
    }
}

/// The permission that a route needs on a record: the permission evaluator must grant the action,
/// or the caller must be the owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PermissionDesc {
    /// The required action.
    pub requires: &'static str,
    /// Other actions. One granted action is enough.
    pub or: &'static [&'static str],
    /// The field with the id of the owner, by its declared name.
    pub owner_field: Option<&'static str>,
    /// The field whose value the evaluator gets, by its declared name.
    pub resource: Option<&'static str>,
    /// The field with the id of the user whom the record describes, by its declared name. A caller
    /// who is granted the action must also rank above this user. Owners need no rank.
    pub rank: Option<&'static str>,
    /// Whether refused callers get 404 instead of 403.
    pub hide: bool,
}

#[doc(hidden)]
impl PermissionDesc {
    /// Requires an action.
    #[must_use]
    pub const fn new(requires: &'static str) -> Self {
        Self {
            requires,
            or: &[],
            owner_field: None,
            resource: None,
            rank: None,
            hide: false,
        }
    }

    /// Compares the caller by rank with the user in this field.
    #[must_use]
    pub const fn rank(self, field: &'static str) -> Self {
        Self {
            rank: Some(field),
            ..self
        }
    }

    /// Accepts one of these actions as well.
    #[must_use]
    pub const fn or(self, or: &'static [&'static str]) -> Self {
        Self { or, ..self }
    }

    /// Accepts the owner as well.
    #[must_use]
    pub const fn owner(self, field: &'static str) -> Self {
        Self {
            owner_field: Some(field),
            ..self
        }
    }

    /// Passes this field of the record to the evaluator.
    #[must_use]
    pub const fn resource(self, field: &'static str) -> Self {
        Self {
            resource: Some(field),
            ..self
        }
    }

    /// Returns 404 to refused callers.
    #[must_use]
    pub const fn hide(self) -> Self {
        Self { hide: true, ..self }
    }
}

/// A middleware of a route.
#[derive(Debug, Clone, Copy)]
pub enum MiddlewareDesc {
    /// A function, and its path as written.
    Function(&'static str, crate::Attachment),
    /// A middleware that a plugin or the app registers under this name.
    Named(&'static str),
}

impl MiddlewareDesc {
    /// The path of the function as written, or the name.
    #[doc(hidden)]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Function(name, _) | Self::Named(name) => name,
        }
    }
}

/// Repeated calls with the same `Idempotency-Key` have one effect and get the same response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Idempotency {
    /// How long a response is stored, in milliseconds.
    pub ttl: u64,
    /// Whether a call without a key is refused.
    pub required: bool,
}

impl Idempotency {
    /// Stores responses for `ttl` milliseconds.
    #[doc(hidden)]
    #[must_use]
    pub const fn new(ttl: u64) -> Self {
        Self {
            ttl,
            required: false,
        }
    }

    /// Refuses calls without a key.
    #[doc(hidden)]
    #[must_use]
    pub const fn required(self) -> Self {
        Self {
            required: true,
            ..self
        }
    }
}

/// The events of a route as declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventDesc {
    /// Replaces the default name.
    pub name: Option<&'static str>,
    /// The only fields in the payload, by their names in the declaration; all readable ones by
    /// default.
    pub payload: Option<&'static [&'static str]>,
    /// Whether a batch emits one event per record.
    pub records: bool,
}

#[doc(hidden)]
impl EventDesc {
    /// The default events.
    pub const DEFAULT: Self = Self {
        name: None,
        payload: None,
        records: false,
    };

    /// Sets the name.
    #[must_use]
    pub const fn name(self, name: &'static str) -> Self {
        Self {
            name: Some(name),
            ..self
        }
    }

    /// Sets the fields of the payload.
    #[must_use]
    pub const fn payload(self, fields: &'static [&'static str]) -> Self {
        Self {
            payload: Some(fields),
            ..self
        }
    }

    /// Emits one event per record.
    #[must_use]
    pub const fn records(self) -> Self {
        Self {
            records: true,
            ..self
        }
    }
}
