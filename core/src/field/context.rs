//! Values of the request context: those of the actor, and those that plugins provide. Declarations
//! read them as `ctx(actor.id)` and `ctx(locale)`.

use super::{FieldType, Kind};

/// A value of the request context besides the actor. [`context!`](crate::context!) declares it.
///
/// Declarations read it as `ctx(locale)`. A plugin provides it with `MiddlewareCx::provide`. A
/// client cannot send it: it is neither a parameter nor a member of a body.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a value of the request context",
    label = "not a context value",
    note = "declare it with `linchpin::context!`; values of the actor are `ctx(actor.id)`, `ctx(actor.tenantId)` and so on"
)]
pub trait ContextValue: Copy + Send + Sync + 'static {
    /// The Rust type of the value.
    type Value: FieldType;

    /// The name, unique within an app.
    const NAME: &'static str;

    /// The name and the type, as data.
    #[doc(hidden)]
    const DESC: ContextDesc = ContextDesc {
        name: Self::NAME,
        kind: <Self::Value as FieldType>::KIND,
    };
}

/// A declared value of the request context. Names are unique within an app.
///
/// Two descriptors with the same name are equal.
#[derive(Clone, Copy, Debug)]
pub struct ContextDesc {
    /// The declared name, in snake case.
    pub name: &'static str,
    /// The type of the value.
    pub kind: Kind,
}

impl PartialEq for ContextDesc {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for ContextDesc {}

impl std::hash::Hash for ContextDesc {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

/// A value of the request context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CtxPath {
    /// `actor.id`
    ActorId,
    /// `actor.tenantId`
    TenantId,
    /// `actor.kind`
    ActorKind,
    /// `actor.sessionId`
    SessionId,
    /// `actor.claims.<name>`
    Claim(&'static str),
    /// A value that a plugin provides, with its name.
    Value(ContextDesc),
}

impl std::fmt::Display for CtxPath {
    /// Returns the text that follows `ctx:`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::ActorId => f.write_str("actor.id"),
            Self::TenantId => f.write_str("actor.tenantId"),
            Self::ActorKind => f.write_str("actor.kind"),
            Self::SessionId => f.write_str("actor.sessionId"),
            Self::Claim(name) => write!(f, "actor.claims.{name}"),
            Self::Value(desc) => f.write_str(desc.name),
        }
    }
}

/// Declares values of the request context.
///
/// `context! { pub locale: String; }` makes a marker type. Declarations read the value as
/// `ctx(locale)`, and a plugin provides it.
///
/// The compiler refuses an unknown name and a value whose type differs from the field's type. The
/// app does not start if no plugin provides a name that a declaration reads. Values are strings,
/// booleans, numbers, dates and enums. If the plugin returns `None`, anonymous callers get 401 and
/// others 403.
///
/// ```
/// use linchpin::prelude::*;
///
/// linchpin::context! {
///     /// The language that the caller reads.
///     pub locale: String;
/// }
///
/// #[entity(routes(auth = none))]
/// #[derive(Clone, Debug)]
/// pub struct Text {
///     #[field(primary, default = uuid)]
///     pub id: String,
///     #[field(filterable)]
///     pub locale: String,
///     pub body: String,
/// }
///
/// #[operation(kind = "lookup", returns = "many", fields(locale = ctx(locale)))]
/// pub const MINE: Operation<Text>;
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! context {
    ($($(#[$attr:meta])* $vis:vis $name:ident: $ty:ty;)*) => {$(
        $(#[$attr])*
        #[allow(non_camel_case_types, dead_code)] // named as in `ctx(..)`; an app need not use all that a plugin offers
        #[derive(Clone, Copy, Debug)]
        $vis struct $name;

        impl $crate::ContextValue for $name {
            type Value = $ty;
            const NAME: &'static str = ::core::stringify!($name);
        }

        const _: () = $crate::__private::expect_context_type::<$name>();
    )*};
}
