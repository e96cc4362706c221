//! The in-memory store with one injected fault.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use linchpin::entity::EntityDesc;
use linchpin::event::{Entry, OutboxRow};
use linchpin::resource::BoxFuture;
use linchpin::store::memory::Memory;
use linchpin::store::{
    Committed, Lost, Numbers, Outbox, Parked, Plan, Reply, Rows, Statement, Store, StoreKind,
    Transaction, Waiting,
};
use linchpin::{Result, Timestamp, Value};

/// Changes a plan before the store prepares it.
type ChangePlan = fn(&'static EntityDesc, Plan) -> Plan;
/// Changes the arguments of a statement.
type ChangeArgs = fn(&Statement, &mut Vec<Value>);
/// Changes the result of a statement.
type ChangeRows = fn(&Statement, Result<Rows>) -> Result<Rows>;
/// Changes the delivered events of a row.
type ChangeEvents = fn(&mut Vec<Entry>);

/// A deviation from the correct store.
#[derive(Clone, Copy)]
pub enum Fault {
    Plan(ChangePlan),
    Args(ChangeArgs),
    Rows(ChangeRows),
    /// A rollback commits instead.
    NoRollback,
    Events(ChangeEvents),
}

impl Fault {
    fn change_args(self, statement: &Statement, args: &mut Vec<Value>) {
        if let Self::Args(change) = self {
            change(statement, args);
        }
    }

    fn change_rows(self, statement: &Statement, rows: Result<Rows>) -> Result<Rows> {
        if let Self::Rows(change) = self {
            change(statement, rows)
        } else {
            rows
        }
    }
}

pub struct FaultyStore(pub Memory, pub Fault);

impl Store for FaultyStore {
    fn kind(&self) -> &'static StoreKind {
        self.0.kind()
    }
    fn may_take_long(&self, statement: &Statement) -> bool {
        self.0.may_take_long(statement)
    }
    fn computes(&self, last: bool) -> bool {
        self.0.computes(last)
    }
    fn prepare(&self, entity: &'static EntityDesc, plan: Plan) -> Result<Arc<Statement>> {
        match self.1 {
            Fault::Plan(change) => self.0.prepare(entity, change(entity, plan)),
            _ => self.0.prepare(entity, plan),
        }
    }
    fn run<'a>(
        &'a self,
        statement: &'a Arc<Statement>,
        mut args: Vec<Value>,
        rows: Rows,
    ) -> Reply<'a> {
        self.1.change_args(statement, &mut args);
        let fault = self.1;
        match self.0.run(statement, args, rows) {
            Reply::Ready(rows) => Reply::Ready(fault.change_rows(statement, rows)),
            Reply::Later(rows) => {
                Reply::Later(Box::pin(
                    async move { fault.change_rows(statement, rows.await) },
                ))
            }
        }
    }
    fn begin(&self) -> BoxFuture<'_, Result<Box<dyn Transaction>>> {
        Box::pin(async move {
            Ok(
                Box::new(FaultyTransaction(Some(self.0.begin().await?), self.1))
                    as Box<dyn Transaction>,
            )
        })
    }
    fn outbox(&self) -> Option<&dyn Outbox> {
        Some(self)
    }
    fn schema(&self) -> Option<&dyn linchpin::schema::SchemaStore> {
        self.0.schema()
    }
    fn ready(&self) -> BoxFuture<'_, Result<()>> {
        self.0.ready()
    }
    fn close(&self) -> BoxFuture<'_, ()> {
        self.0.close()
    }
}

/// A transaction of a faulty store.
struct FaultyTransaction(Option<Box<dyn Transaction>>, Fault);

impl Transaction for FaultyTransaction {
    fn run<'a>(
        &'a mut self,
        statement: &'a Arc<Statement>,
        mut args: Vec<Value>,
        rows: Rows,
    ) -> BoxFuture<'a, Result<Rows>> {
        self.1.change_args(statement, &mut args);
        let fault = self.1;
        let open = self.0.as_mut().expect("it has not ended");
        Box::pin(async move { fault.change_rows(statement, open.run(statement, args, rows).await) })
    }
    fn commit(mut self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        self.0.take().expect("it has not ended").commit()
    }
}

impl Drop for FaultyTransaction {
    fn drop(&mut self) {
        if let (Some(open), Fault::NoRollback) = (self.0.take(), self.1) {
            open.commit()
                .now_or_never()
                .expect("memory does not wait")
                .expect("committed");
        }
    }
}

/// Passes on committed events after the fault has changed them.
struct FaultyCommitted(Arc<dyn Committed>, Fault);

impl Fault {
    fn change_event(self, row: &Arc<OutboxRow>) -> Arc<OutboxRow> {
        let Self::Events(change) = self else {
            return Arc::clone(row);
        };
        let mut row = OutboxRow::clone(row);
        change(&mut row.events);
        Arc::new(row)
    }
}

impl Committed for FaultyCommitted {
    fn committed(&self, rows: Vec<Arc<OutboxRow>>) {
        self.0
            .committed(rows.iter().map(|row| self.1.change_event(row)).collect());
    }
    fn lost(&self, events: &[Entry]) {
        self.0.lost(events);
    }
}

impl FaultyStore {
    fn correct(&self) -> &dyn Outbox {
        self.0.outbox().expect("the memory store has an outbox")
    }
}

impl Outbox for FaultyStore {
    fn open<'a>(
        &'a self,
        consumers: &'a [&'a str],
        committed: Arc<dyn Committed>,
    ) -> BoxFuture<'a, Result<()>> {
        let committed = Arc::new(FaultyCommitted(committed, self.1));
        self.correct().open(consumers, committed)
    }
    fn knows<'a>(&'a self, consumer: &'a str) -> BoxFuture<'a, Result<bool>> {
        self.correct().knows(consumer)
    }
    fn is_in_commit_order(&self) -> bool {
        self.correct().is_in_commit_order()
    }
    fn lead<'a>(
        &'a self,
        consumers: &'a [&'a str],
        lease: Duration,
    ) -> BoxFuture<'a, Result<Vec<Option<i64>>>> {
        self.correct().lead(consumers, lease)
    }
    fn resign<'a>(&'a self, consumers: &'a [&'a str]) -> BoxFuture<'a, Result<()>> {
        self.correct().resign(consumers)
    }
    fn waiting<'a>(
        &'a self,
        consumer: &'a str,
        taken: &'a Numbers,
        known: &'a [Arc<OutboxRow>],
        limit: usize,
    ) -> BoxFuture<'a, Result<Waiting>> {
        Box::pin(async move {
            let waiting = self.correct().waiting(consumer, taken, known, limit);
            let mut waiting = waiting.await?;
            for row in &mut waiting.rows {
                *row = self.1.change_event(row);
            }
            Ok(waiting)
        })
    }
    fn lost_reported<'a>(&'a self, consumer: &'a str, lost: Lost) -> BoxFuture<'a, Result<()>> {
        self.correct().lost_reported(consumer, lost)
    }
    fn settle<'a>(&'a self, consumer: &'a str, done: &'a Numbers) -> BoxFuture<'a, Result<()>> {
        self.correct().settle(consumer, done)
    }
    fn park<'a>(&'a self, consumer: &'a str, parked: &'a Parked) -> BoxFuture<'a, Result<()>> {
        self.correct().park(consumer, parked)
    }
    fn prune<'a>(
        &'a self,
        consumers: &'a [&'a str],
        before: Timestamp,
        parked: Timestamp,
        limit: usize,
    ) -> BoxFuture<'a, Result<usize>> {
        self.correct().prune(consumers, before, parked, limit)
    }
}
