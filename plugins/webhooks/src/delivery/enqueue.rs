//! Writes messages and their deliveries.

use std::sync::Arc;

use linchpin::{Cx, Field, FieldEnum, Result, Timestamp, Uuid};
use serde_json::{Value as Json, json};

use super::outcome::later;
use super::records::{Records, of_tenant};
use super::worker::Workers;
use crate::catalogue::{DEAD, DISABLED, wants};
use crate::entity::{
    DeliveryReason, DisabledReason, EndpointStatus, Trigger, WebhookDelivery,
    WebhookDeliveryCreate, WebhookEndpoint, WebhookMessage, WebhookMessageCreate, webhook_delivery,
    webhook_endpoint, webhook_message,
};
use crate::message;
use crate::plugin::WebhooksConfig;

/// A message that is not stored yet.
pub(crate) struct NewMessage {
    pub(crate) id: String,
    pub(crate) tenant_id: Option<String>,
    pub(crate) event: String,
    pub(crate) event_id: String,
    pub(crate) occurred_at: Timestamp,
    pub(crate) body: String,
    pub(crate) truncated: bool,
}

impl Records {
    /// Writes a message, and a delivery for each endpoint. Deliveries to paused endpoints are held.
    pub(crate) async fn enqueue(
        &self,
        cx: &Cx,
        message: NewMessage,
        endpoints: &[&WebhookEndpoint],
        config: &WebhooksConfig,
    ) -> Result<()> {
        let record = WebhookMessageCreate {
            id: message.id,
            event: message.event,
            event_id: message.event_id,
            occurred_at: message.occurred_at,
            body: message.body,
            truncated: Some(message.truncated),
            version: None,
            is_test: None,
            expires_at: Some(later(cx.now(), config.retention)),
        };
        let tenant = message.tenant_id.as_deref();
        let tenant_cx = of_tenant(cx, webhook_message::tenant_id, tenant);
        let message = self.messages.create(&tenant_cx, record).await?;
        for endpoint in endpoints {
            self.deliver(cx, &message, endpoint, (Trigger::Schedule, config))
                .await?;
        }
        Ok(())
    }

    /// Writes the delivery of a message to an endpoint.
    pub(crate) async fn deliver(
        &self,
        cx: &Cx,
        message: &WebhookMessage,
        endpoint: &WebhookEndpoint,
        (trigger, config): (Trigger, &WebhooksConfig),
    ) -> Result<()> {
        let active = endpoint.status == EndpointStatus::Active;
        let record = WebhookDeliveryCreate {
            endpoint_id: endpoint.id.clone(),
            message_id: message.id.clone(),
            event: message.event.clone(),
            event_id: message.event_id.clone(),
            occurred_at: message.occurred_at,
            status: None,
            reason: (!active).then_some(DeliveryReason::EndpointDisabled),
            attempts: None,
            max_attempts: config.max_attempts(),
            next_retry_at: active.then(|| cx.now()),
            last_attempt_at: None,
            delivered_at: None,
            last_attempt: None,
            is_test: None,
            trigger: Some(trigger),
            expires_at: message.expires_at,
        };
        let tenant = endpoint.tenant_id.as_deref();
        let tenant_cx = of_tenant(cx, webhook_delivery::tenant_id, tenant);
        self.deliveries.create(&tenant_cx, record).await.map(drop)
    }
}

impl Workers {
    /// Sends the event `webhooks.delivery.dead` to the other endpoints of a tenant. If a delivery
    /// of such an event is dead, no further event is sent.
    pub(crate) async fn announce_dead(
        &self,
        cx: &Cx,
        endpoint: &WebhookEndpoint,
        delivery: &WebhookDelivery,
        reason: Option<DeliveryReason>,
    ) -> Result<()> {
        if [DEAD, DISABLED].contains(&delivery.event.as_str()) || delivery.is_test {
            return Ok(());
        }
        let data = json!({
            "deliveryId": delivery.id,
            "endpointId": endpoint.id,
            "messageId": delivery.message_id,
            "event": delivery.event,
            "reason": reason.map(FieldEnum::as_str),
        });
        self.announce(cx, endpoint, DEAD, &data).await
    }

    /// Sends the event `webhooks.endpoint.disabled` to the other endpoints of a tenant.
    pub(crate) async fn announce_disabled(
        &self,
        cx: &Cx,
        endpoint: &WebhookEndpoint,
        reason: DisabledReason,
    ) -> Result<()> {
        let data = json!({ "endpointId": endpoint.id, "reason": reason.as_str() });
        self.announce(cx, endpoint, DISABLED, &data).await
    }

    async fn announce(
        &self,
        cx: &Cx,
        about: &WebhookEndpoint,
        name: &str,
        data: &Json,
    ) -> Result<()> {
        let same_tenant = webhook_endpoint::tenant_id.eq(about.tenant_id.clone());
        let enabled =
            webhook_endpoint::status.one_of([EndpointStatus::Active, EndpointStatus::Paused]);
        let filter = enabled.and(same_tenant);
        let endpoints = self.records.endpoints_with(cx, filter).await?;
        let others: Vec<&WebhookEndpoint> = endpoints
            .iter()
            .filter(|one| one.id != about.id && wants(&one.events, name))
            .collect();
        if others.is_empty() {
            return Ok(());
        }
        let (event_id, now) = (Uuid::new_v7().to_string(), cx.now());
        let message = NewMessage {
            id: format!("msg_{}", event_id.replace('-', "")),
            tenant_id: about.tenant_id.clone(),
            event: name.to_owned(),
            event_id,
            occurred_at: now,
            body: message::plain(name, &now.to_string(), data),
            truncated: false,
        };
        self.records
            .enqueue(cx, message, &others, &self.config)
            .await?;
        let active = others
            .iter()
            .filter(|one| one.status == EndpointStatus::Active);
        let ids: Vec<String> = active.map(|one| one.id.clone()).collect();
        self.records.endpoints.wake(cx, ids, now).await?;
        let wake = Arc::clone(&self.wake);
        cx.after_commit(move || wake.notify_one());
        Ok(())
    }
}
