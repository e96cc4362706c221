//! Plans: the steps that migrate a database from the state in its ledger to the head of the chain.

mod document;
mod history;
mod links;

use std::collections::{BTreeMap, BTreeSet};

use linchpin_core::entity::{EntityDesc, Flags, TransformDesc};
use linchpin_core::schema::{
    Locator, RowCount, SchemaSession, SchemaStore, Snapshot, Table, Tables,
};

use crate::canonical;
use crate::chain::{Chain, Migration};
use crate::error::Refusal;
use crate::ledger::{Installed, Ledger, NameMode, StepState};
use crate::lower::Terrain;
use crate::own_sql::OwnSql;
use crate::step::{Phase, RowClass, Step};
use crate::uses::{self, DeclaredOperation};

pub(crate) use self::history::{check_history, refuse_foreign, refuse_missing};
pub(crate) use self::links::planned;

/// The declarations of an app.
#[derive(Clone, Debug)]
pub struct Declared {
    /// The name of the app.
    pub app: String,
    /// The entities of its packages and plugins.
    pub entities: Vec<&'static EntityDesc>,
    /// The entities of the framework. Their tables have a separate version.
    pub system: Vec<&'static EntityDesc>,
    /// The functions that migrations may run.
    pub transforms: Vec<&'static TransformDesc>,
    /// The SQL that custom operations declare.
    pub own_sql: Vec<OwnSql>,
    /// The operations of its packages and plugins.
    pub operations: Vec<DeclaredOperation>,
    /// The snapshot of `entities`, with the former names that the chain records.
    pub snapshot: Snapshot,
}

impl Declared {
    /// The tables of the framework.
    pub(crate) fn system_tables(&self) -> Vec<Table> {
        Snapshot::of(self.system.iter().copied())
            .tables()
            .into_values()
            .collect()
    }

    /// The version of the framework's tables that a run with these declarations creates.
    /// Declarations from a saved snapshot create no such tables (version 0); the app creates them
    /// later.
    pub(crate) fn system_version(&self) -> u64 {
        if self.system.is_empty() {
            0
        } else {
            crate::system::VERSION
        }
    }

    fn is_sensitive(&self, entity: &str, field: &str) -> bool {
        let desc = self.entities.iter().find(|d| d.storage_name == entity);
        let field = desc.and_then(|d| d.fields.iter().find(|f| f.name == field));
        field.is_some_and(|field| {
            let hidden = Flags::SENSITIVE.or(Flags::PRIVATE).or(Flags::WRITE_ONLY);
            field.flags.has(hidden)
        })
    }

    /// The declaration of an entity.
    pub(crate) fn entity(&self, storage_name: &str) -> Option<&'static EntityDesc> {
        let mut all = self.entities.iter().copied();
        all.find(|desc| desc.storage_name == storage_name)
    }

    /// The reason why this binary needs the values of a field in one column; `None` if it does not.
    pub(crate) fn uses(&self, entity: &str, field: &str) -> Option<String> {
        uses::reason(&self.entities, &self.operations, entity, field)
    }

    /// The function with this name.
    pub fn transform(&self, name: &str) -> Option<&'static TransformDesc> {
        let of_fields = self
            .entities
            .iter()
            .flat_map(|desc| desc.fields)
            .filter_map(|field| field.transform);
        let all = of_fields.chain(self.transforms.iter().copied());
        all.flat_map(|transform| std::iter::once(transform).chain(transform.reverse))
            .find(|transform| transform.name == name)
    }
}

/// A plan for one database.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The name of the store.
    pub store: &'static str,
    /// The name of the database, for reports.
    pub database: String,
    /// The id of the database; `None` before the ledger exists.
    pub database_id: Option<String>,
    /// The identity of the database.
    pub locator: Locator,
    /// The installed migration and the digest of its snapshot.
    pub from: (u64, Option<String>),
    /// The migration at the end of the plan and the digest of its snapshot.
    pub to: (u64, String),
    /// Whether the head of the chain equals the declarations.
    pub recorded: bool,
    /// The migrations with their steps, in order.
    pub migrations: Vec<Planned>,
    /// Notes for the reader of the plan.
    pub notes: Vec<String>,
    /// The physical model before the first step.
    pub start: Tables,
}

/// A migration of a plan.
#[derive(Clone, Debug)]
pub struct Planned {
    /// Its number.
    pub seq: u64,
    /// Its name.
    pub name: String,
    /// The snapshot that it leads to.
    pub after: Snapshot,
    /// The recorded migration; `None` for declared changes that are not recorded.
    pub recorded: Option<Migration>,
    /// The reason why two binaries cannot serve while it runs; `None` if they can.
    pub fence: Option<String>,
    /// The last phase of the steps that the new binary needs before it serves.
    pub ready: Phase,
    /// The functions that it runs, with their digests.
    pub transforms: Vec<(String, String)>,
    /// The steps.
    pub steps: Vec<Step>,
    /// The ids of the steps that are done.
    pub done: BTreeSet<String>,
    /// Notes on the steps.
    pub notes: Vec<String>,
}

impl Planned {
    /// The steps that are not done.
    pub fn pending(&self) -> impl Iterator<Item = &Step> {
        self.steps
            .iter()
            .filter(|step| !self.done.contains(&step.id))
    }

    /// Whether every step of a phase and of the phases before it is done.
    pub fn is_done(&self, phase: Phase) -> bool {
        self.pending().all(|step| step.phase > phase)
    }

