//! A store in which all tables and columns have other names than declared, as during a migration
//! that renames them.

use std::any::Any;
use std::sync::Arc;

use linchpin_core::entity::EntityDesc;
use linchpin_core::schema::ColumnKind;
use linchpin_core::store::create_tables;
use linchpin_core::store::{
    Filler, LockWait, Names, Outbox, Plan, RefreshNames, Reply, Rows, SqlDriver, Statement, Store,
    StoreKind, TableNames, Transaction,
};
use linchpin_core::{BoxFuture, Result, Value};

/// A column that belongs to no field, as after the removal of a required field. Statements that add
/// a record write a fixed value to it.
pub const FILLER: &str = "left_over";

/// Runs statements on the database of a store.
pub type Execute<S> = fn(&S, Vec<String>) -> BoxFuture<'_, Result<()>>;

/// A SQL store in which all tables and columns have other names than declared. Each table also has
/// the column [`FILLER`]. [`ready`](Store::ready) creates the tables.
pub struct RenamedStore<S> {
    store: S,
    entities: Vec<&'static EntityDesc>,
    execute: Execute<S>,
    created: tokio::sync::OnceCell<()>,
}

impl<S> RenamedStore<S> {
    /// Wraps an empty store. `entities` are the entities whose tables it creates.
    pub fn new(store: S, entities: Vec<&'static EntityDesc>, execute: Execute<S>) -> Self {
        Self {
            store,
            entities,
            execute,
            created: tokio::sync::OnceCell::new(),
        }
    }
}

impl<S: Store> RenamedStore<S> {
    async fn create(&self) -> Result<()> {
        create_tables(&self.store, &self.entities).await?;
        let (names, statements) = renamed(&self.entities);
        (self.execute)(&self.store, statements).await?;
        self.store.set_names(Arc::new(names));
        Ok(())
    }
}

/// The earlier name of a table or column.
fn earlier(name: &str) -> String {
    format!("was {name}")
}

/// The earlier names of entities, and the statements that rename their tables and columns to them.
#[must_use]
pub fn renamed(entities: &[&'static EntityDesc]) -> (Names, Vec<String>) {
    let (mut names, mut statements) = (Names::default(), Vec::new());
    names.epoch = 1;
    for entity in entities {
        let table = entity.storage_name;
        let mut own = TableNames::new(earlier(table));
        for field in entity.fields {
            let column = earlier(field.column);
            statements.push(format!(
                "ALTER TABLE \"{table}\" RENAME COLUMN \"{}\" TO \"{column}\"",
                field.column
            ));
            own = own.with_column(field.name, column);
        }
        statements.push(format!(
            "ALTER TABLE \"{table}\" ADD COLUMN \"{FILLER}\" TEXT CHECK (\"{FILLER}\" IS NOT NULL)"
        ));
        statements.push(format!(
            "ALTER TABLE \"{table}\" RENAME TO \"{}\"",
            earlier(table)
        ));
        own.fillers.push(Filler {
            column: FILLER.to_owned(),
            value: Value::Text("none".to_owned()),
            kind: ColumnKind::String,
        });
        names.tables.insert(table.to_owned(), own);
    }
    (names, statements)
}

/// The statements that end the renaming: tables and columns get their declared names, and the
/// column without a field is dropped.
#[must_use]
pub fn contracted(entities: &[&'static EntityDesc]) -> Vec<String> {
    let mut statements = Vec::new();
    for entity in entities {
        let table = entity.storage_name;
        statements.push(format!(
            "ALTER TABLE \"{}\" RENAME TO \"{table}\"",
            earlier(table)
        ));
        statements.extend(entity.fields.iter().map(|field| {
            format!(
                "ALTER TABLE \"{table}\" RENAME COLUMN \"{}\" TO \"{}\"",
                earlier(field.column),
                field.column
            )
        }));
        statements.push(format!("ALTER TABLE \"{table}\" DROP COLUMN \"{FILLER}\""));
    }
    statements
}

impl<S: Store> Store for RenamedStore<S> {
    fn kind(&self) -> &'static StoreKind {
        self.store.kind()
    }

    fn prepare(&self, entity: &'static EntityDesc, plan: Plan) -> Result<Arc<Statement>> {
        self.store.prepare(entity, plan)
    }

    fn run<'a>(&'a self, statement: &'a Arc<Statement>, args: Vec<Value>, rows: Rows) -> Reply<'a> {
        self.store.run(statement, args, rows)
    }

    fn may_take_long(&self, statement: &Statement) -> bool {
        self.store.may_take_long(statement)
    }

    fn computes(&self, last: bool) -> bool {
        self.store.computes(last)
    }

    fn begin_with(&self, lock_wait: LockWait) -> BoxFuture<'_, Result<Box<dyn Transaction>>> {
        self.store.begin_with(lock_wait)
    }

    fn begin(&self) -> BoxFuture<'_, Result<Box<dyn Transaction>>> {
        self.store.begin()
    }

    fn native(&self) -> Option<Box<dyn Any + Send + Sync>> {
        self.store.native()
    }

    fn sql(&self) -> Option<Arc<dyn SqlDriver>> {
        self.store.sql()
    }

    fn outbox(&self) -> Option<&dyn Outbox> {
        self.store.outbox()
    }

    fn set_names(&self, names: Arc<Names>) {
        self.store.set_names(names);
    }

    fn on_stale_names(&self, refresh: RefreshNames) {
        self.store.on_stale_names(refresh);
    }

    fn ready(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            self.created.get_or_try_init(|| self.create()).await?;
            self.store.ready().await
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.store.close()
    }
}
