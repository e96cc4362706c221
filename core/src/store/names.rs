//! Names of tables and columns in the database, while a migration that renames them is open.
//!
//! An entity with a renamed table or column is served under the earlier names until the migration
//! has renamed them in the database. A store renders its statements with the names that were set
//! last, and renders them again when the names change.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::entity::{TransformDesc, TransformError, TransformFrom, TransformInput};
use crate::schema::ColumnKind;
use crate::{BoxFuture, Result, Value, ValueRef};

/// The names in the database now. The default contains no differences: each table and each column
/// has its declared name.
///
/// # Examples
///
/// ```
/// use linchpin_core::store::{Names, TableNames};
///
/// let mut names = Names::default();
/// let posts = TableNames::new("articles").with_column("title", "headline");
/// names.tables.insert("posts".to_owned(), posts);
///
/// assert_eq!(names.table("posts"), "articles");
/// assert_eq!(names.column("posts", "title"), Some("headline"));
/// assert_eq!(names.column("posts", "id"), None);
/// assert_eq!(names.table("users"), "users");
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Names {
    /// The epoch of the ledger that these names are from.
    pub epoch: u64,
    /// The names of each entity whose table or columns do not have their declared names, by the
    /// declared name of the table.
    pub tables: BTreeMap<String, TableNames>,
}

/// The names of one table and its columns in the database now, and other differences from the
/// declaration of the entity.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableNames {
    /// The name of the table.
    pub table: String,
    /// The columns that do not have their declared names, by the name of the field.
    pub columns: BTreeMap<String, String>,
    /// The values of columns that no field has any more. A new record needs them until the column
    /// is dropped.
    pub fillers: Vec<Filler>,
    /// The columns whose constraint still refuses values that the declaration allows: null, or a
    /// new value of an enum.
    pub pending: Vec<Pending>,
    /// The fields with a new type whose earlier column is still there, by the name of the field.
    pub replaced: BTreeMap<String, Replaced>,
}

/// The columns of a field whose type changes, while servers with the earlier type may still run.
///
/// The field has three columns: the column of its values, the earlier column, and a copy of the
/// earlier value from which the field's value was computed. A binary with the new type writes all
/// three. A binary with the earlier type writes only the earlier column. Then the copy differs from
/// the earlier column, and the value of the field is the converted value of the earlier column.
#[derive(Clone, Debug, PartialEq)]
pub struct Replaced {
    /// The earlier column.
    pub old: String,
    /// Its kind.
    pub kind: ColumnKind,
    /// Whether it may be null.
    pub optional: bool,
    /// The column with the copy.
    pub source: String,
    /// Whether the field may not be null. Then null in its column means that the value was not
    /// computed yet.
    pub required: bool,
    /// Converts an earlier value to a value of the field.
    pub forth: Conversion,
    /// Converts a value of the field to an earlier value.
    pub back: Conversion,
}

/// The conversion of a stored value to another type.
#[derive(Clone, Debug)]
pub struct Conversion {
    /// The function.
    pub function: &'static TransformDesc,
    /// The result for null, if the function does not accept null.
    pub null: Value,
}

/// Two conversions are equal if their functions have the same name and digest, and their results
/// for null are equal.
impl PartialEq for Conversion {
    fn eq(&self, other: &Self) -> bool {
        let identity = |one: &Self| (one.function.name, one.function.body);
        identity(self) == identity(other) && self.null == other.null
    }
}

impl Conversion {
    /// Converts a value.
    ///
    /// # Errors
    /// If the function refuses the value. A panic counts as a refusal.
    pub fn convert(&self, value: ValueRef<'_>) -> Result<Value, TransformError> {
        let takes_null = matches!(self.function.from, TransformFrom::Value(of) if of.optional);
        if value.is_null() && !takes_null {
            return Ok(self.null.clone());
        }
        self.function.checked(TransformInput::Value(value))
    }
}

/// A column whose constraint still refuses values that the declaration allows.
#[derive(Clone, Debug, PartialEq)]
pub struct Pending {
    /// The column, under its name in the database.
    pub column: String,
    /// Whether it accepts null.
    pub null: bool,
    /// The values of an enum that it accepts; `None` if it accepts all.
    pub values: Option<Vec<String>>,
}

/// The value of a column that no field has any more, in new records.
#[derive(Clone, Debug, PartialEq)]
pub struct Filler {
    /// The column.
    pub column: String,
    /// The value.
    pub value: Value,
    /// The kind of the column.
    pub kind: ColumnKind,
}

/// Reads the names again and passes them to [`Store::set_names`](super::Store::set_names). A store
/// calls it after the database did not find a table or a column, and waits for it.
pub type RefreshNames = Arc<dyn Fn() -> BoxFuture<'static, Result<()>> + Send + Sync>;

impl Names {
    /// Returns the names of an entity, by the declared name of its table; `None` if it has the
    /// declared names.
    pub fn of(&self, storage_name: &str) -> Option<&TableNames> {
        self.tables.get(storage_name)
    }

    /// Returns the table of an entity, by its declared name.
    pub fn table<'a>(&'a self, storage_name: &'a str) -> &'a str {
        self.of(storage_name)
            .map_or(storage_name, |names| &names.table)
    }

    /// Returns the column of a field; `None` if it has its declared name.
    pub fn column(&self, storage_name: &str, field: &str) -> Option<&str> {
        self.of(storage_name)?
            .columns
            .get(field)
            .map(String::as_str)
    }
}

impl TableNames {
    /// Names with this table, and the declared names of all columns.
    pub fn new(table: impl Into<String>) -> Self {
        Self {
            table: table.into(),
            ..Self::default()
        }
    }

    /// Adds the column of a field.
    #[must_use]
    pub fn with_column(mut self, field: impl Into<String>, column: impl Into<String>) -> Self {
        self.columns.insert(field.into(), column.into());
        self
    }
}