    /// Whether older binaries can no longer serve after it.
    pub(crate) fn narrows(&self) -> bool {
        self.steps.iter().any(Step::narrows)
    }

    /// The names in use of the objects that it renames, if the steps in `done` are done.
    pub(crate) fn modes(&self, done: &BTreeSet<String>) -> BTreeMap<String, NameMode> {
        let mode = |step: &Step| {
            if done.contains(&step.id) {
                NameMode::New
            } else {
                NameMode::Old
            }
        };
        let steps = self.steps.iter();
        steps
            .flat_map(|step| {
                step.renames()
                    .into_iter()
                    .map(move |name| (name, mode(step)))
            })
            .collect()
    }
}

impl Plan {
    /// Makes a plan. It reads the database and writes nothing.
    ///
    /// # Errors
    /// A refusal if the history of the database contradicts the chain; a fault of the database.
    pub async fn make(
        store: &dyn SchemaStore,
        session: &mut dyn SchemaSession,
        installed: &Installed,
        (chain, declared): (&Chain, &Declared),
    ) -> Result<Self, Refusal> {
        let dialect = store.dialect();
        let ledger = installed.ledger();
        let head = chain.snapshot();
        let recorded = same(&head, &declared.snapshot);
        if let Some(ledger) = ledger {
            check_history(ledger, chain)?;
        }
        let base = ledger.map_or_else(Snapshot::empty, |ledger| ledger.snapshot.clone());
        let classes = classes(session, &base, ledger).await?;
        let sensitive = |entity: &str, field: &str| declared.is_sensitive(entity, field);
        let terrain = Terrain {
            dialect,
            classes: &classes,
            sensitive: &sensitive,
            own_sql: &declared.own_sql,
            uses: &|entity: &str, field: &str| declared.uses(entity, field),
        };
        let mut migrations = links::links(ledger, chain, declared, &terrain, recorded);
        history::refuse_changed_functions(&migrations, declared)?;
        if let Some(ledger) = ledger {
            history::refuse_changed_steps(ledger, &migrations)?;
            for migration in &mut migrations {
                let ids = migration.steps.iter().map(|step| &step.id);
                let done = ids.filter(|id| ledger.is_done(id)).cloned().collect();
                migration.done = done;
                // The table of a done step may be gone or renamed, so the recorded class is used.
                for step in &mut migration.steps {
                    let known = ledger.steps.get(&step.id);
                    if let Some(known) = known.filter(|known| known.state == StepState::Done) {
                        step.class = known.class;
                    }
                }
            }
        }
        let last = migrations.last();
        let to = last.map_or((chain.seq(), canonical::digest_of(&head)), |last| {
            (last.seq, canonical::digest_of(&last.after))
        });
        Ok(Self {
            store: dialect.name(),
            database: store.database(),
            database_id: ledger.map(|ledger| ledger.database_id.clone()),
            locator: session.locator().await?,
            from: ledger.map_or((0, None), |ledger| {
                (ledger.seq, Some(canonical::digest_of(&ledger.snapshot)))
            }),
            to,
            recorded,
            notes: migrations.iter().flat_map(|m| m.notes.clone()).collect(),
            migrations,
            start: base.tables(),
        })
    }

    /// The present tables: those after the steps that are done.
    pub(crate) fn present_tables(&self) -> Tables {
        let mut tables = self.start.clone();
        for migration in &self.migrations {
            let steps = migration.steps.iter();
            for step in steps.filter(|step| migration.done.contains(&step.id)) {
                step.apply(&mut tables);
            }
        }
        tables
    }

    /// The steps that are not done, up to and including a phase.
    pub fn pending(&self, phase: Phase) -> impl Iterator<Item = &Step> {
        self.migrations
            .iter()
            .flat_map(Planned::pending)
            .filter(move |step| step.phase <= phase)
    }
}

/// Whether two snapshots are equal.
pub(crate) fn same(a: &Snapshot, b: &Snapshot) -> bool {
    a == b
}

/// The size classes of the installed tables, by their installed names. An open migration may have
/// renamed a table.
async fn classes(
    session: &mut dyn SchemaSession,
    installed: &Snapshot,
    ledger: Option<&Ledger>,
) -> Result<BTreeMap<String, RowClass>, Refusal> {
    let existing = session.tables().await?;
    let renamed = ledger.map(renamed).unwrap_or_default();
    let mut all = BTreeMap::new();
    for table in installed.entities.keys() {
        let present = if existing.contains(table) {
            Some(table)
        } else {
            renamed.get(table).filter(|name| existing.contains(name))
        };
        if let Some(present) = present {
            let class = match session.count(present).await? {
                RowCount::Exact(rows) | RowCount::Estimate(rows) => RowClass::of(rows),
                RowCount::Unknown => RowClass::LARGEST,
            };
            all.insert(table.clone(), class);
        }
    }
    Ok(all)
}

/// The later names of the tables that open migrations rename, by their earlier names.
fn renamed(ledger: &Ledger) -> BTreeMap<String, String> {
    let open = ledger.migrations.values().filter(|m| m.state.is_open());
    let documents = open.filter_map(|m| serde_json::from_str::<Migration>(&m.document).ok());
    let mut all = BTreeMap::new();
    for migration in documents {
        for (name, entity) in migration.snapshot.entities {
            let former = entity.former_names.into_iter();
            all.extend(former.map(|former| (former, name.clone())));
        }
    }
    all
}
