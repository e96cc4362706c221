//! Reads a batch of rows of a backfill, computes their values, and writes them.

use std::panic::{AssertUnwindSafe, catch_unwind};

use linchpin_core::entity::{
    ComputedDesc, EntityDesc, OldRecord, TransformDesc, TransformFrom, TransformInput,
};
use linchpin_core::schema::{Bound, Column, Dialect, SchemaError, SchemaSession, TransactionMode};
use linchpin_core::store::Row;
use linchpin_core::validate::out_of_range;
use linchpin_core::{Timestamp, Value, ValueRef};

use crate::data::{DataAction, FillValue};
use crate::error::{Exit, Refusal};
use crate::plan::Declared;

/// A row whose value could not be computed or stored.
#[derive(Clone, Debug)]
pub(crate) struct RefusedRow {
    pub(crate) key: Value,
    pub(crate) message: String,
}

/// A row to write: its key, its new value, and the values that the new one was computed from.
pub(crate) struct RowUpdate(Vec<Value>);

impl RowUpdate {
    pub(crate) fn new(key: Value, value: Value, inputs: Vec<Value>) -> Self {
        let mut row = Vec::with_capacity(2 + inputs.len());
        row.extend([key, value]);
        row.extend(inputs);
        Self(row)
    }
}

/// The source of the new value of a row.
pub(crate) enum ValueSource<'a> {
    /// A value that is the same for all rows or generated for each row.
    Fill(&'a FillValue),
    /// A function of the old value, and the value that replaces null.
    Function(&'static TransformDesc, Option<&'a FillValue>),
    /// A function of the old record, whose fields have these names.
    Record(&'static TransformDesc, Vec<&'a str>),
    /// The function of a computed field, and the positions of the fields that are read.
    Computed(&'static EntityDesc, ComputedDesc, Vec<Option<usize>>),
}

impl<'a> ValueSource<'a> {
    /// Finds the function of a change.
    ///
    /// # Errors
    /// `transform_missing` if this binary does not have it.
    pub(crate) fn of(data: &'a DataAction, declared: &Declared) -> Result<Self, Refusal> {
        let function = |name: &str| {
            declared.transform(name).ok_or_else(|| {
                missing(format!(
                    "this binary has no transform `{name}`, which a pending step runs"
                ))
                .help("register it: `linchpin::migrations!(\"migrations\", transforms = [path])`")
            })
        };
        Ok(match data {
            DataAction::Fill { value, .. } => Self::Fill(value),
            DataAction::Transform {
                transform, null, ..
            } => Self::Function(function(transform)?, null.as_ref()),
            DataAction::FillTransform {
                transform, fields, ..
            } => {
                let names = fields.iter().map(|(name, _)| name.as_str()).collect();
                Self::Record(function(transform)?, names)
            }
            DataAction::Recompute {
                entity,
                field,
                fields,
                ..
            } => {
                let desc = declared.entity(entity);
                let of = desc.and_then(|d| d.fields.iter().find(|f| f.name == *field));
                let (Some(desc), Some(computed)) = (desc, of.and_then(|f| f.computed)) else {
                    return Err(missing(format!(
                        "a pending step computes `{field}` of `{entity}`, which this binary does \
                         not declare as a computed field"
                    ))
                    .help("run the command with a binary that declares the counter"));
                };
                let position = |(name, _): &(String, Column)| {
                    desc.fields.iter().position(|field| field.name == *name)
                };
                Self::Computed(desc, computed, fields.iter().map(position).collect())
            }
            DataAction::Recount { .. } => {
                return Err(Refusal::new(
                    "internal",
                    Exit::Internal,
                    "a counter has no function",
                ));
            }
        })
    }

    /// Computes the value of a row. A panic of the function is an error.
    pub(crate) fn make(&self, inputs: &[Value]) -> Result<Value, String> {
        let value = match self {
            Self::Fill(fill) => fill.value(),
            Self::Function(function, null) => {
                let old = inputs.first().unwrap_or(&Value::Null);
                let takes_null = matches!(function.from, TransformFrom::Value(of) if of.optional);
                if old.is_null() && !takes_null {
                    return Ok(null.map_or(Value::Null, FillValue::value));
                }
                run(function, TransformInput::Value(old.as_ref()))?
            }
            Self::Record(function, names) => {
                let record = OldRecord::new(names, inputs);
                run(function, TransformInput::Record(&record))?
            }
            Self::Computed(desc, computed, positions) => {
                let record = Inputs {
                    desc,
                    positions,
                    values: inputs,
                };
                let compute = || (computed.value)(&record);
                match catch_unwind(AssertUnwindSafe(compute)) {
                    Ok(value) => value.map_err(|error| error.to_string())?,
                    Err(_) => return Err("the function panicked".to_owned()),
                }
            }
        };
        match out_of_range(&value) {
            Some(flaw) => Err(flaw.message.into_owned()),
            None => Ok(value),
        }
    }
}

impl FillValue {
    fn value(&self) -> Value {
        match self {
            Self::Literal(value) => value.clone(),
            Self::Uuid => Value::Text(uuid::Uuid::now_v7().to_string()),
            Self::Cuid => linchpin_core::__private::cuid(),
            Self::Now => Value::Date(Timestamp::system_now()),
            Self::After(millis) => {
                let now = Timestamp::system_now().millis();
                Value::Date(Timestamp::from_millis(now.saturating_add_unsigned(*millis)))
            }
        }
    }
}

fn missing(message: String) -> Refusal {
    Refusal::new("transform_missing", Exit::Planning, message)
}

fn run(function: &'static TransformDesc, input: TransformInput<'_>) -> Result<Value, String> {
    function.checked(input).map_err(|error| error.to_string())
}

/// The record that the function of a computed field reads.
struct Inputs<'a> {
    desc: &'static EntityDesc,
    /// The position of the field of each value.
    positions: &'a [Option<usize>],
    values: &'a [Value],
}

