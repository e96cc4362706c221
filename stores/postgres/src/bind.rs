//! Binds values to parameters, in the server's binary format.

use std::borrow::Cow;
use std::error::Error as StdError;

use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{Format, IsNull, ToSql, Type, to_sql_checked};

use super::render::{Bind, Form};
use linchpin_core::filter::eval::fold;
use linchpin_core::{Error, Result, Timestamp, Value};

/// Microseconds between the epochs of Unix and of Postgres (2000-01-01).
const EPOCH: i64 = 946_684_800_000_000;

/// The result of encoding a value.
type Encoded = std::result::Result<IsNull, Box<dyn StdError + Sync + Send>>;

/// A value in the binary format of the server.
#[derive(Debug)]
pub(super) struct Bound<'a> {
    value: Cow<'a, Value>,
    form: Form,
}

impl<'a> Bound<'a> {
    fn of(bind: &'a Bind, args: &'a [Value]) -> Result<Self> {
        let value = match &bind.value {
            Ok(value) => value,
            Err(slot) => args
                .get(*slot)
                .ok_or_else(|| Error::internal("a statement lacks an argument"))?,
        };
        let value = match &bind.earlier {
            Some(replaced) => Cow::Owned(replaced.earlier(value)?),
            None => Cow::Borrowed(value),
        };
        Ok(Self {
            value,
            form: bind.form,
        })
    }
}

/// The values of a statement's parameters.
pub(super) fn bound<'a>(binds: &'a [Bind], args: &'a [Value]) -> Result<Vec<Bound<'a>>> {
    binds.iter().map(|bind| Bound::of(bind, args)).collect()
}

/// A parameter of a statement that combines many calls.
#[derive(Debug)]
pub(super) enum Gathered<'a> {
    /// The same value for all calls.
    Common(Bound<'a>),
    /// One value per call.
    Each(Vec<Bound<'a>>),
}

/// The parameter values of a combined statement.
pub(super) fn gathered<'a>(binds: &'a [Bind], calls: &[&'a [Value]]) -> Result<Vec<Gathered<'a>>> {
    let value = |bind: &'a Bind| match &bind.value {
        Ok(_) => Bound::of(bind, &[]).map(Gathered::Common),
        Err(_) => calls
            .iter()
            .map(|args| Bound::of(bind, args))
            .collect::<Result<_>>()
            .map(Gathered::Each),
    };
    binds.iter().map(value).collect()
}

impl ToSql for Gathered<'_> {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Encoded {
        match self {
            Self::Common(one) => one.to_sql(kind, out),
            Self::Each(list) => list.to_sql(kind, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Binary
    }

    to_sql_checked!();
}

impl ToSql for Bound<'_> {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Encoded {
        match &*self.value {
            Value::Null => Ok(IsNull::Yes),
            Value::Bool(b) => b.to_sql(kind, out),
            Value::Int(i) if *kind == Type::FLOAT8 => (*i as f64).to_sql(kind, out),
            Value::Int(i) if *kind == Type::JSONB => {
                Ok(jsonb(itoa::Buffer::new().format(*i).as_bytes(), out))
            }
            Value::Int(i) => i.to_sql(kind, out),
            Value::Float(f) => f.to_sql(kind, out),
            Value::Text(text) if *kind == Type::JSONB => {
                let mut json = Vec::new();
                linchpin_core::json::write_str(text, &mut json);
                Ok(jsonb(&json, out))
            }
            Value::Text(text) if self.form == Form::Folded => fold(text).to_sql(kind, out),
            Value::Text(text) => text.to_sql(kind, out),
            Value::Date(date) => micros(*date).to_sql(&Type::INT8, out),
            Value::Strings(list) if is_list(kind) => list.to_sql(kind, out),
            Value::Strings(_) => {
                let mut json = Vec::new();
                linchpin_core::json::write_value((*self.value).as_ref(), &mut json);
                Ok(jsonb(&json, out))
            }
            Value::Json(text) if *kind == Type::JSONB => Ok(jsonb(text.as_bytes(), out)),
            Value::Json(text) => list(text, kind, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Binary
    }

    to_sql_checked!();
}

fn is_list(kind: &Type) -> bool {
    matches!(
        *kind,
        Type::TEXT_ARRAY
            | Type::INT8_ARRAY
            | Type::FLOAT8_ARRAY
            | Type::BOOL_ARRAY
            | Type::TIMESTAMPTZ_ARRAY
    )
}

/// The version byte 1, then the text.
fn jsonb(text: &[u8], out: &mut BytesMut) -> IsNull {
    out.extend_from_slice(&[1]);
    out.extend_from_slice(text);
    IsNull::No
}

/// Binds a list whose value is a JSON text.
fn list(text: &str, kind: &Type, out: &mut BytesMut) -> Encoded {
    match *kind {
        Type::TEXT_ARRAY => serde_json::from_str::<Vec<String>>(text)?.to_sql(kind, out),
        Type::INT8_ARRAY => serde_json::from_str::<Vec<i64>>(text)?.to_sql(kind, out),
        Type::FLOAT8_ARRAY => serde_json::from_str::<Vec<f64>>(text)?.to_sql(kind, out),
        Type::BOOL_ARRAY => serde_json::from_str::<Vec<bool>>(text)?.to_sql(kind, out),
        Type::TIMESTAMPTZ_ARRAY => {
            let dates = serde_json::from_str::<Vec<i64>>(text)?;
            let dates: Vec<Moment> = dates
                .into_iter()
                .map(|ms| Moment::from(Timestamp::from_millis(ms)))
                .collect();
            dates.to_sql(kind, out)
        }
        _ => Err("a list where no list is expected".into()),
    }
}

/// A TIMESTAMPTZ that is not a field of an entity.
#[derive(Debug)]
pub(super) struct Moment(i64);

impl From<Timestamp> for Moment {
    fn from(date: Timestamp) -> Self {
        Self(micros(date))
    }
}

impl ToSql for Moment {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Encoded {
        self.0.to_sql(&Type::INT8, out)
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::TIMESTAMPTZ
    }

    to_sql_checked!();
}

/// A date in microseconds since 2000-01-01, the unit of the server.
pub(super) fn micros(date: Timestamp) -> i64 {
    // Years 1 to 9999 in microseconds are within the range of i64.
    date.millis() * 1000 - EPOCH
}

/// The instant of a TIMESTAMPTZ, if it is in the years 1 to 9999.
pub(super) fn date(micros: i64) -> Option<Timestamp> {
    let millis = micros.checked_add(EPOCH)?.div_euclid(1000);
    (Timestamp::MIN.millis()..=Timestamp::MAX.millis())
        .contains(&millis)
        .then(|| Timestamp::from_millis(millis))
}
