//! Webhooks: signed deliveries of committed events to the addresses of customers, and verified
//! events that other services send.

mod catalogue;
mod delivery;
mod entity;
mod intake;
mod message;
mod plugin;
mod secrets;
mod signature;

pub use catalogue::Catalogue;
pub use entity::{
    DeliveryReason, DeliveryStatus, DisabledReason, EndpointStatus, ErrorKind, OwnerType, Trigger,
    WebhookAttempt, WebhookDelivery, WebhookEndpoint,
};
pub use plugin::{Webhooks, WebhooksConfig};
