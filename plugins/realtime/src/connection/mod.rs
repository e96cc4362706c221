//! One connected client: its task, its queue, its limits and its heartbeat.
//!
//! [`check`] decides whether a request becomes a connection. [`serve`] is the task of the
//! socket: it reads frames, executes them one at a time through a [`Hub`], and writes what is in
//! the queue of the [`Connection`]. Everybody else holds a [`Connection`] and pushes frames.
//!
//! A frame for many connections wakes none of their tasks: `flush_all` writes it to the sockets
//! that accept it at once. Its bytes, with the head of the WebSocket frame, are made once.

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
pub use handshake::{Accepted, Door, PROTOCOL, Refusal, Request, Without, check};
pub(crate) use headers::{HEADERS_TOO_LARGE, check_kept, kept};
pub use hub::{Hub, Identity, Joined, Outcome};
pub use limits::{Limits, OnExceeded};
pub(crate) use link::flush_all;
pub use link::{Connection, Kind};
pub use meter::{Meter, Reading};
pub use queue::{Class, Pushed};
pub use rate::TokenBucket;
pub(crate) use rate::{count, key_of};
pub use task::{Settings, serve};
