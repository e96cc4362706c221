//! Stores: the few primitives every route and operation lowers to, and the stores that this build
//! brings.

#[cfg(feature = "server")]
pub(crate) mod driver;
#[cfg(feature = "server")]
mod transaction;

#[cfg(feature = "server")]
pub use linchpin_memory as memory;
#[cfg(feature = "postgres")]
pub use linchpin_postgres as postgres;
#[cfg(feature = "sqlite")]
pub use linchpin_sqlite as sqlite;

#[cfg(feature = "server")]
pub use driver::{Driver, SqlRow, SqlTransaction};

pub use linchpin_core::store::*;
#[cfg(feature = "server")]
pub(crate) use linchpin_sql::queues;
#[cfg(feature = "server")]
pub(crate) use transaction::TxScope;
