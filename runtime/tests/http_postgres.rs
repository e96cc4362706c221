//! The suite of `http_suite` on a `PostgreSQL` server.
#![cfg(feature = "postgres")]
#![allow(
    clippy::unwrap_used,
    clippy::format_push_string,
    missing_docs,
    unreachable_pub
)] // tests

#[path = "http_suite/codes.rs"]
mod codes;
#[path = "http_suite/crud.rs"]
mod crud;
#[path = "http_suite/extra.rs"]
mod extra;
#[path = "http_suite/fixture.rs"]
mod fixture;
#[path = "http_suite/layer.rs"]
mod layer;
#[path = "http_suite/list.rs"]
mod list;
#[path = "http_suite/operations.rs"]
mod operations;
#[path = "http_suite/overrides.rs"]
mod overrides;
#[path = "http_suite/policy.rs"]
mod policy;
#[path = "http_suite/socket.rs"]
mod socket;
#[path = "http_suite/startup.rs"]
mod startup;

#[path = "support/postgres.rs"]
mod postgres_server;

use fixture::Fresh;
use linchpin::store::postgres::{PostgresOptions, PostgresStore};

/// A new store in a separate schema.
fn fresh() -> Fresh {
    (
        std::sync::Arc::new(
            PostgresStore::open(PostgresOptions::new(postgres_server::fresh_url())).unwrap(),
        ),
        None,
    )
}
