//! Events that other services send: their signatures, and the route that receives them.

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
