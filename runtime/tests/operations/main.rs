//! Operations declared by macros, called over a socket and from code, in memory and on SQLite.

#![allow(clippy::unwrap_used)] // in a test, a panic reports the failure

mod extra_routes;
mod fixture;
mod in_code;
mod increments;
mod preconditions;
mod redefined;
#[path = "../acceptance/server.rs"]
#[allow(dead_code)] // its other half is for the acceptance cases
mod server;

/// Declares each case once and runs it on each store.
macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        mod memory {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(&crate::server::Server::memory(&crate::fixture::DESK).await).await;
            })*
        }
        #[cfg(feature = "sqlite")]
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(&crate::server::Server::sqlite(&crate::fixture::DESK).await).await;
            })*
        }
    };
}
pub(crate) use cases;
