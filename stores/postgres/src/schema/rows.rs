//! Changes many rows with one statement.

use linchpin_core::Value;
use linchpin_core::entity::Kind;
use linchpin_core::schema::{ColumnKind, RowStatement, RowsWritten, SchemaError, SchemaFault};
use sqlx::AssertSqlSafe;
use sqlx::postgres::PgArguments;

use super::fault;
use super::session::Session;
use super::value::{arrays, bind};

type Result<T> = std::result::Result<T, SchemaError>;

/// The number of rows of a statement if rows are written in parts.
const PART_ROWS: usize = 100;

impl Session {
    /// Writes all rows at once, or in parts of 100 rows if a column holds lists or JSON. If the
    /// server refuses a row, the rows of that statement are written again in parts of 100, and the
    /// rows of a refused part one by one.
    pub(super) async fn write_rows(
        &mut self,
        statement: &RowStatement,
        rows: Vec<Vec<Value>>,
    ) -> Result<RowsWritten> {
        let mut done = RowsWritten::default();
        // With these settings the server finds each row by its key. Other plans would read the
        // whole table for each batch.
        self.run("SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off")
            .await?;
        let part_rows = if has_arrays(&statement.kinds) {
            rows.len()
        } else {
            PART_ROWS
        };
        let mut open = parts(0..rows.len(), part_rows);
        while let Some(range) = open.pop() {
            match self
                .write_with_savepoint(statement, &rows[range.clone()])
                .await?
            {
                Ok(changed) => done.changed += changed,
                Err(message) if range.len() == 1 => {
                    done.refused.push((rows[range.start].clone(), message));
                }
                Err(_) => {
                    let part_rows = if range.len() > PART_ROWS {
                        PART_ROWS
                    } else {
                        1
                    };
                    open.extend(parts(range, part_rows));
                }
            }
        }
        Ok(done)
    }

    /// Writes rows under a savepoint. If the server refuses one of them, only these rows are rolled
    /// back, and the inner error is the message of the server.
    async fn write_with_savepoint(
        &mut self,
        statement: &RowStatement,
        rows: &[Vec<Value>],
    ) -> Result<std::result::Result<u64, String>> {
        self.run("SAVEPOINT linchpin_rows").await?;
        match self.write_at_once(statement, rows).await {
            Ok(changed) => {
                self.run("RELEASE SAVEPOINT linchpin_rows").await?;
                Ok(Ok(changed))
            }
            Err(error) if error.fault == SchemaFault::Violation => {
                self.run("ROLLBACK TO SAVEPOINT linchpin_rows; RELEASE SAVEPOINT linchpin_rows")
                    .await?;
                Ok(Err(error.message))
            }
            Err(error) => Err(error),
        }
    }

    /// Writes rows with one statement, and returns the number of changed rows.
    async fn write_at_once(
        &mut self,
        statement: &RowStatement,
        rows: &[Vec<Value>],
    ) -> Result<u64> {
        let width = statement.kinds.len();
        let (given, values) = if has_arrays(&statement.kinds) {
            let slots: Vec<String> = (1..=width).map(|n| format!("${n}")).collect();
            let given = format!("SELECT * FROM unnest({})", slots.join(", "));
            (given, arrays(&statement.kinds, rows)?)
        } else {
            let row = |row: usize| {
                let slots = (1..=width).map(|n| format!("${}", row * width + n));
                format!("({})", slots.collect::<Vec<_>>().join(", "))
            };
            let given: Vec<String> = (0..rows.len()).map(row).collect();
            (
                format!("VALUES {}", given.join(", ")),
                one_by_one(statement, rows)?,
            )
        };
        let names: Vec<String> = (1..=width).map(|n| format!("p{n}")).collect();
        let sql = format!(
            "WITH given ({}) AS ({given}) {}",
            names.join(", "),
            statement.many
        );
        sqlx::query_with(AssertSqlSafe(sql), values)
            .execute(&mut self.connection)
            .await
            .map(|done| done.rows_affected())
            .map_err(fault::of)
    }
}

/// Whether the values of each column can be sent as an array. Lists cannot: the server has no
/// arrays of arrays with different lengths.
fn has_arrays(kinds: &[ColumnKind]) -> bool {
    kinds
        .iter()
        .all(|kind| !matches!(kind.decoded(), Kind::StringArray | Kind::Json))
}

fn one_by_one(statement: &RowStatement, rows: &[Vec<Value>]) -> Result<PgArguments> {
    let mut values = Vec::with_capacity(rows.len() * statement.kinds.len());
    for row in rows {
        values.extend(row.iter().cloned().zip(statement.kinds.iter().cloned()));
    }
    bind(&values)
}

/// The parts of a range, the last one first.
fn parts(range: std::ops::Range<usize>, part_rows: usize) -> Vec<std::ops::Range<usize>> {
    let starts: Vec<usize> = range.clone().step_by(part_rows.max(1)).collect();
    let part = |start: usize| start..(start + part_rows).min(range.end);
    starts.into_iter().rev().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_a_range_in_reverse() {
        assert_eq!(parts(3..8, 2), vec![7..8, 5..7, 3..5]);
        let whole: Vec<std::ops::Range<usize>> = std::iter::once(3..8).collect();
        assert_eq!(parts(3..8, 9), whole);
        assert!(parts(3..3, 0).is_empty());
    }
}
