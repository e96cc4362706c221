//! Rendered statements, for tests that count what a guarded statement reads.

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
    /// When the plan holds a source that should be an argument.
    pub fn new(entity: &'static EntityDesc, plan: &Plan) -> Result<Self> {
        render(entity, plan).map(Self)
    }

    /// Its text.
    pub fn sql(&self) -> &str {
        &self.0.sql
    }

    /// Whether it reads at most one row, on the caller's thread.
    pub fn is_inline(&self) -> bool {
        matches!(self.0.runs, Runs::Inline)
    }

    /// Whether it reads at most as many rows as its limit.
    pub fn is_limited(&self) -> bool {
        matches!(self.0.runs, Runs::Limited(_))
    }

    /// Binds the arguments of a call.
    ///
    /// # Errors
    /// When an argument is missing; within, the database's own.
    pub fn bind(
        &self,
        statement: &mut rusqlite::CachedStatement<'_>,
        args: &[Value],
    ) -> Result<rusqlite::Result<()>> {
        bind::bind(statement, &self.0.binds, args)
    }
}

/// Gives a connection the functions that rendered statements call.
///
/// # Errors
/// The database's own.
pub fn prepare(connection: &rusqlite::Connection) -> rusqlite::Result<()> {
    reader::prepare(connection)
}
