//! Start-up of a server: checks whether the binary may serve the database, and takes a lease.

mod develop;
mod lease;
mod refusal;

use std::collections::BTreeMap;

use linchpin_core::Timestamp;
use linchpin_core::schema::{
    Difference, SchemaSession, SchemaStore, Table, Tables, TransactionMode,
};
use linchpin_core::store::Names;

pub use self::lease::Serving;
use crate::apply::{self, unrecorded};
use crate::canonical;
use crate::chain::{Chain, Migration};
use crate::error::{Exit, Refusal};
use crate::ledger::{Installed, Instance, Ledger, StepState};
use crate::lower::Terrain;
use crate::names::{Stage, names};
use crate::own_sql::OwnSql;
use crate::plan::{Declared, Planned, check_history, planned, refuse_foreign, same};
use crate::step::{RowClass, Step, Work};
use crate::system;

/// The mode in which a server starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Creates the tables of an empty database. On an embedded store, also applies changes that
    /// only add.
    Development,
    /// Does not change the database.
    Production,
}

/// The reaction of a start to tables that differ from the ledger: the setting `schema.check`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SchemaCheck {
    /// The server does not start.
    #[default]
    Error,
    /// The server logs the differences and starts.
    Warn,
    /// The tables are not compared.
    Off,
}

/// The database and the binary of a start.
#[derive(Clone, Copy)]
struct Target<'a> {
    store: &'a dyn SchemaStore,
    chain: &'a Chain,
    declared: &'a Declared,
}

/// Checks that this binary may serve a database, and takes a lease. In development mode it first
/// creates or extends the tables.
///
/// # Errors
/// A refusal with the reason why this binary cannot serve the database, and with the missing steps.
pub async fn start(
    store: &dyn SchemaStore,
    (chain, declared): (&Chain, &Declared),
    mode: Mode,
    check: SchemaCheck,
) -> Result<Serving, Refusal> {
    let target = Target {
        store,
        chain,
        declared,
    };
    let mut connection = store.connect().await?;
    let session = &mut *connection;
    match mode {
        Mode::Development => target.develop(session).await?,
        Mode::Production if !same(&chain.snapshot(), &declared.snapshot) => {
            return Err(target.unrecorded());
        }
        Mode::Production => {}
    }
    // A runner may carry out a step during the check, so one transaction reads one state.
    session.begin(TransactionMode::Read).await?;
    let checked = target.checked(session, check).await;
    session.rollback().await;
    let mut serving = checked?;
    serving.renew_lease(session, store.dialect()).await?;
    serving.session = Some(connection);
    Ok(serving)
}

/// Reads the present names of tables and columns, for a binary that is already serving.
///
/// # Errors
/// A fault of the database.
pub async fn present_names(
    store: &dyn SchemaStore,
    session: &mut dyn SchemaSession,
    (chain, declared): (&Chain, &Declared),
) -> Result<Names, Refusal> {
    session.begin(TransactionMode::Read).await?;
    let installed = Installed::load(session).await;
    session.rollback().await;
    let installed = installed?;
    let Some(ledger) = installed.ledger() else {
        return Err(uninitialised());
    };
    names_of(ledger, (chain, declared), &real_tables(store, ledger))
}

fn names_of(
    ledger: &Ledger,
    (chain, declared): (&Chain, &Declared),
    real: &Tables,
) -> Result<Names, Refusal> {
    let open = ledger.migrations.iter().filter(|(seq, migration)| {
        **seq > ledger.seq && **seq <= chain.seq() && migration.state.is_open()
    });
    // The document was valid when it was written. A damaged one is skipped.
    let open: Vec<Migration> = open
        .filter_map(|(_, migration)| serde_json::from_str::<Migration>(&migration.document).ok())
        .collect();
    let installed = Stage {
        snapshot: &ledger.snapshot,
        migration: None,
    };
    let stages = open.iter().map(|migration| Stage {
        snapshot: &migration.snapshot,
        migration: Some(migration),
    });
    let stages: Vec<Stage<'_>> = std::iter::once(installed).chain(stages).collect();
    let functions = |name: &str| declared.transform(name);
    names(
        ledger.epoch,
        &stages,
        (&declared.snapshot, &functions),
        real,
    )
}

