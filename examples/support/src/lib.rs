//! Shared code of the tests of the examples: a Markdown parser, shell sessions, a client, and a
//! `PostgreSQL` server.

pub mod client;
pub mod markdown;
#[cfg(not(feature = "postgres"))]
#[path = "../../../runtime/tests/support/ports.rs"]
pub mod ports;
#[cfg(feature = "postgres")]
#[path = "../../../runtime/tests/support/postgres.rs"]
pub mod postgres;
pub mod seeded;
pub mod session;

#[cfg(feature = "postgres")]
pub use postgres::ports;
