//! Index builds that block neither reads nor writes.
//!
//! Such a build waits for transactions that began before it. A second connection watches the build,
//! and cancels it if it waits longer than the limit.

use std::time::{Duration, Instant};

use linchpin_core::schema::{IndexState, SchemaError, SchemaFault};
use sqlx::{AssertSqlSafe, PgConnection, Row};

use super::fault;
use super::session::Session;
use super::store::{backend, one};
use crate::render::quote;

type Result<T> = std::result::Result<T, SchemaError>;

/// The interval at which a build is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// The outcome of a watched statement.
enum End {
    Done(sqlx::Result<()>),
    /// It was canceled after it had waited for these sessions.
    Waited(String),
}

/// Builds an index. After a failure the unusable index is removed, unless another session prevents
/// it.
pub(super) async fn create(session: &mut Session, name: &str, sql: &str) -> Result<()> {
    if session.index_state(name).await? == IndexState::Invalid {
        remove(session, name).await?;
    }
    let failed = match watched(session, sql).await? {
        End::Done(Ok(())) => match session.index_state(name).await? {
            IndexState::Valid => return Ok(()),
            _ => SchemaError::new(
                SchemaFault::Other,
                format!("the build left the index `{name}` unusable"),
            ),
        },
        End::Done(Err(error)) => fault::of(error),
        End::Waited(sessions) => SchemaError::new(
            SchemaFault::LockTimeout,
            format!(
                "the build of index `{name}` waited {:?} for {sessions}",
                session.index_wait
            ),
        ),
    };
    if failed.fault == SchemaFault::Unreachable {
        return Err(failed);
    }
    if session.index_state(name).await? == IndexState::Invalid {
        // The transaction that the build waited for may also block the removal, so the removal
        // waits only for the lock timeout.
        let wait = std::mem::replace(&mut session.index_wait, session.lock_timeout);
        let removed = remove(session, name).await;
        session.index_wait = wait;
        if let Err(error) = removed {
            return Err(SchemaError::new(
                failed.fault,
                format!(
                    "{failed}; the unusable index is still there and is removed before the next build: {error}"
                ),
            ));
        }
    }
    Err(failed)
}

/// Drops an index.
pub(super) async fn drop(session: &mut Session, sql: &str) -> Result<()> {
    match watched(session, sql).await? {
        End::Done(done) => done.map_err(fault::of),
        End::Waited(sessions) => Err(SchemaError::new(
            SchemaFault::LockTimeout,
            format!(
                "the removal of the index waited {:?} for {sessions}",
                session.index_wait
            ),
        )),
    }
}

async fn remove(session: &mut Session, name: &str) -> Result<()> {
    drop(session, &format!("DROP INDEX CONCURRENTLY {}", quote(name))).await
}

/// Runs a statement without a lock timeout. If it waits for other sessions for longer than the
/// limit, it is canceled.
async fn watched(session: &mut Session, sql: &str) -> Result<End> {
    session.run("SET lock_timeout = 0").await?;
    session.applied = None;
    let mut watcher = session.schema.open().await?;
    let pid = backend(&mut session.connection).await.map_err(fault::of)?;
    let limit = session.index_wait;
    let mut statement =
        std::pin::pin!(sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut session.connection));
    let mut waiting_since = None;
    let mut canceled = None;
    loop {
        if let Ok(done) = tokio::time::timeout(CHECK_INTERVAL, &mut statement).await {
            return Ok(match (done, canceled) {
                (Err(error), Some(sessions)) if fault::is_canceled(&error) => End::Waited(sessions),
                (done, _) => End::Done(done.map(std::mem::drop)),
            });
        }
        if canceled.is_some() {
            continue;
        }
        // If the watching connection fails, the statement continues without a limit.
        match waits_for(&mut watcher, pid).await.unwrap_or_default() {
            None => waiting_since = None,
            Some(sessions) => {
                if waiting_since.get_or_insert_with(Instant::now).elapsed() >= limit {
                    let cancel = format!("SELECT pg_cancel_backend({pid})");
                    if one(&mut watcher, &cancel).await.is_ok() {
                        canceled = Some(sessions);
                    }
                }
            }
        }
    }
}

/// The sessions that a statement waits for; `None` if it does not wait.
async fn waits_for(watcher: &mut PgConnection, pid: i32) -> sqlx::Result<Option<String>> {
    let text = format!(
        "SELECT string_agg('session ' || b.pid || coalesce(' of ' || nullif(a.application_name, ''), '') \
         || coalesce(', ' || a.state, '') || coalesce(', in a transaction since ' \
         || to_char(a.xact_start AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"'), ''), '; ' ORDER BY b.pid) \
         FROM unnest(pg_blocking_pids({pid})) AS b(pid) LEFT JOIN pg_stat_activity a ON a.pid = b.pid"
    );
    one(watcher, &text).await?.try_get(0)
}
