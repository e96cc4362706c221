//! Shared by the tests of the examples: documents, shell sessions, a client, and a `PostgreSQL`
//! server if a test needs one.

pub mod client;
pub mod markdown;
#[cfg(feature = "postgres")]
#[path = "../../../runtime/tests/support/postgres.rs"]
pub mod postgres;
pub mod seeded;
pub mod session;
