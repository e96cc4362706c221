//! The schema of a database: its statements, its comparison with the physical model, and sessions
//! that change it.

mod catalog;
mod compare;
mod concurrent;
mod dialect;
mod fault;
mod folding;
mod literal;
mod rows;
mod session;
mod store;
#[cfg(test)]
mod tests;
mod value;

use linchpin_core::entity::EntityDesc;
use linchpin_core::schema;

pub use self::dialect::PostgresDialect;
pub(super) use self::store::Schema;

/// The name of the primary key constraint of an entity, such as `pk_posts`.
pub(super) fn key_name(entity: &EntityDesc) -> String {
    schema::key_name(entity.storage_name)
}
