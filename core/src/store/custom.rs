//! Stores as types, for functions of custom operations.

/// A store as a type: the parameter `S` of a `CustomCall<E, S>`, which the function of a custom
/// operation takes.
///
/// The crate of a third-party store implements it for an empty enum. An operation then names the
/// store and a function: `handler(toy = count)`.
///
/// ```
/// use linchpin::operation::{CustomCall, CustomStore};
/// use linchpin::prelude::*;
/// # use std::sync::Arc;
/// # pub struct Shelf;
///
/// /// The toy store, as a type.
/// pub enum Toy {}
///
/// impl CustomStore for Toy {
///     const NAME: &'static str = "toy";
///     type Native = Arc<Shelf>;
/// }
///
/// #[entity(routes(auth = none))]
/// pub struct Note {
///     #[field(primary)]
///     pub id: String,
/// }
///
/// #[operation(kind = "custom", http(method = "GET"), output = i64, handler(toy = count))]
/// pub const COUNT: Operation<Note>;
///
/// async fn count(call: CustomCall<Note, Toy>) -> Result<i64> {
///     let shelf: &Arc<Shelf> = call.unguarded("a number tells nothing about a record")?;
/// #   let _ = shelf;
///     Ok(1)
/// }
/// # static NOTES: Package = package!(name = "notes", entities = [entity(Note, [COUNT])]);
/// # fn main() {}
/// ```
///
/// A function for several stores is generic. For a store that is not part of Linchpin, the
/// operation names the type of the store: `handler(sqlite = count, toy = count::<Toy>)`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a store",
    note = "the function takes a `CustomCall<Entity, Store>`; the crate of a store has its type"
)]
pub trait CustomStore: Send + Sync + 'static {
    /// The name of the store, as in its [`StoreKind`](super::StoreKind).
    const NAME: &'static str;
    /// The type of the handle that [`Store::native`](super::Store::native) returns, such as a
    /// connection pool.
    type Native: Clone + Send + Sync + 'static;
}

/// A store that runs SQL, as a type. Handlers of custom operations for every SQL store are generic
/// over it.
pub trait SqlStore: CustomStore {}
