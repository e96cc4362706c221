//! Writes of the ledger.

use std::collections::BTreeMap;

use linchpin_core::Value;
use linchpin_core::schema::{
    Action, Bound, ColumnKind, SchemaError, SchemaFault, SchemaSession, Snapshot, Tables,
};

use super::damaged;
use super::state::{MigrationState, NameMode, StepState};
use super::tables::{MIGRATIONS, SCHEMA, STEPS, date, int, maybe_date, maybe_text, tables, text};
use crate::canonical;
use crate::chain::Migration;
use crate::step::Step;

/// Creates the tables of the ledger, and its row. The caller has begun a transaction.
pub(crate) async fn create(
    session: &mut dyn SchemaSession,
    (app, system): (&str, u64),
    (seq, snapshot): (u64, &Snapshot),
) -> Result<(), SchemaError> {
    let none = Tables::new();
    for table in tables() {
        session
            .perform(&Action::CreateTable { table }, &none)
            .await?;
    }
    let now = session.now().await?;
    let (document, digest) = document_and_digest(snapshot);
    let values = [
        text("schema"),
        int(u64::from(Snapshot::FORMAT)),
        text(uuid::Uuid::new_v4().to_string()),
        text(app),
        int(system),
        int(seq),
        int(seq),
        int(seq),
        int(1),
        int(1),
        text(document),
        text(digest),
        storage_names(snapshot),
        names(&BTreeMap::new()),
        date(now),
    ];
    insert(session, SCHEMA, &values).await
}

fn document_and_digest(snapshot: &Snapshot) -> (String, String) {
    let json = serde_json::to_value(snapshot).unwrap_or_default();
    (canonical::canonical(&json), canonical::digest(&json))
}

/// The storage names of the entities of a snapshot.
fn storage_names(snapshot: &Snapshot) -> Bound {
    let names = snapshot.entities.keys().cloned().collect();
    (Value::Strings(names), ColumnKind::StringArray)
}

/// The present names of renamed objects as a parameter.
fn names(names: &BTreeMap<String, NameMode>) -> Bound {
    let json = serde_json::to_value(names).unwrap_or_default();
    (Value::Json(canonical::canonical(&json)), ColumnKind::Json)
}

/// Inserts a row with values in the order of the table's columns.
pub(super) async fn insert(
    session: &mut dyn SchemaSession,
    name: &str,
    values: &[Bound],
) -> Result<(), SchemaError> {
    let all = tables();
    let columns: Vec<&str> = all
        .iter()
        .filter(|table| table.name == name)
        .flat_map(|table| &table.columns)
        .map(|column| column.name.as_str())
        .collect();
    let placeholders: Vec<String> = (1..=values.len()).map(|n| format!("${n}")).collect();
    let sql = format!(
        "INSERT INTO {name} ({}) VALUES ({})",
        columns.join(", "),
        placeholders.join(", ")
    );
    session.execute(&sql, values).await.map(drop)
}

/// The record of a migration that starts.
#[derive(Clone, Debug)]
pub(crate) struct Opening<'a> {
    pub(crate) seq: u64,
    pub(crate) name: String,
    /// The digest of its snapshot.
    pub(crate) digest: String,
    /// Its file, as JSON.
    pub(crate) document: String,
    /// The digest of the plan that opens it.
    pub(crate) plan: Option<&'a str>,
    /// The digest that approves its steps.
    pub(crate) approval: Option<&'a str>,
    /// Whether the chain does not contain it, because it is a draft of a development start.
    pub(crate) draft: bool,
}

impl Opening<'_> {
    /// A recorded migration that no plan opens.
    pub(crate) fn of(migration: &Migration) -> Self {
        Self {
            seq: migration.seq,
            name: migration.name.clone(),
            digest: migration.snapshot_digest.clone(),
            document: canonical::canonical(&canonical::json_of(migration)),
            plan: None,
            approval: None,
            draft: false,
        }
    }
}

fn another_runner() -> SchemaError {
    SchemaError::new(
        SchemaFault::LockLost,
        "another runner has taken over; this one stopped without further writes",
    )
}

/// The number of a runner, and its writes. Each write checks the number, so a runner that lost its
/// lock writes nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Runner(pub(crate) u64);

