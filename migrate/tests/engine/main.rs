//! Tests of the engine on SQLite files and on Postgres databases.
#![allow(clippy::expect_used)] // in a test, a panic reports the failure
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

/// Makes two tests of each function, one on SQLite and one on Postgres.
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
