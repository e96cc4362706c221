//! Writes the results of attempts.

use linchpin::{Cx, Result, Timestamp};

use super::outcome::{self, later};
use super::serving::FinishedAttempt;
use super::worker::{ATTEMPT_RETENTION, Workers};
use crate::entity::{DeliveryStatus, DisabledReason, EndpointStatus, ErrorKind, WebhookEndpoint};
use crate::metrics;

impl Workers {
    /// Writes the result of an attempt to its delivery, and a record of the attempt.
    pub(super) async fn settle_one(
        &self,
        cx: &Cx,
        endpoint: &WebhookEndpoint,
        FinishedAttempt { delivery, attempt }: &FinishedAttempt,
        now: Timestamp,
    ) -> Result<()> {
        let number = delivery.attempts + 1;
        let next = outcome::next(&self.config, delivery, attempt, number, now);
        let written = self
            .records
            .settle(cx, delivery, attempt, (number, next), now)
            .await?;
        let expires_at = later(now, ATTEMPT_RETENTION);
        self.records
            .record(
                cx,
                delivery,
                attempt,
                (number, delivery.trigger),
                expires_at,
            )
            .await?;
        let (result, trigger) = ((attempt.kind(), attempt.duration), delivery.trigger);
        cx.after_commit(move || metrics::attempted(result, trigger, next));
        if written && next.status == DeliveryStatus::Dead {
            self.announce_dead(cx, endpoint, delivery, next.reason)
                .await?;
        }
        Ok(())
    }

    /// Disables an endpoint, and sends an event about it to the other endpoints of its tenant.
    pub(super) async fn disable(
        &self,
        cx: &Cx,
        endpoint: &mut WebhookEndpoint,
        reason: DisabledReason,
    ) -> Result<()> {
        cx.after_commit(move || metrics::disabled(reason));
        self.announce_disabled(cx, endpoint, reason).await?;
        self.records
            .disable(cx, endpoint, reason, self.now())
            .await?;
        endpoint.status = EndpointStatus::Disabled;
        Ok(())
    }

    /// Records attempts whose lease has ended. Their results are not counted.
    pub(super) async fn too_late(&self, finished: Vec<FinishedAttempt>) {
        let (cx, now) = (self.cx(), self.now());
        for FinishedAttempt {
            delivery,
            mut attempt,
        } in finished
        {
            metrics::too_late(delivery.trigger);
            let text = "the lease ended during the attempt".to_owned();
            attempt.error = Some((ErrorKind::LeaseLost, text));
            let expires_at = later(now, ATTEMPT_RETENTION);
            let number = (delivery.attempts + 1, delivery.trigger);
            if let Err(error) = self
                .records
                .record(&cx, &delivery, &attempt, number, expires_at)
                .await
            {
                tracing::warn!(%error, delivery = delivery.id, "a late attempt was not recorded");
            }
        }
    }
}
