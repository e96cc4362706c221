//! Conditions of steps. Each is evaluated directly before or after its step.

use linchpin_core::schema::{
    Column, ColumnKind, Dialect, Index, Only, SchemaError, SchemaSession, Table,
};
use linchpin_core::{Value, schema};
use serde_json::{Value as Json, json};

/// The maximum number of record keys in a message.
const MAX_LISTED_KEYS: usize = 20;

/// A condition.
#[derive(Clone, Debug, PartialEq)]
pub enum Check {
    /// No table, view or other object has this name.
    TableAbsent(String),
    /// The table is as the plan expects it, with its columns, indexes and checks.
    Matches(String),
    /// No two records are equal in a unique index.
    NoDuplicates {
        /// The table.
        table: String,
        /// The column of the primary key.
        key: Column,
        /// The index.
        index: Index,
    },
    /// No record has null in a column.
    NoNulls {
        /// The table.
        table: String,
        /// The column of the primary key.
        key: Column,
        /// The column.
        column: String,
    },
    /// Every record has null or one of these texts in a column.
    OnlyValues {
        /// The table.
        table: String,
        /// The column of the primary key.
        key: Column,
        /// The column.
        column: String,
        /// The texts.
        values: Vec<String>,
        /// Whether messages must not contain values of records.
        sensitive: bool,
    },
    /// Every key that is not null names a record of another table.
    NoOrphans {
        /// The table.
        table: String,
        /// The column of the primary key.
        key: Column,
        /// The column that names the other record.
        column: String,
        /// The other table.
        target: String,
        /// Its primary key.
        target_key: String,
        /// The name of the other entity, for messages.
        target_name: String,
    },
    /// Every row has the current value of the column that a transform fills.
    RowsFilled {
        /// The table.
        table: String,
        /// The SQL condition of a row without the current value.
        stale: String,
    },
    /// The disk has the space that a rebuild of this table needs.
    FreeSpace(String),
    /// No running instance has a binary that is older than the migration with this number.
    NoInstancesBelow(u64),
}

/// The outcome of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The condition holds.
    Holds,
    /// The condition does not hold.
    Fails {
        /// The name of the refusal, such as `duplicates_found`.
        code: &'static str,
        /// One sentence with the number and the keys of the records. It contains values of records
        /// only for [`Check::OnlyValues`] with `sensitive: false`.
        message: String,
        /// The number of records that violate the condition.
        count: u64,
    },
}

