//! One way to the store: every statement of CRUD and of operations is prepared and run here.
//!
//! What holds for every statement alike has its place in [`Statements::prepare`] and [`Statements::execute`], and cannot be
//! forgotten by a kind of operation: the store is private to this file.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::entity::EntityDesc;
use crate::store::{Plan, Reply, Rows, Statement, Store};
use crate::{Cx, Result, Value};

/// Most statements kept per entity for shapes that requests choose (filters of lists, fields of patches).
const SHAPES: usize = 512;

/// A statement that is ready to run.
#[derive(Clone)]
pub struct Prepared {
    statement: Arc<Statement>,
}

/// The statements of one mounted entity.
pub(super) struct Statements {
    desc: &'static EntityDesc,
    store: Arc<dyn Store>,
    shapes: RwLock<HashMap<Box<[u8]>, Prepared>>,
}

impl Statements {
    pub(super) fn new(desc: &'static EntityDesc, store: Arc<dyn Store>) -> Self {
        Self { desc, store, shapes: RwLock::default() }
    }

    /// `memory`, `sqlite` and so on.
    pub(super) fn store_name(&self) -> &'static str {
        self.store.name()
    }

    /// A statement of a route: `get`, `list` and so on, or the name of an operation.
    pub(super) fn prepare(&self, _route: &str, plan: Plan) -> Result<Prepared> {
        Ok(Prepared { statement: self.store.prepare(self.desc, plan)? })
    }

    /// The statement of a shape that requests choose, prepared on first use.
    pub(super) fn shape(&self, route: &str, key: &[u8], plan: impl FnOnce() -> Plan) -> Result<Prepared> {
        if let Some(prepared) = self.shapes.read().get(key) {
            return Ok(prepared.clone());
        }
        let prepared = self.prepare(route, plan())?;
        let mut shapes = self.shapes.write();
        if shapes.len() >= SHAPES {
            // Clients choose shapes; forgetting all of them bounds memory, and the common ones are back at once.
            shapes.clear();
        }
        shapes.insert(key.into(), prepared.clone());
        Ok(prepared)
    }

    /// Runs a statement; `args` fill the plan's argument slots.
    pub(super) fn execute<'a>(&'a self, cx: &Cx, prepared: &'a Prepared, args: Vec<Value>, rows: Rows) -> Reply<'a> {
        let Some(transaction) = cx.in_transaction() else { return self.store.run(&prepared.statement, args, rows) };
        let transaction = Arc::clone(transaction);
        Reply::Later(Box::pin(async move { transaction.run(&self.store, &prepared.statement, args, rows).await }))
    }
}
