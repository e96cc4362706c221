//! Stores: the primitives that all routes and operations are built on, and the stores of this
//! build.

mod transaction;

pub use linchpin_memory as memory;
#[cfg(feature = "postgres")]
pub use linchpin_postgres as postgres;
#[cfg(feature = "sqlite")]
pub use linchpin_sqlite as sqlite;

pub use linchpin_core::store::*;
pub(crate) use linchpin_queues as queues;
pub(crate) use transaction::TxScope;