impl Check {
    /// The name of the condition in plans.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::TableAbsent(_) => "table_absent",
            Self::Matches(_) => "table_is",
            Self::NoDuplicates { .. } => "no_duplicates",
            Self::NoNulls { .. } => "no_nulls",
            Self::OnlyValues { .. } => "only_values",
            Self::NoOrphans { .. } => "no_orphans",
            Self::RowsFilled { .. } => "rows_filled",
            Self::FreeSpace(_) => "free_space",
            Self::NoInstancesBelow(_) => "no_instances_below",
        }
    }

    /// Whether [`Check::evaluate`] evaluates the condition, so that a plan can report its result.
    /// These conditions read rows or the free disk space.
    pub const fn reads_rows_or_disk(&self) -> bool {
        !matches!(
            self,
            Self::TableAbsent(_) | Self::Matches(_) | Self::NoInstancesBelow(_)
        )
    }

    /// The table that it reads.
    pub fn table(&self) -> Option<&str> {
        match self {
            Self::TableAbsent(table)
            | Self::Matches(table)
            | Self::FreeSpace(table)
            | Self::NoDuplicates { table, .. }
            | Self::NoNulls { table, .. }
            | Self::OnlyValues { table, .. }
            | Self::NoOrphans { table, .. }
            | Self::RowsFilled { table, .. } => Some(table),
            Self::NoInstancesBelow(_) => None,
        }
    }

    /// Returns its JSON form in plans.
    pub fn to_json(&self, dialect: &dyn Dialect) -> Json {
        let args = match self {
            Self::TableAbsent(table) | Self::Matches(table) | Self::FreeSpace(table) => {
                json!({ "table": table })
            }
            Self::NoDuplicates { table, index, .. } => {
                let columns: Vec<&str> = index.keys.iter().map(|k| k.column.as_str()).collect();
                json!({ "table": table, "columns": columns })
            }
            Self::NoNulls { table, column, .. } => json!({ "table": table, "column": column }),
            Self::OnlyValues {
                table,
                column,
                values,
                ..
            } => json!({ "table": table, "column": column, "values": values }),
            Self::NoOrphans {
                table,
                column,
                target,
                ..
            } => json!({ "table": table, "column": column, "target": target }),
            Self::RowsFilled { table, .. } => json!({ "table": table }),
            Self::NoInstancesBelow(seq) => json!({ "seq": seq }),
        };
        json!({ "kind": self.kind(), "args": args, "query": self.query(dialect) })
    }

    /// The query that counts the records that violate the condition. Conditions without a query
    /// have the name of their source instead: `catalogue`, `disk` or `leases`.
    fn query(&self, dialect: &dyn Dialect) -> String {
        match self {
            Self::TableAbsent(_) | Self::Matches(_) => "catalogue".to_owned(),
            Self::FreeSpace(_) => "disk".to_owned(),
            Self::NoInstancesBelow(_) => "leases".to_owned(),
            Self::NoDuplicates { table, index, .. } => {
                let groups = groups(dialect, table, index);
                format!("SELECT count(*), coalesce(sum(n), 0) FROM ({groups}) AS repeated")
            }
            _ => {
                let table = dialect.quote(self.table().unwrap_or_default());
                format!(
                    "SELECT count(*) FROM {table} WHERE {}",
                    self.violation(dialect)
                )
            }
        }
    }

    /// The SQL condition of the records that violate the check.
    fn violation(&self, dialect: &dyn Dialect) -> String {
        match self {
            Self::NoNulls { column, .. } => format!("{} IS NULL", dialect.quote(column)),
            Self::OnlyValues { column, values, .. } => {
                let column = dialect.quote(column);
                let texts: Vec<String> = values.iter().map(|v| text(v)).collect();
                format!("{column} NOT IN ({})", texts.join(", "))
            }
            Self::NoOrphans {
                table,
                column,
                target,
                target_key,
                ..
            } => {
                let quote = |name: &str| dialect.quote(name);
                format!(
                    "{0}.{1} IS NOT NULL AND NOT EXISTS (SELECT 1 FROM {2} AS other WHERE other.{3} = {0}.{1})",
                    quote(table),
                    quote(column),
                    quote(target),
                    quote(target_key)
                )
            }
            Self::RowsFilled { stale, .. } => stale.clone(),
            _ => String::new(),
        }
    }

    /// Evaluates a condition that reads rows or the free disk space. Other conditions are not
    /// evaluated here; the result for them is [`Finding::Holds`].
    ///
    /// # Errors
    /// A fault of the database.
    pub async fn evaluate(
        &self,
        session: &mut dyn SchemaSession,
        dialect: &dyn Dialect,
    ) -> Result<Finding, SchemaError> {
        if !self.reads_rows_or_disk() {
            return Ok(Finding::Holds);
        }
        if let Self::FreeSpace(table) = self {
            return space(session, table).await;
        }
        if let Self::NoDuplicates { table, key, index } = self {
            return duplicates(session, dialect, (table, key, index)).await;
        }
        let count = number(session, &self.query(dialect), 0).await?;
        if count == 0 {
            return Ok(Finding::Holds);
        }
        let keys = match self {
            Self::NoNulls { table, key, .. }
            | Self::OnlyValues { table, key, .. }
            | Self::NoOrphans { table, key, .. } => {
                let (table, name) = (dialect.quote(table), dialect.quote(&key.name));
                let violation = self.violation(dialect);
                let sql = format!(
                    "SELECT {table}.{name} FROM {table} WHERE {violation} ORDER BY {table}.{name} LIMIT {MAX_LISTED_KEYS}"
                );
                keys(session, &sql, key).await?
            }
            _ => String::new(),
        };
        let records = records(count);
        let (code, message) = match self {
            Self::NoNulls { column, .. } => (
                "nulls_found",
                format!("`{column}` is null in {records}; keys: {keys}"),
            ),
            Self::OnlyValues {
                table,
                column,
                sensitive,
                ..
            } => {
                let found = if *sensitive {
                    String::new()
                } else {
                    let (table, column) = (dialect.quote(table), dialect.quote(column));
                    let sql = format!(
                        "SELECT DISTINCT {column} FROM {table} WHERE {} ORDER BY {column} LIMIT 5",
                        self.violation(dialect)
                    );
                    let rows = session.query(&sql, &[], &[ColumnKind::String]).await?;
                    let values: Vec<String> = rows
                        .into_iter()
                        .flatten()
                        .filter_map(|v| v.as_text().map(|text| format!("`{text}`")))
                        .collect();
                    format!(" ({})", values.join(", "))
                };
                (
                    "values_found",
                    format!(
                        "in {records}, `{column}` has a value that is not declared any more{found}; keys: {keys}"
                    ),
                )
            }
            Self::NoOrphans {
                column,
                target_name,
                ..
            } => (
                "orphans_found",
                format!(
                    "in {records}, `{column}` refers to no existing `{target_name}`; keys: {keys}"
                ),
            ),
            _ => (
                "rows_stale",
                format!(
                    "`{}` has {records} that a transform must still fill",
                    self.table().unwrap_or_default()
                ),
            ),
        };
        Ok(Finding::Fails {
            code,
            message,
            count,
        })
    }
}

/// A query that returns the size of each group of records with equal values in a unique index.
fn groups(dialect: &dyn Dialect, table: &str, index: &Index) -> String {
    let columns = columns(dialect, index);
    format!(
        "SELECT count(*) AS n FROM {} WHERE {} GROUP BY {columns} HAVING count(*) > 1",
        dialect.quote(table),
        covered(dialect, index)
    )
}

fn columns(dialect: &dyn Dialect, index: &Index) -> String {
    let columns: Vec<String> = index
        .keys
        .iter()
        .map(|k| dialect.quote(&k.column))
        .collect();
    columns.join(", ")
}

