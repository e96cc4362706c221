//! The actions that create a table, and faults of a schema as errors of the framework.

use super::action::Action;
use super::dialect::Dialect;
use super::physical::{Index, Table};
use super::session::{SchemaError, SchemaFault};
use crate::{Code, Error};

/// Returns the actions that create a table and its indexes, in order.
///
/// If a record violates several unique indexes, the database reports the index that it checks
/// first. With this order of actions, that is the index that is declared first.
pub fn creation(table: &Table, dialect: &dyn Dialect) -> Vec<Action> {
    let (mut unique, plain): (Vec<&Index>, Vec<&Index>) =
        table.indexes.iter().partition(|index| index.unique);
    // A database that rebuilds tables, `SQLite`, checks the newest index first.
    if dialect.rebuilds() {
        unique.reverse();
    }
    let created = Action::CreateTable {
        table: table.clone(),
    };
    let indexes = unique
        .into_iter()
        .chain(plain)
        .map(|index| Action::CreateIndex {
            table: table.name.clone(),
            index: index.clone(),
            concurrently: false,
        });
    std::iter::once(created).chain(indexes).collect()
}

impl From<SchemaError> for Error {
    fn from(error: SchemaError) -> Self {
        match error.fault {
            SchemaFault::Unreachable | SchemaFault::LockTimeout | SchemaFault::Full => {
                Self::unavailable(error)
            }
            SchemaFault::Unsupported | SchemaFault::Pooler => {
                Self::new(Code::Internal, error.message)
            }
            _ => Self::internal(error),
        }
    }
}