impl Runner {
    /// Becomes the newest runner: increments the number in the ledger.
    pub(crate) async fn take(session: &mut dyn SchemaSession) -> Result<Self, SchemaError> {
        let sql = format!("UPDATE {SCHEMA} SET runner = runner + 1");
        session.execute(&sql, &[]).await?;
        let sql = format!("SELECT runner FROM {SCHEMA}");
        let rows = session.query(&sql, &[], &[ColumnKind::Integer]).await?;
        let number = rows.into_iter().flatten().next().and_then(|n| n.as_int());
        let number = number.and_then(|n| u64::try_from(n).ok());
        number
            .map(Self)
            .ok_or_else(|| damaged("its row is missing"))
    }

    /// Checks, within a transaction, that no other runner has taken over. Locks the row of the
    /// ledger.
    pub(crate) async fn check(self, session: &mut dyn SchemaSession) -> Result<(), SchemaError> {
        let sql = format!("UPDATE {SCHEMA} SET runner = runner WHERE runner = $1");
        match session.execute(&sql, &[int(self.0)]).await? {
            1 => Ok(()),
            _ => Err(another_runner()),
        }
    }

    /// Checks that no other runner has taken over, without a lock. Use it before work that does not
    /// write the ledger. Another runner may take over directly after it; only
    /// [`check`](Self::check) prevents that.
    pub(crate) async fn check_without_lock(
        self,
        session: &mut dyn SchemaSession,
    ) -> Result<(), SchemaError> {
        let sql = format!("SELECT runner FROM {SCHEMA}");
        let rows = session.query(&sql, &[], &[ColumnKind::Integer]).await?;
        let number = rows.into_iter().flatten().next().and_then(|n| n.as_int());
        match number.and_then(|n| u64::try_from(n).ok()) {
            Some(number) if number == self.0 => Ok(()),
            _ => Err(another_runner()),
        }
    }

    /// Records a migration with its state.
    pub(crate) async fn open(
        self,
        session: &mut dyn SchemaSession,
        opening: &Opening<'_>,
        state: MigrationState,
    ) -> Result<(), SchemaError> {
        self.check(session).await?;
        let now = session.now().await?;
        let done = (!state.is_open()).then_some(now);
        let values = [
            text(id(opening.seq)),
            int(opening.seq),
            text(&*opening.name),
            text(&*opening.digest),
            text(&*opening.document),
            text(state.name()),
            maybe_text(opening.plan.map(str::to_owned)),
            maybe_text(opening.approval.map(str::to_owned)),
            (Value::Bool(opening.draft), ColumnKind::Boolean),
            text(env!("CARGO_PKG_VERSION")),
            date(now),
            maybe_date(done),
        ];
        let sql = format!(
            "UPDATE {MIGRATIONS} SET seq = $2, name = $3, digest = $4, document = $5, state = $6, \
             plan = $7, approval = coalesce($8, approval), draft = $9, executor = $10, \
             opened_at = $11, done_at = $12 WHERE id = $1"
        );
        if session.execute(&sql, &values).await? > 0 {
            return Ok(());
        }
        insert(session, MIGRATIONS, &values).await
    }

    /// Records the new state of a migration.
    pub(crate) async fn state(
        self,
        session: &mut dyn SchemaSession,
        seq: u64,
        state: MigrationState,
    ) -> Result<(), SchemaError> {
        self.check(session).await?;
        let done = if state.is_open() {
            None
        } else {
            Some(session.now().await?)
        };
        let sql = format!("UPDATE {MIGRATIONS} SET state = $2, done_at = $3 WHERE id = $1");
        let values = [text(id(seq)), text(state.name()), maybe_date(done)];
        session.execute(&sql, &values).await.map(drop)
    }

    /// Records that a step starts. `approval` is the digest of its approval.
    pub(crate) async fn running(
        self,
        session: &mut dyn SchemaSession,
        (step, seq): (&Step, u64),
        approval: Option<&str>,
    ) -> Result<(), SchemaError> {
        self.check(session).await?;
        let now = session.now().await?;
        let sql = format!(
            "UPDATE {STEPS} SET digest = $2, class = $3, state = 'running', \
             attempts = attempts + 1, error = NULL, approval = $4, started_at = $5, \
             done_at = NULL WHERE id = $1"
        );
        let approval = maybe_text(approval.map(str::to_owned));
        let (id, digest) = (text(&*step.id), text(&*step.digest));
        let class = text(step.class.name());
        let values = [
            id.clone(),
            digest.clone(),
            class.clone(),
            approval.clone(),
            date(now),
        ];
        if session.execute(&sql, &values).await? > 0 {
            return Ok(());
        }
        let values = [
            id,
            int(seq),
            digest,
            class,
            text(StepState::Running.name()),
            int(1),
            maybe_text(None),
            int(0),
            int(0),
            maybe_text(None),
            maybe_text(None),
            approval,
            date(now),
            maybe_date(None),
        ];
        insert(session, STEPS, &values).await
    }

