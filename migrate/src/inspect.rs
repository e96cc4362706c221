//! Finds all problems of a database. It writes nothing.

use linchpin_core::schema::{
    ColumnKind, Difference, DifferenceCode, SchemaSession, SchemaStore, Table, Tables,
    TransactionMode,
};

use crate::chain::Chain;
use crate::check::{Check, Finding};
use crate::error::Refusal;
use crate::ledger::{Installed, Ledger, MigrationState, is_framework_table};
use crate::plan::{Declared, Plan, refuse_foreign, same};
use crate::record::Declarations;
use crate::serve::real_tables;
use crate::step::{Step, Work};
use crate::verify::{Remark, Severity, unrecorded_changes};

/// The milliseconds of a day.
const DAY_MILLIS: i64 = 86_400_000;
/// A migration that is open for more days than this is reported.
const MAX_OPEN_DAYS: i64 = 30;

/// Returns all problems of a database. With `data` it also reads records.
///
/// # Errors
/// A fault of the database.
pub(crate) async fn verify(
    store: &dyn SchemaStore,
    (chain, declared): (&Chain, &Declared),
    data: bool,
) -> Result<Vec<Remark>, Refusal> {
    let mut session = store.connect().await?;
    session.begin(TransactionMode::Read).await?;
    let found = find_problems(&mut *session, store, (chain, declared), data).await;
    session.rollback().await;
    found
}

async fn find_problems(
    session: &mut dyn SchemaSession,
    store: &dyn SchemaStore,
    (chain, declared): (&Chain, &Declared),
    data: bool,
) -> Result<Vec<Remark>, Refusal> {
    let mut remarks = Vec::new();
    remarks.extend(unrecorded_changes(
        chain,
        Declarations::Saved(&declared.snapshot),
    ));
    let installed = Installed::examine(session).await?;
    let Some(ledger) = installed.ledger() else {
        remarks.push(match refuse_foreign(&installed, &declared.snapshot) {
            Ok(()) => Remark::new(
                "uninitialised",
                Severity::Info,
                "the database has no ledger",
                "`migrate apply` creates the tables",
            ),
            Err(refusal) => Remark::new(
                refusal.code,
                Severity::Error,
                refusal.message,
                refusal.help.unwrap_or_default(),
            ),
        });
        return Ok(remarks);
    };
    compare_history(ledger, chain, &mut remarks);
    let ledger = &with_recorded_snapshot(ledger, chain);
    open_for_long(session, ledger, &mut remarks).await?;
    let real = real_tables(store, ledger);
    let system = declared.system_tables();
    let expected: Vec<&Table> = real.values().chain(&system).collect();
    let differences = session.compare(&expected).await?;
    remarks.extend(differences.iter().map(remark_of_difference));
    for table in session.tables().await? {
        if !real.contains_key(&table) && !is_framework_table(&table) {
            remarks.push(Remark {
                object: Some(table.clone()),
                ..Remark::new(
                    "extra_table",
                    Severity::Info,
                    format!("table `{table}` belongs to no entity of this app"),
                    "no action is needed: migrations do not change tables of other programs",
                )
            });
        }
    }
    // If no plan can be made, the cause was reported above.
    if let Ok(plan) = Plan::make(store, session, &installed, (chain, declared)).await {
        verify_done_steps(session, store, &plan, &mut remarks).await?;
    }
    if data {
        for table in real.values() {
            let missing = |d: &Difference| {
                d.table == table.name
                    && matches!(
                        d.code,
                        DifferenceCode::MissingTable
                            | DifferenceCode::MissingColumn
                            | DifferenceCode::TypeDiffers
                    )
            };
            if !differences.iter().any(missing) {
                find_invalid_records(session, store, table, &mut remarks).await?;
            }
        }
    }
    Ok(remarks)
}

