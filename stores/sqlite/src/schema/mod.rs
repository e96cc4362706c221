//! The schema of the file: its statements, and sessions that read and change it.

mod backup;
mod column;
mod compare;
mod connect;
mod dependants;
mod dialect;
mod digest;
mod fault;
mod identity;
mod lock;
mod perform;
mod rebuild;
mod rows;
mod session;
mod space;
mod sql;
#[cfg(test)]
mod tests;

pub use self::dialect::SqliteDialect;
pub(super) use self::session::SqliteSchema;
