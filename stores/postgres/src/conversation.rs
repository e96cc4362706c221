//! Helpers for the application's own SQL on the `sqlx` pool: the row-level filter as SQL text,
//! binding of values, reading of rows, conversion of errors.

use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{
    PgArgumentBuffer, PgArguments, PgDatabaseError, PgHasArrayType, PgRow, PgTypeInfo, Postgres,
};
use sqlx::{Arguments, ColumnIndex, Encode, Row as _, Type, ValueRef as _};

use super::{bind, error, render};
use linchpin_core::entity::{EntityDesc, Kind};
use linchpin_core::filter::Filter;
use linchpin_core::filter::eval::fold;
use linchpin_core::{Code, Error, Result, Timestamp, Value};
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
        // Null is written as SQL text, so the kind does not matter.
        (Ok(value), _) => Ok((value, Kind::String)),
        (Err(_), _) => Err(Error::internal("the row-level filter lacks a value")),
    };
    Ok((text, binds.into_iter().map(value).collect::<Result<_>>()?))
}

/// Types by their fixed OIDs in the server's catalog.
const TIMESTAMPTZ: Oid = Oid(1184);
const TIMESTAMPTZ_ARRAY: Oid = Oid(1185);
const JSONB: Oid = Oid(3802);

/// A date in the binary format of the server.
struct Instant(Timestamp);

impl Type<Postgres> for Instant {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(TIMESTAMPTZ)
    }
}

impl PgHasArrayType for Instant {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(TIMESTAMPTZ_ARRAY)
    }
}

impl Encode<'_, Postgres> for Instant {
    fn encode_by_ref(
        &self,
        out: &mut PgArgumentBuffer,
    ) -> std::result::Result<IsNull, BoxDynError> {
        out.extend_from_slice(&bind::micros(self.0).to_be_bytes());
        Ok(IsNull::No)
    }
}

/// JSON in the binary format of the server.
struct Jsonb(String);

impl Type<Postgres> for Jsonb {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(JSONB)
    }
}

impl Encode<'_, Postgres> for Jsonb {
    fn encode_by_ref(
        &self,
        out: &mut PgArgumentBuffer,
    ) -> std::result::Result<IsNull, BoxDynError> {
        // The version of the format, then the text.
        out.extend_from_slice(&[1]);
        out.extend_from_slice(self.0.as_bytes());
        Ok(IsNull::No)
    }
}

/// Binds values as arguments of `sqlx`.
///
/// # Errors
/// If a value cannot be bound.
pub(super) fn arguments(values: Vec<(Value, Kind)>) -> Result<PgArguments> {
    let mut arguments = PgArguments::default();
    for (value, kind) in values {
        let added = match value {
            Value::Null => match kind {
                Kind::String | Kind::Enum(_) => arguments.add(None::<String>),
                Kind::Boolean => arguments.add(None::<bool>),
                Kind::Integer => arguments.add(None::<i64>),
                Kind::Number => arguments.add(None::<f64>),
                Kind::Date => arguments.add(None::<Instant>),
                Kind::StringArray => arguments.add(None::<Vec<String>>),
                Kind::Json | Kind::Items(_) => arguments.add(None::<Jsonb>),
            },
            Value::Bool(b) => arguments.add(b),
            Value::Int(i) => arguments.add(i),
            Value::Float(f) => arguments.add(f),
            Value::Text(text) => arguments.add(text),
            Value::Json(text) => arguments.add(Jsonb(text)),
            Value::Date(date) => arguments.add(Instant(date)),
            Value::Strings(list) => arguments.add(list),
        };
        added.map_err(Error::internal)?;
    }
    Ok(arguments)
}

