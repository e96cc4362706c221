//! A store that does all that memory does, but for one lie.

use std::sync::Arc;

use futures_util::FutureExt;
use linchpin::entity::EntityDesc;
use linchpin::event::Entry;
use linchpin::resource::BoxFuture;
use linchpin::store::memory::Memory;
use linchpin::store::{Outbox, Plan, Reply, Rows, Statement, Store, StoreKind, Transaction};
use linchpin::{Result, Timestamp, Value};

/// Changes a plan on its way in.
type Twist = fn(&'static EntityDesc, Plan) -> Plan;
/// Changes what is written, and what comes back.
type Bend = fn(&Statement, &mut Vec<Value>);
type Turn = fn(&Statement, Result<Rows>) -> Result<Rows>;

/// Changes what those who listen are told.
type Whisper = fn(&mut Vec<(i64, Entry)>);

#[derive(Clone, Copy)]
pub enum Lie {
    Plan(Twist),
    Args(Bend),
    Rows(Turn),
    /// What is undone is there all the same.
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
    fn install<'a>(&'a self, entities: &'a [&'static EntityDesc]) -> BoxFuture<'a, Result<()>> {
        self.0.install(entities)
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

impl Outbox for Liar {
    fn open<'a>(&'a self, consumers: &'a [&'a str]) -> BoxFuture<'a, Result<()>> {
        self.0.outbox().expect("memory has one").open(consumers)
    }
    fn knows<'a>(&'a self, consumer: &'a str) -> BoxFuture<'a, Result<bool>> {
        self.0.outbox().expect("memory has one").knows(consumer)
    }
    fn waiting<'a>(
        &'a self,
        consumer: &'a str,
        given: &'a [i64],
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<(i64, Entry)>>> {
        Box::pin(async move {
            let mut waiting = self
                .0
                .outbox()
                .expect("memory has one")
                .waiting(consumer, given, limit)
                .await?;
            if let Lie::Events(whisper) = self.1 {
                whisper(&mut waiting);
            }
            Ok(waiting)
        })
    }
    fn settle<'a>(&'a self, consumer: &'a str, given: &'a [i64]) -> BoxFuture<'a, Result<()>> {
        self.0
            .outbox()
            .expect("memory has one")
            .settle(consumer, given)
    }
    fn prune<'a>(
        &'a self,
        consumers: &'a [&'a str],
        before: Timestamp,
        limit: usize,
    ) -> BoxFuture<'a, Result<usize>> {
        self.0
            .outbox()
            .expect("memory has one")
            .prune(consumers, before, limit)
    }
}
