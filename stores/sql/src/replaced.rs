//! Fields whose type a migration changes. Until it is finished, the column with the earlier type is
//! also written.

use std::collections::BTreeMap;

use linchpin_core::entity::{EntityDesc, Kind, TransformError};
use linchpin_core::store::Replaced;
use linchpin_core::{Error, Result, Value, ValueRef};

/// A field with an earlier column, in the rows of a statement. A row has two additional columns for
/// each such field, after the columns of all fields: whether the value must be converted from the
/// earlier value, and the earlier value.
#[derive(Clone, Debug)]
pub struct ReplacedField {
    /// The entity.
    pub entity: &'static EntityDesc,
    /// The position of the field.
    pub field: usize,
    /// Its columns.
    pub columns: Replaced,
    /// The kind of the earlier values. An enum is read as text.
    pub kind: Kind,
    /// The position of the first added column in the row.
    pub at: usize,
}

impl ReplacedField {
    pub(crate) fn all(
        entity: &'static EntityDesc,
        replaced: &BTreeMap<String, Replaced>,
    ) -> Box<[Self]> {
        let found = entity.fields.iter().enumerate();
        let found = found.filter_map(|(at, field)| Some((at, replaced.get(field.name)?)));
        found
            .enumerate()
            .map(|(number, (field, columns))| Self {
                entity,
                field,
                columns: columns.clone(),
                kind: columns.kind.decoded(),
                at: entity.fields.len() + 2 * number,
            })
            .collect()
    }

    /// The field, if it has an earlier column.
    pub fn find(all: &[Self], field: usize) -> Option<&Self> {
        all.iter().find(|replaced| replaced.field == field)
    }

    /// The number of columns that these fields add to a row.
    pub fn width(all: &[Self]) -> usize {
        2 * all.len()
    }

    /// The SQL of the two added columns: whether the value must be converted, and the earlier
    /// value. The arguments are quoted column names: the column of the field, the earlier column,
    /// and the copy of the earlier value from which the field was converted.
    pub fn added(&self, [next, old, source]: [&str; 3]) -> String {
        let differs = format!("{source} IS DISTINCT FROM {old}");
        if self.columns.required {
            format!("({differs} OR {next} IS NULL), {old}")
        } else {
            format!("({differs}), {old}")
        }
    }

    /// Converts an earlier value to a value of the field.
    ///
    /// # Errors
    /// `schema_pending` if the conversion function refuses the value.
    pub fn converted(&self, earlier: ValueRef<'_>) -> Result<Value> {
        let converted = self.columns.forth.convert(earlier);
        converted.map_err(|error| self.refused("cannot be converted", &error))
    }

    /// Converts a value of the field to the earlier type.
    ///
    /// # Errors
    /// `schema_pending` if the conversion function refuses the value: binaries with the earlier
    /// type could not read the record.
    pub fn earlier(&self, value: &Value) -> Result<Value> {
        let converted = self.columns.back.convert(value.as_ref());
        converted.map_err(|error| {
            self.refused(
                "has a value that cannot be converted to the earlier type",
                &error,
            )
        })
    }

    #[cold]
    fn refused(&self, why: &str, error: &TransformError) -> Error {
        let name = self.entity.fields.get(self.field).map_or("?", |f| f.name);
        Error::schema_pending(format!("`{name}` of `{}` {why}: {error}", self.entity.name))
    }
}
