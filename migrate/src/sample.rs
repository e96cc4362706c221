//! Trial runs of transforms: on a few rows, twice, without a write.

use linchpin_core::Value;
use linchpin_core::schema::{Dialect, SchemaSession, Table, Tables};

use crate::check::shown;
use crate::data::DataAction;
use crate::error::{Exit, Refusal};
use crate::plan::{Declared, Plan};
use crate::rows::{self, Maker};
use crate::step::Work;

/// The number of rows of a trial.
const ROWS: u64 = 100;
/// The most keys in a message.
const SHOWN: usize = 5;

/// The outcome of a trial.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    /// The id of the step.
    pub(crate) step: String,
    /// The rows that were read.
    pub(crate) rows: usize,
    /// The keys of those for which the function has no value.
    pub(crate) refused: Vec<String>,
}

impl Sample {
    /// For plans: `sample 100 ok`.
    pub(crate) fn described(&self) -> String {
        if self.refused.is_empty() {
            return format!("sample {} ok", self.rows);
        }
        let keys: Vec<&str> = self
            .refused
            .iter()
            .take(SHOWN)
            .map(String::as_str)
            .collect();
        format!(
            "sample: no value for {} of {} records; keys: {}",
            self.refused.len(),
            self.rows,
            keys.join(", ")
        )
    }
}

/// Tries the transforms of pending steps whose columns exist. It writes nothing.
///
/// # Errors
/// `transform_impure` if a function has two values for one record; `transform_missing`; a fault of
/// the database.
pub(crate) async fn samples(
    plan: &Plan,
    session: &mut dyn SchemaSession,
    dialect: &dyn Dialect,
    declared: &Declared,
) -> Result<Vec<Sample>, Refusal> {
    let mut real = plan.start.clone();
    let mut all = Vec::new();
    let mut tried: Vec<&DataAction> = Vec::new();
    for migration in &plan.migrations {
        for step in &migration.steps {
            if migration.done.contains(&step.id) {
                step.apply(&mut real);
                continue;
            }
            if let Work::Data(data) = &step.work
                && let Some(name) = data.transform()
                && declared.transform(name).is_some()
                && exists(&real, data)
                // The contract repeats the change of the backfill.
                && !tried.contains(&data)
            {
                tried.push(data);
                let (rows, refused) = trial(session, dialect, (data, name), declared).await?;
                all.push(Sample {
                    step: step.id.clone(),
                    rows,
                    refused,
                });
            }
        }
    }
    Ok(all)
}

/// Whether the columns that a change reads exist.
fn exists(tables: &Tables, data: &DataAction) -> bool {
    let has = |table: &Table| {
        let mut read = rows::read(data).into_iter().chain([data.key()]);
        read.all(|column| table.column(&column.name).is_some())
    };
    tables.get(data.table()).is_some_and(has)
}

/// Runs a function twice on each row. Returns the number of rows, and the keys of those that it
/// refuses.
async fn trial(
    session: &mut dyn SchemaSession,
    dialect: &dyn Dialect,
    (data, name): (&DataAction, &str),
    declared: &Declared,
) -> Result<(usize, Vec<String>), Refusal> {
    let maker = Maker::of(data, declared)?;
    let found = rows::batch(session, dialect, data, &[], (None, None), ROWS).await?;
    let (read, mut refused) = (found.len(), Vec::new());
    for row in found {
        let (key, inputs) = row.split_first().unwrap_or((&Value::Null, &[]));
        let (first, second) = (maker.make(inputs), maker.make(inputs));
        if first != second {
            return Err(Refusal::new(
                "transform_impure",
                Exit::Planning,
                format!(
                    "transform `{name}` has two values for one record (key {})",
                    shown(key)
                ),
            )
            .help("a transform may run more than once for a record: it must depend on its argument alone"));
        }
        if first.is_err() {
            refused.push(shown(key));
        }
    }
    Ok((read, refused))
}
