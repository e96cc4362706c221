//! Stores: the few primitives every route and operation lowers to, and the stores that this version brings.

#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod access;
#[cfg(all(test, feature = "server"))]
mod conformance;
#[cfg(feature = "server")]
pub(crate) mod driver;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod keyset;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod places;
#[cfg(feature = "server")]
pub(crate) mod queues;
#[cfg(feature = "server")]
mod transaction;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod tries;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod words;

#[cfg(feature = "server")]
pub mod memory;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "sqlite")]
pub mod sqlite;

#[cfg(feature = "server")]
pub use driver::{Driver, SqlRow, SqlTransaction};
pub use linchpin_core::store::*;
#[cfg(feature = "server")]
pub(crate) use transaction::TxScope;
