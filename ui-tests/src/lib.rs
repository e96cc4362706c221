//! Compile-fail and compile-pass cases of the macros, and an entity that the cases use from another
//! crate.

use linchpin::prelude::*;

#[deny(
    clippy::pedantic,
    clippy::nursery,
    unused_qualifications,
    unused,
    deprecated
)]
pub mod strict;

/// A note.
#[entity(routes(auth = none))]
pub struct Note {
    /// The key.
    #[field(primary, default = uuid)]
    pub id: String,
    /// The title.
    pub title: String,
    /// The id of the owner.
    pub owner_id: String,
}

/// The notes of an owner.
#[operation(kind = "lookup", fields(owner_id = param(owner_id)), returns = "many")]
#[allow(dead_code)] // only packages of the cases use it
pub const OF_OWNER: Operation<Note>;
