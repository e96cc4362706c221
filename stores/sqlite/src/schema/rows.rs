//! Changes many rows with one prepared statement.

use rusqlite::Connection;

use linchpin_core::Value;
use linchpin_core::schema::{RowsWritten, SchemaFault};

use super::fault::{self, Outcome};
use crate::bind::Bound;

/// Runs a statement for each row. One statement for many rows would save nothing: there is no
/// server, and its longer text would have to be parsed.
pub(super) fn write(
    connection: &Connection,
    sql: &str,
    rows: Vec<Vec<Value>>,
) -> Outcome<RowsWritten> {
    let mut statement = connection.prepare(sql).map_err(fault::of)?;
    // Parameters that the statement does not use are left out.
    let width = rows.first().map_or(0, Vec::len);
    let slots = (1..=width).map(|n| statement.parameter_index(&format!("${n}")));
    let slots: Vec<_> = slots.collect::<Result<_, _>>().map_err(fault::of)?;
    let mut done = RowsWritten::default();
    for row in rows {
        for (slot, value) in slots.iter().zip(&row) {
            if let Some(slot) = slot {
                statement
                    .raw_bind_parameter(*slot, Bound(value))
                    .map_err(fault::of)?;
            }
        }
        // If a statement fails, only its own changes are rolled back.
        match statement.raw_execute().map_err(fault::of) {
            Ok(changed) => done.changed += changed as u64,
            Err(error) if error.fault == SchemaFault::Violation => {
                done.refused.push((row, error.message));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}