/// The ledger with the snapshot that was installed. A snapshot that was changed by hand is reported
/// separately; here the recorded one replaces it, so that differences of the tables are found.
fn with_recorded_snapshot(ledger: &Ledger, chain: &Chain) -> Ledger {
    let mut repaired = ledger.clone();
    let recorded = chain.get(ledger.seq).filter(|_| ledger.damage.is_some());
    if let Some(recorded) = recorded {
        repaired.snapshot = recorded.snapshot.clone();
    }
    repaired
}

/// Finds migrations that have been open for more than 30 days.
async fn open_for_long(
    session: &mut dyn SchemaSession,
    ledger: &Ledger,
    remarks: &mut Vec<Remark>,
) -> Result<(), Refusal> {
    let now = session.now().await?.millis();
    for (seq, migration) in &ledger.migrations {
        let days = (now - migration.opened_at.millis()) / DAY_MILLIS;
        if migration.state.is_open() && days > MAX_OPEN_DAYS {
            remarks.push(Remark::new(
                "long_open",
                Severity::Warning,
                format!(
                    "migration {seq} `{}` has been {} for {days} days",
                    migration.name,
                    migration.state.name()
                ),
                "`migrate plan` shows its pending steps, `migrate apply` finishes it",
            ));
        }
    }
    Ok(())
}

/// Repeats the verification of done steps in open migrations. The tables themselves were compared
/// before, all together.
async fn verify_done_steps(
    session: &mut dyn SchemaSession,
    store: &dyn SchemaStore,
    plan: &Plan,
    remarks: &mut Vec<Remark>,
) -> Result<(), Refusal> {
    let present = plan.present_tables();
    for migration in &plan.migrations {
        let done = migration.steps.iter();
        for step in done.filter(|step| migration.done.contains(&step.id)) {
            for check in &step.after {
                let message = match check {
                    Check::TableAbsent(table) if !present.contains_key(table) => {
                        let exists = session.tables().await?.contains(table);
                        exists.then(|| format!("table `{table}` exists again"))
                    }
                    Check::RowsFilled { table, .. } if is_before_swap(&present, step) => {
                        let finding = check.evaluate(session, store.dialect()).await?;
                        match finding {
                            Finding::Fails { message, .. } => Some(message),
                            Finding::Holds => None,
                        }
                        .map(|message| format!("table `{table}`: {message}"))
                    }
                    _ => None,
                };
                if let Some(message) = message {
                    remarks.push(Remark {
                        entity: Some(step.entity.clone()),
                        object: Some(step.id.clone()),
                        ..Remark::new(
                            "step_unverified",
                            Severity::Error,
                            format!("step {} is done, but {message}", step.id),
                            "the verification of the step now fails; undo the change by hand",
                        )
                    });
                }
            }
        }
    }
    Ok(())
}

/// Whether the columns that a step has filled still have their names.
fn is_before_swap(present: &Tables, step: &Step) -> bool {
    let Work::Data(data) = &step.work else {
        return false;
    };
    let table = present.get(data.table());
    let mut columns = data.inputs().into_iter().chain([data.column()]);
    table.is_some_and(|table| columns.all(|column| table.column(&column.name).is_some()))
}

