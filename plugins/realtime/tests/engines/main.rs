//! The conformance suite on every engine.
#![allow(missing_docs, clippy::expect_used, clippy::unwrap_used)]

mod memory;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "redis")]
#[path = "../support/redis.rs"]
mod redis_server;
#[cfg(feature = "postgres")]
#[path = "../../../../runtime/tests/support/postgres.rs"]
mod server;
