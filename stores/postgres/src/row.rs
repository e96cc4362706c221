//! A result row. Its values are read from the received bytes without a copy.

use std::cell::{Cell, OnceCell};
use std::error::Error as StdError;

use tokio_postgres::types::{FromSql, Type};

use super::bind;
use linchpin_core::entity::{EntityDesc, Kind};
use linchpin_core::store::Row;
use linchpin_core::validate::MAX_INTEGER;
use linchpin_core::{Error, Result, Value, ValueRef};
use linchpin_sql::replaced::ReplacedField;

/// The columns of an entity, in field order.
///
/// Other programs can write to the database. A value that this store cannot have written is
/// remembered while the row is read; [`PgRow::validity`] returns an error for it.
pub(super) struct PgRow<'a> {
    row: &'a tokio_postgres::Row,
    entity: &'static EntityDesc,
    /// Lists of strings as JSON text, one cell per field. Empty for entities without such a field.
    lists: Box<[OnceCell<String>]>,
    /// The fields that also have an earlier column, and their converted values.
    replaced: &'a [ReplacedField],
    converted: Box<[OnceCell<Value>]>,
    /// The error of the conversion of an earlier value.
    refused: Cell<Option<Error>>,
    /// A field with an invalid value, and the problem.
    fault: Cell<Option<(usize, &'static str)>>,
}

/// The bytes of a value of any type.
pub(super) struct Raw<'a>(pub(super) &'a [u8]);

impl<'a> FromSql<'a> for Raw<'a> {
    fn from_sql(
        _: &Type,
        raw: &'a [u8],
    ) -> std::result::Result<Self, Box<dyn StdError + Sync + Send>> {
        Ok(Self(raw))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

impl<'a> PgRow<'a> {
    pub(super) fn new(
        row: &'a tokio_postgres::Row,
        entity: &'static EntityDesc,
        replaced: &'a [ReplacedField],
    ) -> Self {
        let listed = entity
            .fields
            .iter()
            .any(|f| matches!(f.kind, Kind::StringArray));
        let lists = (0..if listed { entity.fields.len() } else { 0 })
            .map(|_| OnceCell::new())
            .collect();
        Self {
            row,
            entity,
            lists,
            replaced,
            converted: replaced.iter().map(|_| OnceCell::new()).collect(),
            refused: Cell::new(None),
            fault: Cell::new(None),
        }
    }

    /// Checks that every value read from the row is valid for its field.
    ///
    /// # Errors
    /// `internal`; the cause names the column and the problem, but never the value.
    /// `schema_pending` if the value of an earlier column cannot be converted.
    pub(super) fn validity(&self) -> Result<()> {
        if let Some(refused) = self.refused.take() {
            return Err(refused);
        }
        let Some((field, what)) = self.fault.take() else {
            return Ok(());
        };
        let column = self.entity.fields.get(field).map_or("?", |f| f.column);
        Err(Error::internal(format!(
            "{}.{column} {what}; another program has written to the database",
            self.entity.storage_name
        )))
    }

    #[cold]
    fn fault(&self, field: usize, what: &'static str) -> ValueRef<'static> {
        self.fault.set(Some((field, what)));
        ValueRef::Null
    }

    /// The value of a field that also has an earlier column.
    #[cold]
    fn converted(&self, number: usize) -> ValueRef<'_> {
        let replaced = &self.replaced[number];
        match self.row.try_get::<_, bool>(replaced.at) {
            Ok(false) => return self.own(replaced.field),
            Ok(true) => {}
            Err(_) => return self.fault(replaced.field, "was not read"),
        }
        let value = self.converted[number].get_or_init(|| {
            let list = OnceCell::new();
            let column_type = (replaced.kind, replaced.columns.optional);
            let earlier = self.read(replaced.field, replaced.at + 1, column_type, Some(&list));
            replaced.converted(earlier).unwrap_or_else(|error| {
                self.refused.set(Some(error));
                Value::Null
            })
        });
        value.as_ref()
    }

    /// The value in the column of a field.
    fn own(&self, field: usize) -> ValueRef<'_> {
        match self.entity.fields.get(field) {
            Some(desc) => {
                let column_type = (desc.kind, desc.optional);
                self.read(field, field, column_type, self.lists.get(field))
            }
            None => self.fault(field, "was not read"),
        }
    }

    fn list<'s>(
        &self,
        field: usize,
        bytes: &[u8],
        json: Option<&'s OnceCell<String>>,
    ) -> ValueRef<'s> {
        let Some(json) = json else {
            return self.fault(field, "was not read");
        };
        let text = json.get_or_init(|| strings(bytes).unwrap_or_default());
        if text.is_empty() {
            self.fault(field, "is not a plain list of texts")
        } else {
            ValueRef::Json(text)
        }
    }
}

