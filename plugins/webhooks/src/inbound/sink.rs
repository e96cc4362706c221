//! The consumer that passes received messages to the functions of the app.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use linchpin::entity::EntityDesc;
use linchpin::event::Batch;
use linchpin::{Adapters, BoxFuture, Cx, EntityEvent, Error, EventSink, Result, Timestamp};
use serde_json::json;

use super::entity::InboundMessage;

/// The name of the consumer.
pub(super) const CONSUMER: &str = "webhooks.inbound";
/// The name of the event of a new message.
const CREATED: &str = "webhooks.inbound.created";

/// A received message, for the function of its provider.
#[derive(Clone)]
pub struct Received {
    /// The name of the provider.
    pub provider: String,
    /// The id of the message; see [`Verified::message_id`](crate::Verified::message_id).
    pub message_id: String,
    /// The header `content-type`.
    pub content_type: Option<String>,
    /// The body as received.
    pub body: Bytes,
    /// When it was received.
    pub received_at: Timestamp,
}

impl fmt::Debug for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Received")
            .field("provider", &self.provider)
            .field("message_id", &self.message_id)
            .finish_non_exhaustive()
    }
}

impl TryFrom<InboundMessage> for Received {
    type Error = Error;

    fn try_from(message: InboundMessage) -> Result<Self> {
        let body = if message.is_base64 {
            STANDARD.decode(&message.body).map_err(Error::internal)?
        } else {
            message.body.into_bytes()
        };
        Ok(Self {
            provider: message.provider,
            message_id: message.message_id,
            content_type: message.content_type,
            body: body.into(),
            received_at: message.received_at,
        })
    }
}

/// The function of a provider.
pub(super) type Handler = Arc<dyn Fn(Received) -> BoxFuture<'static, Result<()>> + Send + Sync>;

/// Calls the functions of providers.
pub(super) struct Sink {
    pub(super) handlers: HashMap<String, Handler>,
    pub(super) adapters: Adapters,
}

impl EventSink for Sink {
    fn publish<'a>(&'a self, batch: &'a Batch) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            for (done, event) in batch.iter().enumerate() {
                batch.done(done);
                if event.name == CREATED {
                    self.call_handler(event).await?;
                }
            }
            Ok(())
        })
    }

    fn takes(&self, entity: &'static EntityDesc) -> bool {
        entity.storage_name == <InboundMessage as linchpin::Entity>::DESC.storage_name
    }
}

impl Sink {
    async fn call_handler(&self, event: &EntityEvent) -> Result<()> {
        let Some(id) = event.record_id.as_deref() else {
            return Ok(());
        };
        let cx = Cx::system("a received webhook");
        // The record is read, because the event of a long message does not contain the body.
        let Some(message) = self.adapters.get::<InboundMessage>()?.get(&cx, id).await? else {
            tracing::warn!("a received webhook expired before its handler succeeded");
            return Ok(());
        };
        let name = format!("webhooks.inbound.{}", message.provider);
        let payload = json!({
            "provider": message.provider,
            "messageId": message.message_id,
            "contentType": message.content_type,
            "body": message.body,
            "isBase64": message.is_base64,
        });
        if let Some(handler) = self.handlers.get(&message.provider) {
            handler(message.try_into()?).await?;
        }
        self.adapters.events().emit(&name, &payload)
    }
}
