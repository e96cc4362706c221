//! Values of the request context that plugins provide: what `ctx(locale)` reads.

use crate::entity::{FieldType, Kind};

/// A value of the request context beside the actor, declared by [`context!`](crate::context!).
///
/// Declarations read it as `ctx(locale)`; a plugin provides it ([`MiddlewareCx::provide`](crate::MiddlewareCx::provide)), and no
/// client can: it is neither a parameter nor a member of a body.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no value of the request context",
    label = "not a context value",
    note = "`linchpin::context!` declares one; the actor's are `ctx(actor.id)` and its like"
)]
pub trait ContextValue: Copy + Send + Sync + 'static {
    /// Its Rust type.
    type Value: FieldType;

    /// The name, unique within an app.
    const NAME: &'static str;

    /// Name and type, as data.
    #[doc(hidden)]
    const DESC: ContextDesc = ContextDesc { name: Self::NAME, kind: <Self::Value as FieldType>::KIND };
}

/// A value of the request context, as declared. Names are unique within an app, so two of one name are one.
#[derive(Clone, Copy, Debug)]
pub struct ContextDesc {
    /// As declared, in snake case.
    pub name: &'static str,
    /// What it holds.
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

/// Declares values of the request context: `context! { pub locale: String; }` makes the marker that declarations name as
/// `ctx(locale)`, and that a plugin provides.
///
/// A misspelt name is an error of the compiler, and so is one whose type is not that of the field it meets. A name that no plugin
/// of the app provides is a start-up error. Values are strings, booleans, numbers, dates and enums; "none" is said by the plugin,
/// and answered by 401 to anonymous callers and by 403 to others, like any missing value of the context.
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
