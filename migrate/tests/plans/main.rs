//! The engine on databases: each case runs on a file of SQLite and on a Postgres server.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic)] // in a test, stopping is the report

#[path = "../../../runtime/tests/support/postgres.rs"]
mod server;
#[macro_use]
mod support;

mod approval;
mod beside;
mod history;
mod locks;
mod phases;
mod rollback;
mod runs;
