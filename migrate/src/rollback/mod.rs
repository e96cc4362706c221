//! Undoes the newest migration if none of its contract steps has run.

mod run;
mod undo;

use std::collections::BTreeMap;

use linchpin_core::schema::{
    Action, Dialect, Locator, SchemaSession, SchemaStore, Snapshot, Tables,
};
use serde_json::{Value as Json, json};

use self::undo::{is_partly_done, lost, undo};
use crate::canonical;
use crate::chain::Migration;
use crate::check::Check;
use crate::error::{Exit, Refusal};
use crate::ledger::{Installed, Ledger, MigrationState, StepState};
use crate::lower::Terrain;
use crate::plan::{Planned, planned};
use crate::serve::real_tables;
use crate::step::{Phase, RowClass, Step, Work, kind_of};

pub use self::run::rollback;

/// The steps that undo the newest migration of a database.
#[derive(Clone, Debug)]
pub struct Rollback {
    /// The number of the migration.
    pub seq: u64,
    /// Its name.
    pub name: String,
    /// The steps to undo, the newest one first.
    pub undos: Vec<Undo>,
    store: &'static str,
    database: String,
    database_id: String,
    locator: Locator,
    planned: Planned,
    before: Snapshot,
}

/// The actions that undo one step.
#[derive(Clone, Debug)]
pub struct Undo {
    /// The id of the step.
    pub step: String,
    /// The actions, in order.
    pub actions: Vec<Action>,
    /// The number of records that lose a value; `None` if the actions remove no values.
    pub lost: Option<u64>,
    /// The conditions that must hold before the actions.
    before: Vec<Check>,
    /// The physical model before the actions.
    tables: Tables,
}

impl Undo {
    fn is_destructive(&self) -> bool {
        let removes = |action: &Action| {
            matches!(action, Action::DropColumn { .. } | Action::DropTable { .. })
        };
        self.actions.iter().any(removes)
    }

    /// The physical model after the actions.
    fn after(&self) -> Tables {
        let mut tables = self.tables.clone();
        for action in &self.actions {
            action.apply(&mut tables);
        }
        tables
    }

    fn statements(&self, dialect: &dyn Dialect) -> Vec<String> {
        let mut tables = self.tables.clone();
        let mut all = Vec::new();
        for action in &self.actions {
            all.extend(dialect.statements(action, &tables));
            action.apply(&mut tables);
        }
        all
    }
}

fn closed(message: String) -> Refusal {
    Refusal::new("rollback_closed", Exit::Approval, message)
        .help("record a new migration that reverts the changes")
}

impl Rollback {
    /// Plans the rollback of the newest migration. It writes nothing.
    ///
    /// # Errors
    /// `rollback_closed` if a contract step has run or the database was created with the migration;
    /// `rollback_nothing` if there is no migration to undo; a fault of the database.
    pub async fn make(
        store: &dyn SchemaStore,
        session: &mut dyn SchemaSession,
        installed: &Installed,
    ) -> Result<Self, Refusal> {
        let newest = installed.ledger().and_then(|ledger| {
            let mut known = ledger.migrations.iter().rev();
            let (seq, known) =
                known.find(|(_, one)| one.state != MigrationState::RolledBack && !one.draft)?;
            Some((ledger, *seq, known))
        });
        let Some((ledger, seq, known)) = newest else {
            return Err(Refusal::new(
                "rollback_nothing",
                Exit::Planning,
                "the database has no migration to undo",
            ));
        };
        let migration = Migration::read(&format!("migration {seq}"), &known.document)?;
        let before = snapshot_before(ledger, seq)?;
        let classes = BTreeMap::new();
        let terrain = Terrain {
            own_sql: &[],
            uses: &|_, _| None,
            dialect: store.dialect(),
            classes: &classes,
            sensitive: &|_, _| true,
        };
        let planned = planned(
            (seq, &migration.name),
            (&before, &migration.snapshot),
            Some(&migration),
            &terrain,
        );
        refuse_closed(ledger, &planned)?;
        let mut undos = Vec::new();
        let mut model = before.tables();
        let mut befores = Vec::new();
        for step in &planned.steps {
            befores.push(model.clone());
            step.apply(&mut model);
        }
        let mut tables = real_tables(store, ledger);
        for (step, before) in planned.steps.iter().zip(befores).rev() {
            let state = ledger.steps.get(&step.id).map(|known| known.state);
            let Work::Schema(action) = &step.work else {
                continue;
            };
            match state {
                Some(StepState::Done) => {}
                Some(state) if state.has_run() => {
                    if !is_partly_done(session, step, action, &mut tables, store.dialect()).await? {
                        continue;
                    }
                }
                _ => continue,
            }
            let Some(undo) = undo(step, action, &before, &tables) else {
                continue;
            };
            let undo = Undo {
                lost: lost(session, &undo.actions, &tables, store.dialect()).await?,
                ..undo
            };
            tables = undo.after();
            undos.push(undo);
        }
        Ok(Self {
            seq,
            name: migration.name.clone(),
            undos,
            store: store.dialect().name(),
            database: store.database(),
            database_id: ledger.database_id.clone(),
            locator: session.locator().await?,
            planned,
            before,
        })
    }

