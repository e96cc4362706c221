//! Creates the tables of an empty database, and applies the additions of a development start.

use linchpin_core::schema::{
    Dialect, SchemaError, SchemaSession, SchemaStore, Snapshot, Tables, TransactionMode, creation,
};

use super::step::{Failure, check_conditions};
use crate::backfill::{self, Pace, Stop};
use crate::chain::Chain;
use crate::error::Refusal;
use crate::fault;
use crate::ledger::{self, Ledger, MigrationState, Opening, Runner};
use crate::plan::{Declared, Plan, Planned};
use crate::step::{Step, Work};
use crate::system;

/// Creates every table and the ledger in one transaction, for a database without tables of the app.
/// The ledger records the steps of the plan as done.
pub(crate) async fn install(
    dialect: &dyn Dialect,
    session: &mut dyn SchemaSession,
    declared: &Declared,
    (seq, snapshot): (u64, &Snapshot),
    (chain, plan): (&Chain, Option<&Plan>),
) -> Result<(), Refusal> {
    session.begin(TransactionMode::Write).await?;
    let outcome = async {
        create_tables(dialect, session, snapshot).await?;
        record(dialect, session, declared, (seq, snapshot), (chain, plan)).await
    };
    let outcome = outcome.await;
    commit_or_roll_back(session, outcome).await
}

/// Creates the ledger of a database whose tables exist.
pub(crate) async fn record_installed(
    dialect: &dyn Dialect,
    session: &mut dyn SchemaSession,
    declared: &Declared,
    state: (u64, &Snapshot),
    chain: &Chain,
) -> Result<(), Refusal> {
    session.begin(TransactionMode::Write).await?;
    let outcome = record(dialect, session, declared, state, (chain, None)).await;
    commit_or_roll_back(session, outcome).await
}

/// Adds missing tables and columns of the framework, and records their version.
pub(crate) async fn expand_system(
    dialect: &dyn Dialect,
    session: &mut dyn SchemaSession,
    declared: &Declared,
) -> Result<(), Refusal> {
    session.begin(TransactionMode::Write).await?;
    let outcome = async {
        let runner = Runner::take(session).await?;
        system::expand(session, dialect, &declared.system_tables()).await?;
        runner.system(session, ledger::SYSTEM).await
    };
    let outcome = outcome.await;
    commit_or_roll_back(session, outcome).await
}

async fn commit_or_roll_back(
    session: &mut dyn SchemaSession,
    outcome: Result<(), SchemaError>,
) -> Result<(), Refusal> {
    match outcome {
        Ok(()) => {
            fault::point("install", "before-commit");
            session.commit().await?;
            fault::point("install", "after-commit");
            Ok(())
        }
        Err(error) => {
            session.rollback().await;
            Err(error.into())
        }
    }
}

/// Creates the ledger and the other tables of the framework, and records the migrations of the
/// chain and the steps of the plan as done. The caller has begun a transaction.
async fn record(
    dialect: &dyn Dialect,
    session: &mut dyn SchemaSession,
    declared: &Declared,
    (seq, snapshot): (u64, &Snapshot),
    (chain, plan): (&Chain, Option<&Plan>),
) -> Result<(), SchemaError> {
    let app = (declared.app.as_str(), declared.system_version());
    ledger::create(session, app, (seq, snapshot)).await?;
    system::expand(session, dialect, &declared.system_tables()).await?;
    let runner = Runner(1);
    for migration in chain.migrations() {
        let opening = Opening::of(migration);
        runner.open(session, &opening, MigrationState::Done).await?;
    }
    for migration in plan.into_iter().flat_map(|plan| &plan.migrations) {
        for step in &migration.steps {
            runner
                .installed_step(session, (step, migration.seq))
                .await?;
        }
    }
    Ok(())
}

async fn create_tables(
    dialect: &dyn Dialect,
    session: &mut dyn SchemaSession,
    snapshot: &Snapshot,
) -> Result<(), SchemaError> {
    let mut model = Tables::new();
    for table in snapshot.tables().values() {
        for action in creation(table, dialect) {
            session.perform(&action, &model).await?;
            action.apply(&mut model);
        }
    }
    Ok(())
}

/// Applies the additions of a development start: changes the schema in one transaction, then fills
/// new required fields.
pub(crate) async fn draft(
    store: &dyn SchemaStore,
    session: &mut dyn SchemaSession,
    (ledger, declared): (&Ledger, &Declared),
    (added, fills): (&Planned, &[Step]),
) -> Result<(), Refusal> {
    let dialect = store.dialect();
    session.begin(TransactionMode::Write).await?;
    let outcome = async {
        let runner = Runner::take(session).await?;
        let mut tables = ledger.snapshot.tables();
        for step in &added.steps {
            check_conditions(session, dialect, &step.before, &tables).await?;
            if let Work::Schema(action) = &step.work {
                session.perform(action, &tables).await?;
            }
            step.apply(&mut tables);
            check_conditions(session, dialect, &step.after, &tables).await?;
        }
        let window = (ledger.min_seq, ledger.max_seq);
        runner
            .installed(session, (ledger.seq, &added.after), window)
            .await?;
        Ok::<Runner, Failure>(runner)
    }
    .await;
    let runner = match outcome {
        Ok(runner) => {
            session.commit().await?;
            runner
        }
        Err(failure) => {
            session.rollback().await;
            return Err(failure.refusal());
        }
    };
    let stop = Stop::default();
    let pace = Pace {
        duty: 1.0,
        ..Pace::default()
    };
    for step in fills {
        if let Work::Data(data) = &step.work {
            let work = backfill::Work {
                id: &step.id,
                data,
                runner,
                final_pass: true,
                stop: &stop,
            };
            let speed = (&pace, &mut (|_: &str| ()) as &mut (dyn FnMut(&str) + Send));
            backfill::run(session, dialect, work, declared, speed).await?;
        }
    }
    Ok(())
}
