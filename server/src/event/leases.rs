//! The consumers that this process leads: one process at a time delivers to a consumer.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::EventSink;
use super::relay::{cause, outbox};
use crate::store::Store;

/// The duration of a lease after its renewal.
const LEASE_DURATION: Duration = Duration::from_secs(15);
/// The interval of renewals.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(5);
/// The interval at which a process tries to lead a consumer that another process leads.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// The interval at which [`EventSink::is_served_here`] is called.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// The right to deliver to a consumer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Lease {
    pub(super) fence: i64,
    pub(super) until: Instant,
}

/// The leases by the name of the consumer; `None` before the first attempt.
pub(super) type Leases = Option<HashMap<String, Lease>>;

/// The lease of a consumer; `None` if this process has none, or if it has expired.
pub(super) fn lease(leases: &watch::Receiver<Leases>, consumer: &str) -> Option<Lease> {
    let lease = leases.borrow().as_ref()?.get(consumer).copied()?;
    (lease.until > Instant::now()).then_some(lease)
}

/// Renews the leases of this process until it stops.
pub(super) struct Renewal {
    pub(super) store: Arc<dyn Store>,
    pub(super) sinks: Vec<(String, Arc<dyn EventSink>)>,
    pub(super) leases: watch::Sender<Leases>,
}

impl Renewal {
    pub(super) async fn run(self, mut stopped: watch::Receiver<bool>) {
        let mut wanted: Vec<String> = Vec::new();
        let mut next = Instant::now();
        // Leases are renewed until the last event was delivered: the relay ends this task then.
        loop {
            let served = self.sinks.iter().filter(|(_, sink)| sink.is_served_here());
            let names: Vec<String> = served.map(|(name, _)| name.clone()).collect();
            if names != wanted || next <= Instant::now() {
                wanted = names;
                next = Instant::now() + self.renew(&wanted).await;
            }
            tokio::select! {
                () = tokio::time::sleep_until(next.min(Instant::now() + CHECK_INTERVAL)) => {}
                ended = stopped.changed() => if ended.is_err() { return },
            }
        }
    }

    /// Takes or renews leases; returns the time until the next renewal.
    async fn renew(&self, names: &[String]) -> Duration {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let began = Instant::now();
        let led = match outbox(&self.store) {
            Ok(outbox) => outbox.lead(&names, LEASE_DURATION).await,
            Err(error) => Err(error),
        };
        let fences = match led {
            Ok(fences) => fences,
            Err(error) => {
                tracing::warn!(%error, cause = cause(&error), "the leases of event consumers were not renewed");
                // Leases that this process holds stay valid until they expire.
                self.leases.send_modify(|leases| {
                    leases.get_or_insert_default();
                });
                return RETRY_INTERVAL;
            }
        };
        let led = names.iter().zip(fences).filter_map(|(name, fence)| {
            let lease = Lease {
                fence: fence?,
                until: began + LEASE_DURATION,
            };
            Some(((*name).to_owned(), lease))
        });
        let leases: HashMap<String, Lease> = led.collect();
        let leads_all = leases.len() == names.len();
        self.leases.send_replace(Some(leases));
        if leads_all {
            RENEWAL_INTERVAL
        } else {
            RETRY_INTERVAL
        }
    }
}
