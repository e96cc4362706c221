//! A store in a separate crate: records in a map, with one lock for all of them.
//!
//! It shows how to write a store. `docs/stores.md` explains it step by step. The crate depends only
//! on `linchpin-core`. Its tests run the conformance suite and serve an app over HTTP.
//!
//! - [`KIND`]: the capabilities of the store. An app reads them before it opens the store.
//! - [`ToyProvider`]: opens the store from a URL such as `toy:box`.
//! - [`ToyStore`]: runs statements.
//! - [`Toy`] and [`Shelf`]: the type of the store, and the handle for custom operations.

mod table;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use linchpin_core::entity::EntityDesc;
use linchpin_core::filter::eval::{Others, compare, matches_among};
use linchpin_core::filter::{Filter, Linked};
use linchpin_core::store::evaluate::Sight;
use linchpin_core::store::{
    CustomStore, DatabaseUrl, Pick, Plan, Reply, Rows, Statement, Store, StoreKind, StoreProvider,
};
use linchpin_core::{BoxFuture, Error, Result, Value, ValueRef};

use table::{Record, Table};

/// The facts of the store. It changes the records of one statement in one step, and has no
/// transactions. So it grants neither `transaction` nor the capabilities that need transactions.
pub static KIND: StoreKind = StoreKind::new("toy", &["toy"], "toy:<name>")
    .granting(&[
        "core.crud",
        "core.list",
        "operation.lookup",
        "operation.exists",
        "operation.aggregate",
        "operation.search",
        "operation.derive",
        "collection.list",
        "atomic.collection",
        "unique.reservation",
        "atomic.version",
        "atomic.transition",
        "atomic.field-update",
        "atomic.array",
        "atomic.increment",
        "atomic.upsert",
        "atomic.consume",
        "batch.write",
    ])
    .volatile();

/// Opens the store: `App::new(config).store_provider(ToyProvider)`.
#[derive(Clone, Copy, Debug)]
pub struct ToyProvider;

impl StoreProvider for ToyProvider {
    fn kind(&self) -> &'static StoreKind {
        &KIND
    }

    fn check(&self, url: &DatabaseUrl) -> Result<(), String> {
        match url.rest() {
            "" => Err("must have a name: `toy:<name>`".to_owned()),
            _ => Ok(()),
        }
    }

    fn open(&self, url: &DatabaseUrl) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(ToyStore::new(url.rest())))
    }
}

/// The store as a type: the functions of `handler(toy = ..)` take a `CustomCall<Entity, Toy>`.
#[derive(Debug)]
pub enum Toy {}

impl CustomStore for Toy {
    const NAME: &'static str = KIND.name;
    type Native = Shelf;
}

/// The records of a store. Functions of custom operations get it as their handle.
#[derive(Clone, Debug)]
pub struct Shelf {
    name: Arc<str>,
    tables: Arc<Mutex<Tables>>,
}

/// Every table by its name.
#[derive(Debug, Default)]
struct Tables(BTreeMap<&'static str, Table>);

impl Shelf {
    /// The name in the URL of the store.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of records in a table, including those that the caller may not read.
    pub fn len(&self, table: &str) -> usize {
        self.lock().0.get(table).map_or(0, Table::len)
    }

    /// Whether a table has no records.
    pub fn is_empty(&self, table: &str) -> bool {
        self.len(table) == 0
    }

    fn lock(&self) -> MutexGuard<'_, Tables> {
        // A statement replaces a table as a whole, so a panic cannot leave a partial change.
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A store of records in a map. The records are lost when the process ends.
#[derive(Debug)]
pub struct ToyStore {
    shelf: Shelf,
    closed: AtomicBool,
}

impl ToyStore {
    /// An empty store.
    pub fn new(name: &str) -> Self {
        Self {
            shelf: Shelf {
                name: name.into(),
                tables: Arc::default(),
            },
            closed: AtomicBool::new(false),
        }
    }

    fn open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            Err(Error::unavailable("the store is closed"))
        } else {
            Ok(())
        }
    }

    /// Runs a statement while it holds the lock.
    fn answer(&self, statement: &Statement, args: &[Value], mut rows: Rows) -> Result<Rows> {
        self.open()?;
        let entity = statement.entity;
        let mut tables = self.shelf.lock();
        let table = tables.0.get(entity.storage_name).cloned();
        let table = table.unwrap_or_default();
        // The statement changes a copy. If it fails, the table stays as it was.
        let mut changed = table.clone();
        {
            let sight = Sight {
                entity,
                records: table.records(),
                others: &*tables,
                args,
            };
            let picked = |filter: &Filter, pick: &Option<Pick>| -> Vec<Record> {
                let old = sight.picked(filter, pick.as_ref());
                old.into_iter().cloned().collect()
            };
            match &statement.plan {
                Plan::Insert => changed.insert(entity, args.to_vec(), &mut rows)?,
                Plan::Update { filter, set, pick } => {
                    let old = picked(filter, pick);
                    changed.change(entity, &old, set, args, &mut rows)?;
                }
                Plan::Delete { filter, pick } => {
                    changed.remove(entity, &picked(filter, pick), &mut rows);
                }
                Plan::Upsert { keys, filter, set } => {
                    match table.with_keys_of(entity, keys, args)? {
                        Some(old) if sight.matches(filter, &old) => {
                            changed.change(entity, &[old], set, args, &mut rows)?;
                        }
                        Some(_) => {}
                        None => changed.upsert(entity, args, &mut rows)?,
                    }
                }
                plan => {
                    sight.read(plan, &mut rows)?;
                    return Ok(rows);
                }
            }
        }
        tables.0.insert(entity.storage_name, changed);
        Ok(rows)
    }
}

/// Evaluates filters that read records of other entities.
impl Others for Tables {
    fn any(&self, linked: &Linked, value: ValueRef<'_>, args: &[Value]) -> bool {
        let Some(table) = self.0.get(linked.of.storage_name) else {
            return false;
        };
        table.records().any(|record| {
            compare(record[linked.at].as_ref(), value).is_eq()
                && matches_among(&linked.filter, &record[..], args, self)
        })
    }
}

impl Store for ToyStore {
    fn kind(&self) -> &'static StoreKind {
        &KIND
    }

    fn prepare(&self, entity: &'static EntityDesc, plan: Plan) -> Result<Arc<Statement>> {
        if matches!(plan, Plan::Chosen { .. }) {
            return Err(Error::internal("the toy store takes no SQL"));
        }
        // A store with a query language translates the plan here, once, into `native`.
        Ok(Arc::new(Statement {
            entity,
            plan,
            native: Box::new(()),
        }))
    }

    fn run<'a>(&'a self, statement: &'a Arc<Statement>, args: Vec<Value>, rows: Rows) -> Reply<'a> {
        // A store that has to wait returns `Reply::Later` with a future.
        Reply::Ready(self.answer(statement, &args, rows))
    }

    fn native(&self) -> Option<Box<dyn std::any::Any + Send + Sync>> {
        Some(Box::new(self.shelf.clone()))
    }

    fn ready(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { self.open() })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async { self.closed.store(true, Ordering::Release) })
    }
}
