//! Takes over a database whose tables exist already: compares them with a recorded snapshot, and
//! writes the ledger.

use std::collections::BTreeSet;

use linchpin_core::schema::{
    Action, Dialect, Difference, DifferenceCode, RowCount, SchemaFault, SchemaSession, SchemaStore,
    Snapshot, Table, Tables, TransactionMode,
};
use tokio::time::sleep;

use crate::apply::{
    self, Applied, Failure, Options, check_approval, check_conditions, is_foreign, line, lock,
    with_jitter,
};
use crate::canonical;
use crate::chain::{Chain, Migration};
use crate::check::Check;
use crate::error::{Exit, Refusal};
use crate::fault;
use crate::ledger::{self, Installed, MigrationState, Opening, Runner};
use crate::plan::{Declared, Plan, Planned, refuse_foreign, same};
use crate::step::{Phase, Risk, RowClass, Step, Work, kind_of};
use crate::system;

/// Writes the ledger of a database whose tables are those of a recorded migration.
///
/// Adds missing defaults, and renames checks and primary keys that have another name: tables of a
/// release without migrations can differ in these points. Any other difference is refused. On a
/// store that rebuilds tables, these changes need an approval like any other rebuild. A database
/// that has a ledger is not changed.
///
/// # Errors
/// `schema_differs` with every difference; `approval_required`; `nothing_to_adopt` for a database
/// without tables of the app; a fault of the database. An error leaves the database unchanged.
pub async fn adopt(
    store: &dyn SchemaStore,
    (chain, declared): (&Chain, &Declared),
    options: &Options,
    report: &mut (dyn FnMut(&str) + Send),
) -> Result<Applied, Refusal> {
    let mut session = store.connect().await?;
    let session = &mut *session;
    session.set_lock_timeout(options.lock_timeout);
    let mut lock = lock(store, options.lock_wait).await?;
    let installed = Installed::load(session).await?;
    if let Some(ledger) = installed.ledger() {
        return Ok(Applied {
            seq: ledger.seq,
            from: ledger.seq,
            ..Applied::default()
        });
    }
    let plan = plan(store, session, &installed, (chain, declared)).await?;
    check_approval(&plan, store.dialect(), options)?;
    if plan.needs_approval() && options.backup {
        fault::point("adopt", "before-backup");
        session.back_up(plan.to.0).await?;
        fault::point("adopt", "after-backup");
    }
    let mut pause = apply::FIRST_PAUSE;
    for attempt in 1.. {
        lock.check().await?;
        session.begin(TransactionMode::Write).await?;
        let approval = options.approve.as_deref();
        let target = (&plan, store.dialect());
        let outcome = write(session, target, (chain, declared), approval, report).await;
        match outcome {
            Ok(()) => {
                fault::point("adopt", "before-commit");
                session.commit().await?;
                fault::point("adopt", "after-commit");
                break;
            }
            Err(Failure::Database(error))
                if error.fault == SchemaFault::LockTimeout && attempt < apply::MAX_ATTEMPTS =>
            {
                session.rollback().await;
                sleep(with_jitter(pause)).await;
                pause = (pause * 2).min(apply::MAX_PAUSE);
            }
            Err(failure) => {
                session.rollback().await;
                return Err(failure.refusal());
            }
        }
    }
    let steps = plan.pending(Phase::Contract).map(|step| step.id.clone());
    Ok(Applied {
        steps: steps.collect(),
        seq: plan.to.0,
        from: 0,
    })
}

/// Returns the plan of an adoption, if the database has tables of the app and no ledger. It reads
/// the database and writes nothing.
///
/// # Errors
/// Like [`adopt`].
pub(crate) async fn plan(
    store: &dyn SchemaStore,
    session: &mut dyn SchemaSession,
    installed: &Installed,
    (chain, declared): (&Chain, &Declared),
) -> Result<Plan, Refusal> {
    if refuse_foreign(installed, &declared.snapshot).is_ok() {
        return Err(Refusal::new(
            "nothing_to_adopt",
            Exit::Data,
            "the database has no tables of this app",
        )
        .help("`migrate apply` creates them"));
    }
    if !same(&chain.snapshot(), &declared.snapshot) {
        return Err(apply::unrecorded());
    }
    let present: BTreeSet<String> = session.tables().await?.into_iter().collect();
    let mut newest: Option<(&Migration, Vec<Difference>)> = None;
    let mut later = BTreeSet::new();
    for migration in chain.migrations().iter().rev() {
        let tables = migration.snapshot.tables();
        let expected: Vec<&Table> = tables.values().collect();
        let mut found = Found::of(session.compare(&expected).await?, &tables, store);
        if newest.is_some() {
            // Objects that a later migration adds must not exist yet: its steps could not add them.
            found.refused.append(&mut found.harmless);
            let ahead = later.iter().filter(|table| present.contains(*table));
            let ahead = ahead.filter(|table| !tables.contains_key(*table));
            if ahead.count() > 0 || !found.refused.is_empty() {
                continue;
            }
        }
        if found.refused.is_empty() {
            return planned(store, session, (migration, declared), found.repairable).await;
        }
        later.extend(tables.into_keys());
        newest.get_or_insert((migration, found.refused));
    }
    let (migration, differences) = newest.ok_or_else(apply::unrecorded)?;
    Err(differs(migration, &differences))
}

