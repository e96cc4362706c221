//! Leases: the rows of the instances that serve.

use linchpin_core::Timestamp;
use linchpin_core::schema::{ColumnKind, Dialect, SchemaError, SchemaSession};

use super::Instance;
use super::tables::{Cells, INSTANCES, SCHEMA, date, int, text};
use super::write::insert;

/// Writes the lease of an instance. The caller has begun a transaction.
pub(crate) async fn lease(
    session: &mut dyn SchemaSession,
    instance: &Instance,
    digest: &str,
) -> Result<(), SchemaError> {
    let sql = format!(
        "UPDATE {INSTANCES} SET seq = $2, digest = $3, epoch = $4, lease_end = $5 WHERE id = $1"
    );
    let values = [
        text(&*instance.id),
        int(instance.seq),
        text(digest),
        int(instance.epoch),
        date(instance.lease_end),
    ];
    if session.execute(&sql, &values).await? > 0 {
        return Ok(());
    }
    let values = [
        text(&*instance.id),
        text(&*instance.host),
        int(instance.seq),
        text(digest),
        int(instance.epoch),
        date(instance.lease_end),
    ];
    insert(session, INSTANCES, &values).await
}

/// Removes the lease of an instance, and all leases that ended more than an hour ago.
pub(crate) async fn release(
    session: &mut dyn SchemaSession,
    instance: &str,
    now: Timestamp,
) -> Result<(), SchemaError> {
    let sql = format!("DELETE FROM {INSTANCES} WHERE id = $1 OR lease_end < $2");
    let long_ago = Timestamp::from_millis(now.millis() - 3_600_000);
    session
        .execute(&sql, &[text(instance), date(long_ago)])
        .await
        .map(drop)
}

/// Returns the oldest and the newest accepted migration number (the window) and the epoch. Locks
/// them until the end of the transaction. So either this transaction reads the window that a
/// runner has changed, or the runner reads the lease that this transaction writes.
pub(crate) async fn window(
    session: &mut dyn SchemaSession,
    dialect: &dyn Dialect,
) -> Result<(u64, u64, u64), SchemaError> {
    let lock = dialect.row_lock();
    let sql = format!("SELECT min_seq, max_seq, epoch FROM {SCHEMA}{lock}");
    let kinds = [
        ColumnKind::Integer,
        ColumnKind::Integer,
        ColumnKind::Integer,
    ];
    let row = session.query(&sql, &[], &kinds).await?.pop();
    let mut row = Cells(row.unwrap_or_default().into_iter());
    Ok((row.int()?, row.int()?, row.int()?))
}
