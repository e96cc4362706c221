//! Received messages, kept so that repeated ones are recognized.

use linchpin::prelude::*;

/// A message of another service whose signature was valid. It is kept for 7 days.
///
/// Creating a message emits the event `webhooks.inbound.created`, which is stored in the same
/// transaction.
#[entity(
    namespace = "webhooks",
    path = "inbound",
    ttl(expires_at),
    routes(disabled)
)]
#[derive(Clone, Debug)]
pub struct InboundMessage {
    /// The name of the provider, a colon, and the id of the message.
    #[field(primary)]
    pub id: String,
    /// The name of the provider.
    pub provider: String,
    /// The id by which repeated messages are recognized:
    /// [`Verified::message_id`](crate::Verified::message_id).
    pub message_id: String,
    /// The header `content-type`.
    pub content_type: Option<String>,
    /// The body as received, or in base64.
    pub body: String,
    /// Whether `body` is base64, because the bytes are not UTF-8 or contain a zero byte.
    pub is_base64: bool,
    /// When it was received.
    pub received_at: Timestamp,
    /// When it is removed.
    #[field(private)]
    pub expires_at: Option<Timestamp>,
}

/// Received messages.
pub(super) static RECEIVED: Package = package!(
    name = "linchpin-webhooks-inbound",
    mount = "/webhooks",
    entities = [entity(InboundMessage)],
);
