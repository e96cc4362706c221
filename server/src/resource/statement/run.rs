//! The way of a prepared statement to the store: under the guard, under the conditions of a
//! permission, with what goes along with it.

use std::sync::Arc;

use super::Statements;
use crate::cx::Again;
use crate::event::Emitter;
use crate::permission::Only;
use crate::resource::computed;
use crate::resource::prepared::Prepared;
use crate::store::queues::{self, Queue};
use crate::store::{Plan, Reply, Rows, Statement};
use crate::{Cx, Error, Result, Value};

impl Statements {
    /// Runs a statement; `args` fill the plan's argument slots.
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
        match (&self.guard, &prepared.guarded) {
            (Some(guard), Some(guarded)) => self
                .execute_guarded(guard, guarded, cx, prepared, args, rows)
                .unwrap_or_else(|error| Reply::Ready(Err(error))),
            _ => self.run_limited(cx, &prepared.statement, args, rows),
        }
    }

    /// Runs a statement on the records that the call may touch.
    pub(super) fn run_limited<'a>(
        &'a self,
        cx: &Cx,
        statement: &'a Arc<Statement>,
        args: Vec<Value>,
        rows: Rows,
    ) -> Reply<'a> {
        let Some(only) = cx.only(self.desc) else {
            return self.run(cx, statement, args, rows);
        };
        let (statement, args) = match self.limit(statement, only, args) {
            Ok(limited) => limited,
            Err(error) => return Reply::Ready(Err(error)),
        };
        let cx = cx.clone();
        Reply::Later(Box::pin(async move {
            self.run(&cx, &statement, args, rows).await
        }))
    }

    /// A statement and its arguments under the conditions of a permission.
    ///
    /// # Errors
    /// 403 or 404 for a new record that does not meet them.
    fn limit(
        &self,
        statement: &Arc<Statement>,
        only: &Only,
        mut args: Vec<Value>,
    ) -> Result<(Arc<Statement>, Vec<Value>)> {
        if matches!(statement.plan, Plan::Insert | Plan::Upsert { .. }) {
            only.admits(&args)?;
        }
        if matches!(statement.plan, Plan::Insert) {
            return Ok((Arc::clone(statement), args));
        }
        let base = statement.plan.arity(self.desc);
        if args.len() < base {
            return Err(Error::internal("a statement lacks an argument"));
        }
        args.truncate(base);
        args.extend(only.values());
        Ok((
            self.kept(statement, only.shape(), || only.plan(&statement.plan, base))?,
            args,
        ))
    }

    /// Runs a statement as it is, with what goes along with it.
    pub(in crate::resource) fn run<'a>(
        &'a self,
        cx: &Cx,
        statement: &'a Arc<Statement>,
        args: Vec<Value>,
        rows: Rows,
    ) -> Reply<'a> {
        let summaries = self
            .summaries
            .as_ref()
            .filter(|summaries| summaries.concerned(&statement.plan));
        match cx.untold().filter(|_| !statement.plan.reads()) {
            Some((cx, auditing)) => {
                self.with_consequences(cx, Some(auditing), summaries, statement, args, rows)
            }
            None if summaries
                .is_some_and(|summaries| !summaries.is_idle(&statement.plan, &args))
                || self.firsts.concerned(self.desc, &statement.plan) =>
            {
                self.with_consequences(cx.clone(), None, summaries, statement, args, rows)
            }
            None => self.send(cx, statement, args, rows),
        }
    }

    /// Hands a statement on, with the values of computed fields where it changes what they follow
    /// from.
    pub(in crate::resource) fn send<'a>(
        &'a self,
        cx: &Cx,
        statement: &'a Arc<Statement>,
        args: Vec<Value>,
        rows: Rows,
    ) -> Reply<'a> {
        if computed::concerned(statement) {
            return self.computing(cx, statement, args, rows);
        }
        self.hand(cx, statement, args, rows)
    }

    /// The attempts of a transaction of ours, around a statement when that is known.
    pub(in crate::resource) fn again(
        &self,
        cx: &Cx,
        around: Option<(&Arc<Statement>, &[Value])>,
    ) -> Again {
        let queue = match around {
            // Transactions are alone anyway.
            _ if self.alone() => Queue::Never,
            Some((statement, _))
                if matches!(queues::queue(statement), Queue::Soon | Queue::Always) =>
            {
                queues::queue(statement)
            }
            _ => Queue::Late,
        };
        let record = around.and_then(|(statement, args)| queues::record(statement, args));
        cx.again(&self.store, queue, self.desc.storage_name, record)
    }

    /// Hands a statement to the store, or to the transaction that the call is part of.
    pub(in crate::resource) fn hand<'a>(
        &'a self,
        cx: &Cx,
        statement: &'a Arc<Statement>,
        args: Vec<Value>,
        mut rows: Rows,
    ) -> Reply<'a> {
        // A transaction of its own waits as well, whatever it begins with.
        if (cx.in_transaction().is_some() || !statement.plan.reads())
            && let Err(refused) = cx.apart(&self.store)
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

    /// A statement as it will run: under the guard, and under the conditions of a permission.
    pub(in crate::resource) fn settled(
        &self,
        cx: &Cx,
        prepared: &Prepared,
        mut args: Vec<Value>,
    ) -> Result<(Arc<Statement>, Vec<Value>)> {
        let statement = match (&self.guard, &prepared.guarded) {
            (Some(guard), Some(guarded)) => {
                self.under_guard(guard, guarded, cx, prepared, &mut args)?
            }
            _ => &prepared.statement,
        };
        match cx.only(self.desc) {
            Some(only) => self.limit(statement, only, args),
            None => Ok((Arc::clone(statement), args)),
        }
    }

    /// Runs a statement that records events: notes the first of them for the answer, and wakes
    /// whoever delivers them.
    fn record<'a>(
        &'a self,
        emitter: &'a Emitter,
        cx: &Cx,
        statement: &'a Arc<Statement>,
        args: Vec<Value>,
        mut rows: Rows,
    ) -> Reply<'a> {
        if let Some(recording) = &mut rows.recording {
            recording.of(&statement.plan);
        }
        let cx = cx.clone();
        Reply::Later(Box::pin(async move {
            let mut rows = match cx.in_transaction() {
                Some(transaction) => transaction.run(&self.store, statement, args, rows).await?,
                None => self.store.run(statement, args, rows).await?,
            };
            let first = rows.recording.take().and_then(|recording| recording.first);
            match (first, cx.in_transaction()) {
                (None, _) => {}
                (Some(id), Some(transaction)) => transaction.note_event(id, emitter.wake()),
                (Some(id), None) => {
                    cx.note_event(id);
                    emitter.wake().send_replace(());
                }
            }
            Ok(rows)
        }))
    }
}
