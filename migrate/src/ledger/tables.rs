//! The tables of the ledger, and the values of their columns.

use linchpin_core::schema::{Bound, Column, ColumnKind, SchemaError, SchemaSession, Table};
use linchpin_core::{Timestamp, Value};

use super::damaged;

/// The table with the installed schema. It has one row.
pub(super) const SCHEMA: &str = "linchpin_schema";
pub(super) const MIGRATIONS: &str = "linchpin_migrations";
pub(super) const STEPS: &str = "linchpin_migration_steps";
pub(super) const INSTANCES: &str = "linchpin_instances";

fn column(name: &str, kind: ColumnKind, optional: bool) -> Column {
    Column {
        name: name.to_owned(),
        kind,
        optional,
        default: None,
    }
}

fn table(name: &str, primary: &str, columns: &[(&str, ColumnKind, bool)]) -> Table {
    Table {
        name: name.to_owned(),
        primary: primary.to_owned(),
        columns: columns
            .iter()
            .map(|(name, kind, optional)| column(name, kind.clone(), *optional))
            .collect(),
        indexes: Vec::new(),
        checks: Vec::new(),
    }
}

/// The tables of the ledger.
pub(super) fn tables() -> [Table; 4] {
    use ColumnKind::{Boolean, Date, Integer, Json, String, StringArray};
    [
        table(
            SCHEMA,
            "id",
            &[
                ("id", String, false),
                ("format", Integer, false),
                ("database_id", String, false),
                ("app", String, false),
                ("system", Integer, false),
                ("seq", Integer, false),
                ("min_seq", Integer, false),
                ("max_seq", Integer, false),
                ("epoch", Integer, false),
                ("runner", Integer, false),
                ("snapshot", String, false),
                ("digest", String, false),
                ("placed", StringArray, false),
                ("names", Json, false),
                ("created_at", Date, false),
            ],
        ),
        table(
            MIGRATIONS,
            "id",
            &[
                ("id", String, false),
                ("seq", Integer, false),
                ("name", String, false),
                ("digest", String, false),
                ("document", String, false),
                ("state", String, false),
                ("plan", String, true),
                ("approval", String, true),
                ("draft", Boolean, false),
                ("executor", String, false),
                ("opened_at", Date, false),
                ("done_at", Date, true),
            ],
        ),
        table(
            STEPS,
            "id",
            &[
                ("id", String, false),
                ("seq", Integer, false),
                ("digest", String, false),
                ("class", String, false),
                ("state", String, false),
                ("attempts", Integer, false),
                ("cursor", String, true),
                ("rows_done", Integer, false),
                ("rows_failed", Integer, false),
                ("result", String, true),
                ("error", String, true),
                ("approval", String, true),
                ("started_at", Date, false),
                ("done_at", Date, true),
            ],
        ),
        table(
            INSTANCES,
            "id",
            &[
                ("id", String, false),
                ("host", String, false),
                ("seq", Integer, false),
                ("digest", String, false),
                ("epoch", Integer, false),
                ("lease_end", Date, false),
            ],
        ),
    ]
}

/// A text parameter.
pub(super) fn text(value: impl Into<String>) -> Bound {
    (Value::Text(value.into()), ColumnKind::String)
}

/// A text parameter that may be null.
pub(super) fn maybe_text(value: Option<String>) -> Bound {
    (value.map_or(Value::Null, Value::Text), ColumnKind::String)
}

/// An integer parameter.
pub(super) fn int(value: u64) -> Bound {
    let value = i64::try_from(value).unwrap_or(i64::MAX);
    (Value::Int(value), ColumnKind::Integer)
}

/// A date parameter.
pub(super) fn date(value: Timestamp) -> Bound {
    (Value::Date(value), ColumnKind::Date)
}

/// A date parameter that may be null.
pub(super) fn maybe_date(value: Option<Timestamp>) -> Bound {
    (value.map_or(Value::Null, Value::Date), ColumnKind::Date)
}

/// The values of a row, read in the order of the columns.
pub(super) struct Cells(pub(super) std::vec::IntoIter<Value>);

impl Cells {
    pub(super) fn next(&mut self) -> Value {
        self.0.next().unwrap_or_default()
    }

    pub(super) fn text(&mut self) -> Result<String, SchemaError> {
        self.maybe_text()
            .ok_or_else(|| damaged("a text is missing"))
    }

    pub(super) fn maybe_text(&mut self) -> Option<String> {
        match self.next() {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn int(&mut self) -> Result<u64, SchemaError> {
        let number = self.next().as_int().and_then(|n| u64::try_from(n).ok());
        number.ok_or_else(|| damaged("a number is missing"))
    }

    pub(super) fn date(&mut self) -> Result<Timestamp, SchemaError> {
        self.maybe_date()
            .ok_or_else(|| damaged("a date is missing"))
    }

    pub(super) fn maybe_date(&mut self) -> Option<Timestamp> {
        match self.next() {
            Value::Date(date) => Some(date),
            _ => None,
        }
    }
}

/// All rows of a table, in the order of their ids.
pub(super) async fn rows(
    session: &mut dyn SchemaSession,
    table: &str,
    columns: &[(&str, ColumnKind)],
) -> Result<Vec<Cells>, SchemaError> {
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let kinds: Vec<ColumnKind> = columns.iter().map(|(_, kind)| kind.clone()).collect();
    let sql = format!("SELECT {} FROM {table} ORDER BY id", names.join(", "));
    let rows = session.query(&sql, &[], &kinds).await?;
    Ok(rows.into_iter().map(|row| Cells(row.into_iter())).collect())
}