/// Compares the ledger with the chain, and the instances with the window.
fn compare_history(ledger: &Ledger, chain: &Chain, remarks: &mut Vec<Remark>) {
    if let Some(damage) = &ledger.damage {
        remarks.push(Remark {
            expected: Some(format!("sha256 {}", ledger.digest)),
            found: Some(format!("sha256 {}", crate::digest_of(&ledger.snapshot))),
            ..Remark::new(
                "history_altered",
                Severity::Error,
                format!("the ledger is damaged: {damage}"),
                "restore the ledger from a backup",
            )
        });
    }
    let baseline = chain.migrations().first().filter(|m| m.is_baseline());
    let applied = ledger.migrations.iter();
    for (seq, applied) in applied.filter(|(_, m)| m.state != MigrationState::RolledBack) {
        let (code, message) = match chain.get(*seq) {
            Some(known) if known.snapshot_digest == applied.digest => continue,
            // The baseline replaces this migration.
            None if baseline.is_some_and(|baseline| *seq < baseline.seq) => continue,
            Some(known) => (
                "history_altered",
                format!(
                    "migration {seq} `{}` differs from the applied one, `{}`",
                    known.name, applied.name
                ),
            ),
            None if *seq <= chain.seq() => (
                "history_missing",
                format!(
                    "the chain does not contain migration {seq} `{}`",
                    applied.name
                ),
            ),
            None => continue,
        };
        let help = format!("`migrate restore {seq}` writes the applied migration to its file");
        remarks.push(Remark::new(code, Severity::Error, message, help));
    }
    let head = chain.get(ledger.seq);
    let open = ledger.migrations.values().any(|m| m.state.is_open());
    if let Some(head) = head
        && !open
        && ledger.damage.is_none()
        && !same(&head.snapshot, &ledger.snapshot)
    {
        remarks.push(Remark {
            expected: Some(format!("sha256 {}", head.snapshot_digest)),
            found: Some(format!("sha256 {}", crate::digest_of(&ledger.snapshot))),
            ..Remark::new(
                "history_altered",
                Severity::Error,
                format!(
                    "the installed snapshot in the ledger is not that of migration {}",
                    ledger.seq
                ),
                "the ledger was changed by hand, or a development start has extended the database",
            )
        });
    }
    for instance in ledger.instances.iter().filter(|i| i.seq < ledger.min_seq) {
        remarks.push(Remark {
            object: Some(instance.id.clone()),
            ..Remark::new(
                "stale_instance",
                Severity::Warning,
                format!(
                    "an instance of schema {} on `{}` is below the window, {} to {}",
                    instance.seq, instance.host, ledger.min_seq, ledger.max_seq
                ),
                "stop the instance",
            )
        });
    }
}

fn remark_of_difference(difference: &Difference) -> Remark {
    let severity = match difference.code {
        DifferenceCode::ExtraIndex => Severity::Info,
        DifferenceCode::ExtraColumn | DifferenceCode::IndexNullsDiffer => Severity::Warning,
        _ => Severity::Error,
    };
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Remark {
        entity: Some(difference.table.clone()),
        object: difference.object.clone(),
        expected: some(&difference.expected),
        found: some(&difference.found),
        ..Remark::new(
            difference.code.name(),
            severity,
            difference.to_string(),
            "undo the change by hand, or record it as a migration",
        )
    }
}

/// Finds records that no declaration allows: unknown enum values, and null in required columns.
async fn find_invalid_records(
    session: &mut dyn SchemaSession,
    store: &dyn SchemaStore,
    table: &Table,
    remarks: &mut Vec<Remark>,
) -> Result<(), Refusal> {
    let Some(key) = table.column(&table.primary) else {
        return Ok(());
    };
    for column in &table.columns {
        let location = (table.name.clone(), key.clone(), column.name.clone());
        let mut checks = Vec::new();
        if let ColumnKind::Enum(values) = &column.kind {
            let (table, key, column) = location.clone();
            checks.push((
                "enum_value_unknown",
                Check::OnlyValues {
                    table,
                    key,
                    column,
                    values: values.clone(),
                    sensitive: true,
                },
            ));
        }
        if !column.optional {
            let (table, key, column) = location;
            checks.push(("null_in_required", Check::NoNulls { table, key, column }));
        }
        for (code, check) in checks {
            let finding = check.evaluate(session, store.dialect()).await?;
            if let Finding::Fails { message, .. } = finding {
                remarks.push(Remark {
                    entity: Some(table.name.clone()),
                    object: Some(column.name.clone()),
                    ..Remark::new(code, Severity::Error, message, "correct the records")
                });
            }
        }
    }
    Ok(())
}
