//! Rows in every table, which the test writes and reads without the app.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use linchpin::schema::{Column, ColumnKind, SchemaSession, SchemaStore, Snapshot, Table};
use linchpin::store::{DatabaseUrl, StoreProvider as _};
use linchpin::{Timestamp, Value};
use linchpin_migrate::{Chain, Declared, Installed, Options, apply};

/// The values of a record, by the names of its fields.
pub type Record = BTreeMap<String, Value>;

/// A connection to a database, without the app.
pub struct Database {
    store: Arc<dyn SchemaStore>,
    runtime: tokio::runtime::Runtime,
}

/// The primary key of every row that the test writes.
const KEY: &str = "kept";

impl Database {
    pub fn new(url: &str) -> Self {
        let database = DatabaseUrl::new(url);
        let store = if url.starts_with("sqlite:") {
            linchpin_sqlite::SqliteProvider::default().schema(&database)
        } else {
            linchpin_postgres::PostgresProvider::default().schema(&database)
        };
        Self {
            store: store.expect("a store").expect("a schema"),
            runtime: tokio::runtime::Runtime::new().expect("a runtime"),
        }
    }

    fn with_session<T>(&self, work: impl AsyncFnOnce(&mut dyn SchemaSession) -> T) -> T {
        self.runtime.block_on(async {
            let mut session = self.store.connect().await.expect("a session");
            work(&mut *session).await
        })
    }

    /// Creates the tables of the only migration in a folder, as an older binary did.
    pub fn install(&self, folder: &Path) {
        let chain = Chain::load(folder).expect("a chain");
        let declared = Declared {
            app: "tasks".to_owned(),
            entities: Vec::new(),
            system: Vec::new(),
            transforms: Vec::new(),
            own_sql: Vec::new(),
            operations: Vec::new(),
            snapshot: chain.snapshot(),
        };
        let options = Options::default();
        let done = self.runtime.block_on(apply(
            &*self.store,
            (&chain, &declared),
            &options,
            &mut |_| (),
        ));
        done.unwrap_or_else(|refusal| panic!("{refusal} {:?}", refusal.facts));
    }

    /// The records of an entity of a snapshot, in the order of their keys.
    pub fn records(&self, snapshot: &Snapshot, entity: &str) -> Vec<Record> {
        let table = snapshot.tables().remove(entity).expect("a table");
        let columns: Vec<String> = table.columns.iter().map(quoted).collect();
        let sql = format!(
            "SELECT {} FROM \"{entity}\" ORDER BY \"{}\"",
            columns.join(", "),
            table.primary
        );
        let kinds: Vec<ColumnKind> = table.columns.iter().map(|c| c.kind.clone()).collect();
        let rows = self.with_session(async |session| {
            let rows = session.query(&sql, &[], &kinds).await;
            rows.unwrap_or_else(|error| panic!("{sql}: {error}"))
        });
        let fields = &snapshot.entities[entity].fields;
        let name = |column: &Column| {
            let field = fields.iter().find(|(_, field)| field.column == column.name);
            field.expect("a field").0.clone()
        };
        let names: Vec<String> = table.columns.iter().map(name).collect();
        rows.into_iter()
            .map(|row| names.iter().cloned().zip(row).collect())
            .collect()
    }

    /// Writes a record of an entity of a snapshot. `record` must have all fields of the entity, and
    /// may have more.
    pub fn insert(&self, snapshot: &Snapshot, entity: &str, record: &Record) {
        let table = snapshot.tables().remove(entity).expect("a table");
        let (mut columns, mut slots, mut values) = (Vec::new(), Vec::new(), Vec::new());
        for (name, field) in &snapshot.entities[entity].fields {
            let column = table.column(&field.column).expect("a column");
            let value = record.get(name).cloned();
            values.push((
                value.unwrap_or_else(|| panic!("{entity}.{name}")),
                column.kind.clone(),
            ));
            columns.push(quoted(column));
            slots.push(format!("${}", values.len()));
        }
        let sql = format!(
            "INSERT INTO \"{entity}\" ({}) VALUES ({})",
            columns.join(", "),
            slots.join(", ")
        );
        self.with_session(async |session| {
            let done = session.execute(&sql, &values).await;
            done.unwrap_or_else(|error| panic!("{sql}: {error}"));
        });
    }

