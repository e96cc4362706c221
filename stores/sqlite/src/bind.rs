//! Binds values to statements without copying text.

use rusqlite::types::{ToSql, ToSqlOutput, ValueRef as Sql};

use super::render::{Bind, Form};
use linchpin_core::filter::eval::fold;
use linchpin_core::{Error, Result, Value};

/// A value in the form that SQLite stores.
pub(super) struct Bound<'a>(pub(super) &'a Value);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self.0 {
            Value::Null => ToSqlOutput::Borrowed(Sql::Null),
            Value::Bool(b) => ToSqlOutput::Borrowed(Sql::Integer(i64::from(*b))),
            Value::Int(i) => ToSqlOutput::Borrowed(Sql::Integer(*i)),
            Value::Float(f) => ToSqlOutput::Borrowed(Sql::Real(*f)),
            Value::Text(t) | Value::Json(t) => ToSqlOutput::Borrowed(Sql::Text(t.as_bytes())),
            Value::Date(d) => ToSqlOutput::Borrowed(Sql::Integer(d.millis())),
            Value::Strings(_) => {
                let mut json = Vec::new();
                linchpin_core::json::write_value(self.0.as_ref(), &mut json);
                // The text is JSON that was written from valid strings, so it is valid UTF-8.
                ToSqlOutput::Owned(rusqlite::types::Value::Text(
                    String::from_utf8_lossy(&json).into_owned(),
                ))
            }
        })
    }
}

/// Binds every parameter of a statement.
///
/// # Errors
/// If an argument is missing; the inner error is that of the database.
pub(super) fn bind(
    statement: &mut rusqlite::CachedStatement<'_>,
    binds: &[Bind],
    args: &[Value],
) -> Result<rusqlite::Result<()>> {
    for (index, bind) in binds.iter().enumerate() {
        let value = match &bind.value {
            Ok(value) => value,
            Err(slot) => args
                .get(*slot)
                .ok_or_else(|| Error::internal("a statement lacks an argument"))?,
        };
        let earlier;
        let value = match &bind.earlier {
            Some(replaced) => {
                earlier = replaced.earlier(value)?;
                &earlier
            }
            None => value,
        };
        let done = match (bind.form, value) {
            (Form::Folded, Value::Text(text)) => {
                statement.raw_bind_parameter(index + 1, fold(text))
            }
            _ => statement.raw_bind_parameter(index + 1, Bound(value)),
        };
        if done.is_err() {
            return Ok(done);
        }
    }
    Ok(Ok(()))
}
