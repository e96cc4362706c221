//! The schema of the database at start-up, and the lease of this process while it serves.

use std::sync::{Arc, Weak};
use std::time::Duration;

use linchpin_migrate::{
    Chain, Declared, Exit, Mode, Refusal, SchemaCheck, Serving, present_names, start,
};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::checks::startup;
use crate::lease::Lease;
use crate::store::{Names, Store};
use crate::{Error, Result};

/// The time limit for renewing or releasing the lease.
const LEASE_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause after a failed renewal.
const RETRY: Duration = Duration::from_secs(1);

/// The recorded migrations and the declared schema, which start-up compares with the database.
pub(super) type Known = Arc<(Chain, Declared)>;

/// The lease of this process: a task renews it until the process stops.
pub(super) struct LeaseTask {
    pub(super) lease: Lease,
    /// Set when the database does not accept this binary any more.
    pub(super) ended: watch::Receiver<Option<String>>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

/// Creates or extends the tables of a store's database if the mode allows that, checks that this
/// binary may serve the database, and takes a lease. `None` if the store has no schema.
///
/// # Errors
/// The reason why this binary cannot serve the database.
pub(super) async fn open(
    store: &Arc<dyn Store>,
    known: impl FnOnce() -> std::result::Result<Known, Refusal>,
    mode: Mode,
    check: SchemaCheck,
) -> Result<Option<LeaseTask>> {
    let Some(schema) = store.schema() else {
        return Ok(None);
    };
    let known = known().map_err(|refusal| error(&refusal))?;
    let serving = start(schema, (&known.0, &known.1), mode, check)
        .await
        .map_err(|refusal| error(&refusal))?;
    for warning in &serving.warnings {
        tracing::warn!("the tables differ from the ledger: {warning}");
    }
    if !serving.pending.is_empty() {
        tracing::warn!(
            "changes of the schema are pending; `migrate plan` shows them: {}",
            serving.pending.join(", ")
        );
    }
    set_names(store, &serving.names);
    refresh(store, &known);
    let lease = Lease::new(serving.renewed_at, Serving::TRUST);
    let (stop, stopped) = watch::channel(false);
    let (end, ended) = watch::channel(None);
    let keeper = Keeper {
        store: Arc::downgrade(store),
        known,
        lease: lease.clone(),
        serving,
    };
    Ok(Some(LeaseTask {
        lease,
        ended,
        stop,
        task: tokio::spawn(keeper.keep(stopped, end)),
    }))
}

impl LeaseTask {
    /// Ends the lease, so that runners of migrations do not wait for this process.
    pub(super) async fn release(self) {
        // The task has ended already if the database does not accept this binary.
        let _ = self.stop.send(true);
        drop(self.task.await);
    }
}

/// The error with which the start fails: `unavailable` if the database cannot be reached or is
/// busy, otherwise a start-up error.
fn error(refusal: &Refusal) -> Error {
    let is_unreachable_or_busy = matches!(refusal.exit, Exit::Target | Exit::Busy);
    if is_unreachable_or_busy && refusal.code != "target_unsupported" {
        return Error::unavailable(refusal.text());
    }
    startup(refusal.text())
}

fn set_names(store: &Arc<dyn Store>, names: &Names) {
    store.set_names(Arc::new(names.clone()));
}

/// Makes the store read the names of tables and columns again if the database does not find one of
/// them.
fn refresh(store: &Arc<dyn Store>, known: &Known) {
    let (weak, known) = (Arc::downgrade(store), Arc::clone(known));
    store.on_stale_names(Arc::new(move || {
        let (weak, known) = (Weak::clone(&weak), Arc::clone(&known));
        Box::pin(async move {
            let Some(store) = weak.upgrade() else {
                return Ok(());
            };
            let Some(schema) = store.schema() else {
                return Ok(());
            };
            let mut session = schema.connect().await?;
            let names = present_names(schema, &mut *session, (&known.0, &known.1)).await;
            let names = names.map_err(|refusal| Error::unavailable(refusal.text()))?;
            set_names(&store, &names);
            Ok(())
        })
    }));
}

/// Renews the lease.
struct Keeper {
    store: Weak<dyn Store>,
    known: Known,
    lease: Lease,
    serving: Serving,
}

impl Keeper {
    async fn keep(
        mut self,
        mut stopped: watch::Receiver<bool>,
        end: watch::Sender<Option<String>>,
    ) {
        let mut pause = Serving::RENEWAL;
        let mut failing = false;
        loop {
            tokio::select! {
                _ = stopped.wait_for(|stop| *stop) => break,
                () = tokio::time::sleep(pause) => {}
            }
            let Some(store) = self.store.upgrade() else {
                return;
            };
            let renewed = tokio::time::timeout(LEASE_TIMEOUT, self.renew(&store)).await;
            let why = match renewed {
                Ok(Ok(())) => {
                    self.lease.extend(self.serving.renewed_at, Serving::TRUST);
                    pause = Serving::RENEWAL;
                    failing = false;
                    continue;
                }
                Ok(Err(refusal)) if refusal.code == "window_moved" => {
                    self.lease.end();
                    tracing::error!("this process stops: {}", refusal.message);
                    // No receiver is left if code started the app with `App::start`; this is not an
                    // error.
                    let _ = end.send(Some(refusal.text()));
                    break;
                }
                Ok(Err(refusal)) => refusal.text(),
                Err(_) => "the database does not answer".to_owned(),
            };
            if !std::mem::replace(&mut failing, true) {
                tracing::warn!(cause = why, "the lease of this instance was not renewed");
            }
            pause = RETRY;
        }
        if let Some(store) = self.store.upgrade()
            && let Some(schema) = store.schema()
        {
            let released = tokio::time::timeout(LEASE_TIMEOUT, self.serving.release(schema)).await;
            if !matches!(released, Ok(Ok(()))) {
                tracing::warn!("the lease of this instance was not released; it ends within 30 s");
            }
        }
    }

    async fn renew(&mut self, store: &Arc<dyn Store>) -> std::result::Result<(), Refusal> {
        let Some(schema) = store.schema() else {
            return Ok(());
        };
        let chain_and_schema = (&self.known.0, &self.known.1);
        if self.serving.renew(schema, chain_and_schema).await? {
            set_names(store, &self.serving.names);
            self.serving.renew(schema, chain_and_schema).await?;
        }
        Ok(())
    }
}
