//! SQL of custom operations: the interface of stores with SQL.

use std::any::Any;
use std::fmt::Debug;

use crate::entity::{EntityDesc, FieldType, Kind};
use crate::filter::Filter;
use crate::{BoxFuture, Error, Result, Value};

/// A statement of the function of a custom operation, with its values and the row-level filter of
/// the caller.
#[derive(Clone, Debug)]
pub struct SqlQuery {
    /// The entity of the operation.
    pub entity: &'static EntityDesc,
    /// The text with `{visible}` or `{guard}`, and parameters `$1`, `$2` and so on.
    pub text: &'static str,
    /// The values of the parameters, in order.
    pub values: Vec<(Value, Kind)>,
    /// The condition on the records that the caller may see.
    pub filter: Filter,
}

/// The result of a statement.
#[derive(Debug)]
pub enum SqlAnswer {
    /// The rows, if they were requested.
    Rows(Vec<SqlRow>),
    /// The number of changed records.
    Count(u64),
}

/// Runs the SQL of custom operations on a store: see [`Store::sql`](super::Store::sql).
pub trait SqlDriver: Send + Sync {
    /// Begins a transaction of such statements.
    ///
    /// # Errors
    /// `unavailable` if the store cannot begin one now.
    fn begin(&self, entity: &'static EntityDesc) -> BoxFuture<'_, Result<SqlTransaction>>;

    /// Checks at start-up that the database can run a statement or a condition. Runs nothing.
    ///
    /// # Errors
    /// The error in the text.
    fn check<'a>(
        &'a self,
        entity: &'static EntityDesc,
        text: &'static str,
    ) -> BoxFuture<'a, Result<()>>;

    /// Runs a statement, in a transaction if there is one. If `rows` is true, it returns the rows.
    ///
    /// # Errors
    /// `internal` for a text without the row-level filter, or for a text that the database refuses;
    /// `conflict`, `unavailable`, `timeout`.
    fn run<'a>(
        &'a self,
        query: SqlQuery,
        within: Option<&'a mut SqlTransaction>,
        rows: bool,
    ) -> BoxFuture<'a, Result<SqlAnswer>>;
}

/// The columns of a row.
pub trait SqlColumns: Debug + Send + Sync {
    /// Reads a column as a value of a kind.
    ///
    /// # Errors
    /// If there is no such column, or if it holds a value of another kind.
    fn value(&self, column: &str, kind: Kind) -> Result<Value>;
}

/// A row that the statement of a custom operation's function returned.
#[derive(Debug)]
pub struct SqlRow(Box<dyn SqlColumns>);

impl SqlRow {
    /// Takes the columns of a store's row.
    pub fn new(columns: impl SqlColumns + 'static) -> Self {
        Self(Box::new(columns))
    }

    /// Returns the value of a column as a field of this type. Null is allowed only for an `Option`.
    ///
    /// # Errors
    /// `internal` if there is no such column, or if it holds a value of another type.
    pub fn get<T: FieldType>(&self, column: &str) -> Result<T> {
        let value = self.0.value(column, T::KIND)?;
        T::from_value(value.as_ref())
            .map_err(|error| Error::internal(format!("column `{column}`: {error}")))
    }
}

/// An open transaction of a store, as [`SqlTransaction`] holds it.
pub trait SqlSession: Debug + Send {
    /// Commits it.
    ///
    /// # Errors
    /// `unavailable` if that fails.
    fn commit(self: Box<Self>) -> BoxFuture<'static, Result<()>>;

    /// Returns itself, for the store that began it.
    fn as_any(&mut self) -> &mut dyn Any;
}

/// A transaction for the statements of a custom operation's function. Dropping it rolls it back.
#[derive(Debug)]
pub struct SqlTransaction(Box<dyn SqlSession>);

impl SqlTransaction {
    /// Takes the open transaction of a store.
    pub fn new(session: impl SqlSession + 'static) -> Self {
        Self(Box::new(session))
    }

    /// Commits the transaction.
    ///
    /// # Errors
    /// `unavailable` if the commit fails.
    pub async fn commit(self) -> Result<()> {
        self.0.commit().await
    }

    /// The open transaction, for the store that began it.
    ///
    /// # Errors
    /// `internal` if another store began it.
    pub fn session<T: 'static>(&mut self) -> Result<&mut T> {
        self.0
            .as_any()
            .downcast_mut()
            .ok_or_else(|| Error::internal("another store began the transaction"))
    }
}
