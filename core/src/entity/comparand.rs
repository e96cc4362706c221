//! Values that fields are compared with in code.

use super::FieldType;

/// A value that a field of type `T` can be compared with: `post::title.eq("Hello")`.
///
/// - Of a `String`: a `&str`, or any type that turns `Into` a `String`. So with every other type.
/// - Of an `Option<String>`: the same, with or without `Some`; `None` is null.
///
/// `M` says which of these it is; the compiler finds it.
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
    note = "write a `{T}`, or what turns `Into` one"
)]
pub trait Comparand<T, M> {
    /// As the field holds it.
    fn comparand(self) -> T;
}

/// A [`Comparand`] that turns `Into` the field's type.
#[derive(Debug)]
pub enum Plain {}

/// A [`Comparand`] of an optional field that turns `Into` the type of its value.
#[derive(Debug)]
pub enum Held {}

/// A [`Comparand`] of an optional field that is optional itself.
#[derive(Debug)]
pub enum Optional {}

#[diagnostic::do_not_recommend]
impl<T: FieldType<Inner = T>, V: Into<T>> Comparand<T, Plain> for V {
    fn comparand(self) -> T {
        self.into()
    }
}

#[diagnostic::do_not_recommend]
impl<T: FieldType<Inner = T>, V: Into<T>> Comparand<Option<T>, Held> for V {
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
