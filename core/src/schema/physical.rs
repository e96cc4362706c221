//! The physical model: tables with their columns, indexes and checks, as every store creates them.

use crate::Value;
use crate::entity::Kind;
use crate::layout::shortened;

/// A table.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The name.
    pub name: String,
    /// The column of the primary key.
    pub primary: String,
    /// The columns. The order is that of creation and has no other meaning.
    pub columns: Vec<Column>,
    /// The indexes besides the primary key, in the order of creation.
    pub indexes: Vec<Index>,
    /// Checks besides those of enum columns. They exist only during a migration.
    pub checks: Vec<Check>,
}

/// A column.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// The name.
    pub name: String,
    /// The kind of its values. An enum also has a check named by [`check_name`].
    pub kind: ColumnKind,
    /// Whether it may be null.
    pub optional: bool,
    /// The constant that the database stores if a statement names no value.
    pub default: Option<Value>,
}

/// The kind of a column's values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// Text, compared byte by byte.
    String,
    /// One of these texts, sorted.
    Enum(Vec<String>),
    /// `true` or `false`.
    Boolean,
    /// An integer of 64 bits.
    Integer,
    /// A double.
    Number,
    /// An instant with milliseconds.
    Date,
    /// A list of strings.
    StringArray,
    /// JSON.
    Json,
}

impl ColumnKind {
    /// The kind of a field that decodes the values of this column. An enum is decoded as text.
    pub fn decoded(&self) -> Kind {
        match self {
            Self::String | Self::Enum(_) => Kind::String,
            Self::Boolean => Kind::Boolean,
            Self::Integer => Kind::Integer,
            Self::Number => Kind::Number,
            Self::Date => Kind::Date,
            Self::StringArray => Kind::StringArray,
            Self::Json => Kind::Json,
        }
    }
}

/// An index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// The name, unique within the database.
    pub name: String,
    /// Whether the database refuses a second equal entry. An entry with a null equals no other.
    pub unique: bool,
    /// The keys, in order.
    pub keys: Vec<IndexKey>,
    /// The conditions of a partial index. It contains only the records that meet all of them.
    pub only: Vec<Only>,
}

/// A key of an index. Null is the smallest value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexKey {
    /// The column.
    pub column: String,
    /// Whether the order is descending.
    pub desc: bool,
}

/// A condition of a partial index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Only {
    /// The column is null.
    Null(String),
    /// The text of the column differs from this one.
    Differs(String, String),
}

/// A check of a table that exists only during a migration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The name.
    pub name: String,
    /// The column.
    pub column: String,
    /// The rule.
    pub rule: CheckRule,
    /// Whether the database has verified the rows that existed before the check.
    pub valid: bool,
}

/// The rule of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckRule {
    /// The column is not null.
    NotNull,
    /// The column is null or one of these texts.
    Values(Vec<String>),
}

impl Table {
    /// Returns the column with this name.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// Returns the index with this name.
    pub fn index(&self, name: &str) -> Option<&Index> {
        self.indexes.iter().find(|index| index.name == name)
    }

    pub(super) fn column_mut(&mut self, name: &str) -> Option<&mut Column> {
        self.columns.iter_mut().find(|column| column.name == name)
    }
}

impl Only {
    /// The column that the condition reads.
    pub fn column(&self) -> &str {
        let (Self::Null(column) | Self::Differs(column, _)) = self;
        column
    }
}

impl Index {
    /// Whether the index reads this column, as a key or in a condition.
    pub fn reads(&self, column: &str) -> bool {
        self.keys.iter().any(|key| key.column == column)
            || self.only.iter().any(|only| only.column() == column)
    }

    /// Returns the same index on a table whose column has another name.
    #[must_use]
    pub fn renamed(mut self, from: &str, to: &str) -> Self {
        for key in &mut self.keys {
            if key.column == from {
                to.clone_into(&mut key.column);
            }
        }
        for only in &mut self.only {
            let (Only::Null(name) | Only::Differs(name, _)) = only;
            if name == from {
                to.clone_into(name);
            }
        }
        self
    }
}

/// Returns the name of the check of an enum column: `ck_posts_status`.
pub fn check_name(table: &str, column: &str) -> String {
    shortened(format!("ck_{table}_{column}"))
}

/// Returns the name of the primary key's constraint: `pk_posts`.
pub fn key_name(table: &str) -> String {
    shortened(format!("pk_{table}"))
}
