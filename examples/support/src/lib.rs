//! Shared by the tests of the examples: documents, shell sessions, a client, and a `PostgreSQL`
//! server where one is asked for.

pub mod client;
pub mod markdown;
#[cfg(feature = "postgres")]
#[path = "../../../runtime/tests/support/postgres.rs"]
pub mod postgres;
pub mod seeded;
pub mod session;
