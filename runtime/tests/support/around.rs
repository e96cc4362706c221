//! A store around another store: every call is forwarded to the inner store through an observer
//! that counts, waits or refuses.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use linchpin::entity::EntityDesc;
use linchpin::schema::SchemaStore;
use linchpin::store::{
    LockWait, Names, Outbox, Plan, RefreshNames, Reply, Rows, SqlDriver, Statement, Store,
    StoreKind, Transaction,
};
use linchpin::{BoxFuture, Result, Value};

/// An observer between the caller and the inner store.
pub trait Watch: Send + Sync + 'static {
    /// Runs a statement outside of transactions.
    fn run<'a>(
        &'a self,
        store: &'a dyn Store,
        statement: &'a Arc<Statement>,
        args: Vec<Value>,
        rows: Rows,
    ) -> Reply<'a>;

    /// Returns the transaction that the caller gets.
    fn wrap_transaction(&self, transaction: Box<dyn Transaction>) -> Box<dyn Transaction> {
        transaction
    }
}

/// Counts every statement outside of transactions.
impl Watch for Arc<AtomicUsize> {
    fn run<'a>(
        &'a self,
        store: &'a dyn Store,
        statement: &'a Arc<Statement>,
        args: Vec<Value>,
        rows: Rows,
    ) -> Reply<'a> {
        self.fetch_add(1, Ordering::SeqCst);
        store.run(statement, args, rows)
    }
}

pub struct Around<W> {
    store: Arc<dyn Store>,
    watch: W,
}

impl<W: Watch> Around<W> {
    pub fn new(store: Arc<dyn Store>, watch: W) -> Self {
        Self { store, watch }
    }
}

impl<W: Watch> Store for Around<W> {
    fn kind(&self) -> &'static StoreKind {
        self.store.kind()
    }

    fn prepare(&self, entity: &'static EntityDesc, plan: Plan) -> Result<Arc<Statement>> {
        self.store.prepare(entity, plan)
    }

    fn run<'a>(&'a self, statement: &'a Arc<Statement>, args: Vec<Value>, rows: Rows) -> Reply<'a> {
        self.watch.run(&*self.store, statement, args, rows)
    }

    fn may_take_long(&self, statement: &Statement) -> bool {
        self.store.may_take_long(statement)
    }

    fn computes(&self, last: bool) -> bool {
        self.store.computes(last)
    }

    fn begin(&self) -> BoxFuture<'_, Result<Box<dyn Transaction>>> {
        Box::pin(async { Ok(self.watch.wrap_transaction(self.store.begin().await?)) })
    }

    fn begin_with(&self, lock_wait: LockWait) -> BoxFuture<'_, Result<Box<dyn Transaction>>> {
        Box::pin(async move {
            Ok(self
                .watch
                .wrap_transaction(self.store.begin_with(lock_wait).await?))
        })
    }

    fn native(&self) -> Option<Box<dyn std::any::Any + Send + Sync>> {
        self.store.native()
    }

    fn sql(&self) -> Option<Arc<dyn SqlDriver>> {
        self.store.sql()
    }

    fn outbox(&self) -> Option<&dyn Outbox> {
        self.store.outbox()
    }

    fn schema(&self) -> Option<&dyn SchemaStore> {
        self.store.schema()
    }

    fn set_names(&self, names: Arc<Names>) {
        self.store.set_names(names);
    }

    fn on_stale_names(&self, refresh: RefreshNames) {
        self.store.on_stale_names(refresh);
    }

    fn ready(&self) -> Pin<Box<dyn Future<Output = Result<()>> + Send + '_>> {
        self.store.ready()
    }

    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.store.close()
    }
}
