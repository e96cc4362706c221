//! The values that code compares fields with.

use crate::field::FieldType;

/// A value that a field of type `T` can be compared with: `post::title.eq("Hello")`.
///
/// - For a `String` field: a `&str`, or any type that converts `Into` a `String`. A field of
///   another type also accepts any type that converts `Into` its type.
/// - For an `Option<String>` field: the same, with or without `Some`. `None` is null.
///
/// `M` says which of these cases applies; the compiler infers it.
///
/// ```
/// use linchpin::prelude::*;
///
/// #[entity]
/// #[derive(Clone, Debug)]
/// pub struct Parcel {
///     #[field(primary)]
///     pub id: String,
///     pub sender: Option<String>,
///     pub weight: i64,
/// }
///
/// let heavy = parcel::weight.gt(20).and(parcel::sender.eq("ann"));
/// let unknown = parcel::sender.eq(None).or(parcel::id.one_of(["a", "b"]));
/// # let _ = (heavy, unknown);
/// ```
#[diagnostic::on_unimplemented(
    message = "a field of type `{T}` cannot be compared with `{Self}`",
    label = "not of the field's type",
    note = "use a `{T}`, or a type that can be converted into it with `Into`"
)]
pub trait Comparand<T, M> {
    /// Returns the value in the field's type.
    fn comparand(self) -> T;
}

/// A [`Comparand`] that converts `Into` the field's type.
#[derive(Debug)]
pub enum Plain {}

/// A [`Comparand`] of an optional field that converts `Into` the type inside the `Option`.
#[derive(Debug)]
pub enum InsideOption {}

/// A [`Comparand`] of an optional field that is an `Option` itself.
#[derive(Debug)]
pub enum Optional {}

#[diagnostic::do_not_recommend]
impl<T: FieldType<Inner = T>, V: Into<T>> Comparand<T, Plain> for V {
    fn comparand(self) -> T {
        self.into()
    }
}

#[diagnostic::do_not_recommend]
impl<T: FieldType<Inner = T>, V: Into<T>> Comparand<Option<T>, InsideOption> for V {
    fn comparand(self) -> Option<T> {
        Some(self.into())
    }
}

#[diagnostic::do_not_recommend]
impl<T: FieldType<Inner = T>> Comparand<Option<T>, Optional> for Option<T> {
    fn comparand(self) -> Option<T> {
        self
    }
}
