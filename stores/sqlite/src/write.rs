//! Runs writes on a connection.

use rusqlite::Connection;

use super::outbox::Outgoing;
use super::render::{Native, ReadBack};
use super::row::SqliteRow;
use super::{bind, error, native, render};
use linchpin_core::entity::{EntityDesc, Flags};
use linchpin_core::store::{Plan, Row, Rows, Statement};
use linchpin_core::{Error, Result, Value};

/// Runs a write and collects its rows, or only the number of changed rows if the caller wants no
/// rows.
///
/// The write runs in the open transaction of the connection, or in a new one.
pub(super) fn write(
    connection: &Connection,
    statement: &Statement,
    args: &mut [Value],
    rows: Rows,
    outgoing: &mut Outgoing,
) -> Result<Rows> {
    let native = native(statement)?;
    let primary = statement.entity.primary;
    // A generated key is new. A key from a client may belong to an existing record.
    let field = statement.entity.primary_field();
    let is_generated = field.default.is_generated() && !field.flags.has(Flags::CLIENT_SET);
    let creation_shown_by_key = |keys: &[usize]| {
        is_generated
            && !keys.contains(&primary)
            && args.get(primary).is_some_and(|key| !key.is_null())
    };
    let checks_existing =
        matches!(&statement.plan, Plan::Upsert { keys, .. } if !creation_shown_by_key(keys));
    if !checks_existing && !rows.is_recorded() {
        return write_one(
            connection,
            (statement, native),
            args,
            (rows, outgoing),
            None,
        );
    }
    let own_transaction = connection.is_autocommit();
    let failed = |e| error::of(&native.naming, statement.entity, e);
    if own_transaction {
        connection
            .execute_batch("BEGIN IMMEDIATE")
            .map_err(failed)?;
    }
    let outcome = if checks_existing {
        let output = (rows, &mut *outgoing);
        upsert_by_key(connection, (statement, native), args, output)
    } else {
        let output = (rows, &mut *outgoing);
        write_one(connection, (statement, native), args, output, None)
    };
    // After some errors, SQLite has already rolled back the transaction, so it is no longer open.
    // If writing the events or the commit fails, the caller rolls back.
    if own_transaction && !connection.is_autocommit() {
        if outcome.is_err() {
            outgoing.discard();
            connection.execute_batch("ROLLBACK").map_err(failed)?;
            return outcome;
        }
        let committed = outgoing
            .write(connection)
            .and_then(|()| connection.execute_batch("COMMIT").map_err(failed));
        if committed.is_err() {
            outgoing.discard();
        }
        committed?;
    }
    outcome
}

/// Runs an upsert whose returned row does not show whether the record was created: the upsert
/// matches by the primary key, or the database generates the key.
///
/// So a statement before the upsert checks whether the record exists. Both statements are in one
/// transaction, so there are no other writes between them.
fn upsert_by_key(
    connection: &Connection,
    (statement, native): (&Statement, &Native),
    args: &mut [Value],
    rows: (Rows, &mut Outgoing),
) -> Result<Rows> {
    let failed = |e| error::of(&native.naming, statement.entity, e);
    let existing_check = native
        .existing_check
        .as_ref()
        .ok_or_else(|| Error::internal("an upsert has no check for existing records"))?;
    let existed = {
        let mut check = connection
            .prepare_cached(&existing_check.sql)
            .map_err(failed)?;
        bind::bind(&mut check, &existing_check.binds, args)?.map_err(failed)?;
        let mut found = check.raw_query();
        found.next().map_err(failed)?.is_some()
    };
    write_one(connection, (statement, native), args, rows, Some(existed))
}

