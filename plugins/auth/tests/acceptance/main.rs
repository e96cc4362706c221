//! Black-box acceptance tests of authentication, on every store of this build.
//!
//! A case is an `async fn` that takes a store and starts apps on it. It sends HTTP requests over a
//! real socket.

#![allow(clippy::unwrap_used, missing_docs)] // in a test, a panic reports the failure

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
#[cfg(not(feature = "postgres"))]
#[path = "../../../../runtime/tests/support/ports.rs"]
mod ports;
#[cfg(feature = "postgres")]
#[path = "../../../../runtime/tests/support/postgres.rs"]
mod postgres_server;
#[cfg(feature = "postgres")]
use postgres_server::ports;

/// Declares each case once, with the stores on which it runs.
///
/// - `every_store`: memory, SQLite and, if its feature is enabled, Postgres. This is the default,
///   and the rule for every case that depends on stored data, counters or concurrent writes.
/// - `one_store`: SQLite, the default store of an app. Choose it only if the outcome depends on the
///   request, the settings, the page or another program alone (a refused header, the markup of a
///   page, the signature of a token), and another case stores the same records on every store.
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
