//! Rooms over WebSocket and server-sent events for Linchpin apps.
//!
//! Every committed change of a record reaches exactly the callers who may read the record, in
//! order. A client that was disconnected resumes after the last event that it received.

#[doc(hidden)]
pub mod __private;
pub mod channel;
pub mod connection;
pub mod engine;
mod plugin;
pub mod protocol;
pub mod rooms;
pub mod sse;

#[doc(inline)]
pub use linchpin_macros::{channel, sse};
pub use plugin::{Counts, Endpoint, EngineChoice, Realtime, RealtimeConfig};

/// The examples in the documentation of the macros, as documentation tests of this crate.
#[cfg(doctest)]
mod macro_docs {
    #[doc = include_str!("../../../macros/docs/channel.md")]
    pub struct Channel;
    #[doc = include_str!("../../../macros/docs/sse.md")]
    pub struct Sse;
}
