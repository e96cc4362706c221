//! Runs the steps between two snapshots on SQLite. The file then has the tables of the second
//! snapshot. The inverse of a step, or a rollback, restores the tables before it.

use linchpin_core::schema::{
    Action, Dialect, SchemaSession, Snapshot, Table, Tables, TransactionMode,
};
use linchpin_core::store::{DatabaseUrl, StoreProvider};
use linchpin_sqlite::{SqliteDialect, SqliteProvider};
use proptest::prelude::*;

use super::fixture::{any_snapshot, step_line, steps_of};
use crate::check::Finding;
use crate::step::{Step, Work};

struct Database {
    session: Box<dyn SchemaSession>,
    tables: Tables,
}

impl Database {
    async fn new(folder: &tempfile::TempDir, first: &Snapshot) -> Self {
        let path = folder.path().join("test.db");
        let url = DatabaseUrl::new(format!("sqlite:{}", path.display()));
        let schema = SqliteProvider::default().schema(&url);
        let schema = schema.expect("a schema").expect("SQLite has one");
        let mut database = Self {
            session: schema.connect().await.expect("a session"),
            tables: Tables::new(),
        };
        for step in steps_of(&Snapshot::empty(), first, &SqliteDialect).steps {
            database.run(&step).await;
        }
        database.assert_equal("the first snapshot").await;
        database
    }

    async fn assert_equal(&mut self, when: &str) {
        let tables: Vec<&Table> = self.tables.values().collect();
        let found = self.session.compare(&tables).await.expect("compared");
        assert_eq!(found, [], "{when}");
        let names: Vec<&String> = self.tables.keys().collect();
        let present = self.session.tables().await.expect("tables");
        assert_eq!(present.iter().collect::<Vec<_>>(), names, "{when}");
    }

    async fn perform(&mut self, action: &Action, commit: bool) {
        let session = &mut self.session;
        session.begin(TransactionMode::Write).await.expect("begun");
        let done = session.perform(action, &self.tables).await;
        done.unwrap_or_else(|error| panic!("{action:?}: {error}"));
        if commit {
            session.commit().await.expect("committed");
            action.apply(&mut self.tables);
        } else {
            session.rollback().await;
        }
    }

    /// Runs a step on empty tables, so that its conditions hold.
    async fn run(&mut self, step: &Step) {
        let what = step_line(step);
        for check in &step.before {
            let found = check.evaluate(&mut *self.session, &SqliteDialect).await;
            assert_eq!(found.expect("evaluated"), Finding::Holds, "{what}");
        }
        match &step.work {
            Work::Schema(action) => {
                self.perform(action, false).await;
                self.assert_equal(&format!("{what}, rolled back")).await;
                self.perform(action, true).await;
                self.assert_equal(&what).await;
                if let Some(inverse) = &step.inverse {
                    self.perform(inverse, true).await;
                    self.assert_equal(&format!("{what}, undone")).await;
                    self.perform(action, true).await;
                    self.assert_equal(&format!("{what}, again")).await;
                }
            }
            Work::Data(data) => {
                // The test has no transforms, but the condition of a stale row must be valid SQL.
                if let Some(stale) = data.stale(&SqliteDialect) {
                    let table = SqliteDialect.quote(data.table());
                    let sql = format!("SELECT 1 FROM {table} WHERE {stale}");
                    let rows = self.session.query(&sql, &[], &[]).await;
                    rows.unwrap_or_else(|error| panic!("{sql}: {error}"));
                }
            }
            Work::Check { .. } => {}
        }
        for check in &step.after {
            let found = check.evaluate(&mut *self.session, &SqliteDialect).await;
            assert_eq!(found.expect("evaluated"), Finding::Holds, "{what}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn the_steps_lead_to_the_second_snapshot_on_sqlite(
        before in any_snapshot(),
        after in any_snapshot(),
    ) {
        let folder = tempfile::tempdir().expect("a folder");
        let run = async {
            let mut database = Database::new(&folder, &before).await;
            for step in steps_of(&before, &after, &SqliteDialect).steps {
                assert!(step.is_transactional(&SqliteDialect) || matches!(step.work, Work::Data(_)));
                database.run(&step).await;
            }
            database.tables = after.tables();
            database.assert_equal("the second snapshot").await;
            assert!(SqliteDialect.rebuilds());
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(run);
    }
}
