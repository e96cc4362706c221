//! Applications from the outside: start-up, plugins, serving and stopping.
#![allow(
    clippy::unwrap_used,
    clippy::unused_async,
    missing_docs,
    unreachable_pub
)] // tests; plugins' methods are async

mod abandoned;
mod capabilities;
mod counted;
mod event_guard;
mod fixture;
mod lifecycle;
mod plugins;
mod providers;
mod report;
mod route_caller;
mod serving;
mod sockets;
mod startup;
mod wire;
