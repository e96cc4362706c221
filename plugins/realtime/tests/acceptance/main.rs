//! Tests with clients of a complete app over real sockets. The app uses SQLite, the memory engine,
//! and accounts of linchpin-auth.
#![allow(missing_docs, clippy::expect_used, clippy::unwrap_used)] // in a test, a panic reports the failure

mod authentication;
mod batches;
mod browser;
#[allow(dead_code, reason = "the tests of authentication use all of it")]
#[path = "../../../../runtime/tests/support/chromium.rs"]
mod chromium;
mod clients;
#[cfg(all(feature = "postgres", feature = "redis"))]
mod cluster;
#[allow(dead_code, reason = "the tests of events use all of it")]
#[path = "../events/client.rs"]
mod events_client;
mod frames;
mod handshake;
mod isolation;
#[cfg(all(feature = "postgres", feature = "redis"))]
mod leaders;
mod limits;
#[allow(dead_code, reason = "the tests of engines use all of it")]
#[cfg(feature = "nats")]
#[path = "../support/nats.rs"]
mod nats_server;
#[cfg(all(feature = "postgres", feature = "redis"))]
mod nodes;
#[cfg(all(feature = "postgres", feature = "redis"))]
mod outages;
#[cfg(all(any(feature = "nats", feature = "redis"), not(feature = "postgres")))]
#[path = "../../../../runtime/tests/support/ports.rs"]
mod ports;
#[cfg(feature = "postgres")]
#[path = "../../../../runtime/tests/support/postgres.rs"]
mod postgres_server;
#[cfg(all(any(feature = "nats", feature = "redis"), feature = "postgres"))]
use postgres_server::ports;
#[cfg(feature = "redis")]
mod proxies;
mod raw;
mod recovery;
#[cfg(feature = "redis")]
#[path = "../support/redis.rs"]
mod redis_server;
mod rfc6455;
#[cfg(all(feature = "postgres", feature = "redis"))]
mod rolling;
mod rooms;
mod settings;
mod socket;
mod test_app;
