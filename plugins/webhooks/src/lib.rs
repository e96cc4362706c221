//! Webhooks: signed deliveries of committed events to the addresses of customers, and verified
//! events that other services send.

#[doc(hidden)]
pub mod __private;
mod catalogue;
mod delivery;
mod entity;
mod event_types;
mod inbound;
mod intake;
mod message;
mod metrics;
#[cfg(test)]
mod peer_tests;
mod plugin;
mod secrets;
mod signature;

pub use catalogue::Catalogue;
pub use entity::{
    DeliveryReason, DeliveryStatus, DisabledReason, EndpointStatus, ErrorKind, OwnerType, Trigger,
    WebhookAttempt, WebhookDelivery, WebhookEndpoint,
};
pub use inbound::{
    Algorithm, Encoding, Inbound, InboundMessage, InvalidSignature, OwnVerifier, Received,
    SharedSecret, Verified, Verifier, verify,
};
#[doc(inline)]
pub use linchpin_macros::webhook_events;
pub use plugin::{Webhooks, WebhooksConfig};
pub use signature::{SecretFormat, SigningSecret};

/// Runs the examples in the documentation of the macro as documentation tests of this crate.
#[cfg(doctest)]
mod macro_docs {
    #[doc = include_str!("../../../macros/docs/webhook_events.md")]
    pub struct WebhookEvents;
}