/// The differences between a database and a migration, grouped by their effect on an adoption.
struct Found {
    /// Differences that the adoption removes.
    repairable: Vec<Difference>,
    /// Differences that make the adoption fail.
    refused: Vec<Difference>,
    /// Differences that the adoption ignores.
    harmless: Vec<Difference>,
}

impl Found {
    fn of(all: Vec<Difference>, tables: &Tables, store: &dyn SchemaStore) -> Self {
        let (harmless, others): (Vec<_>, Vec<_>) = all.into_iter().partition(is_foreign);
        let (repairable, mut refused): (Vec<_>, Vec<_>) = others
            .into_iter()
            .partition(|found| differs_only_in_name(found) || lacks_default(found, tables));
        let mut harmless = harmless;
        if store.dialect().rebuilds() {
            // A rebuild would lose a column that the model does not have.
            let is_lost = |found: &Difference| {
                found.code == DifferenceCode::ExtraColumn
                    && repairable.iter().any(|other| other.table == found.table)
            };
            let (lost, kept) = harmless.into_iter().partition(is_lost);
            refused.extend::<Vec<Difference>>(lost);
            harmless = kept;
        }
        Self {
            repairable,
            refused,
            harmless,
        }
    }
}

/// Whether a check or a primary key differs in its name only.
fn differs_only_in_name(found: &Difference) -> bool {
    found.code == DifferenceCode::CheckDiffers && found.object.as_ref() == Some(&found.expected)
}

/// Whether a column should have a constant default, but has no default in the database.
fn lacks_default(found: &Difference, tables: &Tables) -> bool {
    let column = tables
        .get(&found.table)
        .zip(found.object.as_deref())
        .and_then(|(table, column)| table.column(column));
    found.code == DifferenceCode::DefaultDiffers
        && found.found.is_empty()
        && column.is_some_and(|column| column.default.is_some())
}

/// The refusal of a database. It lists every difference from the newest migration.
fn differs(migration: &Migration, differences: &[Difference]) -> Refusal {
    let mut refusal = Refusal::new(
        "schema_differs",
        Exit::Data,
        format!(
            "the tables match neither migration {} `{}` nor an earlier one",
            migration.seq, migration.name
        ),
    )
    .help(
        "change the tables by hand, or record the schema that they have as the first migration, \
         and run `migrate adopt` again",
    );
    for difference in differences {
        refusal = refusal.fact(difference.to_string());
    }
    refusal
}

/// The plan that changes the tables to those of a migration.
async fn planned(
    store: &dyn SchemaStore,
    session: &mut dyn SchemaSession,
    (migration, declared): (&Migration, &Declared),
    mut repairable: Vec<Difference>,
) -> Result<Plan, Refusal> {
    let mut tables = migration.snapshot.tables();
    let (system, differences) = system(session, declared).await?;
    let found = Found::of(differences, &system, store);
    if !found.refused.is_empty() {
        return Err(differs(migration, &found.refused));
    }
    repairable.extend(found.repairable);
    tables.extend(system);
    let mut start = tables.clone();
    for difference in &repairable {
        strip(&mut start, difference);
    }
    let dialect = store.dialect();
    let (mut steps, mut model) = (Vec::<Step>::new(), start.clone());
    for (name, table) in &tables {
        let own: Vec<&Difference> = repairable.iter().filter(|d| d.table == *name).collect();
        let class = match session.count(name).await? {
            _ if own.is_empty() => continue,
            RowCount::Exact(rows) | RowCount::Estimate(rows) => RowClass::of(rows),
            RowCount::Unknown => RowClass::LARGEST,
        };
        let actions = if dialect.rebuilds() {
            let from = start.get(name).unwrap_or(table).clone();
            vec![rebuild(from, table)]
        } else {
            own.iter().filter_map(|d| repair(d, table)).collect()
        };
        let last = actions.len();
        for (at, action) in actions.into_iter().enumerate() {
            let id = format!("{:04}.{:02}", migration.seq, steps.len() + 1);
            // A table matches the migration only after the last step that changes the table.
            let final_check = (at + 1 == last).then(|| Check::Matches(name.clone()));
            let next = step(id, action, (class, final_check), (dialect, &model));
            next.apply(&mut model);
            steps.push(next);
        }
    }
    let snapshot = &migration.snapshot;
    let note = format!(
        "the database has tables but no ledger; `migrate adopt` records that migration {} `{}` is \
         installed",
        migration.seq, migration.name
    );
    Ok(Plan {
        store: dialect.name(),
        database: store.database(),
        database_id: None,
        locator: session.locator().await?,
        from: (0, None),
        to: (migration.seq, canonical::digest_of(snapshot)),
        recorded: true,
        migrations: vec![Planned {
            seq: migration.seq,
            name: migration.name.clone(),
            after: snapshot.clone(),
            recorded: Some(migration.clone()),
            fence: None,
            ready: Phase::Expand,
            transforms: Vec::new(),
            steps,
            done: BTreeSet::new(),
            notes: Vec::new(),
        }],
        notes: vec![note],
        start,
    })
}

