//! Workers: they lease endpoints with due deliveries, and send the deliveries.
//!
//! Only one worker at a time sends to an endpoint. So the rate, the order and the number of
//! concurrent attempts apply to all processes together, and a slow endpoint does not delay others.

use std::sync::Arc;
use std::time::Duration;

use linchpin::http::Clock;
use linchpin::seal::DataKeys;
use linchpin::{BoxFuture, Cx, Error, Result, Timestamp};
use linchpin_worker::Source;
use tokio::sync::{Notify, watch};

use super::attempt::Sender;
use super::outcome::later;
use super::records::Records;
use super::slots::{Served, Slots};
use crate::entity::WebhookEndpoint;
use crate::plugin::WebhooksConfig;

/// The lease time of an endpoint. A worker that does not extend its lease loses the endpoint.
pub(super) const LEASE: Duration = Duration::from_mins(1);
/// A lease lasts at least this much longer than the time limit of an attempt.
pub(super) const LEASE_MARGIN: Duration = Duration::from_secs(15);
/// Records of attempts are kept for this long: 30 days.
pub(super) const ATTEMPT_RETENTION: Duration = Duration::from_hours(30 * 24);

/// The parts that all workers of a process share.
pub(crate) struct Workers {
    pub(crate) records: Records,
    pub(crate) sender: Sender,
    pub(crate) keys: Arc<DataKeys>,
    pub(crate) config: WebhooksConfig,
    pub(crate) clock: Clock,
    /// The limits of concurrent attempts and endpoints of this process.
    pub(crate) slots: Arc<Slots>,
    /// Wakes the worker after new deliveries.
    pub(crate) wake: Arc<Notify>,
}

/// A leased endpoint.
#[derive(Clone)]
pub(crate) struct Leased {
    pub(super) endpoint: WebhookEndpoint,
    pub(super) token: String,
    /// Counts the endpoint as served until it is dropped.
    _served: Arc<Served>,
}

impl Source for Workers {
    type Item = Leased;

    fn name(&self) -> &'static str {
        "webhooks"
    }

    fn at_once(&self) -> usize {
        self.slots.max_served()
    }

    fn claim(&self, _: usize) -> BoxFuture<'_, Result<Vec<Leased>>> {
        Box::pin(self.lease())
    }

    fn run(
        self: Arc<Self>,
        leased: Leased,
        stopped: watch::Receiver<bool>,
    ) -> BoxFuture<'static, ()> {
        Box::pin(self.serve(leased, stopped))
    }
}

impl Workers {
    pub(super) fn now(&self) -> Timestamp {
        (self.clock)()
    }

    pub(super) fn cx(&self) -> Cx {
        Cx::system("deliveries of webhooks").at(self.now())
    }

    /// Leases some endpoints with due deliveries.
    async fn lease(&self) -> Result<Vec<Leased>> {
        let (token, now) = (linchpin::Uuid::new_v7().to_string(), self.now());
        let until = later(now, LEASE);
        let endpoints = self
            .records
            .endpoints
            .lease(&self.cx(), self.slots.full(), token.clone(), until)
            .await?;
        let leased = endpoints.into_iter().map(|endpoint| Leased {
            _served: Arc::new(self.slots.serve(endpoint.tenant_id.as_deref())),
            endpoint,
            token: token.clone(),
        });
        Ok(leased.collect())
    }

    /// Ends the lease of an endpoint, and sets the time at which its next delivery is due.
    pub(super) async fn free(
        &self,
        leased: &Leased,
        rate_free_at: Option<Timestamp>,
    ) -> Result<()> {
        let endpoint = &leased.endpoint;
        self.cx()
            .transaction(async |cx| {
                let (id, token) = (endpoint.id.clone(), leased.token.clone());
                // This update locks the row. A new delivery can set the due time only after this
                // commit.
                if self.records.endpoints.free(cx, id, token).await? == 0 {
                    return Ok(());
                }
                let next = self.records.next_due(cx, endpoint).await?;
                let Some(next) = next else { return Ok(()) };
                let holds = [rate_free_at, endpoint.held_until];
                let due = holds.into_iter().flatten().fold(next, Timestamp::max);
                self.records
                    .endpoints
                    .wake(cx, vec![endpoint.id.clone()], due)
                    .await
                    .map(drop)
            })
            .await
    }

    /// Skips an endpoint whose secrets cannot be decrypted. It is due again after a minute.
    pub(super) async fn skip(&self, leased: &Leased, error: &Error) -> Result<()> {
        tracing::error!(%error, endpoint = leased.endpoint.id, "the secrets of an endpoint cannot be decrypted, so nothing is sent to it");
        let again = later(self.now(), LEASE);
        self.free(leased, Some(again)).await
    }
}
