//! Black-box acceptance tests of authentication, on every store of this build.
//!
//! A case is an `async fn` that is given a store and starts apps on it; it talks HTTP over a real
//! socket.

#![allow(clippy::unwrap_used, missing_docs)] // in a test, stopping is the report

mod account;
mod admin;
mod authenticator;
mod between;
mod browser;
#[path = "../../../../runtime/tests/support/chromium.rs"]
mod chromium;
mod client_proofs;
mod concealed;
mod concurrent_endings;
mod connections;
mod cookies;
mod deletion;
mod devices;
mod document;
mod dropped;
mod email;
mod email_change_revocation;
mod equal_work;
mod events;
mod factor;
mod factor_there;
mod foreign;
mod fuzz;
mod hooks;
mod issuer;
mod kept_out;
mod keys;
mod limits;
mod mailed;
mod mfa;
mod mfa_races;
mod mfa_sent;
mod mfa_sides;
mod model;
mod model_search;
mod model_walks;
mod oauth;
mod oauth_attacks;
mod oauth_presets;
mod original_client;
mod pages;
mod pages_browser;
mod pages_email;
mod pages_factors;
mod pages_forged;
mod pages_providers;
mod pages_renewal;
mod passkey_browser;
mod passkey_factor;
mod passkeys;
mod password;
mod planted;
mod post;
mod processes;
mod refresh;
mod refusals;
mod replaced;
mod secrets;
mod server;
mod service;
mod session_check;
mod sessions;
mod settings;
mod settings_read;
mod settings_refused;
mod smtp;
mod standin;
mod step_up;
mod strangers;
mod testbed;
mod tokens;
mod unproved;
mod unreadable;
mod visitor;

#[path = "../../src/testing/sink.rs"]
mod sink;

#[path = "../../../../runtime/tests/support/around.rs"]
mod around;
#[cfg(feature = "postgres")]
#[path = "../../../../runtime/tests/support/postgres.rs"]
mod postgres_server;

/// Declares each case once, and on which stores it runs.
///
/// - `every_store`: memory, SQLite and, where it is built in, Postgres. This is the rule: choose it
///   for whatever is stored, found, counted, claimed once or raced for. A list without a heading
///   means it, too.
/// - `one_store`: SQLite, which an app has unless it names another. Choose it only if the request,
///   the settings, the page or another program alone decide the outcome (a refused header, the
///   markup of a page, the signature of a token), and another case stores the same records on every
///   store.
macro_rules! cases {
    ($($every:ident),* $(,)?) => {
        $crate::cases! { every_store: $($every),*; }
    };
    ($(every_store: $($every:ident),+ $(,)?;)? $(one_store: $($one:ident),+ $(,)?;)?) => {
        mod sqlite {
            $($($crate::case!($every, sqlite);)+)?
            $($($crate::case!($one, sqlite);)+)?
        }
        $(mod memory {
            $($crate::case!($every, memory);)+
        }
        #[cfg(feature = "postgres")]
        mod postgres {
            $($crate::case!($every, postgres);)+
        })?
    };
}
pub(crate) use cases;

/// One case on one store.
macro_rules! case {
    ($name:ident, $store:ident) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            super::$name(crate::server::Store::$store()).await;
        }
    };
}
pub(crate) use case;
