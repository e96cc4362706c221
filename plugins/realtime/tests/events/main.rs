//! Clients of SSE endpoints of a whole app over real sockets: SQLite, the memory engine, and
//! accounts of linchpin-auth.
#![allow(missing_docs, clippy::expect_used, clippy::unwrap_used)] // in a test, stopping is the report

mod bed;
mod client;
mod peer;
mod refusals;
mod stalls;
mod streams;
