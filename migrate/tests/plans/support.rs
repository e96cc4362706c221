//! Databases, snapshots and chains for the cases.
#![allow(dead_code)] // each module uses its part

use std::sync::Arc;
use std::time::Duration;

use linchpin_core::entity::TransformDesc;
use linchpin_core::schema::{ColumnKind, SchemaSession, SchemaStore, Snapshot, Table};
use linchpin_core::store::{DatabaseUrl, StoreProvider};
use linchpin_core::{Timestamp, Value};
use linchpin_migrate::{
    Applied, Chain, Declared, Installed, Ledger, Options, Phase, Plan, Refusal, apply,
};
use linchpin_postgres::PostgresProvider;
use linchpin_sqlite::SqliteProvider;
use serde_json::{Value as Json, json};

use self::shared::snapshot;
pub use self::shared::{Link, function, to_text};

#[path = "../support/mod.rs"]
mod shared;

/// Makes two tests of each case: `sqlite::case` and `postgres::case`.
macro_rules! on_both_stores {
    ($($case:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                super::$case(&crate::support::Database::sqlite()).await;
            })+
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                super::$case(&crate::support::Database::postgres()).await;
            })+
        }
    };
}

/// A database of a test.
pub struct Database {
    pub store: Arc<dyn SchemaStore>,
    /// The temporary folder of a SQLite file; `None` on a server.
    pub folder: Option<tempfile::TempDir>,
    pub url: String,
    /// The functions of the app.
    pub transforms: Vec<&'static TransformDesc>,
}

