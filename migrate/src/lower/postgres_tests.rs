//! Runs the steps between two snapshots on Postgres. The database then has the tables of the second
//! snapshot. The inverse of a step restores the tables before it.

use linchpin_core::schema::{
    Action, Dialect, SchemaSession, Snapshot, Table, Tables, TransactionMode,
};
use linchpin_core::store::{DatabaseUrl, StoreProvider};
use linchpin_postgres::{PostgresDialect, PostgresProvider};
use proptest::prelude::*;

use super::fixture::{any_snapshot, step_line, steps_of};
use crate::check::Finding;
use crate::step::{Step, Work};

#[path = "../../../runtime/tests/support/postgres.rs"]
mod server;

struct Database {
    session: Box<dyn SchemaSession>,
    tables: Tables,
}

impl Database {
    async fn new(first: &Snapshot) -> Self {
        let url = DatabaseUrl::new(server::fresh_url());
        let schema = PostgresProvider::default().schema(&url);
        let schema = schema.expect("a schema").expect("Postgres has one");
        let mut database = Self {
            session: schema.connect().await.expect("a session"),
            tables: Tables::new(),
        };
        for step in steps_of(&Snapshot::empty(), first, &PostgresDialect).steps {
            database.run(&step).await;
        }
        database.assert_equal("the first snapshot").await;
        database
    }

    async fn assert_equal(&mut self, when: &str) {
        let tables: Vec<&Table> = self.tables.values().collect();
        let mut found = self.session.compare(&tables).await.expect("compared");
        // An index is recreated after its column has become optional or required.
        found.retain(|difference| !difference.code.is_harmless());
        assert_eq!(found, [], "{when}");
        let names: Vec<&String> = self.tables.keys().collect();
        let present = self.session.tables().await.expect("tables");
        assert_eq!(present.iter().collect::<Vec<_>>(), names, "{when}");
    }

    async fn perform(&mut self, action: &Action) {
        let session = &mut self.session;
        let is_transactional = PostgresDialect.is_transactional(action);
        if is_transactional {
            session.begin(TransactionMode::Write).await.expect("begun");
        }
        let done = session.perform(action, &self.tables).await;
        done.unwrap_or_else(|error| panic!("{action:?}: {error}"));
        if is_transactional {
            session.commit().await.expect("committed");
        }
        action.apply(&mut self.tables);
    }

    /// Runs a step on empty tables, so that its conditions hold.
    async fn run(&mut self, step: &Step) {
        let what = step_line(step);
        for check in &step.before {
            let found = check.evaluate(&mut *self.session, &PostgresDialect).await;
            assert_eq!(found.expect("evaluated"), Finding::Holds, "{what}");
        }
        match &step.work {
            Work::Schema(action) => {
                self.perform(action).await;
                self.assert_equal(&what).await;
                if let Some(inverse) = &step.inverse {
                    self.perform(inverse).await;
                    self.assert_equal(&format!("{what}, undone")).await;
                    self.perform(action).await;
                    self.assert_equal(&format!("{what}, again")).await;
                }
            }
            Work::Data(data) => {
                // The test has no transforms, but the condition of a stale row must be valid SQL.
                if let Some(stale) = data.stale(&PostgresDialect) {
                    let table = PostgresDialect.quote(data.table());
                    let sql = format!("SELECT 1 FROM {table} WHERE {stale}");
                    let rows = self.session.query(&sql, &[], &[]).await;
                    rows.unwrap_or_else(|error| panic!("{sql}: {error}"));
                }
            }
            Work::Check { .. } => {}
        }
        for check in &step.after {
            let found = check.evaluate(&mut *self.session, &PostgresDialect).await;
            assert_eq!(found.expect("evaluated"), Finding::Holds, "{what}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 15, ..ProptestConfig::default() })]

    #[test]
    fn the_steps_lead_to_the_second_snapshot_on_postgres(
        before in any_snapshot(),
        after in any_snapshot(),
    ) {
        let run = async {
            let mut database = Database::new(&before).await;
            for step in steps_of(&before, &after, &PostgresDialect).steps {
                database.run(&step).await;
            }
            database.tables = after.tables();
            let tables: Vec<&Table> = database.tables.values().collect();
            let found = database.session.compare(&tables).await.expect("compared");
            assert_eq!(found, []);
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(run);
    }
}
