//! Receives events of other services: verifies their signatures, stores them, and passes them to
//! the app.

mod entity;
mod plugin;
mod receive;
mod sink;
mod verify;

pub use entity::InboundMessage;
pub use plugin::Inbound;
pub use sink::Received;
pub use verify::{
    Algorithm, Encoding, InvalidSignature, OwnVerifier, SharedSecret, Verified, Verifier, verify,
};