impl Row for Inputs<'_> {
    fn value(&self, field: usize) -> ValueRef<'_> {
        if let Some(computed) = self.desc.fields.get(field).and_then(|f| f.computed) {
            return (computed.blank)();
        }
        let at = self.positions.iter().position(|at| *at == Some(field));
        at.and_then(|at| self.values.get(at))
            .map_or(ValueRef::Null, Value::as_ref)
    }
}

/// The columns that a change reads in addition to the key.
pub(crate) fn columns_to_read(data: &DataAction) -> Vec<&Column> {
    match data {
        DataAction::FillTransform { fields, .. } => fields.iter().map(|(_, c)| c).collect(),
        // The stored value is first. It is compared, so that an unchanged row is not written.
        DataAction::Recompute { column, .. } => {
            let mut all = vec![column];
            all.extend(data.inputs());
            all
        }
        _ => data.inputs(),
    }
}

/// Reads the next rows that meet the conditions. A returned row contains the key and the columns of
/// [`columns_to_read`].
pub(crate) async fn batch(
    session: &mut dyn SchemaSession,
    dialect: &dyn Dialect,
    data: &DataAction,
    conditions: &[String],
    (after, end): (Option<&Value>, Option<&Value>),
    limit: u64,
) -> Result<Vec<Vec<Value>>, SchemaError> {
    let key = data.key();
    let quoted = dialect.quote(&key.name);
    let read = columns_to_read(data);
    let mut columns = vec![quoted.clone()];
    columns.extend(read.iter().map(|column| dialect.quote(&column.name)));
    let mut kinds = vec![key.kind.clone()];
    kinds.extend(read.iter().map(|column| column.kind.clone()));
    let mut conditions = conditions.to_vec();
    let mut values: Vec<Bound> = Vec::new();
    for (bound, operator) in [(after, ">"), (end, "<=")] {
        if let Some(bound) = bound {
            values.push((bound.clone(), key.kind.clone()));
            conditions.push(format!("{quoted} {operator} ${}", values.len()));
        }
    }
    let filter = if conditions.is_empty() {
        String::new()
    } else {
        format!(" WHERE {}", conditions.join(" AND "))
    };
    let sql = format!(
        "SELECT {} FROM {}{filter} ORDER BY {quoted} LIMIT {limit}",
        columns.join(", "),
        dialect.quote(data.table()),
    );
    session.query(&sql, &values, &kinds).await
}

/// Computes the values of rows. Returns the rows to write, without those that are up to date, and
/// the rows that the function refused.
pub(crate) fn compute(
    data: &DataAction,
    source: &ValueSource<'_>,
    rows: Vec<Vec<Value>>,
) -> (Vec<RowUpdate>, Vec<RefusedRow>) {
    let (mut updates, mut refused) = (Vec::with_capacity(rows.len()), Vec::new());
    let (width, recomputes) = (
        1 + data.inputs().len(),
        matches!(data, DataAction::Recompute { .. }),
    );
    for mut row in rows {
        let stored = (recomputes && row.len() > 1).then(|| row.remove(1));
        match source.make(row.get(1..).unwrap_or_default()) {
            Err(message) => {
                let key = row.into_iter().next().unwrap_or_default();
                refused.push(RefusedRow { key, message });
            }
            Ok(value) if stored.as_ref() == Some(&value) => {}
            // The row keeps null, which needs no write.
            Ok(Value::Null) if matches!(data, DataAction::FillTransform { .. }) => {}
            Ok(value) => {
                // Reuses the row, so that a backfill allocates no second list for each row.
                row.truncate(width);
                row.insert(1, value);
                updates.push(RowUpdate(row));
            }
        }
    }
    (updates, refused)
}

/// Writes rows in the open transaction. Returns the number of written rows, and the rows that the
/// database refused. Skips a row that was changed after it was read.
///
/// # Errors
/// Any other fault of the database.
pub(crate) async fn write(
    session: &mut dyn SchemaSession,
    dialect: &dyn Dialect,
    data: &DataAction,
    rows: Vec<RowUpdate>,
) -> Result<(u64, Vec<RefusedRow>), SchemaError> {
    if rows.is_empty() {
        return Ok((0, Vec::new()));
    }
    let statement = data.row_statement(dialect);
    let rows = rows.into_iter().map(|row| row.0).collect();
    let written = session.write_rows(&statement, rows).await?;
    let refused = written
        .refused
        .into_iter()
        .map(|(mut row, message)| RefusedRow {
            key: row.swap_remove(0),
            message,
        });
    Ok((written.changed, refused.collect()))
}

/// Runs work in a transaction. Commits if the work succeeds, else rolls back.
pub(crate) async fn in_transaction<T>(
    session: &mut dyn SchemaSession,
    work: impl AsyncFnOnce(&mut dyn SchemaSession) -> Result<T, SchemaError>,
) -> Result<T, SchemaError> {
    session.begin(TransactionMode::Write).await?;
    match work(session).await {
        Ok(value) => {
            session.commit().await?;
            Ok(value)
        }
        Err(error) => {
            session.rollback().await;
            Err(error)
        }
    }
}
