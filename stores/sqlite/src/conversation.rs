//! Helpers for the application's own SQL on the `sqlx` pool: the row-level filter as SQL text,
//! binding of values, reading of rows, conversion of errors.

use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{Arguments, Row as _, ValueRef as _};

use super::{error, render};
use linchpin_core::entity::{EntityDesc, Kind};
use linchpin_core::filter::Filter;
use linchpin_core::filter::eval::fold;
use linchpin_core::{Error, Result, Timestamp, Value};
use linchpin_sql::names::Naming;

/// Renders a filter as SQL, with its values. The first parameter is `$before + 1`, because `before`
/// other values come first.
///
/// # Errors
/// If the filter cannot be part of the application's own SQL.
pub(super) fn condition(
    entity: &'static EntityDesc,
    filter: &Filter,
    naming: &Naming,
    before: usize,
) -> Result<(String, Vec<(Value, Kind)>)> {
    let (text, binds) = render::condition(entity, filter, naming, before)?;
    let value = |bind: render::Bind| match (bind.value, bind.form) {
        (Ok(Value::Text(text)), render::Form::Folded) => {
            Ok((Value::Text(fold(&text)), Kind::String))
        }
        // `arguments` ignores the kind, so any kind is correct here.
        (Ok(value), _) => Ok((value, Kind::String)),
        (Err(_), _) => Err(Error::internal("the row-level filter lacks a value")),
    };
    Ok((text, binds.into_iter().map(value).collect::<Result<_>>()?))
}

/// Binds values as arguments of `sqlx`.
///
/// # Errors
/// If a value cannot be bound.
pub(super) fn arguments(values: Vec<(Value, Kind)>) -> Result<SqliteArguments> {
    let mut arguments = SqliteArguments::default();
    for (value, _) in values {
        let added = match value {
            Value::Null => arguments.add(None::<String>),
            Value::Bool(b) => arguments.add(b),
            Value::Int(i) => arguments.add(i),
            Value::Float(f) => arguments.add(f),
            Value::Text(text) | Value::Json(text) => arguments.add(text),
            Value::Date(date) => arguments.add(date.millis()),
            Value::Strings(list) => {
                arguments.add(serde_json::to_string(&list).map_err(Error::internal)?)
            }
        };
        added.map_err(Error::internal)?;
    }
    Ok(arguments)
}

/// Reads a column of a row as a value of a kind.
///
/// # Errors
/// If the column does not exist, or has another kind of value.
pub(super) fn read(row: &SqliteRow, column: &str, kind: Kind) -> Result<Value> {
    if row.try_get_raw(column).map_err(Error::internal)?.is_null() {
        return Ok(Value::Null);
    }
    let value = match kind {
        Kind::String | Kind::Enum(_) => row.try_get(column).map(Value::Text),
        Kind::Boolean => row.try_get::<i64, _>(column).map(|n| Value::Bool(n != 0)),
        Kind::Integer => row.try_get(column).map(Value::Int),
        Kind::Number => row.try_get(column).map(Value::Float),
        Kind::Date => row
            .try_get(column)
            .map(|millis| Value::Date(Timestamp::from_millis(millis))),
        Kind::Json | Kind::Items(_) => row.try_get(column).map(Value::Json),
        Kind::StringArray => {
            let text: String = row.try_get(column).map_err(Error::internal)?;
            return serde_json::from_str(&text)
                .map(Value::Strings)
                .map_err(Error::internal);
        }
    };
    value.map_err(Error::internal)
}

/// Converts an error of sqlx into one of the framework.
pub(super) fn failed(naming: &Naming, entity: &EntityDesc, failure: sqlx::Error) -> Error {
    let sqlx::Error::Database(db) = &failure else {
        return if linchpin_sql::is_transient(&failure) {
            Error::unavailable(failure)
        } else {
            Error::internal(failure)
        };
    };
    if db.is_unique_violation()
        && let Some(fields) = error::violated(naming, entity, db.message())
    {
        return Error::unique(fields);
    }
    if error::is_pending(naming, entity, db.message()) {
        return Error::schema_pending(failure);
    }
    // The code is an extended one; its low byte is the primary result code. These are: busy,
    // locked, read-only, I/O, full, cannot open.
    let plain = db
        .code()
        .and_then(|code| code.parse::<u32>().ok())
        .map(|code| code & 0xff);
    match plain {
        Some(5 | 6 | 8 | 10 | 13 | 14) => Error::unavailable(failure),
        _ => Error::internal(failure),
    }
}
