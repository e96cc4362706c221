//! Writes, on any connection that has the right to write.

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
/// The caller holds the write lock; without it, the write is a transaction of its own.
pub(super) fn write(
    connection: &Connection,
    statement: &Statement,
    args: &mut [Value],
    rows: Rows,
    outgoing: &mut Outgoing,
) -> Result<Rows> {
    let native = native(statement)?;
    let primary = statement.entity.primary;
    // A key from the server is new; a key proposed by a client may belong to an existing record.
    let field = statement.entity.primary_field();
    let made = field.default.is_generated() && !field.flags.has(Flags::CLIENT_SET);
    let told_by_key = |keys: &[usize]| {
        made && !keys.contains(&primary) && args.get(primary).is_some_and(|key| !key.is_null())
    };
    let looks = matches!(&statement.plan, Plan::Upsert { keys, .. } if !told_by_key(keys));
    if !looks && !rows.is_recorded() {
        return write_one(
            connection,
            (statement, native),
            args,
            (rows, outgoing),
            None,
        );
    }
    let alone = connection.is_autocommit();
    let failed = |e| error::of(&native.naming, statement.entity, e);
    if alone {
        connection
            .execute_batch("BEGIN IMMEDIATE")
            .map_err(failed)?;
    }
    let outcome = if looks {
        let taken = (rows, &mut *outgoing);
        upsert_by_key(connection, (statement, native), args, taken)
    } else {
        let taken = (rows, &mut *outgoing);
        write_one(connection, (statement, native), args, taken, None)
    };
    // If the statement rolled back by itself, there is no transaction any more; if writing the
    // events or the commit fails, the caller rolls back.
    if alone && !connection.is_autocommit() {
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

/// An upsert whose row does not show whether it created the record: it matches by the key, or the
/// store chooses the key.
///
/// There are no other writes between the check and the statement.
fn upsert_by_key(
    connection: &Connection,
    (statement, native): (&Statement, &Native),
    args: &mut [Value],
    rows: (Rows, &mut Outgoing),
) -> Result<Rows> {
    let failed = |e| error::of(&native.naming, statement.entity, e);
    let meets = native
        .meets
        .as_ref()
        .ok_or_else(|| Error::internal("an upsert that does not know what it meets"))?;
    let there = {
        let mut look = connection.prepare_cached(&meets.sql).map_err(failed)?;
        bind::bind(&mut look, &meets.binds, args)?.map_err(failed)?;
        let mut found = look.raw_query();
        found.next().map_err(failed)?.is_some()
    };
    write_one(connection, (statement, native), args, rows, Some(there))
}

/// For an upsert, `there` says whether the record exists, if known.
fn write_one(
    connection: &Connection,
    (statement, native): (&Statement, &Native),
    args: &mut [Value],
    (mut rows, outgoing): (Rows, &mut Outgoing),
    there: Option<bool>,
) -> Result<Rows> {
    let entity = statement.entity;
    let failed = |e| error::of(&native.naming, entity, e);
    let counting = rows
        .only_counts()
        .then_some(native.counting.as_deref())
        .flatten();
    if let (None, Some(plain), Some(again)) = (counting, &native.counting, &native.again)
        && !connection.is_autocommit()
    {
        return write_and_read(
            connection,
            entity,
            (plain, native, again),
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
            // SQLite checks the key last, but an existing record must be reported as a conflict of
            // its key first.
            Err(_)
                if matches!(statement.plan, Plan::Insert)
                    && key_taken(connection, native, entity, args) =>
            {
                return Err(Error::unique([entity.primary_field().wire]));
            }
            Err(error) => return Err(failed(error)),
        };
        if matches!(statement.plan, Plan::Insert) {
            // The caller does not know a key that the store chose.
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
    let mut sound = Ok(());
    while let Some(row) = found.next().map_err(failed)? {
        let row = SqliteRow::new(row, entity, &native.kept);
        if let Plan::Upsert { .. } = &statement.plan {
            let new = || {
                args.get(entity.primary)
                    .is_some_and(|key| row.value(entity.primary) == key.as_ref())
            };
            rows.created = there.map_or_else(new, |there| !there);
        }
        rows.push(&row);
        sound = sound.and(row.sound());
    }
    // A row with invalid values was written all the same.
    outgoing.take(&mut rows);
    sound.map(|()| rows)
}

/// Writes one record by its key and reads it. Both are in one transaction, so there are no other
/// writes between them.
fn write_and_read(
    connection: &Connection,
    entity: &'static EntityDesc,
    (plain, native, again): (&str, &Native, &ReadBack),
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
        let mut read = connection.prepare_cached(&again.sql).map_err(failed)?;
        bind::bind(&mut read, std::slice::from_ref(&again.key), args)?.map_err(failed)?;
        let mut found = read.raw_query();
        let row = found
            .next()
            .map_err(failed)?
            .ok_or_else(|| Error::internal("a record that was written is not there"))?;
        let row = SqliteRow::new(row, entity, &native.kept);
        rows.push(&row);
        Ok::<_, Error>(row.sound())
    };
    let sound = match read() {
        Ok(sound) => sound,
        Err(error) => {
            // It was written, but the new values cannot be returned: the rollback tells the owner
            // of the transaction that it is lost.
            drop(connection.execute_batch("ROLLBACK"));
            return Err(error);
        }
    };
    // A row with invalid values was written all the same.
    outgoing.take(&mut rows);
    sound.map(|()| rows)
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
