//! Reports the state of a database. It writes nothing.

use linchpin_core::schema::{RowCount, SchemaSession, SchemaStore, TransactionMode};
use serde_json::{Value as Json, json};

use crate::chain::{Chain, Migration};
use crate::error::Refusal;
use crate::ledger::{Installed, Ledger, LedgerStep, StepState};
use crate::plan::{Declared, Plan, Planned};
use crate::rollback::Rollback;
use crate::step::Work;

/// Reads the state of a database.
///
/// # Errors
/// A fault of the database.
pub(crate) async fn status(
    store: &dyn SchemaStore,
    of: (&Chain, &Declared),
) -> Result<Json, Refusal> {
    let mut session = store.connect().await?;
    session.begin(TransactionMode::Read).await?;
    let read = read(store, &mut *session, of).await;
    session.rollback().await;
    read
}

async fn read(
    store: &dyn SchemaStore,
    session: &mut dyn SchemaSession,
    (chain, declared): (&Chain, &Declared),
) -> Result<Json, Refusal> {
    let target = json!({ "store": store.dialect().name(), "database": store.database() });
    let installed = Installed::examine(session).await?;
    let Some(ledger) = installed.ledger() else {
        let pending: Vec<Json> = chain.migrations().iter().map(pending).collect();
        return Ok(json!({ "target": target, "state": "uninitialised", "pending": pending }));
    };
    let now = session.now().await?.millis();
    // The plan has the tables of the steps. Without a plan, the numbers of rows are omitted.
    let plan = Plan::make(store, session, &installed, (chain, declared)).await;
    let plan = plan.ok();
    let mut migrations = Vec::new();
    for (seq, migration) in &ledger.migrations {
        let mut steps = Vec::new();
        for (id, step) in ledger.steps.iter().filter(|(_, step)| step.seq == *seq) {
            let rows = match &plan {
                Some(plan) => row_count(session, plan, id).await?,
                None => None,
            };
            steps.push(step_json(id, step, (rows, now)));
        }
        migrations.push(json!({
            "seq": seq,
            "name": migration.name,
            "state": migration.state.name(),
            "openedAt": migration.opened_at.to_string(),
            "doneAt": migration.done_at.map(|at| at.to_string()),
            "steps": steps,
        }));
    }
    let rollback = Rollback::make(store, session, &installed).await.is_ok();
    let rest = chain.migrations().iter();
    let rest = rest.filter(|m| m.seq > ledger.seq && !ledger.migrations.contains_key(&m.seq));
    let state = match ledger.damage {
        None => "installed",
        Some(_) => "damaged",
    };
    Ok(json!({
        "target": target,
        "databaseId": ledger.database_id,
        "state": state,
        "seq": ledger.seq,
        "window": { "min": ledger.min_seq, "max": ledger.max_seq },
        "epoch": ledger.epoch,
        "rollbackOpen": rollback,
        "migrations": migrations,
        "pending": rest.map(pending).collect::<Vec<_>>(),
        "instances": instances(ledger),
    }))
}

fn pending(migration: &Migration) -> Json {
    json!({ "seq": migration.seq, "name": migration.name })
}

fn instances(ledger: &Ledger) -> Vec<Json> {
    let instances = ledger.instances.iter().map(|instance| {
        json!({
            "id": instance.id,
            "host": instance.host,
            "seq": instance.seq,
            "leaseEnd": instance.lease_end.to_string(),
        })
    });
    instances.collect()
}

/// The number of rows of the table of a pending backfill.
async fn row_count(
    session: &mut dyn SchemaSession,
    plan: &Plan,
    id: &str,
) -> Result<Option<u64>, Refusal> {
    let mut steps = plan.migrations.iter().flat_map(Planned::pending);
    let Some(Work::Data(data)) = steps.find(|step| step.id == id).map(|step| &step.work) else {
        return Ok(None);
    };
    Ok(match session.count(data.table()).await? {
        RowCount::Exact(rows) | RowCount::Estimate(rows) => Some(rows),
        RowCount::Unknown => None,
    })
}

/// A step with its progress: the rows per second since its last start, and the seconds until its
/// end at this rate.
fn step_json(id: &str, step: &LedgerStep, (rows, now): (Option<u64>, i64)) -> Json {
    let mut json = json!({
        "id": id,
        "state": step.state.name(),
        "attempts": step.attempts,
        "rowsDone": step.rows_done,
        "rowsFailed": step.rows_failed,
        "error": step.error,
    });
    let Some(members) = json.as_object_mut() else {
        return json;
    };
    if let Some(rows) = rows {
        members.insert("rows".to_owned(), json!(rows));
    }
    let seconds = (now - step.started_at.millis()).max(0) / 1_000;
    let seconds = u64::try_from(seconds).unwrap_or(0);
    if step.state == StepState::Running && step.rows_done > 0 && seconds > 0 {
        let rate = (step.rows_done / seconds).max(1);
        members.insert("rowsPerSecond".to_owned(), json!(rate));
        if let Some(rows) = rows {
            let rest = rows.saturating_sub(step.rows_done) / rate;
            members.insert("restSeconds".to_owned(), json!(rest));
        }
    }
    json
}
