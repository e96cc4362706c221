//! HTTP, from the outside, over the store in memory: requests into the service of an application,
//! answers out of it.
//!
//! `http_sqlite.rs` runs the same over the embedded store.
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
