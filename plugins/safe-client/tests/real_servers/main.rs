//! The client against real servers: scripted responses, names whose addresses change, and
//! certificates.

#![allow(clippy::unwrap_used)] // in a test, a panic reports the failure

mod certificates;
mod names;
mod responses;
mod server;

use std::time::Duration;

use linchpin_safe_client::{Outgoing, SafeClient, Settings};

/// A client that may reach this machine by HTTP.
fn settings() -> Settings {
    Settings {
        allow_http: true,
        allow: vec!["127.0.0.0/8".parse().unwrap()],
        roots: linchpin_safe_client::Roots::Only(Vec::new()),
        ..Settings::default()
    }
}

fn client() -> SafeClient {
    SafeClient::new(settings()).unwrap()
}

fn post(url: impl Into<String>) -> Outgoing {
    Outgoing::post(url, "{}").timeout(Duration::from_mins(1))
}
