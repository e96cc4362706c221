//! Channels: declarations of rooms as data, and the names of rooms.
//!
//! `#[channel]` writes a [`ChannelDesc`] and implements [`Channel`] for the enum; `sse!` writes an
//! [`SseDesc`]. [`Declared`] collects both for the plugin and checks them at start-up.

#[doc(hidden)]
pub mod asserts;
mod declared;
mod desc;
#[doc(hidden)]
pub mod macro_support;
mod name;
mod payload;
mod room;
mod sse;
#[cfg(test)]
mod tests;
mod typed;

pub use declared::{Declared, Facts};
pub use desc::{ChannelDesc, Handle, History, Incoming, Mark, On, Payload, RoomScope, VariantDesc};
pub use linchpin::event::Change;
pub use name::{InvalidRoom, MAX_ROOM_BYTES, RoomName};
pub use payload::PayloadReader;
pub use room::{Publication, Publisher, Room, RoomKey, Rooms, room_name};
pub use sse::{Sse, SseDesc, SseEvent, SseFilter, SseSource};
pub use typed::{Channel, CollectionChannel, IntoId, RecordChannel};

#[doc(hidden)]
pub use typed::Encoded;
