//! Tests of the engine on databases. Most cases run on a SQLite file and on a Postgres server; some
//! run only on Postgres.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic)] // in a test, a panic reports the failure

#[path = "../../../runtime/tests/support/postgres.rs"]
mod server;
#[macro_use]
mod support;

mod approval;
mod history;
mod instances;
mod locks;
mod phases;
mod rollback;
mod runs;
