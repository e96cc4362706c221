//! Tests of webhooks with receivers on loopback. The test app runs on SQLite, and in a few tests on
//! every store.
#![allow(missing_docs, clippy::unwrap_used)] // test entities, and tests that panic to fail

#[allow(dead_code)] // only the tests of `linchpin` use its counter
#[path = "../../../../runtime/tests/support/around.rs"]
mod around;
mod bed;
mod catalogue;
mod delivery;
mod endpoints;
mod faults;
mod lifecycle;
mod metrics;
mod races;
mod reads;
mod receiver;
mod receivers;
#[path = "../../../../runtime/tests/support/postgres.rs"]
mod server;
mod stores;
mod tests_and_audit;
mod worker;
