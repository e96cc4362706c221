//! Runs of the engine on files of SQLite and on databases of Postgres.
#![allow(clippy::expect_used)] // in a test, stopping is the report
#![allow(clippy::unnecessary_wraps)] // transforms have a fixed signature

mod adopt;
mod commands;
mod generated;
mod kinds;
mod reports;
mod rows;
mod squawk;
mod support;

#[path = "../../../runtime/tests/support/postgres.rs"]
mod server;

/// Makes a test of each function: on every store, or on one.
macro_rules! cases {
    ($module:ident: $($name:ident),* $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                crate::$module::$name(crate::support::Db::sqlite()).await;
            })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                crate::$module::$name(crate::support::Db::postgres()).await;
            })*
        }
    };
}
pub(crate) use cases;
