//! Black-box acceptance tests of entities and operations, on every store of this build.
//!
//! A case is an `async fn` that sends HTTP requests over a socket to a new app.

#![allow(clippy::unwrap_used)] // in a test, a panic reports the failure

mod aggregates;
mod all_problems;
#[path = "../support/around.rs"]
mod around;
mod audit;
#[cfg(feature = "postgres")]
mod blocked;
mod budgets;
mod choices;
mod claims;
mod collections;
mod computed;
mod computed_fields;
mod constraints;
#[cfg(feature = "postgres")]
mod contended;
mod context;
mod counters;
mod coverage;
mod crud;
mod custom;
mod custom_records;
mod custom_sql;
mod defaults;
mod deleted;
mod derive_policy;
mod derives;
#[path = "../support/document.rs"]
mod document;
mod events;
mod extensions;
mod fixture;
mod gated;
mod gated_fixture;
mod guarded_paths;
mod guards;
mod hidden_states;
mod idempotency_with_permissions;
mod isolation;
mod limits;
mod list;
mod lookup;
mod moved;
mod number_bounds;
mod on_delete;
mod once;
mod operations;
mod option_pairs;
mod paging;
mod permission_cost;
mod permissions;
#[cfg(feature = "postgres")]
mod plans;
mod plugin_routes;
mod policy;
mod projections;
mod provider;
mod provider_fixture;
mod ranks;
mod records_guarded;
mod relation_cost;
mod relation_permissions;
mod relations;
mod repeats;
mod search;
mod server;
mod sorts;
mod tenancy;
mod timeouts;
mod transactions;
mod unlisted;
mod unreachable;
mod uuids;
mod visibility;
mod visibility_fixture;
mod visibility_kinds;
mod writes;

/// Declares each case once and runs it on each store.
macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        crate::cases!(&crate::fixture::BLOG => $($name),*);
    };
    ($package:expr => $($name:ident),* $(,)?) => {
        crate::cases!($package, std::convert::identity => $($name),*);
    };
    // The same with further setup of the app.
    ($package:expr, $more:expr => $($name:ident),* $(,)?) => {
        mod memory {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(&crate::server::Server::memory_with($package, $more).await).await;
            })*
        }
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(&crate::server::Server::sqlite_with($package, $more).await).await;
            })*
        }
        #[cfg(feature = "postgres")]
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(&crate::server::Server::postgres_with($package, $more).await).await;
            })*
        }
    };
}
pub(crate) use cases;
