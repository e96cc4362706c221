//! Operations run for the methods that macros write: a call, and its answer as the type that the
//! method promises.

use serde::de::DeserializeOwned;

use super::adapter::{Adapter, one, optional, page_of, records_of};
use super::{Call, Form, Outcome};
use linchpin_core::__private::NumbersRow;

use crate::entity::{Entity, FieldType, Page, PageArgs, Upserted};
use crate::operation::OpSpec;
use crate::validate::canonical_value;
use crate::{Cx, Error, Result, Value};

/// Runs an operation that answers a record. For generated methods.
///
/// # Errors
/// Those of the operation; `not_found` when it found nothing.
#[doc(hidden)]
pub async fn run_record<E: Entity>(
    adapter: &Adapter<E>,
    spec: &'static OpSpec,
    cx: &Cx,
    args: Vec<Option<Value>>,
) -> Result<E> {
    match call(adapter, spec, cx, args, PageArgs::default()).await? {
        Outcome::Record(rows) | Outcome::Upserted(rows) => one(rows),
        _ => Err(unexpected(spec)),
    }
}

/// Runs an operation that answers a record of another entity. For generated methods.
///
/// # Errors
/// Those of the operation.
#[doc(hidden)]
pub async fn run_other<E: Entity, T: Entity>(
    adapter: &Adapter<E>,
    spec: &'static OpSpec,
    cx: &Cx,
    args: Vec<Option<Value>>,
) -> Result<T> {
    match call(adapter, spec, cx, args, PageArgs::default()).await? {
        Outcome::Record(rows) => one(rows),
        _ => Err(unexpected(spec)),
    }
}

/// Runs an operation that answers a record or nothing. For generated methods.
///
/// # Errors
/// Those of the operation.
#[doc(hidden)]
pub async fn run_optional<E: Entity>(
    adapter: &Adapter<E>,
    spec: &'static OpSpec,
    cx: &Cx,
    args: Vec<Option<Value>>,
) -> Result<Option<E>> {
    match call(adapter, spec, cx, args, PageArgs::default()).await? {
        Outcome::Record(rows) => optional(rows),
        _ => Err(unexpected(spec)),
    }
}

/// Runs an operation that answers a page. For generated methods.
///
/// # Errors
/// Those of the operation.
#[doc(hidden)]
pub async fn run_page<E: Entity>(
    adapter: &Adapter<E>,
    spec: &'static OpSpec,
    cx: &Cx,
    args: Vec<Option<Value>>,
    page: PageArgs,
) -> Result<Page<E>> {
    page_of(call(adapter, spec, cx, args, page).await?)
}

/// Runs an operation that answers an array of records. For generated methods.
///
/// # Errors
/// Those of the operation.
#[doc(hidden)]
pub async fn run_list<E: Entity>(
    adapter: &Adapter<E>,
    spec: &'static OpSpec,
    cx: &Cx,
    args: Vec<Option<Value>>,
    page: PageArgs,
) -> Result<Vec<E>> {
    match call(adapter, spec, cx, args, page).await? {
        Outcome::List(rows) => records_of(&rows),
        _ => Err(unexpected(spec)),
    }
}

/// Runs an aggregate of all records. For generated methods.
///
/// # Errors
/// Those of the operation.
#[doc(hidden)]
pub async fn run_row<E: Entity, R: NumbersRow>(
    adapter: &Adapter<E>,
    spec: &'static OpSpec,
    cx: &Cx,
    args: Vec<Option<Value>>,
) -> Result<R> {
    run_rows(adapter, spec, cx, args)
        .await?
        .pop()
        .ok_or_else(|| unexpected(spec))
}

/// Runs an aggregate of groups. For generated methods.
///
/// # Errors
/// Those of the operation.
#[doc(hidden)]
pub async fn run_rows<E: Entity, R: NumbersRow>(
    adapter: &Adapter<E>,
    spec: &'static OpSpec,
    cx: &Cx,
    args: Vec<Option<Value>>,
) -> Result<Vec<R>> {
    match call(adapter, spec, cx, args, PageArgs::default()).await? {
        Outcome::Numbers { rows, .. } => rows.iter().map(|row| R::read(row)).collect(),
        _ => Err(unexpected(spec)),
    }
}

