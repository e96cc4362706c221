//! Changes of many rows, each with its own values.

use super::physical::ColumnKind;
use crate::Value;

/// A statement that changes rows, in the two forms that stores run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowStatement {
    /// For one row. Its values are the parameters `$1`, `$2` and so on.
    pub one: String,
    /// For many rows. Their values are the columns `p1`, `p2` and so on of a table `given`. The
    /// store puts `WITH given (p1, p2) AS (..)` before the statement.
    pub many: String,
    /// The kinds of the values of a row.
    pub kinds: Vec<ColumnKind>,
}

/// The outcome of a statement for many rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowsWritten {
    /// The number of changed rows.
    pub changed: u64,
    /// The values of each row that violates a constraint, with the message of the database. These
    /// rows are unchanged.
    pub refused: Vec<(Vec<Value>, String)>,
}
