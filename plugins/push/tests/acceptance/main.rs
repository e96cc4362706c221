//! Tests of web push over real HTTP, with a push service on loopback.
#![allow(missing_docs, clippy::unwrap_used)] // test entities, and cases that fail

#[allow(dead_code, reason = "the tests of authentication use all of it")]
#[path = "../../../../runtime/tests/support/chromium.rs"]
mod chromium;
mod guide;
mod peers;
#[allow(dead_code, reason = "the tests of webhooks use all of it")]
#[path = "../../../webhooks/tests/acceptance/receiver.rs"]
mod receiver;
mod sending;
#[path = "../../../../runtime/tests/support/postgres.rs"]
mod server;
mod stores;
mod subscriptions;
mod test_app;
mod worker;
