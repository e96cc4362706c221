//! Runs the conformance suite on every engine.
#![allow(missing_docs, clippy::expect_used, clippy::unwrap_used)]

#[cfg(any(feature = "nats", feature = "redis"))]
#[path = "../support/faults.rs"]
mod faults;
mod memory;
#[cfg(feature = "nats")]
mod nats;
#[cfg(feature = "nats")]
#[path = "../support/nats_double.rs"]
mod nats_double;
#[cfg(feature = "nats")]
#[path = "../support/nats.rs"]
mod nats_server;
#[cfg(all(any(feature = "nats", feature = "redis"), not(feature = "postgres")))]
#[path = "../../../../runtime/tests/support/ports.rs"]
mod ports;
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

#[cfg(all(any(feature = "nats", feature = "redis"), feature = "postgres"))]
use server::ports;