fn uninitialised() -> Refusal {
    Refusal::new(
        "uninitialised",
        Exit::Refused,
        "the database has no tables yet",
    )
    .help("run `migrate apply` with this binary, then start it")
}

impl Target<'_> {
    /// Checks the history, the window and the tables.
    async fn checked(
        &self,
        session: &mut dyn SchemaSession,
        check: SchemaCheck,
    ) -> Result<Serving, Refusal> {
        let (chain, declared) = (self.chain, self.declared);
        let installed = Installed::load(session).await?;
        let Some(ledger) = installed.ledger() else {
            let why = match refuse_foreign(&installed, &declared.snapshot) {
                Err(foreign) => foreign,
                Ok(()) => uninitialised(),
            };
            return Err(self.refused(None, why, ""));
        };
        check_history(ledger, chain).map_err(|why| self.refused(Some(ledger), why, ""))?;
        let seq = chain.seq();
        if seq < ledger.min_seq || seq > ledger.max_seq.max(ledger.seq) {
            return Err(self.outside(session, (&installed, ledger)).await?);
        }
        if ledger.system < declared.system_version() {
            let why = Refusal::new(
                "system_version",
                Exit::Refused,
                format!(
                    "the framework's tables have version {}; this binary needs version {}",
                    ledger.system,
                    system::VERSION
                ),
            )
            .help("run `migrate apply --phase expand` with this binary, then start it");
            return Err(self.refused(Some(ledger), why, ""));
        }
        let real = real_tables(self.store, ledger);
        let warnings = match check {
            SchemaCheck::Off => Vec::new(),
            SchemaCheck::Error | SchemaCheck::Warn => {
                let differences = self.differences(session, ledger, &real).await?;
                if check == SchemaCheck::Error && !differences.is_empty() {
                    return Err(self.drift(ledger, &differences));
                }
                differences
            }
        };
        Ok(Serving {
            pending: self.pending(ledger)?,
            warnings,
            names: names_of(ledger, (chain, declared), &real)
                .map_err(|why| self.refused(Some(ledger), why, ""))?,
            digest: canonical::digest_of(&declared.snapshot),
            session: None,
            renewed_at: std::time::Instant::now(),
            instance: Instance {
                id: uuid::Uuid::new_v4().to_string(),
                host: lease::host(),
                seq,
                epoch: ledger.epoch,
                lease_end: Timestamp::from_millis(0),
            },
        })
    }

    /// The differences between the tables and the ledger, without the changes of a step that is
    /// running.
    async fn differences(
        &self,
        session: &mut dyn SchemaSession,
        ledger: &Ledger,
        real: &Tables,
    ) -> Result<Vec<String>, Refusal> {
        let system = self.declared.system_tables();
        let tables: Vec<&Table> = real.values().chain(&system).collect();
        let differences = session.compare(&tables).await?;
        let running = self.running(ledger);
        let explained = |difference: &Difference| {
            running.iter().any(|step| match &step.work {
                Work::Schema(action) => {
                    action.table() == difference.table
                        && (action.object().is_none()
                            || action.object() == difference.object.as_deref())
                }
                Work::Data(_) | Work::Check { .. } => false,
            })
        };
        let harmful = differences
            .iter()
            .filter(|difference| !difference.code.is_harmless() && !explained(difference));
        Ok(harmful.map(ToString::to_string).collect())
    }

    /// The steps that have started and are not done.
    fn running(&self, ledger: &Ledger) -> Vec<Step> {
        let mut all = Vec::new();
        for link in open_migrations(self.store, ledger) {
            all.extend(link.steps.into_iter().filter(|step| {
                ledger
                    .steps
                    .get(&step.id)
                    .is_some_and(|known| known.state != StepState::Done)
            }));
        }
        all
    }

    fn drift(&self, ledger: &Ledger, differences: &[String]) -> Refusal {
        let why = Refusal::new("drift", Exit::Refused, "the tables differ from the ledger")
            .help("undo the change by hand; `migrate verify` lists every difference");
        let why = differences.iter().fold(why, Refusal::fact);
        self.refused(Some(ledger), why, "")
    }

    /// The steps between the installed and the declared schema, which a later command carries out.
    ///
    /// # Errors
    /// `pending_changes` if this binary cannot serve before unrecorded changes are done. For
    /// recorded migrations, the window decides that.
    fn pending(&self, ledger: &Ledger) -> Result<Vec<String>, Refusal> {
        let (store, declared) = (self.store, self.declared);
        if same(&ledger.snapshot, &declared.snapshot) || ledger.seq > self.chain.seq() {
            return Ok(Vec::new());
        }
        let seq = ledger.seq.max(self.chain.seq()) + 1;
        let pair = (&ledger.snapshot, &declared.snapshot);
        let rest = planned(
            (seq, "draft"),
            pair,
            None,
            &terrain(store, &declared.own_sql),
        );
        let lines: Vec<String> = rest.steps.iter().map(apply::line).collect();
        if same(&self.chain.snapshot(), &declared.snapshot) || lines.is_empty() {
            return Ok(lines);
        }
        let needs_function = rest
            .steps
            .iter()
            .any(|step| matches!(&step.work, Work::Data(data) if data.transform().is_some()));
        let why = match (&rest.fence, store.is_embedded()) {
            (_, false) => "the declared entities differ from the tables, and a start changes only \
                           an embedded database"
                .to_owned(),
            (Some(fence), true) => fence.clone(),
            (None, true) if needs_function => {
                "a transform must compute values first, which needs a recorded migration".to_owned()
            }
            (None, true) => return Ok(lines),
        };
        let why = Refusal::new("pending_changes", Exit::Refused, why)
            .help("run `migrate record NAME` and `migrate apply`, then start again");
        let why = lines
            .iter()
            .fold(why, |why, line| why.fact(format!("pending: {line}")));
        Err(self.refused(Some(ledger), why, ""))
    }

    /// The refusal of a binary in production whose declarations are not recorded in its chain.
    fn unrecorded(&self) -> Refusal {
        let head = self.chain.snapshot();
        let pair = (&head, &self.declared.snapshot);
        let seq = self.chain.seq() + 1;
        let rest = planned((seq, "draft"), pair, None, &terrain(self.store, &[]));
        let mut why = unrecorded();
        if self.chain.head().is_none() {
            "the app has no recorded migrations".clone_into(&mut why.message);
            why = why.help(
                "run `migrate record NAME`, and add `.migrations(linchpin::migrations!(\"migrations\"))` to the app",
            );
        } else {
            why = why
                .help("run `migrate record NAME`, review and apply it, and build the binary again");
        }
        let why = rest
            .steps
            .iter()
            .map(apply::line)
            .fold(why, |why, line| why.fact(format!("not recorded: {line}")));
        self.refused(None, why, "")
    }
}

