//! Calls that take effect together, and the events that they make.

use std::sync::{Arc, OnceLock};

use super::Cx;
use crate::store::TxScope;
use crate::{Error, Result, Uuid};

/// How often a transaction is begun again after somebody else got in between.
const REPETITIONS: usize = 3;

/// What is left of the attempts of a transaction.
pub(crate) struct Again {
    left: usize,
}

impl Again {
    /// Whether it is begun again, having ended so.
    pub(crate) fn after<T>(&mut self, done: &Result<T>) -> bool {
        let again = self.left > 0 && done.as_ref().is_err_and(Error::is_overtaken);
        self.left -= usize::from(again);
        again
    }
}

impl Cx {
    /// Runs calls that take effect together: when `work` fails, none of them has happened.
    ///
    /// `work` gets a context of its own; what is called with it, on any adapter of one store, belongs to the transaction.
    /// A call with the outer context does not, and may have to wait for the transaction's end. A transaction inside another
    /// is part of that one. It should be short: an embedded store lets nobody else write meanwhile, and gives up on one
    /// that says nothing for some seconds.
    ///
    /// # Errors
    /// What `work` answers; `unavailable` when what it did could not be made to last, and then nothing of it has happened.
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
        if self.transaction.is_some() {
            return work(self).await;
        }
        let transaction = Arc::new(TxScope::default());
        let inner = Self { transaction: Some(Arc::clone(&transaction)), ..self.clone() };
        match work(&inner).await {
            Ok(value) => {
                transaction.commit().await?;
                // Only now have its events happened.
                if let Some(first) = transaction.first_event() {
                    self.note_event(first);
                }
                Ok(value)
            }
            Err(error) => {
                transaction.rollback().await;
                Err(error)
            }
        }
    }

    /// Whether a transaction of the call's is begun again: a few times, when somebody else got in between. Within a transaction it is
    /// whose it is to begin it again.
    pub(crate) fn again(&self) -> Again {
        Again { left: if self.transaction.is_some() { 0 } else { REPETITIONS } }
    }

    /// Where the id of the call's first event will stand.
    pub(crate) fn watch(&mut self) -> Arc<OnceLock<Uuid>> {
        Arc::clone(self.emitted.get_or_insert_default())
    }

    /// The first event of the call so far, or of the transaction that it is part of.
    pub(crate) fn first_event(&self) -> Option<Uuid> {
        match &self.transaction {
            Some(transaction) => transaction.first_event(),
            None => self.emitted.as_ref()?.get().cloned(),
        }
    }

    /// Notes an event of the call; the first one counts.
    pub(crate) fn note_event(&self, id: Uuid) {
        if let Some(place) = &self.emitted {
            // Set already: it is not the first.
            let _ = place.set(id);
        }
    }

    /// The same call beside the transaction that it is part of: what runs so neither begins it nor waits for it to begin.
    pub(crate) fn beside_transaction(&self) -> Self {
        Self { transaction: None, ..self.clone() }
    }

    /// The transaction that calls with this context belong to.
    pub(crate) fn in_transaction(&self) -> Option<&Arc<TxScope>> {
        self.transaction.as_ref()
    }
}
