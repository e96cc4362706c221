//! Webhooks of an app on SQLite, with receivers on loopback.
#![allow(missing_docs, clippy::unwrap_used)] // test entities, and cases that fail

#[allow(dead_code)] // a counter of it is for the tests of the runtime
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
