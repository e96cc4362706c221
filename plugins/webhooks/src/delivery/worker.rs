//! Workers: they lease endpoints with due deliveries, and send these.
//!
//! One worker at a time sends to an endpoint. So the rate, the order and the number of attempts at
//! the same time hold over all processes, and a slow endpoint takes no time from the others.

use std::sync::Arc;
use std::time::Duration;

use linchpin::http::Clock;
use linchpin::seal::DataKeys;
use linchpin::{BoxFuture, Cx, Error, Result, Timestamp};
use linchpin_worker::Source;
use tokio::sync::{Notify, watch};

use super::attempt::Sender;
use super::flight::Records;
use super::outcome::later;
use super::slots::{Served, Slots};
use crate::entity::WebhookEndpoint;
use crate::plugin::WebhooksConfig;

/// How long a worker leads an endpoint without a sign of life.
pub(super) const LEASE: Duration = Duration::from_mins(1);
/// The time that a lease must last beyond the longest attempt.
pub(super) const BEYOND: Duration = Duration::from_secs(15);
/// How long attempts are kept.
pub(super) const ATTEMPTS_KEPT: Duration = Duration::from_hours(30 * 24);

/// The parts that all workers of a process share.
pub(crate) struct Workers {
    pub(crate) records: Records,
    pub(crate) sender: Sender,
    pub(crate) keys: Arc<DataKeys>,
    pub(crate) config: WebhooksConfig,
    pub(crate) clock: Clock,
    /// Attempts and endpoints of this process at the same time.
    pub(crate) slots: Arc<Slots>,
    /// Wakes the worker after new deliveries.
    pub(crate) wake: Arc<Notify>,
}

/// A leased endpoint.
#[derive(Clone)]
pub(crate) struct Leased {
    pub(super) endpoint: WebhookEndpoint,
    pub(super) token: String,
    /// Counts the endpoint until the service has ended.
    _served: Arc<Served>,
}

impl Source for Workers {
    type Item = Leased;

    fn name(&self) -> &'static str {
        "webhooks"
    }

    fn at_once(&self) -> usize {
        self.slots.most_served()
    }

    fn claim(&self) -> BoxFuture<'_, Result<Vec<Leased>>> {
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

    /// Frees an endpoint until its next delivery is due.
    pub(super) async fn free(
        &self,
        leased: &Leased,
        rate_free_at: Option<Timestamp>,
    ) -> Result<()> {
        let endpoint = &leased.endpoint;
        self.cx()
            .transaction(async |cx| {
                let (id, token) = (endpoint.id.clone(), leased.token.clone());
                // The row is locked from here on, so new deliveries make it due after this commit.
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

    /// Leaves an endpoint whose secrets cannot be read. It is tried again after a minute.
    pub(super) async fn skip(&self, leased: &Leased, error: &Error) -> Result<()> {
        tracing::error!(%error, endpoint = leased.endpoint.id, "the secrets of an endpoint cannot be decrypted, so nothing is sent to it");
        let again = later(self.now(), LEASE);
        self.free(leased, Some(again)).await
    }
}
