//! The only path of a statement to the store.
//!
//! ```text
//! execute           records the events of a change; retries after expired records were removed
//!   restrict        scopes, visibility filters and permissions (module `restrict`)
//!   with_effects    counters of other records, audit log (module `effects`)
//!     with_computed computed fields (module `computed`)
//!       dispatch    the transaction of the call, or the store
//! ```
//!
//! For a step that a statement does not need, there is only one comparison.

use std::borrow::Cow;
use std::sync::Arc;

use super::Statements;
use crate::cx::Retry;
use crate::emitter::Emitter;
use crate::resource::computed;
use crate::resource::prepared::Prepared;
use crate::store::queues::{self, Queue};
use crate::store::{Plan, Reply, Rows, Statement};
use crate::{Code, Cx, Value};

impl Statements {
    /// Runs a statement on the records that the call may read or change. `args` fill the argument
    /// slots of its plan.
    ///
    /// # Errors
    /// The errors of [`Statements::restrict`] and of the store.
    pub(in crate::resource) fn execute<'a>(
        &'a self,
        cx: &Cx,
        prepared: &'a Prepared,
        args: Vec<Value>,
        mut rows: Rows,
    ) -> Reply<'a> {
        if let (Some(route), Some(emitter)) = (prepared.event, self.emitter.get()) {
            rows.recording = emitter.recording(cx, route);
        }
        let restricted = self
            .restrict(cx, prepared, args)
            .and_then(|restricted| Ok((restricted, self.eviction(prepared)?)));
        match restricted {
            Ok(((statement, args), None)) => self.with_effects_of(cx, statement, args, rows),
            Ok(((statement, args), Some(eviction))) => {
                self.evicting(cx.clone(), prepared, eviction, (statement, args), rows)
            }
            Err(refused) => Reply::Ready(Err(refused)),
        }
    }

    /// [`Statements::with_effects`] for a statement that may belong to this call alone.
    fn with_effects_of<'a>(
        &'a self,
        cx: &Cx,
        statement: Cow<'a, Arc<Statement>>,
        args: Vec<Value>,
        rows: Rows,
    ) -> Reply<'a> {
        match statement {
            Cow::Borrowed(statement) => self.with_effects(cx, statement, args, rows),
            Cow::Owned(statement) => {
                let cx = cx.clone();
                Reply::Later(Box::pin(async move {
                    self.with_effects(&cx, &statement, args, rows).await
                }))
            }
        }
    }

    /// Runs a write. If it conflicts with expired records, they are removed and the write runs
    /// again.
    fn evicting<'a>(
        &'a self,
        cx: Cx,
        prepared: &'a Prepared,
        eviction: &'a Arc<Statement>,
        (statement, args): (Cow<'a, Arc<Statement>>, Vec<Value>),
        rows: Rows,
    ) -> Reply<'a> {
        let upserts = matches!(statement.plan, Plan::Upsert { .. });
        Reply::Later(Box::pin(async move {
            let first = self
                .with_effects(&cx, &statement, args.clone(), rows.clone())
                .await;
            let may_be_blocked = match &first {
                Err(error) => error.code() == Code::Conflict,
                // An upsert of a record that the caller cannot reach returns no row.
                Ok(rows) => rows.count == 0 && upserts,
            };
            if !may_be_blocked {
                return first;
            }
            // Expired records are invisible to everyone, so they may be removed even if the write
            // then fails.
            let expired = prepared.eviction_args(&args, cx.now());
            let mut removed = Rows::count();
            removed.recording = self.emitter.get().and_then(|emitter| emitter.expiry(&cx));
            self.with_effects(&cx, eviction, expired, removed).await?;
            // The write runs again even if nothing was removed, because the sweeper may have
            // removed the record.
            self.with_effects(&cx, &statement, args, rows).await
        }))
    }

    /// Runs a restricted statement together with its effects on other records, if it has any: their
    /// counters and the audit log change in the same transaction.
    ///
    /// # Errors
    /// Those of the store; `conflict` or the code of a counter that would fall below its minimum.
    pub(in crate::resource) fn with_effects<'a>(
        &'a self,
        cx: &Cx,
        statement: &'a Arc<Statement>,
        args: Vec<Value>,
        rows: Rows,
    ) -> Reply<'a> {
        let summaries = self
            .summaries
            .as_ref()
            .filter(|summaries| summaries.applies_to(&statement.plan));
        let log = self.audit.get().filter(|_| !statement.plan.reads());
        match log.and_then(|log| Some((log, cx.without_audit()?))) {
            Some((log, (cx, auditing))) => {
                self.changing(cx, Some((log, auditing)), summaries, statement, args, rows)
            }
            None if self.compares(statement, &rows) => {
                self.changing(cx.clone(), None, summaries, statement, args, rows)
            }
            None if summaries
                .is_some_and(|summaries| !summaries.is_idle(&statement.plan, &args))
                || self.backfill.applies_to(self.desc, &statement.plan) =>
            {
                self.changing(cx.clone(), None, summaries, statement, args, rows)
            }
            None => self.with_computed(cx, statement, args, rows),
        }
    }

    /// Whether events of the statement need the records before the change.
    fn compares(&self, statement: &Statement, rows: &Rows) -> bool {
        rows.recording.is_some()
            && self
                .emitter
                .get()
                .is_some_and(|emitter| emitter.compares(&statement.plan))
    }

    /// Runs a statement and writes the computed fields that depend on its changes.
    ///
    /// # Errors
    /// Those of the store; `validation_failed` for a computed value that its field cannot hold.
    pub(in crate::resource) fn with_computed<'a>(
        &'a self,
        cx: &Cx,
        statement: &'a Arc<Statement>,
        args: Vec<Value>,
        rows: Rows,
    ) -> Reply<'a> {
        if computed::applies_to(statement) {
            return self.computing(cx, statement, args, rows);
        }
        self.dispatch(cx, statement, args, rows)
    }

    /// The attempts of a transaction that the framework begins itself. `around` is the statement in
    /// that transaction, with its arguments; `None` if the statement is not known yet.
    pub(in crate::resource) fn retry(
        &self,
        cx: &Cx,
        around: Option<(&Arc<Statement>, &[Value])>,
    ) -> Retry {
        let queue = match around {
            // Transactions of this store run one after the other anyway.
            _ if self.alone() => Queue::Never,
            Some((statement, _))
                if matches!(queues::queue(statement), Queue::Soon | Queue::Always) =>
            {
                queues::queue(statement)
            }
            _ => Queue::Late,
        };
        let record = around.and_then(|(statement, args)| queues::record(statement, args));
        cx.retry(&self.store, queue, self.desc.storage_name, record)
    }

    /// Runs a statement in the transaction of the call, or alone in the store.
    ///
    /// # Errors
    /// The errors of the store.
    pub(in crate::resource) fn dispatch<'a>(
        &'a self,
        cx: &Cx,
        statement: &'a Arc<Statement>,
        args: Vec<Value>,
        mut rows: Rows,
    ) -> Reply<'a> {
        // A change would wait for the end of the running transaction, and so would a read that
        // begins another transaction.
        if (cx.in_transaction().is_some() || !statement.plan.reads())
            && let Err(refused) = cx.refuse_outside_change(&self.store)
        {
            return Reply::Ready(Err(refused));
        }
        if let (Some(emitter), true) = (self.emitter.get(), rows.is_recorded()) {
            return self.record(emitter, cx, statement, args, rows);
        }
        let Some(transaction) = cx.in_transaction() else {
            if self.store.may_take_long(statement) {
                rows.caller = cx.caller();
            }
            return self.store.run(statement, args, rows);
        };
        let transaction = Arc::clone(transaction);
        Reply::Later(Box::pin(async move {
            transaction.run(&self.store, statement, args, rows).await
        }))
    }

    /// Runs a statement that records events. Keeps the first event for the response.
    fn record<'a>(
        &'a self,
        emitter: &'a Emitter,
        cx: &Cx,
        statement: &'a Arc<Statement>,
        args: Vec<Value>,
        mut rows: Rows,
    ) -> Reply<'a> {
        if let Some(recording) = &mut rows.recording {
            recording.set_plan(&statement.plan);
        }
        let cx = cx.clone();
        Reply::Later(Box::pin(async move {
            let mut rows = match cx.in_transaction() {
                Some(transaction) => transaction.run(&self.store, statement, args, rows).await?,
                None => self.store.run(statement, args, rows).await?,
            };
            if self.store.outbox().is_none()
                && let Some(hand_over) = emitter.unstored(&mut rows)
            {
                cx.after_commit(hand_over);
            }
            let first = rows.recording.take().and_then(|recording| recording.first);
            match (first, cx.in_transaction()) {
                (None, _) => {}
                (Some(id), Some(transaction)) => transaction.store_first_event(id),
                (Some(id), None) => cx.store_first_event(id),
            }
            Ok(rows)
        }))
    }
}
