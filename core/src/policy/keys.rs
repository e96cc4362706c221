//! What single keys of a route policy hold.

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
    Function(&'static str, crate::Attachment),
    /// What somebody registers under a name.
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
