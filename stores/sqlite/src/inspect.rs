//! Access to rendered statements, for tests that count the rows that a statement examines.

use std::sync::Arc;

use linchpin_core::entity::EntityDesc;
use linchpin_core::store::Plan;
use linchpin_core::{Result, Value};

use crate::render::{Native, Runs, render};
use crate::{bind, reader};

/// A statement as SQLite runs it.
#[derive(Debug)]
pub struct Rendered(Native);

impl Rendered {
    /// Renders a plan.
    ///
    /// # Errors
    /// If the plan contains a source that should be an argument.
    pub fn new(entity: &'static EntityDesc, plan: &Plan) -> Result<Self> {
        render(entity, plan, &Arc::default()).map(Self)
    }

    /// The SQL text.
    pub fn sql(&self) -> &str {
        &self.0.sql
    }

    /// Whether the statement reads at most one row, on the caller's thread.
    pub fn is_inline(&self) -> bool {
        matches!(self.0.runs, Runs::Inline)
    }

    /// Whether the statement reads at most as many rows as its limit.
    pub fn is_limited(&self) -> bool {
        matches!(self.0.runs, Runs::Limited(_))
    }

    /// Binds the arguments of a call.
    ///
    /// # Errors
    /// If an argument is missing; the inner error is that of the database.
    pub fn bind(
        &self,
        statement: &mut rusqlite::CachedStatement<'_>,
        args: &[Value],
    ) -> Result<rusqlite::Result<()>> {
        bind::bind(statement, &self.0.binds, args)
    }
}

/// Adds the functions that rendered statements call to a connection.
///
/// # Errors
/// The error of the database.
pub fn prepare(connection: &rusqlite::Connection) -> rusqlite::Result<()> {
    reader::prepare(connection)
}