/// Binds arrays of values, one array per column. The kinds must not be lists or JSON.
///
/// # Errors
/// If a value cannot be bound.
pub(super) fn array_arguments<'v, I: Iterator<Item = &'v Value>>(
    columns: impl Iterator<Item = (I, Kind)>,
) -> Result<PgArguments> {
    /// The values of a column. `convert` converts a value that is not null.
    fn all<'v, T>(
        values: impl Iterator<Item = &'v Value>,
        convert: impl Fn(&'v Value) -> Option<T>,
    ) -> Result<Vec<Option<T>>> {
        let value = |value: &'v Value| match (value, convert(value)) {
            (Value::Null, _) => Ok(None),
            (_, Some(value)) => Ok(Some(value)),
            (_, None) => Err(Error::internal("a value has another kind than its column")),
        };
        values.map(value).collect()
    }
    let mut arguments = PgArguments::default();
    for (values, kind) in columns {
        let added = match kind {
            Kind::Boolean => arguments.add(all(values, |value| match value {
                Value::Bool(bool) => Some(*bool),
                _ => None,
            })?),
            Kind::Integer => arguments.add(all(values, Value::as_int)?),
            Kind::Number => arguments.add(all(values, |value| match value {
                Value::Int(i) => Some(*i as f64),
                Value::Float(f) => Some(*f),
                _ => None,
            })?),
            Kind::Date => arguments.add(all(values, |value| match value {
                Value::Date(date) => Some(Instant(*date)),
                _ => None,
            })?),
            _ => arguments.add(all(values, |value| match value {
                Value::Text(text) => Some(text.clone()),
                _ => None,
            })?),
        };
        added.map_err(Error::internal)?;
    }
    Ok(arguments)
}

/// A column of a row, by its name or position, as a value of a kind.
///
/// # Errors
/// If the column does not exist, or has another kind of value.
pub(super) fn read<C>(row: &PgRow, column: C, kind: Kind) -> Result<Value>
where
    C: ColumnIndex<PgRow> + Copy + std::fmt::Display,
{
    let raw = row.try_get_raw(column).map_err(Error::internal)?;
    if raw.is_null() {
        return Ok(Value::Null);
    }
    let found = raw.type_info().oid();
    let value = match kind {
        Kind::String | Kind::Enum(_) => row.try_get(column).map(Value::Text),
        Kind::Boolean => row.try_get(column).map(Value::Bool),
        // A number computed by SQL may be narrower than the field's type.
        Kind::Integer if found == Some(Oid(23)) => {
            row.try_get::<i32, C>(column).map(|n| Value::Int(n.into()))
        }
        Kind::Integer => row.try_get(column).map(Value::Int),
        Kind::Number if found == Some(Oid(700)) => row
            .try_get::<f32, C>(column)
            .map(|n| Value::Float(n.into())),
        Kind::Number => row.try_get(column).map(Value::Float),
        Kind::StringArray => row.try_get(column).map(Value::Strings),
        Kind::Date if found == Some(TIMESTAMPTZ) => {
            let bytes = raw
                .as_bytes()
                .map_err(Error::internal)?
                .try_into()
                .map_err(Error::internal)?;
            let date = bind::date(i64::from_be_bytes(bytes));
            return date.map(Value::Date).ok_or_else(|| {
                Error::internal(format!(
                    "column `{column}` holds a date beyond the year 9999"
                ))
            });
        }
        Kind::Json | Kind::Items(_) if found == Some(JSONB) => {
            let bytes = raw.as_bytes().map_err(Error::internal)?;
            let text = bytes
                .split_first()
                .map_or(&[][..], |(_, text)| text)
                .to_vec();
            return String::from_utf8(text)
                .map(Value::Json)
                .map_err(Error::internal);
        }
        Kind::Date | Kind::Json | Kind::Items(_) => {
            return Err(Error::internal(format!(
                "column `{column}` is not of type {}",
                kind.name()
            )));
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
    let own = db.try_downcast_ref::<PgDatabaseError>();
    if db.is_unique_violation()
        && let Some(fields) = db.constraint().and_then(|name| {
            error::violated(naming, entity, name, own.and_then(PgDatabaseError::detail))
        })
    {
        return Error::unique(fields);
    }
    let state = db.code().unwrap_or_default();
    let column = own.and_then(PgDatabaseError::column);
    let at = (column, db.constraint());
    if error::is_pending(naming, entity, &state, at, db.message()) {
        return Error::schema_pending(failure);
    }
    if state == "57014" {
        return Error::new(Code::Timeout, "The database took too long");
    }
    // By class: connection, rollback (serialization, deadlock), resources, operator intervention,
    // system.
    let transient = ["08", "40", "53", "57", "58"]
        .iter()
        .any(|class| state.starts_with(class));
    if transient {
        Error::unavailable(failure)
    } else {
        Error::internal(failure)
    }
}
