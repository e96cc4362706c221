//! Reads the ledger.

use std::collections::BTreeMap;

use linchpin_core::Value;
use linchpin_core::schema::{ColumnKind, SchemaError, SchemaFault, SchemaSession, Snapshot};

use super::state::{MigrationState, StepState};
use super::tables::{Cells, INSTANCES, MIGRATIONS, SCHEMA, STEPS, rows};
use super::{Installed, Instance, Ledger, LedgerMigration, LedgerStep, damaged};
use crate::canonical;
use crate::step::RowClass;

impl Installed {
    /// Reads the ledger.
    ///
    /// # Errors
    /// A fault of the database, or a damaged ledger.
    pub async fn load(session: &mut dyn SchemaSession) -> Result<Self, SchemaError> {
        let installed = Self::examine(session).await?;
        match installed.ledger().and_then(|ledger| ledger.damage.as_ref()) {
            Some(damage) => Err(damaged(damage)),
            None => Ok(installed),
        }
    }

    /// Reads the ledger, even if its snapshot was changed by hand: see [`Ledger::damage`].
    ///
    /// # Errors
    /// A fault of the database, or a ledger that is damaged in another way.
    pub async fn examine(session: &mut dyn SchemaSession) -> Result<Self, SchemaError> {
        let existing = session.tables().await?;
        if !existing.iter().any(|table| table == SCHEMA) {
            return Ok(Self::Nothing(existing));
        }
        let mut ledger = schema_row(session).await?;
        ledger.migrations = migrations(session).await?;
        ledger.steps = steps(session).await?;
        ledger.instances = instances(session).await?;
        Ok(Self::Ledger(Box::new(ledger)))
    }
}

/// Reads the row of the table with the installed schema.
async fn schema_row(session: &mut dyn SchemaSession) -> Result<Ledger, SchemaError> {
    use ColumnKind::{Integer, Json, String, StringArray};
    let columns = [
        ("format", Integer),
        ("database_id", String),
        ("app", String),
        ("system", Integer),
        ("seq", Integer),
        ("min_seq", Integer),
        ("max_seq", Integer),
        ("epoch", Integer),
        ("runner", Integer),
        ("snapshot", String),
        ("digest", String),
        ("placed", StringArray),
        ("names", Json),
    ];
    let mut row = rows(session, SCHEMA, &columns)
        .await?
        .pop()
        .ok_or_else(|| damaged("its row is missing"))?;
    let format = row.int()?;
    if format != u64::from(Snapshot::FORMAT) {
        return Err(SchemaError::new(
            SchemaFault::Unsupported,
            format!("the ledger has format {format}; this build reads format 2"),
        ));
    }
    let mut ledger = Ledger {
        database_id: row.text()?,
        app: row.text()?,
        system: row.int()?,
        seq: row.int()?,
        min_seq: row.int()?,
        max_seq: row.int()?,
        epoch: row.int()?,
        runner: row.int()?,
        snapshot: Snapshot::empty(),
        digest: std::string::String::new(),
        damage: None,
        placed: Vec::new(),
        names: BTreeMap::new(),
        migrations: BTreeMap::new(),
        steps: BTreeMap::new(),
        instances: Vec::new(),
    };
    match serde_json::from_str(&row.text()?) {
        Ok(snapshot) => ledger.snapshot = snapshot,
        Err(error) => ledger.damage = Some(format!("its snapshot is not readable: {error}")),
    }
    ledger.digest = row.text()?;
    if ledger.damage.is_none() && canonical::digest_of(&ledger.snapshot) != ledger.digest {
        ledger.damage = Some("its snapshot was edited".to_owned());
    }
    if let Value::Strings(placed) = row.next() {
        ledger.placed = placed;
    }
    if let Value::Json(names) = row.next() {
        ledger.names = serde_json::from_str(&names)
            .map_err(|error| damaged(&format!("its names are not readable: {error}")))?;
    }
    Ok(ledger)
}

async fn migrations(
    session: &mut dyn SchemaSession,
) -> Result<BTreeMap<u64, LedgerMigration>, SchemaError> {
    use ColumnKind::{Boolean, Date, Integer, String};
    let columns = [
        ("seq", Integer),
        ("name", String),
        ("digest", String),
        ("document", String),
        ("state", String),
        ("plan", String),
        ("approval", String),
        ("draft", Boolean),
        ("executor", String),
        ("opened_at", Date),
        ("done_at", Date),
    ];
    let read = |mut row: Cells| {
        let seq = row.int()?;
        let migration = LedgerMigration {
            name: row.text()?,
            digest: row.text()?,
            document: row.text()?,
            state: MigrationState::read(&row.text()?)
                .ok_or_else(|| damaged("the state of a migration is unknown"))?,
            plan: row.maybe_text(),
            approval: row.maybe_text(),
            draft: row.next() == Value::Bool(true),
            executor: row.text()?,
            opened_at: row.date()?,
            done_at: row.maybe_date(),
        };
        Ok((seq, migration))
    };
    let rows = rows(session, MIGRATIONS, &columns).await?;
    rows.into_iter().map(read).collect()
}

async fn steps(
    session: &mut dyn SchemaSession,
) -> Result<BTreeMap<String, LedgerStep>, SchemaError> {
    use ColumnKind::{Date, Integer, String};
    let columns = [
        ("id", String),
        ("seq", Integer),
        ("digest", String),
        ("class", String),
        ("state", String),
        ("attempts", Integer),
        ("cursor", String),
        ("rows_done", Integer),
        ("rows_failed", Integer),
        ("result", String),
        ("error", String),
        ("approval", String),
        ("started_at", Date),
        ("done_at", Date),
    ];
    let read = |mut row: Cells| {
        let id = row.text()?;
        let step = LedgerStep {
            seq: row.int()?,
            digest: row.text()?,
            class: RowClass::read(&row.text()?)
                .ok_or_else(|| damaged("the number of rows of a step is unknown"))?,
            state: StepState::read(&row.text()?)
                .ok_or_else(|| damaged("the state of a step is unknown"))?,
            attempts: row.int()?,
            cursor: row.maybe_text(),
            rows_done: row.int()?,
            rows_failed: row.int()?,
            result: row.maybe_text(),
            error: row.maybe_text(),
            approval: row.maybe_text(),
            started_at: row.date()?,
            done_at: row.maybe_date(),
        };
        Ok((id, step))
    };
    let rows = rows(session, STEPS, &columns).await?;
    rows.into_iter().map(read).collect()
}

async fn instances(session: &mut dyn SchemaSession) -> Result<Vec<Instance>, SchemaError> {
    use ColumnKind::{Date, Integer, String};
    let columns = [
        ("id", String),
        ("host", String),
        ("seq", Integer),
        ("epoch", Integer),
        ("lease_end", Date),
    ];
    let read = |mut row: Cells| {
        Ok(Instance {
            id: row.text()?,
            host: row.text()?,
            seq: row.int()?,
            epoch: row.int()?,
            lease_end: row.date()?,
        })
    };
    let rows = rows(session, INSTANCES, &columns).await?;
    rows.into_iter().map(read).collect()
}
