//! Tests with clients of SSE endpoints of a complete app over real sockets. The app uses SQLite,
//! the memory engine, and accounts of linchpin-auth.
#![allow(missing_docs, clippy::expect_used, clippy::unwrap_used)] // in a test, a panic reports the failure

mod client;
mod peer;
mod refusals;
mod stalls;
mod streams;
mod test_app;
