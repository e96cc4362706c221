//! Writing the results of attempts.

use linchpin::{Cx, Result, Timestamp};

use super::outcome::{self, later};
use super::serving::Flight;
use super::worker::{ATTEMPTS_KEPT, Workers};
use crate::entity::{DeliveryStatus, DisabledReason, EndpointStatus, ErrorKind, WebhookEndpoint};
use crate::metrics;

impl Workers {
    /// Writes the result of an attempt, and the attempt.
    pub(super) async fn settle_one(
        &self,
        cx: &Cx,
        endpoint: &WebhookEndpoint,
        Flight { delivery, attempt }: &Flight,
        now: Timestamp,
    ) -> Result<()> {
        let number = delivery.attempts + 1;
        let next = outcome::next(&self.config, delivery, attempt, number, now);
        let written = self
            .records
            .settle(cx, delivery, attempt, (number, next), now)
            .await?;
        let kept = later(now, ATTEMPTS_KEPT);
        self.records
            .record(cx, delivery, attempt, (number, delivery.trigger), kept)
            .await?;
        let (ended, trigger) = ((attempt.kind(), attempt.duration), delivery.trigger);
        cx.after_commit(move || metrics::attempted(ended, trigger, next));
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

    /// Records attempts whose lease has ended: their results are not counted.
    pub(super) async fn too_late(&self, flights: Vec<Flight>) {
        let (cx, now) = (self.cx(), self.now());
        for Flight {
            delivery,
            mut attempt,
        } in flights
        {
            metrics::too_late(delivery.trigger);
            let text = "the lease ended during the attempt".to_owned();
            attempt.error = Some((ErrorKind::LeaseLost, text));
            let kept = later(now, ATTEMPTS_KEPT);
            let number = (delivery.attempts + 1, delivery.trigger);
            if let Err(error) = self
                .records
                .record(&cx, &delivery, &attempt, number, kept)
                .await
            {
                tracing::warn!(%error, delivery = delivery.id, "a late attempt was not recorded");
            }
        }
    }
}