impl Database {
    pub fn sqlite() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let url = format!("sqlite:{}", folder.path().join("app.db").display());
        let store = SqliteProvider::default().schema(&DatabaseUrl::new(url.as_str()));
        Self {
            store: store.expect("a store").expect("a schema"),
            folder: Some(folder),
            url,
            transforms: Vec::new(),
        }
    }

    pub fn postgres() -> Self {
        Self::server(crate::server::fresh_database())
    }

    fn server(url: String) -> Self {
        let store = PostgresProvider::default().schema(&DatabaseUrl::new(url.as_str()));
        Self {
            store: store.expect("a store").expect("a schema"),
            folder: None,
            url,
            transforms: Vec::new(),
        }
    }

    /// Another empty database of the same store.
    pub fn another(&self) -> Self {
        if self.is_sqlite() {
            Self::sqlite()
        } else {
            Self::postgres()
        }
    }

    /// A copy of the database, as a backup would restore it.
    pub async fn copy(&self) -> Self {
        let Some((address, settings)) = self.url.split_once('?') else {
            let copy = Self::sqlite();
            let file = copy.url.trim_start_matches("sqlite:");
            self.execute(&format!("VACUUM INTO '{file}'")).await;
            return copy;
        };
        let (server, name) = address.rsplit_once('/').expect("a database");
        let sql = format!("CREATE DATABASE {name}_copy TEMPLATE {name}");
        crate::server::execute(&format!("{server}/postgres?{settings}"), &sql).expect("a copy");
        Self::server(format!("{server}/{name}_copy?{settings}"))
    }

    pub fn is_sqlite(&self) -> bool {
        self.url.starts_with("sqlite:")
    }

    /// The same database for an app with these functions.
    pub fn with(&self, transforms: &[&'static TransformDesc]) -> Self {
        Self {
            store: Arc::clone(&self.store),
            folder: None,
            url: self.url.clone(),
            transforms: transforms.to_vec(),
        }
    }

    pub fn declared(&self, chain: &Chain) -> Declared {
        shared::declared(chain, &self.transforms)
    }

    pub async fn session(&self) -> Box<dyn SchemaSession> {
        self.store.connect().await.expect("a session")
    }

    /// Runs a statement.
    pub async fn execute(&self, sql: &str) {
        let mut session = self.session().await;
        let done = session.execute(sql, &[]).await;
        done.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    /// The values of the only column of a query, as texts.
    pub async fn texts(&self, sql: &str) -> Vec<String> {
        let mut session = self.session().await;
        let rows = session.query(sql, &[], &[ColumnKind::String]).await;
        let rows = rows.unwrap_or_else(|error| panic!("{sql}: {error}"));
        let text = |value: Value| match value {
            Value::Text(text) => text,
            other => format!("{other:?}"),
        };
        rows.into_iter().flatten().map(text).collect()
    }

    /// The number that a query returns.
    pub async fn number(&self, sql: &str) -> i64 {
        let mut session = self.session().await;
        let rows = session.query(sql, &[], &[ColumnKind::Integer]).await;
        let rows = rows.unwrap_or_else(|error| panic!("{sql}: {error}"));
        rows[0][0].as_int().expect("a number")
    }

    pub async fn ledger(&self) -> Ledger {
        let mut session = self.session().await;
        let installed = Installed::load(&mut *session).await.expect("a ledger");
        installed.ledger().expect("a ledger").clone()
    }

    pub async fn plan(&self, chain: &Chain) -> Result<Plan, Refusal> {
        let mut session = self.session().await;
        let installed = Installed::load(&mut *session).await?;
        let declared = self.declared(chain);
        Plan::make(&*self.store, &mut *session, &installed, (chain, &declared)).await
    }

    pub async fn digest(&self, chain: &Chain) -> Option<String> {
        let plan = self.plan(chain).await.expect("a plan");
        plan.approval(self.store.dialect())
    }

    /// Applies a chain with an approval. `None` runs all phases.
    pub async fn apply(&self, chain: &Chain, phase: Option<Phase>) -> Result<Applied, Refusal> {
        let plan = self.plan(chain).await?;
        let options = Options {
            phase,
            approve: plan.approval(self.store.dialect()),
            ..options()
        };
        self.run(chain, &options).await
    }

    pub async fn run(&self, chain: &Chain, options: &Options) -> Result<Applied, Refusal> {
        let declared = self.declared(chain);
        apply(&*self.store, (chain, &declared), options, &mut |_| ()).await
    }

    /// Applies a chain to its end, or fails the test with the facts of the refusal.
    pub async fn apply_all(&self, chain: &Chain) -> Applied {
        let done = self.apply(chain, None).await;
        let done = done.unwrap_or_else(|r| panic!("{}: {r} {:?}", r.code, r.facts));
        self.assert_at_head(chain).await;
        done
    }

    /// Asserts that the database has exactly the tables of the last snapshot.
    pub async fn assert_at_head(&self, chain: &Chain) {
        let tables = chain.snapshot().tables();
        let all: Vec<&Table> = tables.values().collect();
        let mut session = self.session().await;
        let found = session.compare(&all).await.expect("compared");
        assert_eq!(found, []);
        let others = session.tables().await.expect("tables");
        let others = others.iter().filter(|name| !name.starts_with("linchpin_"));
        assert_eq!(
            others.collect::<Vec<_>>(),
            tables.keys().collect::<Vec<_>>()
        );
    }

    /// Adds the lease of an instance that serves for the next minute.
    pub async fn lease(&self, id: &str, seq: u64) {
        let mut session = self.session().await;
        let now = session.now().await.expect("a time").millis() + 60_000;
        let sql = "INSERT INTO linchpin_instances (id, host, seq, digest, epoch, lease_end) \
                   VALUES ($1, $1, $2, '', 1, $3)";
        let values = [
            (Value::Text(id.to_owned()), ColumnKind::String),
            (Value::Int(i64::try_from(seq).unwrap()), ColumnKind::Integer),
            (Value::Date(Timestamp::from_millis(now)), ColumnKind::Date),
        ];
        session.execute(sql, &values).await.expect("a lease");
    }

    /// Ends all leases.
    pub async fn stop_instances(&self) {
        self.execute("DELETE FROM linchpin_instances").await;
    }
}

/// Options with short waits.
pub fn options() -> Options {
    Options {
        lock_timeout: Duration::from_millis(300),
        index_wait: Duration::from_millis(800),
        ..Options::default()
    }
}

/// A snapshot with one entity, whose storage name is `name`. Omitted members of a field have their
/// default.
pub fn entity(name: &str, fields: Json) -> Snapshot {
    entity_with(name, fields, json!({}))
}

/// A snapshot with one entity. `facts` replaces members of the entity.
pub fn entity_with(name: &str, fields: Json, facts: Json) -> Snapshot {
    snapshot(&[(name, fields, facts)])
}

/// An index on one field, with the name that the macro gives it.
pub fn index(prefix: &str, table: &str, field: &str) -> Json {
    shared::index(&format!("{prefix}_{table}_{field}"), &[field])
}

/// One snapshot with the entities of several snapshots.
pub fn together(snapshots: impl IntoIterator<Item = Snapshot>) -> Snapshot {
    let mut all = Snapshot::empty();
    for snapshot in snapshots {
        all.entities.extend(snapshot.entities);
    }
    all
}

/// A chain of these snapshots.
pub fn chain(snapshots: &[Snapshot]) -> Chain {
    shared::chain(snapshots.iter().cloned().map(Link::plain))
}

/// A chain of these links.
pub fn chain_with(links: &[Link]) -> Chain {
    shared::chain(links.to_vec())
}
