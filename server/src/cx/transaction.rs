//! Transactions: calls that take effect together, and their events.

use std::sync::{Arc, OnceLock};

use super::Cx;
use crate::store::queues::{Attempts, Queue};
use crate::store::{LockWait, Store, TxScope};
use crate::{Error, Result, Uuid};

/// The maximum number of attempts of a transaction after conflicts with others. Most attempts
/// include a wait.
const ATTEMPTS: usize = 64;

/// The attempts of an internal transaction, which can be repeated.
///
/// If several transactions need the same locks in different orders, only the first one makes
/// progress. So a transaction holds its locks only briefly while it waits for more; then it rolls
/// back, lets others continue, and retries.
pub(crate) struct Retry {
    attempts: Attempts,
    /// Whether the transaction is part of an outer transaction. Then the outer one must be
    /// repeated.
    in_outer: bool,
}

impl Retry {
    /// Runs an attempt.
    pub(crate) async fn attempt<T>(
        &mut self,
        cx: &Cx,
        work: impl AsyncFnOnce(&Cx) -> Result<T>,
    ) -> Result<T> {
        if self.in_outer {
            return work(cx).await;
        }
        let lock_wait = self.attempts.begin().await;
        let done = cx.begin(lock_wait, work).await;
        self.attempts.end();
        done
    }

    /// The result of an attempt; `None` if another attempt follows.
    pub(crate) async fn finished<T>(&mut self, done: Result<T>) -> Option<Result<T>> {
        if self.in_outer || !done.as_ref().is_err_and(Error::is_conflicting_write) {
            return Some(done);
        }
        if self.attempts.count() + 1 == ATTEMPTS {
            return Some(Err(Error::kept_changing()));
        }
        self.attempts.pause().await;
        None
    }
}

/// The records that a context reaches.
#[derive(PartialEq, Eq)]
enum Reach {
    /// Records of every tenant: the application itself.
    Application,
    /// Records of one tenant; `None` is an actor without a tenant.
    Tenant(Option<String>),
}

impl Reach {
    fn of(cx: &Cx) -> Self {
        cx.get_actor().map_or(Self::Application, |actor| {
            Self::Tenant(actor.tenant_id.clone())
        })
    }
}

/// The transaction whose function runs in this task, and the reach of its caller.
struct RunningTransaction {
    scope: Arc<TxScope>,
    reach: Reach,
    /// The outer transaction, which is a separate one.
    outer: Option<Arc<Self>>,
}

tokio::task_local! {
    static RUNNING_TRANSACTION: Arc<RunningTransaction>;
}

impl Cx {
    /// Refuses a change inside a running transaction on this store if the context of the change
    /// does not belong to the transaction. The change would wait for the end of the transaction,
    /// and the transaction waits for the change.
    ///
    /// # Errors
    /// `internal` if the call uses another context than the transaction's.
    pub(crate) fn refuse_outside_change(&self, store: &Arc<dyn Store>) -> Result<()> {
        RUNNING_TRANSACTION
            .try_with(|within| self.refuse_outside_of(within, store))
            .unwrap_or(Ok(()))
    }

    fn refuse_outside_of(&self, within: &RunningTransaction, store: &Arc<dyn Store>) -> Result<()> {
        let waits = |within: &&RunningTransaction| {
            let own = self
                .transaction
                .as_ref()
                .is_some_and(|own| Arc::ptr_eq(own, &within.scope));
            !own && within.scope.is_open_on(store)
        };
        let Some(within) =
            std::iter::successors(Some(within), |within| within.outer.as_deref()).find(waits)
        else {
            return Ok(());
        };
        let text = if Reach::of(self) == within.reach {
            "a change inside `transaction` used another context: use the context that the function gets"
        } else {
            "a change inside `transaction` used another tenant: a transaction has one caller and one tenant; to write in several tenants, \
             start the transaction with `Cx::system(..)` and use `cx.clone().within(..)`"
        };
        Err(Error::internal(text))
    }

    /// Runs calls that take effect together: if `work` fails, none of them takes effect.
    ///
    /// `work` gets a separate context. Calls with it, on any adapter of one store, are part of the
    /// transaction. A change with another context is not, and is refused after the transaction has
    /// begun, because it would wait for the end of the transaction. A transaction inside another
    /// one is part of it. Keep it short: an embedded store blocks all other writes meanwhile, and
    /// rolls back a transaction that is idle for some seconds.
    ///
    /// # Errors
    /// The error of `work`; `unavailable` if the commit fails; `conflict` if `work` succeeds, but a
    /// call in it failed after a part of its changes was written. Then no change takes effect.
    ///
    /// ```no_run
    /// # use linchpin::prelude::*;
    /// # #[entity] #[derive(Clone, Debug)] pub struct Account { #[field(primary)] pub id: String, #[field(default = 0)] pub balance: i64 }
    /// # async fn f(accounts: AccountAdapter, cx: &linchpin::Cx) -> linchpin::Result<()> {
    /// cx.transaction(async |cx| {
    ///     accounts.update(cx, "a", AccountPatch { balance: Some(0), ..Default::default() }, None).await?;
    ///     accounts.delete(cx, "b", None).await
    /// })
    /// .await
    /// # }
    /// ```
    pub async fn transaction<T>(&self, work: impl AsyncFnOnce(&Self) -> Result<T>) -> Result<T> {
        self.begin(LockWait::UntilTimeout, work).await
    }

