//! Converts the outcome of an operation into the return type of its generated method.
//!
//! There is one function per type. A generated method passes the function of its kind to
//! [`run`](super::run::run). Each function returns `internal` if the executor returned another form
//! than the kind declares.

use serde::de::DeserializeOwned;

use super::Outcome;
use super::adapter::{one, optional as at_most_one, page_of, records_of};
use crate::entity::{Entity, FieldType, Page, Upserted};
use crate::{Error, Result, Value};
use linchpin_core::__private::NumbersRow;
use linchpin_core::operation::{CustomOutput, OpSpec};

/// One record.
///
/// # Errors
/// `not_found` if the operation found no record.
pub fn record<T: Entity>(spec: &OpSpec, outcome: Outcome) -> Result<T> {
    match outcome {
        Outcome::Record(rows) | Outcome::Upserted(rows) => one(rows),
        _ => Err(unexpected(spec)),
    }
}

/// One record, or `None`.
///
/// # Errors
/// See the [module](self).
pub fn optional<T: Entity>(spec: &OpSpec, outcome: Outcome) -> Result<Option<T>> {
    match outcome {
        Outcome::Record(rows) => at_most_one(rows),
        _ => Err(unexpected(spec)),
    }
}

/// A page of records.
///
/// # Errors
/// See the [module](self).
pub fn page<T: Entity>(_: &OpSpec, outcome: Outcome) -> Result<Page<T>> {
    page_of(outcome)
}

/// All records of an array.
///
/// # Errors
/// See the [module](self).
pub fn records<T: Entity>(spec: &OpSpec, outcome: Outcome) -> Result<Vec<T>> {
    match outcome {
        Outcome::List(rows) => records_of(&rows),
        _ => Err(unexpected(spec)),
    }
}

/// One record, and whether it was created.
///
/// # Errors
/// See the [module](self).
pub fn upserted<T: Entity>(spec: &OpSpec, outcome: Outcome) -> Result<Upserted<T>> {
    match outcome {
        Outcome::Upserted(rows) => {
            let created = rows.created;
            Ok(Upserted {
                entity: one(rows)?,
                created,
            })
        }
        _ => Err(unexpected(spec)),
    }
}

/// The numbers of an aggregate over all records.
///
/// # Errors
/// See the [module](self).
pub fn row<R: NumbersRow>(spec: &OpSpec, outcome: Outcome) -> Result<R> {
    rows(spec, outcome)?.pop().ok_or_else(|| unexpected(spec))
}

/// The numbers of each group of an aggregate.
///
/// # Errors
/// See the [module](self).
pub fn rows<R: NumbersRow>(spec: &OpSpec, outcome: Outcome) -> Result<Vec<R>> {
    match outcome {
        Outcome::Numbers { rows, .. } => rows.iter().map(|row| R::read(row)).collect(),
        _ => Err(unexpected(spec)),
    }
}

/// The first value of each row.
///
/// # Errors
/// See the [module](self).
pub fn values<T: FieldType>(spec: &OpSpec, outcome: Outcome) -> Result<Vec<T>> {
    match outcome {
        Outcome::List(rows) => {
            let first = |values: &[Value]| {
                T::from_value(crate::store::Row::value(values, 0)).map_err(Error::internal)
            };
            rows.records.iter().map(|values| first(values)).collect()
        }
        _ => Err(unexpected(spec)),
    }
}

/// A boolean.
///
/// # Errors
/// See the [module](self).
pub fn boolean(spec: &OpSpec, outcome: Outcome) -> Result<bool> {
    match outcome {
        Outcome::Boolean(value) => Ok(value),
        _ => Err(unexpected(spec)),
    }
}

/// A number of records.
///
/// # Errors
/// See the [module](self).
pub fn count(spec: &OpSpec, outcome: Outcome) -> Result<u64> {
    match outcome {
        Outcome::Count(count) => Ok(count),
        _ => Err(unexpected(spec)),
    }
}

/// Returns nothing, for operations without a result.
///
/// # Errors
/// See the [module](self).
pub fn nothing(spec: &OpSpec, outcome: Outcome) -> Result<()> {
    match outcome {
        Outcome::Nothing => Ok(()),
        _ => Err(unexpected(spec)),
    }
}

/// JSON of a declared type: the items of a list.
///
/// # Errors
/// See the [module](self).
pub fn json<T: DeserializeOwned>(spec: &OpSpec, outcome: Outcome) -> Result<T> {
    match outcome {
        Outcome::Json(text) => serde_json::from_slice(&text).map_err(Error::internal),
        _ => Err(unexpected(spec)),
    }
}

/// The declared output of a custom operation, other than records.
///
/// # Errors
/// See the [module](self).
pub fn value<T: CustomOutput>(spec: &OpSpec, outcome: Outcome) -> Result<T> {
    json(spec, outcome)
}

fn unexpected(spec: &OpSpec) -> Error {
    Error::internal(format!(
        "the executor of operation `{}` returned another form than its kind declares",
        spec.name
    ))
}
