//! One connected client: its task, its queue, its limits and its heartbeat.
//!
//! [`check`] decides whether a request becomes a connection. [`serve`] is the task of the
//! socket: it reads frames, executes them one at a time through a [`Hub`], and writes what is in
//! the queue of the [`Connection`]. All other code holds a [`Connection`] and pushes frames.
//!
//! A frame for many connections wakes none of their tasks: `flush_all` writes it directly to each
//! socket that accepts it. The frame is encoded once, with its WebSocket header.

mod auth;
mod execute;
mod handshake;
mod headers;
mod hub;
mod limits;
mod link;
mod meter;
mod output;
mod queue;
mod rate;
mod task;
#[cfg(test)]
pub(crate) mod tests;
mod wire;

pub(crate) use auth::{Authentication, Due};
pub use handshake::{
    Accepted, HandshakeChecks, MissingCredential, PROTOCOL, Refusal, Request, check,
};
pub(crate) use headers::{HEADERS_TOO_LARGE, check_kept_headers, kept_headers};
pub use hub::{Hub, Identity, Joined, Outcome};
pub use limits::{Limits, OnExceeded};
pub(crate) use link::flush_all;
pub use link::{Connection, Kind};
pub use meter::{Meter, Reading};
pub use queue::{Class, Pushed};
pub use rate::TokenBucket;
pub(crate) use rate::{key_of, take_call};
pub use task::{Settings, serve};
