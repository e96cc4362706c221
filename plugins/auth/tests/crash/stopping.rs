//! A store that stops at a chosen write: it waits there until the process is killed, or it refuses
//! this write and all later ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use linchpin::store::{Plan, Reply, Rows, Statement, Store, Transaction};
use linchpin::{BoxFuture, Error, Result, Value};

use crate::around::{Around, Watch};

/// The point at which the server stops, and the way it stops.
pub struct Stop {
    /// The number of points until the stop. A negative number means that it has stopped;
    /// `i64::MAX` means never.
    left: AtomicI64,
    /// Called at this point and at every later one. Its result selects the behaviour there.
    reached: Box<dyn Fn() -> Then + Send + Sync>,
}

/// The behaviour at this point, and at all later ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// The store waits for ever.
    Wait,
    /// The store returns an error.
    Fail,
}

impl Stop {
    pub fn new(reached: impl Fn() -> Then + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            left: AtomicI64::new(i64::MAX),
            reached: Box::new(reached),
        })
    }

    /// Stops after this number of points.
    pub fn after(&self, points: i64) {
        self.left.store(points, Ordering::SeqCst);
    }

    /// Lets the store work again, without a stop.
    pub fn never(&self) {
        self.left.store(i64::MAX, Ordering::SeqCst);
    }

    /// Whether it has stopped.
    pub fn has_stopped(&self) -> bool {
        self.left.load(Ordering::SeqCst) < 0
    }

    async fn point(&self) -> Result<()> {
        if self.left.load(Ordering::SeqCst) == i64::MAX
            || self.left.fetch_sub(1, Ordering::SeqCst) > 0
        {
            return Ok(());
        }
        match (self.reached)() {
            Then::Wait => std::future::pending().await,
            Then::Fail => Err(Error::unavailable("the store fails at this point")),
        }
    }
}

/// Wraps a store, with points before each write, and before and after each commit.
pub fn stopping(store: impl Store, stop: &Arc<Stop>) -> Arc<dyn Store> {
    Arc::new(Around::new(Arc::new(store), Arc::clone(stop)))
}

impl Watch for Arc<Stop> {
    fn run<'a>(
        &'a self,
        store: &'a dyn Store,
        statement: &'a Arc<Statement>,
        args: Vec<Value>,
        rows: Rows,
    ) -> Reply<'a> {
        if !is_write(statement) {
            return store.run(statement, args, rows);
        }
        Reply::Later(Box::pin(async move {
            self.point().await?;
            store.run(statement, args, rows).await
        }))
    }

    fn wrap_transaction(&self, inner: Box<dyn Transaction>) -> Box<dyn Transaction> {
        Box::new(Within {
            inner,
            stop: Arc::clone(self),
        })
    }
}

fn is_write(statement: &Statement) -> bool {
    matches!(
        statement.plan,
        Plan::Insert | Plan::Update { .. } | Plan::Delete { .. } | Plan::Upsert { .. }
    )
}

struct Within {
    inner: Box<dyn Transaction>,
    stop: Arc<Stop>,
}

impl Transaction for Within {
    fn run<'a>(
        &'a mut self,
        statement: &'a Arc<Statement>,
        args: Vec<Value>,
        rows: Rows,
    ) -> BoxFuture<'a, Result<Rows>> {
        Box::pin(async move {
            if is_write(statement) {
                self.stop.point().await?;
            }
            self.inner.run(statement, args, rows).await
        })
    }

    fn commit(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        Box::pin(async move {
            let Self { inner, stop } = *self;
            stop.point().await?;
            inner.commit().await?;
            // The commit has happened, and the caller has no response yet. A process is killed
            // here; a failing store cannot fail after its commit.
            match stop.point().await {
                Err(_) => Ok(()),
                done => done,
            }
        })
    }

    fn rollback(self: Box<Self>) -> BoxFuture<'static, ()> {
        self.inner.rollback()
    }
}
