//! Files with due deliveries, written by SQL.

use std::path::{Path, PathBuf};
use std::time::Duration;

use linchpin::{Running, Uuid};
use linchpin_benches::now_millis;
use rusqlite::Connection;

use super::app;
use crate::Outcome;

const DAY: i64 = 86_400_000;

/// A running app and its endpoints, for which [`Queue::fill`] writes deliveries.
pub(super) struct Queue {
    running: Running,
    file: PathBuf,
    endpoints: std::cell::RefCell<Vec<String>>,
}

impl Queue {
    pub(super) async fn new(folder: &Path, name: &str) -> Outcome<Self> {
        let file = folder.join(format!("{name}.db"));
        let running = app::start(&file).await?;
        let endpoints = std::cell::RefCell::default();
        Ok(Self {
            running,
            file,
            endpoints,
        })
    }

    pub(super) async fn endpoint(&self, url: &str) -> Outcome<()> {
        let id = app::endpoint(&self.running, url).await?;
        self.endpoints.borrow_mut().push(id);
        Ok(())
    }

    /// Stops the app and writes deliveries of each endpoint; returns the file.
    pub(super) async fn fill(self, each: usize) -> Outcome<PathBuf> {
        self.running.stop().await?;
        add(&self.file, &self.endpoints.borrow(), each)?;
        Ok(self.file)
    }
}

pub(super) fn open(file: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(file)?;
    connection.busy_timeout(Duration::from_secs(10))?;
    // The settings of the store's own connections.
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    Ok(connection)
}

/// Writes messages and due deliveries; the deliveries of the endpoints alternate.
pub(super) fn add(file: &Path, endpoints: &[String], each: usize) -> Outcome<()> {
    let mut connection = open(file)?;
    let now = now_millis();
    let transaction = connection.transaction()?;
    {
        let mut message = transaction.prepare(
            "INSERT INTO webhooks_webhook_messages (id, event, event_id, occurred_at, body, truncated, version, is_test, expires_at)
             VALUES (?, 'posts.created', ?, ?, ?, 0, 1, 0, ?)",
        )?;
        let mut delivery = transaction.prepare(
            "INSERT INTO webhooks_webhook_deliveries (id, endpoint_id, message_id, event, event_id, occurred_at, status, attempts, max_attempts,
                 next_retry_at, is_test, \"trigger\", expires_at, created_at, updated_at, version)
             VALUES (?, ?, ?, 'posts.created', ?, ?, 'pending', 0, 8, ?, 0, 'schedule', ?, ?, ?, 1)",
        )?;
        for n in 0..each {
            for endpoint in endpoints {
                let event = Uuid::new_v7().to_string();
                let id = format!("msg_{}", event.replace('-', ""));
                let body = format!(
                    r#"{{"type":"posts.created","timestamp":"2026-01-01T00:00:00.000Z","data":{{"id":"{event}","title":"The title of post {n}","slug":"post-{n}","body":"A body of some eighty characters, as short posts and comments have, and no more.","status":"draft","views":0,"authorId":"author","createdAt":"2026-01-01T00:00:00.000Z"}}}}"#
                );
                message.execute((&id, &event, now, body, now + DAY))?;
                let delivery_id = Uuid::new_v7().to_string();
                delivery.execute((
                    delivery_id,
                    endpoint,
                    id,
                    event,
                    now,
                    now,
                    now + DAY,
                    now,
                    now,
                ))?;
            }
        }
    }
    transaction.commit()?;
    Ok(())
}

/// Sets the time of the next delivery to now, for every endpoint without such a time.
pub(super) fn make_due(file: &Path) -> Outcome<()> {
    let sql = "UPDATE webhooks_webhook_endpoints SET due_at = ? WHERE due_at IS NULL";
    open(file)?.execute(sql, [now_millis()])?;
    Ok(())
}

/// Postpones the deliveries of all endpoints by a day.
pub(super) fn hold(file: &Path) -> Outcome<()> {
    let connection = open(file)?;
    let sql = "UPDATE webhooks_webhook_endpoints SET held_until = ?";
    connection.execute(sql, [now_millis() + DAY])?;
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    Ok(())
}

/// Copies a database file that no connection has open.
pub(super) fn copy(from: &Path, to: &Path) -> Outcome<PathBuf> {
    open(from)?.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    std::fs::copy(from, to)?;
    Ok(to.to_owned())
}
