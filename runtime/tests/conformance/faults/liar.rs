//! A store that does all that memory does, but for one lie.

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

/// Changes a plan on its way in.
type Twist = fn(&'static EntityDesc, Plan) -> Plan;
/// Changes the arguments of a statement, or its result.
type Bend = fn(&Statement, &mut Vec<Value>);
type Turn = fn(&Statement, Result<Rows>) -> Result<Rows>;

/// Changes the delivered events of a row.
type Whisper = fn(&mut Vec<Entry>);

#[derive(Clone, Copy)]
pub enum Lie {
    Plan(Twist),
    Args(Bend),
    Rows(Turn),
    /// Rolled-back writes stay.
    Undone,
    Events(Whisper),
}

impl Lie {
    fn bend(self, statement: &Statement, args: &mut Vec<Value>) {
        if let Self::Args(bend) = self {
            bend(statement, args);
        }
    }

    fn turn(self, statement: &Statement, rows: Result<Rows>) -> Result<Rows> {
        if let Self::Rows(turn) = self {
            turn(statement, rows)
        } else {
            rows
        }
    }
}

pub struct Liar(pub Memory, pub Lie);

impl Store for Liar {
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
            Lie::Plan(twist) => self.0.prepare(entity, twist(entity, plan)),
            _ => self.0.prepare(entity, plan),
        }
    }
    fn run<'a>(
        &'a self,
        statement: &'a Arc<Statement>,
        mut args: Vec<Value>,
        rows: Rows,
    ) -> Reply<'a> {
        self.1.bend(statement, &mut args);
        let lie = self.1;
        match self.0.run(statement, args, rows) {
            Reply::Ready(rows) => Reply::Ready(lie.turn(statement, rows)),
            Reply::Later(rows) => {
                Reply::Later(Box::pin(async move { lie.turn(statement, rows.await) }))
            }
        }
    }
    fn begin(&self) -> BoxFuture<'_, Result<Box<dyn Transaction>>> {
        Box::pin(async move {
            Ok(Box::new(Half(Some(self.0.begin().await?), self.1)) as Box<dyn Transaction>)
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

/// A transaction of a liar.
struct Half(Option<Box<dyn Transaction>>, Lie);

impl Transaction for Half {
    fn run<'a>(
        &'a mut self,
        statement: &'a Arc<Statement>,
        mut args: Vec<Value>,
        rows: Rows,
    ) -> BoxFuture<'a, Result<Rows>> {
        self.1.bend(statement, &mut args);
        let lie = self.1;
        let open = self.0.as_mut().expect("it has not ended");
        Box::pin(async move { lie.turn(statement, open.run(statement, args, rows).await) })
    }
    fn commit(mut self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        self.0.take().expect("it has not ended").commit()
    }
}

impl Drop for Half {
    fn drop(&mut self) {
        if let (Some(open), Lie::Undone) = (self.0.take(), self.1) {
            open.commit()
                .now_or_never()
                .expect("memory does not wait")
                .expect("committed");
        }
    }
}

/// Hands the events of a liar over.
struct Whispering(Arc<dyn Committed>, Lie);

impl Lie {
    fn whisper(self, row: &Arc<OutboxRow>) -> Arc<OutboxRow> {
        let Self::Events(whisper) = self else {
            return Arc::clone(row);
        };
        let mut row = OutboxRow::clone(row);
        whisper(&mut row.events);
        Arc::new(row)
    }
}

impl Committed for Whispering {
    fn committed(&self, rows: Vec<Arc<OutboxRow>>) {
        self.0
            .committed(rows.iter().map(|row| self.1.whisper(row)).collect());
    }
    fn lost(&self, events: &[Entry]) {
        self.0.lost(events);
    }
}

impl Liar {
    fn honest(&self) -> &dyn Outbox {
        self.0.outbox().expect("memory has one")
    }
}

impl Outbox for Liar {
    fn open<'a>(
        &'a self,
        consumers: &'a [&'a str],
        committed: Arc<dyn Committed>,
    ) -> BoxFuture<'a, Result<()>> {
        let committed = Arc::new(Whispering(committed, self.1));
        self.honest().open(consumers, committed)
    }
    fn knows<'a>(&'a self, consumer: &'a str) -> BoxFuture<'a, Result<bool>> {
        self.honest().knows(consumer)
    }
    fn is_in_commit_order(&self) -> bool {
        self.honest().is_in_commit_order()
    }
    fn lead<'a>(
        &'a self,
        consumers: &'a [&'a str],
        lease: Duration,
    ) -> BoxFuture<'a, Result<Vec<Option<i64>>>> {
        self.honest().lead(consumers, lease)
    }
    fn resign<'a>(&'a self, consumers: &'a [&'a str]) -> BoxFuture<'a, Result<()>> {
        self.honest().resign(consumers)
    }
    fn waiting<'a>(
        &'a self,
        consumer: &'a str,
        taken: &'a Numbers,
        known: &'a [Arc<OutboxRow>],
        limit: usize,
    ) -> BoxFuture<'a, Result<Waiting>> {
        Box::pin(async move {
            let waiting = self.honest().waiting(consumer, taken, known, limit);
            let mut waiting = waiting.await?;
            for row in &mut waiting.rows {
                *row = self.1.whisper(row);
            }
            Ok(waiting)
        })
    }
    fn told<'a>(&'a self, consumer: &'a str, lost: Lost) -> BoxFuture<'a, Result<()>> {
        self.honest().told(consumer, lost)
    }
    fn settle<'a>(&'a self, consumer: &'a str, done: &'a Numbers) -> BoxFuture<'a, Result<()>> {
        self.honest().settle(consumer, done)
    }
    fn park<'a>(&'a self, consumer: &'a str, parked: &'a Parked) -> BoxFuture<'a, Result<()>> {
        self.honest().park(consumer, parked)
    }
    fn prune<'a>(
        &'a self,
        consumers: &'a [&'a str],
        before: Timestamp,
        parked: Timestamp,
        limit: usize,
    ) -> BoxFuture<'a, Result<usize>> {
        self.honest().prune(consumers, before, parked, limit)
    }
}