    /// Runs `work` as soon as the transaction of this context is committed, or at once if the
    /// context has no transaction. A rollback drops `work`.
    ///
    /// Use it to wake a background task that reads what the transaction writes: before the commit
    /// the task would find nothing. `work` must return quickly, because the caller of
    /// [`Cx::transaction`] waits for it. A panic of `work` is logged, and the call succeeds. `work`
    /// is lost if the process dies between the commit and the call, or if the transaction ended
    /// before `after_commit` was called. So the background task should also look for work at
    /// intervals.
    ///
    /// ```no_run
    /// # use linchpin::prelude::*;
    /// # #[entity] #[derive(Clone, Debug)] pub struct Mail { #[field(primary)] pub id: String }
    /// # async fn f(mails: MailAdapter, cx: &linchpin::Cx, wake: std::sync::Arc<tokio::sync::Notify>) -> linchpin::Result<()> {
    /// cx.transaction(async |cx| {
    ///     mails.create(cx, MailCreate { id: "welcome".into() }).await?;
    ///     cx.after_commit(move || wake.notify_one());
    ///     Ok(())
    /// })
    /// .await
    /// # }
    /// ```
    pub fn after_commit(&self, work: impl FnOnce() + Send + 'static) {
        match &self.transaction {
            Some(transaction) => transaction.after_commit(Box::new(work)),
            None => work(),
        }
    }

    /// Whether calls with this context are part of a transaction.
    pub fn is_in_transaction(&self) -> bool {
        self.transaction.is_some()
    }

    /// Like [`Cx::transaction`]; `lock_wait` limits the wait for other transactions.
    async fn begin<T>(
        &self,
        lock_wait: LockWait,
        work: impl AsyncFnOnce(&Self) -> Result<T>,
    ) -> Result<T> {
        if self.transaction.is_some() {
            return work(self).await;
        }
        let transaction = Arc::new(TxScope::new(lock_wait));
        let inner = Self {
            transaction: Some(Arc::clone(&transaction)),
            now: self.now.shared(),
            ..self.clone()
        };
        let outer = RUNNING_TRANSACTION.try_with(Arc::clone).ok();
        let within = Arc::new(RunningTransaction {
            scope: Arc::clone(&transaction),
            reach: Reach::of(self),
            outer,
        });
        match RUNNING_TRANSACTION.scope(within, work(&inner)).await {
            Ok(value) => {
                transaction.commit().await?;
                // The events of the transaction exist only after the commit.
                if let Some(first) = transaction.first_event() {
                    self.store_first_event(first);
                }
                Ok(value)
            }
            Err(error) => {
                transaction.rollback().await;
                Err(error)
            }
        }
    }

    /// The attempts of an internal transaction on an entity, and on one `record` of it if known.
    pub(crate) fn retry(
        &self,
        store: &Arc<dyn Store>,
        queue: Queue,
        entity: &'static str,
        record: Option<u64>,
    ) -> Retry {
        let at = Arc::as_ptr(store).cast::<()>().addr();
        Retry {
            attempts: Attempts::new(queue, (at, entity), record),
            in_outer: self.transaction.is_some(),
        }
    }

    /// A cell for the id of the call's first event.
    pub(crate) fn first_event_cell(&mut self) -> Arc<OnceLock<Uuid>> {
        Arc::clone(self.emitted.get_or_insert_default())
    }

    /// The first event of the call so far, or of the transaction that it is part of.
    pub(crate) fn first_event(&self) -> Option<Uuid> {
        match &self.transaction {
            Some(transaction) => transaction.first_event(),
            None => self.emitted.as_ref()?.get().cloned(),
        }
    }

    /// Stores the id of the first event of the call; later ids are ignored.
    pub(crate) fn store_first_event(&self, id: Uuid) {
        if let Some(place) = &self.emitted {
            // An error means that the cell already contains an earlier event.
            let _ = place.set(id);
        }
    }

    /// The same call outside of its transaction: calls made with it neither begin the transaction
    /// nor wait for it to begin.
    pub(crate) fn outside_transaction(&self) -> Self {
        Self {
            transaction: None,
            ..self.clone()
        }
    }

    /// The transaction that calls with this context belong to.
    pub(crate) fn in_transaction(&self) -> Option<&Arc<TxScope>> {
        self.transaction.as_ref()
    }
}
