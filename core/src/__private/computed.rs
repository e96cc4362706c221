//! The digest of the function of a computed field, which `#[computed]` records.

use std::marker::PhantomData;

/// The digest of a function with `#[computed]` that takes a record of `Self`. `NAME` is the
/// function's name as a number.
pub trait ComputedBody<const NAME: u64> {
    /// The SHA-256 digest of the function's tokens.
    const BODY: &'static str;
}

/// The digest of a function that takes a record of `E`; an empty text if the function has no
/// `#[computed]`.
pub struct BodyOf<E, const NAME: u64>(PhantomData<E>);

impl<E: ComputedBody<NAME>, const NAME: u64> BodyOf<E, NAME> {
    /// The digest. The compiler prefers this const to that of [`NoBody`].
    pub const BODY: &'static str = E::BODY;
}

/// The digest of a function without `#[computed]`.
pub trait NoBody {
    /// An empty text.
    const BODY: &'static str = "";
}

impl<E, const NAME: u64> NoBody for BodyOf<E, NAME> {}
