//! Tests of the schema on a real server.

mod compare;
mod generated;
mod locks;
mod pooler;
mod session;

use linchpin_core::schema::{
    Action, Column, ColumnKind, Index, IndexKey, Only, Table, Tables, TransactionMode,
};

use super::session::Session;
use crate::tests::server;
use crate::{PostgresOptions, PostgresStore};

/// A store in an empty schema.
fn store() -> PostgresStore {
    PostgresStore::open(PostgresOptions::new(server::fresh_url())).expect("opened")
}

/// A store in an empty database.
fn store_apart() -> PostgresStore {
    PostgresStore::open(PostgresOptions::new(server::fresh_database())).expect("opened")
}

/// A session of a store.
async fn session(store: &PostgresStore) -> Session {
    store.schema.session().await.expect("a session")
}

/// Performs an action, in a transaction if it needs one, and changes the model.
async fn perform(
    session: &mut Session,
    action: &Action,
    tables: &mut Tables,
) -> Result<(), linchpin_core::schema::SchemaError> {
    session.perform(action, tables).await?;
    action.apply(tables);
    Ok(())
}

/// Creates a table with its indexes.
async fn create(session: &mut Session, table: &Table, tables: &mut Tables) {
    let action = Action::CreateTable {
        table: table.clone(),
    };
    perform(session, &action, tables).await.expect("created");
    for index in &table.indexes {
        let action = Action::CreateIndex {
            table: table.name.clone(),
            index: index.clone(),
            concurrently: false,
        };
        perform(session, &action, tables).await.expect("indexed");
    }
}

/// Compares the model with the database.
async fn compare(session: &mut Session, tables: &Tables) -> Vec<linchpin_core::schema::Difference> {
    let all: Vec<&Table> = tables.values().collect();
    session.compare(&all).await.expect("compared")
}

/// Runs a statement of a test.
async fn run(session: &mut Session, sql: &str) {
    session.run(sql).await.expect(sql);
}

/// A session with an open transaction that has read the table.
async fn reader(store: &PostgresStore, table: &str) -> Session {
    let mut other = session(store).await;
    other.begin(TransactionMode::Read).await.expect("begun");
    run(&mut other, &format!("SELECT count(*) FROM {table}")).await;
    other
}

fn column(name: &str, kind: ColumnKind) -> Column {
    Column {
        name: name.to_owned(),
        kind,
        optional: false,
        default: None,
    }
}

fn key(column: &str) -> IndexKey {
    IndexKey {
        column: column.to_owned(),
        desc: false,
    }
}

fn index(name: &str, columns: &[&str], unique: bool) -> Index {
    Index {
        name: name.to_owned(),
        unique,
        keys: columns.iter().map(|column| key(column)).collect(),
        only: Vec::new(),
    }
}

fn texts(all: &[&str]) -> Vec<String> {
    all.iter().map(|&text| text.to_owned()).collect()
}

/// A table with every kind of column, and a partial unique index.
fn tasks() -> Table {
    let optional = |name, kind| Column {
        optional: true,
        ..column(name, kind)
    };
    Table {
        name: "tasks".to_owned(),
        primary: "id".to_owned(),
        columns: vec![
            column("id", ColumnKind::Integer),
            column("title", ColumnKind::String),
            column("status", ColumnKind::Enum(texts(&["done", "open"]))),
            column("urgent", ColumnKind::Boolean),
            optional("rank", ColumnKind::Integer),
            optional("ratio", ColumnKind::Number),
            optional("due", ColumnKind::Date),
            column("tags", ColumnKind::StringArray),
            optional("more", ColumnKind::Json),
        ],
        indexes: vec![
            Index {
                only: vec![
                    Only::Differs("status".to_owned(), "done".to_owned()),
                    Only::Null("due".to_owned()),
                ],
                ..index("ux_tasks_title", &["title", "rank"], true)
            },
            Index {
                keys: vec![
                    IndexKey {
                        desc: true,
                        ..key("rank")
                    },
                    IndexKey {
                        desc: true,
                        ..key("id")
                    },
                ],
                ..index("ix_tasks_rank", &[], false)
            },
        ],
        checks: Vec::new(),
    }
}