    /// Records a step as done that did not have to run, such as a step of a new database.
    pub(crate) async fn installed_step(
        self,
        session: &mut dyn SchemaSession,
        (step, seq): (&Step, u64),
    ) -> Result<(), SchemaError> {
        self.running(session, (step, seq), None).await?;
        self.finish(session, &step.id, StepState::Done, (None, None))
            .await
    }

    /// Records the end of a step. `result` is the result of its verification as JSON.
    pub(crate) async fn finish(
        self,
        session: &mut dyn SchemaSession,
        id: &str,
        state: StepState,
        (result, error): (Option<String>, Option<String>),
    ) -> Result<(), SchemaError> {
        self.check(session).await?;
        let now = session.now().await?;
        let sql = format!(
            "UPDATE {STEPS} SET state = $2, result = $3, error = $4, done_at = $5 WHERE id = $1"
        );
        let values = [
            text(id),
            text(state.name()),
            maybe_text(result),
            maybe_text(error),
            date(now),
        ];
        session.execute(&sql, &values).await.map(drop)
    }

    /// Records the progress of a backfill.
    pub(crate) async fn progress(
        self,
        session: &mut dyn SchemaSession,
        id: &str,
        (cursor, done, failed): (Option<String>, u64, u64),
    ) -> Result<(), SchemaError> {
        self.check(session).await?;
        let sql = format!(
            "UPDATE {STEPS} SET cursor = $2, rows_done = $3, rows_failed = $4 WHERE id = $1"
        );
        let values = [text(id), maybe_text(cursor), int(done), int(failed)];
        session.execute(&sql, &values).await.map(drop)
    }

    /// Records a changed window, and begins a new epoch.
    pub(crate) async fn window(
        self,
        session: &mut dyn SchemaSession,
        (min, max): (u64, u64),
    ) -> Result<(), SchemaError> {
        self.check(session).await?;
        let sql = format!(
            "UPDATE {SCHEMA} SET min_seq = $1, max_seq = $2, epoch = epoch + 1 \
             WHERE min_seq <> $1 OR max_seq <> $2"
        );
        session.execute(&sql, &[int(min), int(max)]).await.map(drop)
    }

    /// Records the names that statements use for renamed tables and columns, and begins a new
    /// epoch. A step that renames objects calls this in its transaction.
    pub(crate) async fn names(
        self,
        session: &mut dyn SchemaSession,
        modes: &BTreeMap<String, NameMode>,
    ) -> Result<(), SchemaError> {
        self.check(session).await?;
        let sql = format!("UPDATE {SCHEMA} SET names = $1, epoch = epoch + 1");
        session.execute(&sql, &[names(modes)]).await.map(drop)
    }

    /// Records the version of the framework's tables.
    pub(crate) async fn system(
        self,
        session: &mut dyn SchemaSession,
        version: u64,
    ) -> Result<(), SchemaError> {
        self.check(session).await?;
        let sql = format!("UPDATE {SCHEMA} SET system = $1 WHERE system < $1");
        session.execute(&sql, &[int(version)]).await.map(drop)
    }

    /// Records the installed schema, and begins a new epoch. Does not change the recorded names of
    /// tables and columns that open migrations rename.
    pub(crate) async fn installed(
        self,
        session: &mut dyn SchemaSession,
        (seq, snapshot): (u64, &Snapshot),
        (min, max): (u64, u64),
    ) -> Result<(), SchemaError> {
        self.check(session).await?;
        let (document, digest) = document_and_digest(snapshot);
        let sql = format!(
            "UPDATE {SCHEMA} SET seq = $1, snapshot = $2, digest = $3, min_seq = $4, \
             max_seq = $5, placed = $6, epoch = epoch + 1"
        );
        let values = [
            int(seq),
            text(document),
            text(digest),
            int(min),
            int(max),
            storage_names(snapshot),
        ];
        session.execute(&sql, &values).await.map(drop)
    }
}

/// The key of a migration's row. Keys sort by the number of the migration.
fn id(seq: u64) -> String {
    format!("{seq:04}")
}