    /// Whether values are lost.
    pub fn needs_approval(&self) -> bool {
        self.undos.iter().any(Undo::is_destructive)
    }

    /// The digest that approves the rollback; `None` if it loses no values.
    pub fn approval(&self, dialect: &dyn Dialect) -> Option<String> {
        self.needs_approval().then(|| self.digest(dialect))
    }

    fn digest(&self, dialect: &dyn Dialect) -> String {
        canonical::digest(&self.document(dialect))
    }

    fn document(&self, dialect: &dyn Dialect) -> Json {
        let steps = self.undos.iter().map(|undo| {
            json!({
                "undoes": undo.step,
                "kinds": undo.actions.iter().map(kind_of).collect::<Vec<_>>(),
                "risk": if undo.is_destructive() { "destructive" } else { "breaking" },
                "rows": undo.lost.map(|rows| json!({ "class": RowClass::of(rows).name() })),
                "preconditions": undo.before.iter().map(|c| c.to_json(dialect)).collect::<Vec<_>>(),
                "action": {
                    "dialect": dialect.name(), "statement": undo.statements(dialect), "params": [],
                },
            })
        });
        json!({
            "format": 2,
            "rollback": { "seq": self.seq, "name": self.name },
            "target": {
                "store": self.store,
                "databaseId": self.database_id,
                "locator": self.locator,
            },
            "steps": steps.collect::<Vec<_>>(),
            "approvalRequired": self.needs_approval(),
        })
    }

    /// The rollback as JSON, with its digest and the numbers of records that lose values.
    pub fn to_json(&self, dialect: &dyn Dialect) -> Json {
        let mut json = self.document(dialect);
        let lost = self.undos.iter().filter_map(|undo| {
            let rows = undo.lost?;
            Some(json!({ "undoes": undo.step, "records": rows }))
        });
        json["approvalDigest"] = json!(self.approval(dialect));
        json["state"] = json!({ "lost": lost.collect::<Vec<_>>() });
        json
    }

    /// The rollback as text.
    pub fn shown(&self, dialect: &dyn Dialect) -> String {
        let mut text = format!(
            "rollback of migration {} {}   {} {}   {} -> {}\n",
            self.seq,
            self.name,
            self.store,
            self.database,
            self.seq,
            self.seq - 1
        );
        for undo in &self.undos {
            let mark = if undo.is_destructive() { "!" } else { " " };
            for statement in undo.statements(dialect) {
                let line = statement.split_whitespace().collect::<Vec<_>>().join(" ");
                text.push_str(&format!("{mark} undoes {}   {line}\n", undo.step));
            }
            if let Some(rows) = undo.lost {
                text.push_str(&format!("    {rows} records lose a value\n"));
            }
        }
        if self.undos.is_empty() {
            text.push_str("there is no table change to undo\n");
        }
        if let Some(digest) = self.approval(dialect) {
            text.push_str("approval needed for steps marked !\n");
            text.push_str(&format!("approval digest {digest}\n"));
        }
        text
    }
}

/// The snapshot before a migration, from the ledger.
fn snapshot_before(ledger: &Ledger, seq: u64) -> Result<Snapshot, Refusal> {
    if seq == 1 {
        return Ok(Snapshot::empty());
    }
    if ledger.seq == seq - 1 {
        return Ok(ledger.snapshot.clone());
    }
    let before = ledger.migrations.get(&(seq - 1)).ok_or_else(|| {
        closed(format!(
            "migration {seq} cannot be undone: the ledger does not have the migration before it"
        ))
    })?;
    let label = format!("migration {}", seq - 1);
    Ok(Migration::read(&label, &before.document)?.snapshot)
}

/// Refuses the rollback of a migration if a contract step has run, if the database was created with
/// the migration, or if a step had other content when it ran.
fn refuse_closed(ledger: &Ledger, planned: &Planned) -> Result<(), Refusal> {
    let seq = planned.seq;
    let run = |step: &&Step| {
        let known = ledger.steps.get(&step.id);
        known.is_some_and(|known| known.state.has_run())
    };
    let contract = |step: &Step| step.phase == Phase::Contract;
    if ledger.min_seq >= seq {
        if planned.steps.iter().filter(run).any(contract) {
            return Err(closed(format!(
                "migration {seq} `{}` cannot be undone: a contract step has run",
                planned.name
            )));
        }
        // The ledger of a new database records the steps of its first migration as done.
        let is_first = ledger.migrations.range(..seq).next().is_none();
        if is_first || !planned.steps.iter().any(|step| run(&step)) {
            return Err(closed(format!(
                "migration {seq} `{}` cannot be undone: the database was created with it",
                planned.name
            )));
        }
    }
    let other = planned.steps.iter().filter(run).find(|step| {
        let known = ledger.steps.get(&step.id);
        known.is_some_and(|known| known.digest != step.digest)
    });
    match other {
        None => Ok(()),
        Some(step) => Err(closed(format!(
            "migration {seq} `{}` cannot be undone: step {} had other content when it ran",
            planned.name, step.id
        ))),
    }
}
