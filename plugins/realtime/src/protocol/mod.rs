//! Frames of the WebSocket protocol, and its close codes.
//!
//! [`ClientFrame`] is a frame from a client. [`ServerFrame`] is a frame from the server: its bytes
//! are encoded once and shared by all sockets. [`Close`] lists the reasons why a connection ends.

mod client;
#[cfg(test)]
mod client_tests;
mod close;
mod code;
mod position;
mod read;
mod server;
#[cfg(test)]
mod server_tests;
mod unplaced;
mod write;

pub use client::{AckId, ClientFrame, EventCall, RecoverRoom, Refused, Token};
pub use close::{Close, Reconnect};
pub use code::{
    INVALID_FRAME, INVALID_ROOM, NOT_SUBSCRIBED, TOO_MANY_ROOMS, UNKNOWN_ACTION, UNKNOWN_EVENT,
};
pub use position::Position;
pub use server::{AuthError, Connected, PresenceList, ResetReason, ServerFrame, Subscribed};
pub use unplaced::UnplacedFrame;