/// The tables of the framework that exist, and their differences.
async fn system(
    session: &mut dyn SchemaSession,
    declared: &Declared,
) -> Result<(Tables, Vec<Difference>), Refusal> {
    let present = session.tables().await?;
    let tables: Tables = declared
        .system_tables()
        .into_iter()
        .filter(|table| present.contains(&table.name))
        .map(|table| (table.name.clone(), table))
        .collect();
    let expected: Vec<&Table> = tables.values().collect();
    let differences = session.compare(&expected).await?;
    Ok((tables, differences))
}

/// Removes a default from the model if the database lacks it.
fn strip(tables: &mut Tables, found: &Difference) {
    let column = tables
        .get_mut(&found.table)
        .zip(found.object.as_deref())
        .and_then(|(table, name)| table.columns.iter_mut().find(|c| c.name == name));
    if let (DifferenceCode::DefaultDiffers, Some(column)) = (found.code, column) {
        column.default = None;
    }
}

/// The rebuild of a table with the same columns.
fn rebuild(from: Table, to: &Table) -> Action {
    let columns = to.columns.iter();
    let columns = columns.map(|column| (column.name.clone(), column.name.clone()));
    Action::Rebuild {
        columns: columns.collect(),
        from,
        to: to.clone(),
    }
}

/// The action that removes a difference.
fn repair(found: &Difference, table: &Table) -> Option<Action> {
    if differs_only_in_name(found) {
        return Some(Action::RenameCheck {
            table: found.table.clone(),
            from: found.found.clone(),
            to: found.expected.clone(),
        });
    }
    let column = table.column(found.object.as_deref()?)?;
    Some(Action::SetDefault {
        table: found.table.clone(),
        column: column.name.clone(),
        default: column.default.clone(),
    })
}

/// Makes a step of an adoption. `final_check` is a condition that must hold after it.
fn step(
    id: String,
    action: Action,
    (class, final_check): (RowClass, Option<Check>),
    (dialect, tables): (&dyn Dialect, &Tables),
) -> Step {
    let rebuilds = matches!(action, Action::Rebuild { .. });
    let space = Check::FreeSpace(action.table().to_owned());
    let before = rebuilds.then_some(space).into_iter().collect();
    let mut step = Step {
        id,
        phase: Phase::Expand,
        kind: kind_of(&action),
        entity: action.table().to_owned(),
        object: action.object().map(str::to_owned),
        risk: if rebuilds { Risk::Breaking } else { Risk::Safe },
        work: Work::Schema(action),
        before,
        after: final_check.into_iter().collect(),
        inverse: None,
        requires: Vec::new(),
        class,
        overlap: true,
        digest: String::new(),
    };
    step.digest = step.identity(dialect, tables);
    step
}

/// Runs the steps and writes the ledger, in the open transaction.
async fn write(
    session: &mut dyn SchemaSession,
    (plan, dialect): (&Plan, &dyn Dialect),
    (chain, declared): (&Chain, &Declared),
    approval: Option<&str>,
    report: &mut (dyn FnMut(&str) + Send),
) -> Result<(), Failure> {
    let mut tables = plan.start.clone();
    for step in plan.migrations.iter().flat_map(|m| &m.steps) {
        report(&line(step));
        check_conditions(session, dialect, &step.before, &tables).await?;
        if let Work::Schema(action) = &step.work {
            session.perform(action, &tables).await?;
        }
        fault::point(&step.id, "after-action");
        step.apply(&mut tables);
    }
    // Another process may have changed a table since the plan was made.
    let expected: Vec<&Table> = tables.values().collect();
    let differences = session.compare(&expected).await?;
    let wrong: Vec<Difference> = differences
        .into_iter()
        .filter(|difference| !is_foreign(difference))
        .collect();
    apply::drift(&wrong).map_err(Failure::Refused)?;
    let (seq, _) = plan.to;
    let snapshot = plan.migrations.last().map(|migration| &migration.after);
    let empty = Snapshot::empty();
    let snapshot = snapshot.unwrap_or(&empty);
    let app = (declared.app.as_str(), declared.system_version());
    ledger::create(session, app, (seq, snapshot)).await?;
    system::expand(session, dialect, &declared.system_tables()).await?;
    let runner = Runner(1);
    for migration in chain.migrations().iter().filter(|m| m.seq <= seq) {
        let opening = Opening {
            approval: approval.filter(|_| migration.seq == seq),
            ..Opening::of(migration)
        };
        runner.open(session, &opening, MigrationState::Done).await?;
    }
    Ok(())
}
