//! Values of statements and rows.

use linchpin_core::entity::Kind;
use linchpin_core::schema::{Bound, ColumnKind, SchemaError, SchemaFault};
use linchpin_core::{Error, Value};
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::{Row, ValueRef as _};

use super::fault;
use crate::conversation::{arguments, array_arguments, read};

type Result<T> = std::result::Result<T, SchemaError>;

/// The type of sums, by its fixed OID in the server's catalog.
const NUMERIC: Oid = Oid(1700);

fn other(error: Error) -> SchemaError {
    SchemaError::new(SchemaFault::Other, error)
}

/// Reads a column of a row. An integer may be a NUMERIC, the type of sums.
pub(super) fn cell(row: &PgRow, at: usize, kind: &ColumnKind) -> Result<Value> {
    let raw = row.try_get_raw(at).map_err(fault::of)?;
    if *kind == ColumnKind::Integer && !raw.is_null() && raw.type_info().oid() == Some(NUMERIC) {
        let whole = raw.as_bytes().ok().and_then(whole_number);
        return whole
            .map(Value::Int)
            .ok_or_else(|| SchemaError::new(SchemaFault::Other, "a sum is not a 64-bit integer"));
    }
    read(row, at, kind.decoded()).map_err(other)
}

/// A NUMERIC without decimals: the number of digits, the weight of the first one, the sign, the
/// number of decimals, then digits in base 10,000.
fn whole_number(bytes: &[u8]) -> Option<i64> {
    let mut words = bytes
        .chunks_exact(2)
        .map(|w| i16::from_be_bytes([w[0], w[1]]));
    let (count, weight, sign, _) = (words.next()?, words.next()?, words.next()?, words.next()?);
    // The digits after the weight are decimals. Trailing zeros are not sent.
    if count > weight.saturating_add(1) || !matches!(sign, 0 | 0x4000) {
        return None;
    }
    let mut whole: i64 = 0;
    for _ in 0..=weight {
        let digit = i64::from(words.next().unwrap_or(0));
        whole = whole.checked_mul(10_000)?.checked_add(digit)?;
    }
    Some(if sign == 0 { whole } else { -whole })
}

/// The values of many rows, in an array for each column.
pub(super) fn arrays(kinds: &[ColumnKind], rows: &[Vec<Value>]) -> Result<PgArguments> {
    let column = |at: usize| {
        rows.iter()
            .map(move |row| row.get(at).unwrap_or(&Value::Null))
    };
    let kinds = kinds.iter().map(ColumnKind::decoded).enumerate();
    let columns = kinds.map(|(at, kind)| (column(at), kind));
    array_arguments(columns).map_err(other)
}

/// Binds values as arguments of `sqlx`.
pub(super) fn bind(values: &[Bound]) -> Result<PgArguments> {
    let value = |(value, kind): &Bound| match (value, kind) {
        (Value::Int(i), ColumnKind::Number) => (Value::Float(*i as f64), Kind::Number),
        (value, kind) => (value.clone(), kind.decoded()),
    };
    arguments(values.iter().map(value).collect()).map_err(other)
}
