//! Trial runs of transforms. A trial runs a transform twice on up to 100 rows and writes nothing.

use linchpin_core::Value;
use linchpin_core::schema::{Dialect, SchemaSession, Table, Tables};

use crate::check::shown;
use crate::data::DataAction;
use crate::error::{Exit, Refusal};
use crate::plan::{Declared, Plan};
use crate::rows::{self, ValueSource};
use crate::step::Work;

/// The number of rows of a trial.
const MAX_ROWS: u64 = 100;
/// The maximum number of keys in a message.
const MAX_LISTED_KEYS: usize = 5;

/// The outcome of a trial.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    /// The id of the step.
    pub(crate) step: String,
    /// The number of rows that were read.
    pub(crate) rows: usize,
    /// The keys of the rows that the function refused.
    pub(crate) refused: Vec<String>,
}

impl Sample {
    /// The line in plans, such as `sample 100 ok`.
    pub(crate) fn described(&self) -> String {
        if self.refused.is_empty() {
            return format!("sample {} ok", self.rows);
        }
        let keys: Vec<&str> = self
            .refused
            .iter()
            .take(MAX_LISTED_KEYS)
            .map(String::as_str)
            .collect();
        format!(
            "sample: the function refused {} of {} records; keys: {}",
            self.refused.len(),
            self.rows,
            keys.join(", ")
        )
    }
}

/// Tries the transforms of pending steps whose columns exist. It writes nothing.
///
/// # Errors
/// `transform_impure` if a function returns two different values for one record;
/// `transform_missing`; a fault of the database.
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
                // The contract phase repeats the change of the backfill phase.
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
        let mut read = rows::columns_to_read(data).into_iter().chain([data.key()]);
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
    let source = ValueSource::of(data, declared)?;
    let found = rows::batch(session, dialect, data, &[], (None, None), MAX_ROWS).await?;
    let (read, mut refused) = (found.len(), Vec::new());
    for row in found {
        let (key, inputs) = row.split_first().unwrap_or((&Value::Null, &[]));
        let (first, second) = (source.make(inputs), source.make(inputs));
        if first != second {
            return Err(Refusal::new(
                "transform_impure",
                Exit::Planning,
                format!(
                    "transform `{name}` returned two different values for one record (key {})",
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