    /// The ledger as texts, without the values that differ between two databases with equal
    /// migrations: ids, digests of plans, times, and numbers of attempts and rows.
    pub fn ledger(&self) -> Vec<String> {
        let installed = self.with_session(async |session| Installed::load(session).await);
        let installed = installed.expect("a ledger");
        let ledger = installed.ledger().expect("a ledger");
        let window = (ledger.seq, ledger.min_seq, ledger.max_seq);
        let mut all = vec![format!("{window:?} {} {:?}", ledger.digest, ledger.names)];
        for (seq, one) in &ledger.migrations {
            let (digest, state) = (&one.digest, one.state.name());
            all.push(format!(
                "{seq} {} {digest} {state} {}",
                one.name, one.document
            ));
        }
        for (id, step) in &ledger.steps {
            let (state, class) = (step.state.name(), step.class.name());
            let failed = (step.rows_failed, &step.error);
            all.push(format!("{id} {} {class} {state} {failed:?}", step.digest));
        }
        all
    }

    /// Removes the tables of the ledger.
    pub fn drop_ledger(&self) {
        for table in ["schema", "migrations", "migration_steps", "instances"] {
            self.with_session(async |session| {
                let sql = format!("DROP TABLE linchpin_{table}");
                session.execute(&sql, &[]).await.expect("dropped");
            });
        }
    }

    /// Writes a row into every table of a snapshot, except some tables.
    pub fn fill(&self, snapshot: &Snapshot, except: &[&str]) {
        for table in tables_except(snapshot, except) {
            let names: Vec<String> = table.columns.iter().map(quoted).collect();
            let slots: Vec<String> = (1..=names.len()).map(|n| format!("${n}")).collect();
            let sql = format!(
                "INSERT INTO \"{}\" ({}) VALUES ({})",
                table.name,
                names.join(", "),
                slots.join(", ")
            );
            let values: Vec<(Value, ColumnKind)> = table
                .columns
                .iter()
                .map(|column| (sample_value(&column.kind), column.kind.clone()))
                .collect();
            self.with_session(async |session| {
                let done = session.execute(&sql, &values).await;
                done.unwrap_or_else(|error| panic!("{sql}: {error}"));
            });
        }
    }

    /// The rows of [`fill`](Self::fill): the name of the table and the values.
    pub fn rows(&self, snapshot: &Snapshot, except: &[&str]) -> Vec<(String, Vec<Value>)> {
        let read = |table: Table| {
            let names: Vec<String> = table.columns.iter().map(quoted).collect();
            let sql = format!(
                "SELECT {} FROM \"{}\" WHERE \"{}\" = $1",
                names.join(", "),
                table.name,
                table.primary
            );
            let key = [(Value::Text(KEY.to_owned()), ColumnKind::String)];
            let kinds: Vec<ColumnKind> = table.columns.iter().map(|c| c.kind.clone()).collect();
            let mut rows = self.with_session(async |session| {
                let rows = session.query(&sql, &key, &kinds).await;
                rows.unwrap_or_else(|error| panic!("{sql}: {error}"))
            });
            assert_eq!(rows.len(), 1, "{}", table.name);
            (table.name, rows.remove(0))
        };
        tables_except(snapshot, except).map(read).collect()
    }
}

fn tables_except<'a>(
    snapshot: &Snapshot,
    except: &'a [&str],
) -> impl Iterator<Item = Table> + use<'a> {
    let tables = snapshot.tables().into_values();
    tables.filter(move |table| !except.contains(&table.name.as_str()))
}

fn quoted(column: &Column) -> String {
    format!("\"{}\"", column.name)
}

/// A value of a column type. The dates are in the year 2100, so no scheduled work of the app is
/// due.
fn sample_value(kind: &ColumnKind) -> Value {
    match kind {
        ColumnKind::String => Value::Text(KEY.to_owned()),
        ColumnKind::Enum(values) => Value::Text(values[0].clone()),
        ColumnKind::Boolean => Value::Bool(true),
        ColumnKind::Integer => Value::Int(1),
        ColumnKind::Number => Value::Float(0.5),
        ColumnKind::Date => Value::Date(Timestamp::from_millis(4_102_444_800_000)),
        ColumnKind::StringArray => Value::Strings(vec![KEY.to_owned()]),
        ColumnKind::Json => Value::Json("{}".to_owned()),
    }
}
