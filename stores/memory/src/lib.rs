//! The in-memory store: the reference model for all other stores.
//!
//! It defines the meaning of each [`Plan`] with simple code, and shares no code with the SQL
//! stores. One lock per table makes every statement atomic. All data is lost when the process ends.

mod others;
mod outbox;
mod provider;
mod table;
mod transaction;

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;

use self::others::LockedTable;
pub use self::provider::{KIND, MemoryProvider, OnMemory};
use self::table::Table;
use linchpin_core::entity::EntityDesc;
use linchpin_core::store::{Outbox, Plan, Reply, Rows, Statement, Store, StoreKind, Transaction};
use linchpin_core::{Error, Result, Value};

/// Records in ordered maps, one per entity.
///
/// For tests, prototypes and caches. Every call returns immediately, unless it waits for the end of
/// a transaction.
#[derive(Debug, Default)]
pub struct Memory {
    tables: RwLock<HashMap<&'static str, Arc<Table>>>,
    outbox: Arc<outbox::Queue>,
    closed: AtomicBool,
    /// A transaction holds the write lock; other statements hold the read lock.
    transaction_lock: Arc<tokio::sync::RwLock<()>>,
}

impl Memory {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            Err(Error::unavailable("the store is closed"))
        } else {
            Ok(())
        }
    }

    /// Returns the table of an entity; creates it on first use.
    fn table(&self, entity: &'static EntityDesc) -> Arc<Table> {
        if let Some(table) = self.tables.read().get(entity.storage_name) {
            return Arc::clone(table);
        }
        let mut tables = self.tables.write();
        Arc::clone(
            tables
                .entry(entity.storage_name)
                .or_insert_with(|| Arc::new(Table::new(entity, Arc::clone(&self.outbox)))),
        )
    }

    /// Runs a statement. It locks all of its tables, in the order of their names.
    fn answer(statement: &Statement, args: Vec<Value>, mut rows: Rows) -> Result<Rows> {
        let Native { table, others } = native_of(statement)?;
        let own = table.entity().storage_name;
        let (before, after) =
            others.split_at(others.partition_point(|other| other.entity().storage_name < own));
        let mut locked: Vec<LockedTable<'_>> = before.iter().map(LockedTable::of).collect();
        if statement.plan.reads() {
            let data = table.read();
            locked.extend(after.iter().map(LockedTable::of));
            table.run(&data, &locked, &statement.plan, &args, &mut rows)?;
            return Ok(rows);
        }
        let mut data = table.write();
        locked.extend(after.iter().map(LockedTable::of));
        let change = (&mut *data, &locked[..]);
        match &statement.plan {
            Plan::Insert => table.insert(change.0, args, &mut rows)?,
            Plan::Update { filter, set, pick } => {
                table.update(change, (filter, pick.as_ref()), set, &args, &mut rows)?;
            }
            Plan::Delete { filter, pick } => {
                table.delete(change, filter, pick.as_ref(), &args, &mut rows);
            }
            Plan::Upsert { keys, filter, set } => {
                table.upsert(change, keys, (filter, set), &args, &mut rows)?;
            }
            Plan::Select { .. }
            | Plan::Related { .. }
            | Plan::Chosen { .. }
            | Plan::Exists { .. }
            | Plan::Hold { .. }
            | Plan::Lock { .. }
            | Plan::Aggregate { .. } => {}
        }
        Ok(rows)
    }
}

/// The table of a statement, and the tables in its conditions in the order of their names.
struct Native {
    table: Arc<Table>,
    others: Box<[Arc<Table>]>,
}

/// Returns the form of a statement that this store has prepared.
fn native_of(statement: &Statement) -> Result<&Native> {
    statement
        .native
        .downcast_ref()
        .ok_or_else(|| Error::internal("the statement was prepared by another store"))
}

impl Store for Memory {
    fn kind(&self) -> &'static StoreKind {
        &KIND
    }

    fn may_take_long(&self, _: &Statement) -> bool {
        false
    }

    fn computes(&self, _: bool) -> bool {
        false
    }

    fn prepare(&self, entity: &'static EntityDesc, plan: Plan) -> Result<Arc<Statement>> {
        if matches!(plan, Plan::Chosen { .. }) {
            return Err(Error::internal("the memory store does not support SQL"));
        }
        let others = others::other_entities(entity, &plan)
            .into_iter()
            .map(|other| self.table(other))
            .collect();
        let native = Native {
            table: self.table(entity),
            others,
        };
        Ok(Arc::new(Statement {
            entity,
            plan,
            native: Box::new(native),
        }))
    }

    fn run<'a>(&'a self, statement: &'a Arc<Statement>, args: Vec<Value>, rows: Rows) -> Reply<'a> {
        if let Ok(_open) = self.transaction_lock.try_read() {
            return Reply::Ready(
                self.check_open()
                    .and_then(|()| Self::answer(statement, args, rows)),
            );
        }
        Reply::Later(Box::pin(async move {
            let _open = self.transaction_lock.read().await;
            self.check_open()
                .and_then(|()| Self::answer(statement, args, rows))
        }))
    }

    fn begin(&self) -> linchpin_core::BoxFuture<'_, Result<Box<dyn Transaction>>> {
        Box::pin(async move {
            let lock = Arc::clone(&self.transaction_lock).write_owned().await;
            self.check_open()?;
            Ok(Box::new(transaction::ExclusiveTransaction::new(
                lock,
                Arc::clone(&self.outbox),
            )) as Box<dyn Transaction>)
        })
    }

    fn outbox(&self) -> Option<&dyn Outbox> {
        Some(&*self.outbox)
    }

    fn ready(&self) -> Pin<Box<dyn Future<Output = Result<()>> + Send + '_>> {
        Box::pin(async { self.check_open() })
    }

    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async { self.closed.store(true, Ordering::Release) })
    }
}

#[cfg(test)]
mod tests;