/// Runs one write. For an upsert, `existed` is whether the record existed before, if known.
fn write_one(
    connection: &Connection,
    (statement, native): (&Statement, &Native),
    args: &mut [Value],
    (mut rows, outgoing): (Rows, &mut Outgoing),
    existed: Option<bool>,
) -> Result<Rows> {
    let entity = statement.entity;
    let failed = |e| error::of(&native.naming, entity, e);
    let counting = rows
        .only_counts()
        .then_some(native.counting.as_deref())
        .flatten();
    if let (None, Some(plain), Some(read_back)) = (counting, &native.counting, &native.read_back)
        && !connection.is_autocommit()
    {
        return write_and_read(
            connection,
            entity,
            (plain, native, read_back),
            args,
            (rows, outgoing),
        );
    }
    let mut prepared = connection
        .prepare_cached(counting.unwrap_or(&native.sql))
        .map_err(failed)?;
    bind::bind(&mut prepared, &native.binds, args)?.map_err(failed)?;
    if counting.is_some() || matches!(statement.plan, Plan::Insert) {
        let changed = match prepared.raw_execute() {
            Ok(changed) => changed,
            // SQLite checks the primary key last, but its conflict must be reported before those of
            // other constraints.
            Err(_)
                if matches!(statement.plan, Plan::Insert)
                    && key_taken(connection, native, entity, args) =>
            {
                return Err(Error::unique([entity.primary_field().wire]));
            }
            Err(error) => return Err(failed(error)),
        };
        if matches!(statement.plan, Plan::Insert) {
            // The caller does not know the key if the database generated it.
            if let Some(key) = args.get_mut(entity.primary)
                && key.is_null()
            {
                *key = Value::Int(connection.last_insert_rowid());
                rows.push(&*args);
            } else {
                rows.record(&*args);
            }
        } else {
            rows.count += changed;
        }
        outgoing.take(&mut rows);
        return Ok(rows);
    }
    let mut found = prepared.raw_query();
    // All rows are read: an unfinished statement is not committed.
    let mut validity = Ok(());
    while let Some(row) = found.next().map_err(failed)? {
        let row = SqliteRow::new(row, entity, &native.replaced);
        if let Plan::Upsert { .. } = &statement.plan {
            let new = || {
                args.get(entity.primary)
                    .is_some_and(|key| row.value(entity.primary) == key.as_ref())
            };
            rows.created = existed.map_or_else(new, |existed| !existed);
        }
        rows.push(&row);
        validity = validity.and(row.validity());
    }
    // The row was written, so its events are taken even if another program has stored invalid
    // values in it.
    outgoing.take(&mut rows);
    validity.map(|()| rows)
}

/// Writes one record by its key and reads it. Both are in one transaction, so there are no other
/// writes between them.
fn write_and_read(
    connection: &Connection,
    entity: &'static EntityDesc,
    (plain, native, read_back): (&str, &Native, &ReadBack),
    args: &[Value],
    (mut rows, outgoing): (Rows, &mut Outgoing),
) -> Result<Rows> {
    let failed = |e| error::of(&native.naming, entity, e);
    let mut write = connection.prepare_cached(plain).map_err(failed)?;
    bind::bind(&mut write, &native.binds, args)?.map_err(failed)?;
    if write.raw_execute().map_err(failed)? == 0 {
        outgoing.take(&mut rows);
        return Ok(rows);
    }
    let mut read = || {
        let mut read = connection.prepare_cached(&read_back.sql).map_err(failed)?;
        bind::bind(&mut read, std::slice::from_ref(&read_back.key), args)?.map_err(failed)?;
        let mut found = read.raw_query();
        let row = found
            .next()
            .map_err(failed)?
            .ok_or_else(|| Error::internal("a record that was written is not there"))?;
        let row = SqliteRow::new(row, entity, &native.replaced);
        rows.push(&row);
        Ok::<_, Error>(row.validity())
    };
    let validity = match read() {
        Ok(validity) => validity,
        Err(error) => {
            // The record was written, but its new values cannot be returned. The rollback ends the
            // transaction; the function that began it then sees that it is no longer open.
            drop(connection.execute_batch("ROLLBACK"));
            return Err(error);
        }
    };
    // The row was written, so its events are taken even if another program has stored invalid
    // values in it.
    outgoing.take(&mut rows);
    validity.map(|()| rows)
}

/// Whether a record with this key exists; called only after an insert has failed.
fn key_taken(
    connection: &Connection,
    native: &Native,
    entity: &EntityDesc,
    args: &[Value],
) -> bool {
    let naming = &native.naming;
    let sql = format!(
        "SELECT 1 FROM {} WHERE {} = ?",
        render::quote(naming.table(entity)),
        render::quote(naming.column(entity, entity.primary_field()))
    );
    let found = connection
        .prepare_cached(&sql)
        .and_then(|mut s| s.exists([args.get(entity.primary).map(bind::Bound)]));
    found.unwrap_or(false)
}
