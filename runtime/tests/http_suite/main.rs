//! HTTP tests of an app on the memory store: they send requests to its service and check the
//! responses.
//!
//! `http_sqlite.rs` and `http_postgres.rs` run the same modules on the other stores.
#![allow(
    clippy::unwrap_used,
    clippy::format_push_string,
    missing_docs,
    unreachable_pub
)] // tests

mod codes;
mod crud;
mod extra;
mod fixture;
mod layer;
mod list;
mod operations;
mod overrides;
mod policy;
mod socket;
mod startup;

use fixture::memory as fresh;
