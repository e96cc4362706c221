//! The lease of an instance. Runners of migrations wait while an older instance has a lease.

use std::time::{Duration, Instant};

use linchpin_core::Timestamp;
use linchpin_core::schema::{Dialect, SchemaSession, SchemaStore, TransactionMode};
use linchpin_core::store::Names;

use super::present_names;
use crate::chain::Chain;
use crate::error::{Exit, Refusal};
use crate::ledger::{self, Instance};
use crate::plan::Declared;

/// The duration of a lease.
const LEASE: Duration = Duration::from_secs(30);
/// The maximum wait of a renewal for the lock of a runner that changes the window. It is shorter
/// than the interval between renewals.
const LOCK_TIMEOUT: Duration = Duration::from_secs(8);

/// A server that may serve a database.
pub struct Serving {
    /// The steps that are not done, one line each. The instance may serve without them.
    pub pending: Vec<String>,
    /// Differences of the tables that the settings tolerate, one line each.
    pub warnings: Vec<String>,
    /// The present names of tables and columns.
    pub names: Names,
    /// The time at which the last renewal began. The lease is counted from this time, not from the
    /// beginning of the start, which may create many tables before the first renewal.
    pub renewed_at: Instant,
    pub(super) instance: Instance,
    pub(super) digest: String,
    /// The session for renewals. `None` after a fault; the next renewal opens another one.
    pub(super) session: Option<Box<dyn SchemaSession>>,
}

impl std::fmt::Debug for Serving {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Serving")
            .field("instance", &self.instance)
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}

impl Serving {
    /// The interval between renewals of the lease.
    pub const RENEWAL: Duration = Duration::from_secs(10);
    /// The maximum time that an instance serves after its last renewal. It is shorter than the
    /// lease, so that an instance never serves without a lease.
    pub const TRUST: Duration = Duration::from_secs(20);

    /// Renews the lease in a transaction that checks the window. Returns whether the
    /// [`names`](Self::names) have changed. If so, the caller uses the new names and renews again,
    /// which writes the new epoch to the lease.
    ///
    /// # Errors
    /// `window_moved` if this binary may no longer serve; a fault of the database.
    pub async fn renew(
        &mut self,
        store: &dyn SchemaStore,
        of: (&Chain, &Declared),
    ) -> Result<bool, Refusal> {
        let mut session = match self.session.take() {
            Some(session) => session,
            None => store.connect().await?,
        };
        let epoch = self.renew_lease(&mut *session, store.dialect()).await?;
        let changed = epoch != self.names.epoch;
        if changed {
            self.names = present_names(store, &mut *session, of).await?;
        }
        self.session = Some(session);
        Ok(changed)
    }

    /// Renews the lease in a transaction of the session. Returns the epoch of the database.
    pub(super) async fn renew_lease(
        &mut self,
        session: &mut dyn SchemaSession,
        dialect: &dyn Dialect,
    ) -> Result<u64, Refusal> {
        let begun = Instant::now();
        session.set_lock_timeout(LOCK_TIMEOUT);
        session.begin(TransactionMode::Write).await?;
        match self.write_lease(session, dialect).await {
            Ok(epoch) => {
                session.commit().await?;
                self.renewed_at = begun;
                Ok(epoch)
            }
            Err(refusal) => {
                session.rollback().await;
                Err(refusal)
            }
        }
    }

    /// Checks the window and writes the lease, in the open transaction. Returns the epoch of the
    /// database.
    async fn write_lease(
        &mut self,
        session: &mut dyn SchemaSession,
        dialect: &dyn Dialect,
    ) -> Result<u64, Refusal> {
        let (min, max, epoch) = ledger::window(session, dialect).await?;
        let seq = self.instance.seq;
        if seq < min || seq > max {
            return Err(Refusal::new(
                "window_moved",
                Exit::Refused,
                format!(
                    "the database accepts binaries of schema {min} .. {max} now; this binary has \
                     schema {seq}"
                ),
            ));
        }
        let now = session.now().await?;
        let length = i64::try_from(LEASE.as_millis()).unwrap_or(i64::MAX);
        self.instance.epoch = self.names.epoch;
        self.instance.lease_end = Timestamp::from_millis(now.millis() + length);
        ledger::lease(session, &self.instance, &self.digest).await?;
        Ok(epoch)
    }

    /// Ends the lease, when the server stops.
    ///
    /// # Errors
    /// A fault of the database; the lease then ends after its duration.
    pub async fn release(self, store: &dyn SchemaStore) -> Result<(), Refusal> {
        let mut session = match self.session {
            Some(session) => session,
            None => store.connect().await?,
        };
        let now = session.now().await?;
        Ok(ledger::release(&mut *session, &self.instance.id, now).await?)
    }
}

/// The name of this host, for messages.
pub(super) fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = name.or_else(|| std::env::var("HOSTNAME").ok());
    let name = name
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty());
    name.unwrap_or_else(|| "unknown".to_owned())
}
