//! One statement on one connection.

use std::pin::pin;
use std::sync::Arc;

use futures_util::TryStreamExt;

use super::aggregate::Computed;
use super::lane::Live;
use super::native::{Native, Text};
use super::row::PgRow;
use super::{bind, error, render};
use linchpin_core::entity::Kind;
use linchpin_core::store::{Plan, Rows, Statement, aggregate_kinds};
use linchpin_core::{Error, Result, Value};
use linchpin_sql::replaced::ReplacedField;

/// The reason why a statement failed.
pub(super) enum Failure {
    /// The connection was lost before the statement was sent.
    Unsent(tokio_postgres::Error),
    /// The server reported an error, or the connection was lost.
    Server(tokio_postgres::Error),
    /// An error of this process, such as an unexpected answer of the server.
    Own(Error),
}

impl Failure {
    /// Whether the database did not find a table or a column.
    pub(super) fn is_missing(&self) -> bool {
        matches!(self, Self::Server(error) if error::is_missing(error))
    }

    pub(super) fn into_error(self, statement: &Statement) -> Error {
        match self {
            Self::Unsent(e) | Self::Server(e) => match Native::of(statement) {
                Ok(native) => error::of(&native.naming, statement.entity, e),
                Err(error) => error,
            },
            Self::Own(e) => e,
        }
    }
}

/// Runs a statement and collects its rows.
pub(super) async fn run(
    live: &Live,
    statement: &Statement,
    args: &[Value],
    rows: &mut Rows,
) -> std::result::Result<(), Failure> {
    let text = Native::of(statement)
        .and_then(|n| n.text(statement, args))
        .map_err(Failure::Own)?;
    match attempt(live, statement, &text, args, rows).await {
        Err(Failure::Server(error)) if generated_key_taken(statement, args, &error) => {
            // Existing records have keys that the sequence has not reached yet.
            advance(live, statement).await.map_err(Failure::Server)?;
            attempt(live, statement, &text, args, rows).await
        }
        outcome => outcome,
    }
}

/// Runs a statement within a transaction, in which a failed statement cannot be repaired.
pub(super) async fn run_within(
    live: &Live,
    statement: &Statement,
    args: &[Value],
    rows: &mut Rows,
) -> std::result::Result<(), Failure> {
    let text = Native::of(statement)
        .and_then(|n| n.text(statement, args))
        .map_err(Failure::Own)?;
    attempt(live, statement, &text, args, rows).await
}

/// Whether to retry a failed statement after [`repair`], outside of the failed transaction.
pub(super) fn repairable(statement: &Statement, args: &[Value], failure: &Failure) -> bool {
    matches!(failure, Failure::Server(error) if generated_key_taken(statement, args, error))
}

/// Advances the sequence if existing records have keys that it has not reached yet.
pub(super) async fn repair(live: &Live, statement: &Statement) -> bool {
    advance(live, statement).await.is_ok()
}

async fn attempt(
    live: &Live,
    statement: &Statement,
    text: &Text,
    args: &[Value],
    rows: &mut Rows,
) -> std::result::Result<(), Failure> {
    let entity = statement.entity;
    let counting = rows.only_counts() && text.can_count();
    let prepared = text.prepared(live, counting).await.map_err(|e| {
        if error::is_lost(&e) {
            Failure::Unsent(e)
        } else {
            Failure::Server(e)
        }
    })?;
    let values = bind::bound(&text.binds, args).map_err(Failure::Own)?;
    if counting {
        let changed = live
            .client
            .execute_raw(&prepared, values)
            .await
            .map_err(Failure::Server)?;
        rows.count += usize::try_from(changed).unwrap_or(usize::MAX);
        return Ok(());
    }
    let mut found = pin!(
        live.client
            .query_raw(&prepared, values)
            .await
            .map_err(Failure::Server)?
    );
    // All rows are read, even if no more are needed: the server reports the success of a write only
    // after the rows.
    let mut wanted = true;
    let mut validity = Ok(());
    let kinds = match &statement.plan {
        Plan::Aggregate {
            groups,
            by_value,
            compute,
            ..
        } => aggregate_kinds(entity, groups, by_value, compute),
        _ => Box::default(),
    };
    while let Some(row) = found.try_next().await.map_err(Failure::Server)? {
        if !wanted {
            continue;
        }
        match &statement.plan {
            Plan::Exists { .. } | Plan::Hold { .. } => {
                let empty: &[Value] = &[];
                wanted = rows.push(empty);
            }
            Plan::Aggregate { .. } => {
                let row = Computed::new(&row, entity, &kinds);
                wanted = rows.push(&row);
                validity = validity.and(row.validity());
            }
            Plan::Insert => insert(&row, statement, args, rows).map_err(Failure::Own)?,
            Plan::Select { .. }
            | Plan::Related { .. }
            | Plan::Chosen { .. }
            | Plan::Lock { .. }
            | Plan::Update { .. }
            | Plan::Delete { .. }
            | Plan::Upsert { .. } => {
                if let Plan::Upsert { .. } = statement.plan {
                    let last = entity.fields.len() + ReplacedField::width(&text.replaced);
                    rows.created = row.try_get(last).map_err(Failure::Server)?;
                }
                let row = PgRow::new(&row, entity, &text.replaced);
                // If the rows are recorded for events, all of them are needed.
                wanted = rows.push(&row) || rows.is_recorded();
                validity = validity.and(row.validity());
            }
        }
    }
    // The caller already has the record, because it set the key. The events of the insert need the
    // record.
    if let Plan::Insert = statement.plan
        && !args.get(entity.primary).is_some_and(Value::is_null)
    {
        rows.record(args);
    }
    validity.map_err(Failure::Own)
}

/// Adds the record to `rows` if the database generated its key.
fn insert(
    row: &tokio_postgres::Row,
    statement: &Statement,
    args: &[Value],
    rows: &mut Rows,
) -> Result<()> {
    let primary = statement.entity.primary;
    if args.get(primary).is_some_and(Value::is_null) {
        let mut record = args.to_vec();
        record[primary] = Value::Int(row.try_get(0).map_err(Error::internal)?);
        rows.push(&record[..]);
    }
    Ok(())
}

fn generated_key_taken(
    statement: &Statement,
    args: &[Value],
    error: &tokio_postgres::Error,
) -> bool {
    let entity = statement.entity;
    matches!(statement.plan, Plan::Insert | Plan::Upsert { .. })
        && matches!(entity.primary_field().kind, Kind::Integer)
        && args.get(entity.primary).is_some_and(Value::is_null)
        && error
            .as_db_error()
            .and_then(|e| e.constraint())
            .is_some_and(|name| {
                Native::of(statement)
                    .is_ok_and(|native| error::is_key(&native.naming, entity, name))
            })
}

/// Advances a table's sequence past the greatest key.
async fn advance(
    live: &Live,
    statement: &Statement,
) -> std::result::Result<(), tokio_postgres::Error> {
    let entity = statement.entity;
    let naming = Native::of(statement).map(|native| Arc::clone(&native.naming));
    let naming = naming.unwrap_or_default();
    let (table, key) = (
        render::quote(naming.table(entity)),
        naming.column(entity, entity.primary_field()),
    );
    let sequence = format!(
        "pg_get_serial_sequence({}, {})",
        render::literal(&table),
        render::literal(key)
    );
    let column = render::quote(key);
    live.client
        .batch_execute(&format!("SELECT setval({sequence}, GREATEST(nextval({sequence}), (SELECT max({column}) FROM {table})))"))
        .await
}