/// Runs an operation that answers records of another entity. For generated methods.
///
/// # Errors
/// Those of the operation.
#[doc(hidden)]
pub async fn run_records<E: Entity, T: Entity>(
    adapter: &Adapter<E>,
    spec: &'static OpSpec,
    cx: &Cx,
    args: Vec<Option<Value>>,
) -> Result<Vec<T>> {
    match call(adapter, spec, cx, args, PageArgs::default()).await? {
        Outcome::List(rows) => records_of(&rows),
        _ => Err(unexpected(spec)),
    }
}

/// Runs an operation that answers values. For generated methods.
///
/// # Errors
/// Those of the operation.
#[doc(hidden)]
pub async fn run_values<E: Entity, T: FieldType>(
    adapter: &Adapter<E>,
    spec: &'static OpSpec,
    cx: &Cx,
    args: Vec<Option<Value>>,
) -> Result<Vec<T>> {
    match call(adapter, spec, cx, args, PageArgs::default()).await? {
        Outcome::List(rows) => {
            let first = |values: &[Value]| {
                T::from_value(crate::store::Row::value(values, 0)).map_err(Error::internal)
            };
            rows.records.iter().map(|values| first(values)).collect()
        }
        _ => Err(unexpected(spec)),
    }
}

/// Runs an operation that answers a boolean. For generated methods.
///
/// # Errors
/// Those of the operation.
#[doc(hidden)]
pub async fn run_bool<E: Entity>(
    adapter: &Adapter<E>,
    spec: &'static OpSpec,
    cx: &Cx,
    args: Vec<Option<Value>>,
) -> Result<bool> {
    match call(adapter, spec, cx, args, PageArgs::default()).await? {
        Outcome::Boolean(b) => Ok(b),
        _ => Err(unexpected(spec)),
    }
}

/// Runs an operation that answers a number. For generated methods.
///
/// # Errors
/// Those of the operation.
#[doc(hidden)]
pub async fn run_count<E: Entity>(
    adapter: &Adapter<E>,
    spec: &'static OpSpec,
    cx: &Cx,
    args: Vec<Option<Value>>,
) -> Result<u64> {
    match call(adapter, spec, cx, args, PageArgs::default()).await? {
        Outcome::Count(n) => Ok(n),
        _ => Err(unexpected(spec)),
    }
}

/// Runs an operation that answers nothing. For generated methods.
///
/// # Errors
/// Those of the operation.
#[doc(hidden)]
pub async fn run_unit<E: Entity>(
    adapter: &Adapter<E>,
    spec: &'static OpSpec,
    cx: &Cx,
    args: Vec<Option<Value>>,
) -> Result<()> {
    match call(adapter, spec, cx, args, PageArgs::default()).await? {
        Outcome::Nothing => Ok(()),
        _ => Err(unexpected(spec)),
    }
}

/// Runs an operation that answers JSON of a known form. For generated methods.
///
/// # Errors
/// Those of the operation.
#[doc(hidden)]
pub async fn run_json<E: Entity, T: DeserializeOwned>(
    adapter: &Adapter<E>,
    spec: &'static OpSpec,
    cx: &Cx,
    args: Vec<Option<Value>>,
) -> Result<T> {
    match call(adapter, spec, cx, args, PageArgs::default()).await? {
        Outcome::Json(text) => serde_json::from_slice(&text).map_err(Error::internal),
        _ => Err(unexpected(spec)),
    }
}

/// Runs an upsert. For generated methods.
///
/// # Errors
/// Those of the operation.
#[doc(hidden)]
pub async fn run_upserted<E: Entity>(
    adapter: &Adapter<E>,
    spec: &'static OpSpec,
    cx: &Cx,
    args: Vec<Option<Value>>,
) -> Result<Upserted<E>> {
    match call(adapter, spec, cx, args, PageArgs::default()).await? {
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

async fn call<E: Entity>(
    adapter: &Adapter<E>,
    spec: &'static OpSpec,
    cx: &Cx,
    mut args: Vec<Option<Value>>,
    page: PageArgs,
) -> Result<Outcome> {
    for (arg, param) in args.iter_mut().zip(spec.params) {
        *arg = arg
            .take()
            .map(|value| canonical_value(param.field_of(adapter.table.desc), value));
    }
    let cx = &adapter.table.at_present(cx);
    adapter
        .table
        .run(
            spec,
            Call {
                cx,
                args,
                page,
                form: &Form::Records,
                version: None,
            },
        )
        .await
}

fn unexpected(spec: &OpSpec) -> Error {
    Error::internal(format!(
        "operation `{}` answered in another form than declared",
        spec.name
    ))
}
