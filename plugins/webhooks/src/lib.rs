//! Webhooks: signed deliveries of committed events to the addresses of customers, and verified
//! events that other services send.

mod catalogue;
mod delivery;
mod entity;
mod event_types;
mod inbound;
mod intake;
mod message;
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
pub use plugin::{Webhooks, WebhooksConfig};
pub use signature::{SecretFormat, SigningSecret};