/// The properties for a plan that needs no approval: only the dialect and the SQL matter.
fn terrain<'a>(store: &dyn SchemaStore, own_sql: &'a [OwnSql]) -> Terrain<'a> {
    static NONE: BTreeMap<String, RowClass> = BTreeMap::new();
    Terrain {
        dialect: store.dialect(),
        classes: &NONE,
        sensitive: &|_, _| true,
        own_sql,
        uses: &|_, _| None,
    }
}

/// The open migrations of a database with their steps.
fn open_migrations(store: &dyn SchemaStore, ledger: &Ledger) -> Vec<Planned> {
    let terrain = terrain(store, &[]);
    let mut before = ledger.snapshot.clone();
    let mut all = Vec::new();
    for (seq, migration) in &ledger.migrations {
        if *seq <= ledger.seq || !migration.state.is_open() {
            continue;
        }
        // The document was valid when it was written. A damaged one is skipped.
        let Ok(recorded) = serde_json::from_str::<Migration>(&migration.document) else {
            continue;
        };
        all.push(planned(
            (*seq, &recorded.name),
            (&before, &recorded.snapshot),
            Some(&recorded),
            &terrain,
        ));
        before = recorded.snapshot;
    }
    all
}

/// The present tables: those of the installed snapshot after the steps that are done.
pub(crate) fn real_tables(store: &dyn SchemaStore, ledger: &Ledger) -> Tables {
    let mut tables = ledger.snapshot.tables();
    for link in open_migrations(store, ledger) {
        for step in link.steps.iter().filter(|step| ledger.is_done(&step.id)) {
            step.apply(&mut tables);
        }
    }
    tables
}