/// The condition of the records that a unique index compares.
fn covered(dialect: &dyn Dialect, index: &Index) -> String {
    let keys = index
        .keys
        .iter()
        .map(|key| format!("{} IS NOT NULL", dialect.quote(&key.column)));
    let only = index.only.iter().map(|only| match only {
        Only::Null(column) => format!("{} IS NULL", dialect.quote(column)),
        Only::Differs(column, value) => {
            // Null does not mark a deleted record.
            format!("{} IS DISTINCT FROM {}", dialect.quote(column), text(value))
        }
    });
    keys.chain(only).collect::<Vec<_>>().join(" AND ")
}

async fn space(session: &mut dyn SchemaSession, table: &str) -> Result<Finding, SchemaError> {
    let Some(space) = session.space(table).await? else {
        return Ok(Finding::Holds);
    };
    if space.needed <= space.free {
        return Ok(Finding::Holds);
    }
    let megabytes = |bytes: u64| bytes.div_ceil(1_000_000);
    Ok(Finding::Fails {
        code: "disk_full",
        message: format!(
            "the rebuild of `{table}` needs {} MB; the disk has {} MB free",
            megabytes(space.needed),
            megabytes(space.free)
        ),
        count: 0,
    })
}

async fn duplicates(
    session: &mut dyn SchemaSession,
    dialect: &dyn Dialect,
    (table, key, index): (&str, &Column, &Index),
) -> Result<Finding, SchemaError> {
    let groups = groups(dialect, table, index);
    let sql = format!("SELECT count(*), coalesce(sum(n), 0) FROM ({groups}) AS repeated");
    let values = number(session, &sql, 0).await?;
    if values == 0 {
        return Ok(Finding::Holds);
    }
    let count = number(session, &sql, 1).await?;
    let (columns, covered) = (columns(dialect, index), covered(dialect, index));
    let (table, name) = (dialect.quote(table), dialect.quote(&key.name));
    let sql = format!(
        "SELECT {name} FROM {table} WHERE {covered} AND ({columns}) IN (SELECT {columns} FROM {table} \
         WHERE {covered} GROUP BY {columns} HAVING count(*) > 1) ORDER BY {name} LIMIT {MAX_LISTED_KEYS}"
    );
    let keys = keys(session, &sql, key).await?;
    let names: Vec<&str> = index.keys.iter().map(|k| k.column.as_str()).collect();
    let (values, times) = match values {
        1 => ("1 value occurs".to_owned(), "more than once"),
        n => (format!("{n} values occur"), "more than once"),
    };
    Ok(Finding::Fails {
        code: "duplicates_found",
        message: format!(
            "unique ({}): {values} {times}, in {}; keys: {keys}",
            names.join(", "),
            records(count)
        ),
        count,
    })
}

/// Runs a query that returns one row of numbers, and returns the number in column `at`.
async fn number(session: &mut dyn SchemaSession, sql: &str, at: usize) -> Result<u64, SchemaError> {
    let kinds = vec![ColumnKind::Integer; at + 1];
    // Postgres returns `sum` as `numeric`, so the query casts it. SQLite accepts the same cast.
    let sql = sql.replace("coalesce(sum(n), 0)", "CAST(coalesce(sum(n), 0) AS BIGINT)");
    let rows = session.query(&sql, &[], &kinds).await?;
    let value = rows
        .first()
        .and_then(|row| row.get(at))
        .and_then(Value::as_int);
    value
        .and_then(|n| u64::try_from(n).ok())
        .ok_or_else(|| SchemaError::new(schema::SchemaFault::Other, "a count returned no number"))
}

/// The keys of records as a list.
async fn keys(
    session: &mut dyn SchemaSession,
    sql: &str,
    key: &Column,
) -> Result<String, SchemaError> {
    let rows = session
        .query(sql, &[], std::slice::from_ref(&key.kind))
        .await?;
    let keys: Vec<String> = rows.into_iter().flatten().map(|key| shown(&key)).collect();
    Ok(keys.join(", "))
}

/// A key for messages: control characters are escaped, and long texts are cut.
pub(crate) fn shown(key: &Value) -> String {
    let text = match key {
        Value::Int(n) => n.to_string(),
        Value::Text(text) => text.escape_debug().to_string(),
        other => schema::literal_of(other).to_string(),
    };
    if text.chars().count() <= 80 {
        text
    } else {
        text.chars().take(80).chain("..".chars()).collect()
    }
}

fn records(count: u64) -> String {
    if count == 1 {
        "1 record".to_owned()
    } else {
        format!("{count} records")
    }
}

/// An SQL literal of a text. Both stores treat a backslash as a normal character.
pub(crate) fn text(value: &str) -> String {
    format!("'{}'", value.replace('\'', "''"))
}

/// The column of a table's primary key.
pub(crate) fn key_of(table: &Table) -> Column {
    table.column(&table.primary).cloned().unwrap_or(Column {
        name: table.primary.clone(),
        kind: ColumnKind::String,
        optional: false,
        default: None,
    })
}
