//! Databases and apps for the tests.

use std::path::PathBuf;
use std::sync::Arc;

use linchpin_core::Value;
use linchpin_core::entity::TransformDesc;
use linchpin_core::schema::{ColumnKind, SchemaSession, SchemaStore, Snapshot, Table};
use linchpin_core::store::{DatabaseUrl, StoreProvider};
use linchpin_migrate::cli::{Outcome, online, parse};
use linchpin_migrate::{
    Applied, Chain, Declared, Installed, Ledger, Options, Phase, Plan, Refusal, apply,
};
use linchpin_postgres::PostgresProvider;
use linchpin_sqlite::SqliteProvider;

pub(crate) use self::shared::*;
use crate::server;

#[path = "../support/mod.rs"]
mod shared;

/// A database of a test.
pub(crate) struct Db {
    pub(crate) store: Arc<dyn SchemaStore>,
    pub(crate) url: String,
    /// The temporary folder of a SQLite file.
    pub(crate) folder: Option<tempfile::TempDir>,
}

impl Db {
    pub(crate) fn sqlite() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let url = format!("sqlite:{}", folder.path().join("app.db").display());
        Self {
            folder: Some(folder),
            ..Self::of(&url)
        }
    }

    pub(crate) fn postgres() -> Self {
        Self::of(&server::fresh_database())
    }

    /// The database with this URL.
    pub(crate) fn of(url: &str) -> Self {
        let database = DatabaseUrl::new(url);
        let opened = if url.starts_with("sqlite:") {
            SqliteProvider::default().schema(&database)
        } else {
            PostgresProvider::default().schema(&database)
        };
        Self {
            store: opened.expect("opened").expect("a schema"),
            url: url.to_owned(),
            folder: None,
        }
    }

    pub(crate) fn is_sqlite(&self) -> bool {
        self.url.starts_with("sqlite:")
    }

    /// The database file.
    pub(crate) fn file(&self) -> PathBuf {
        let folder = self.folder.as_ref().expect("a file");
        folder.path().join("app.db")
    }

    pub(crate) async fn session(&self) -> Box<dyn SchemaSession> {
        self.store.connect().await.expect("a session")
    }

    /// Runs statements.
    pub(crate) async fn execute(&self, statements: &[&str]) {
        let mut session = self.session().await;
        for sql in statements {
            let done = session.execute(sql, &[]).await;
            done.unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
    }

    /// The rows of a query.
    pub(crate) async fn query(&self, sql: &str, columns: &[ColumnKind]) -> Vec<Vec<Value>> {
        let mut session = self.session().await;
        let rows = session.query(sql, &[], columns).await;
        rows.unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// The only number of a query.
    pub(crate) async fn number(&self, sql: &str) -> i64 {
        let rows = self.query(sql, &[ColumnKind::Integer]).await;
        let number = rows.first().and_then(|row| row.first());
        number.and_then(Value::as_int).expect("a number")
    }

    pub(crate) async fn tables(&self) -> Vec<String> {
        let mut all = self.session().await.tables().await.expect("tables");
        all.sort();
        all
    }

    pub(crate) async fn ledger(&self) -> Option<Ledger> {
        let mut session = self.session().await;
        let installed = Installed::load(&mut *session).await.expect("a ledger");
        installed.ledger().cloned()
    }

    /// The digest of the present plan.
    pub(crate) async fn digest(&self, app: &App) -> Option<String> {
        let mut session = self.session().await;
        let installed = Installed::load(&mut *session).await.expect("a ledger");
        Plan::make(
            &*self.store,
            &mut *session,
            &installed,
            app.chain_and_declared(),
        )
        .await
        .expect("a plan")
        .approval(self.store.dialect())
    }

    /// Applies a chain up to a phase, with an approval.
    pub(crate) async fn apply(&self, app: &App, phase: Phase) -> Result<Applied, Refusal> {
        if phase == Phase::Backfill {
            self.run(app, Some(Phase::Expand)).await?;
        }
        self.run(app, Some(phase).filter(|phase| *phase != Phase::Contract))
            .await
    }

    async fn run(&self, app: &App, phase: Option<Phase>) -> Result<Applied, Refusal> {
        let options = Options {
            phase,
            approve: self.digest(app).await,
            backup: false,
            ..Options::default()
        };
        apply(
            &*self.store,
            app.chain_and_declared(),
            &options,
            &mut |_| (),
        )
        .await
    }

    /// Runs a command.
    pub(crate) async fn command(&self, app: &App, line: &str) -> Result<Outcome, Refusal> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let parsed = parse(&words).expect("a command");
        online(&parsed, &*self.store, app.chain_and_declared(), &mut |_| ()).await
    }

    /// Asserts that the tables of the head exist in the database, without a difference.
    pub(crate) async fn assert_at_head(&self, app: &App) {
        let tables = app.chain.snapshot().tables();
        let all: Vec<&Table> = tables.values().collect();
        let found = self.session().await.compare(&all).await.expect("compared");
        assert_eq!(found, []);
    }
}

/// A chain, with the declarations of its head.
pub(crate) struct App {
    pub(crate) chain: Chain,
    pub(crate) declared: Declared,
}

impl App {
    /// The app whose migrations are these snapshots.
    pub(crate) fn new(snapshots: &[Snapshot]) -> Self {
        Self::of_links(snapshots.iter().cloned().map(Link::plain), &[])
    }

    /// The app of these migrations, with these functions.
    pub(crate) fn of_links(
        links: impl IntoIterator<Item = Link>,
        transforms: &[&'static TransformDesc],
    ) -> Self {
        let chain = shared::chain(links);
        let declared = shared::declared(&chain, transforms);
        Self { chain, declared }
    }

    pub(crate) fn chain_and_declared(&self) -> (&Chain, &Declared) {
        (&self.chain, &self.declared)
    }
}