/// A TEXT[] of one dimension without nulls, as JSON.
fn strings(bytes: &[u8]) -> Option<String> {
    let number = |at: usize| {
        bytes
            .get(at..at + 4)?
            .try_into()
            .ok()
            .map(i32::from_be_bytes)
    };
    let mut out = vec![b'['];
    let count = match number(0)? {
        0 => 0,
        1 => number(12)?,
        _ => return None,
    };
    // The header: number of dimensions, null flag, element type, length, first index.
    let mut at = 20;
    for i in 0..count {
        let length = usize::try_from(number(at)?).ok()?;
        let text = std::str::from_utf8(bytes.get(at + 4..at + 4 + length)?).ok()?;
        if i > 0 {
            out.push(b',');
        }
        linchpin_core::json::write_str(text, &mut out);
        at += 4 + length;
    }
    out.push(b']');
    String::from_utf8(out).ok()
}

impl Row for PgRow<'_> {
    fn value(&self, field: usize) -> ValueRef<'_> {
        if !self.replaced.is_empty()
            && let Some(number) = self
                .replaced
                .iter()
                .position(|replaced| replaced.field == field)
        {
            return self.converted(number);
        }
        self.own(field)
    }
}

impl PgRow<'_> {
    /// Reads a column for a field. A list of strings is stored as JSON text in `list`.
    #[inline]
    fn read<'s>(
        &'s self,
        field: usize,
        column: usize,
        (kind, optional): (Kind, bool),
        list: Option<&'s OnceCell<String>>,
    ) -> ValueRef<'s> {
        let Ok(value) = self.row.try_get::<_, Option<Raw<'_>>>(column) else {
            return self.fault(field, "was not read");
        };
        let Some(Raw(bytes)) = value else {
            return if optional {
                ValueRef::Null
            } else {
                self.fault(field, "is null")
            };
        };
        match kind {
            Kind::String => match std::str::from_utf8(bytes) {
                Ok(text) => ValueRef::Text(text),
                Err(_) => self.fault(field, "is not UTF-8"),
            },
            Kind::Enum(of) => match std::str::from_utf8(bytes) {
                Ok(text) if of.variants.contains(&text) => ValueRef::Text(text),
                _ => self.fault(field, "is not a variant of its enum"),
            },
            Kind::Boolean => match bytes {
                [byte] => ValueRef::Bool(*byte != 0),
                _ => self.fault(field, "is not a boolean"),
            },
            Kind::Integer => match bytes.try_into().map(i64::from_be_bytes) {
                Ok(i) if (-MAX_INTEGER..=MAX_INTEGER).contains(&i) => ValueRef::Int(i),
                _ => self.fault(field, "is beyond 2^53 - 1"),
            },
            Kind::Number => match bytes.try_into().map(f64::from_be_bytes) {
                Ok(f) if f.is_finite() => ValueRef::Float(f),
                _ => self.fault(field, "is not finite"),
            },
            Kind::Date => match bytes
                .try_into()
                .ok()
                .map(i64::from_be_bytes)
                .and_then(bind::date)
            {
                Some(date) => ValueRef::Date(date),
                None => self.fault(field, "is not within the years 1 to 9999"),
            },
            Kind::StringArray => self.list(field, bytes, list),
            // The version byte 1, then the text.
            Kind::Json | Kind::Items(_) => match bytes
                .split_first()
                .map(|(version, text)| (version, std::str::from_utf8(text)))
            {
                Some((1, Ok(text))) => ValueRef::Json(text),
                _ => self.fault(field, "is in an unknown form of JSONB"),
            },
        }
    }
}
