//! The plain server's database: SQLite, a pool of readers without a test on checkout, one writer.

use linchpin::Timestamp;
use serde::{Deserialize, Serialize};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteRow, SqliteSynchronous,
};
use sqlx::types::Json;
use sqlx::{Row as _, SqlitePool};

pub type Pool = SqlitePool;
pub type Row = SqliteRow;

pub async fn connect(url: &str) -> sqlx::Result<(Pool, Pool)> {
    let file = url.strip_prefix("sqlite:").unwrap_or(url);
    let options = SqliteConnectOptions::new()
        .filename(file)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full);
    let pool = |n: u32| {
        SqlitePoolOptions::new()
            .max_connections(n)
            .test_before_acquire(false)
    };
    Ok((
        pool(4)
            .connect_with(options.clone().read_only(true))
            .await?,
        pool(1).connect_with(options).await?,
    ))
}

/// A date in the form of this database.
pub type At = i64;

pub fn at(date: Timestamp) -> At {
    date.millis()
}

pub fn date(row: &Row, column: usize) -> Timestamp {
    Timestamp::from_millis(row.get(column))
}

pub fn some_date(row: &Row, column: usize) -> Option<Timestamp> {
    row.get::<Option<i64>, _>(column)
        .map(Timestamp::from_millis)
}

/// A list of texts in the form of this database.
pub fn tags(row: &Row, column: usize) -> Vec<String> {
    row.get::<Json<Vec<String>>, _>(column).0
}

pub fn of_tags(tags: Vec<String>) -> Json<Vec<String>> {
    Json(tags)
}

/// An element of the column `lines`, which is a JSON array.
#[derive(Serialize, Deserialize)]
pub struct Line {
    pub sku: String,
    pub quantity: i64,
}

pub const TAG: &str = "UPDATE items SET tags = CASE WHEN EXISTS (SELECT 1 FROM json_each(tags) WHERE value = $2) THEN tags ELSE json_insert(tags, '$[#]', $2) END WHERE id = $1 RETURNING *";
pub const UNTAG: &str = "UPDATE items SET tags = (SELECT json_group_array(value) FROM json_each(tags) WHERE value <> $2) WHERE id = $1 RETURNING *";
pub const LINE: &str = "UPDATE items SET lines = (SELECT json_group_array(CASE WHEN value ->> 'sku' = $2 THEN json_set(value, '$.quantity', $3) ELSE json(value) END) FROM json_each(lines)) WHERE id = $1 AND EXISTS (SELECT 1 FROM json_each(lines) WHERE value ->> 'sku' = $2) RETURNING *";
pub const FIND: &str = "SELECT * FROM items WHERE title LIKE '%' || $1 || '%' ORDER BY created_at DESC, id DESC LIMIT 21";
