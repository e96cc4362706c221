//! Records for the tables that the generated server has created.

use crate::ROWS;

const BODY: &str =
    "A body of some eighty characters, as short posts and comments have, and no more.";
/// The creation time of the first record, in milliseconds since 1970.
const START: usize = 1_760_000_000_000;

/// Seeds the database of this URL.
///
/// # Errors
/// The error of the database.
pub fn seed(url: &str) -> Result<(), Box<dyn std::error::Error>> {
    match url.strip_prefix("sqlite:") {
        Some(file) => Ok(sqlite(file)?),
        None => postgres(url),
    }
}

fn sqlite(file: &str) -> rusqlite::Result<()> {
    let connection = rusqlite::Connection::open(file)?;
    let rows = format!(
        "WITH RECURSIVE r(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM r WHERE i < {ROWS} - 1)"
    );
    let id = "printf('018f0000-0000-7000-8000-%012x', i)";
    connection.execute_batch(&format!(
        "BEGIN;
        INSERT INTO posts (id, title, slug, body, status, views, author_id, created_at)
            {rows} SELECT {id}, 'The title of post ' || i, 'post-' || i, '{BODY}', 'draft', 0, 'author', {START} + i / 4 FROM r;
        INSERT INTO items (id, code, owner, title, state, due_at, quantity, tags, lines, created_at)
            {rows} SELECT {id}, 'code-' || i, 'owner-' || (i % 1000), 'The title of item ' || i, iif(i % 3 = 0, 'done', 'open'), NULL, i % 97,
            '[\"a\",\"b\",\"c\"]', '[{{\"sku\":\"one\",\"quantity\":1}},{{\"sku\":\"two\",\"quantity\":2}}]', {START} + i / 4 FROM r;
        INSERT INTO owners (id, items) {rows} SELECT 'owner-' || i, 0 FROM r WHERE i < 1000;
        COMMIT;"
    ))?;
    connection.pragma_update(None, "wal_checkpoint", "TRUNCATE")
}

#[cfg(feature = "postgres")]
fn postgres(url: &str) -> Result<(), Box<dyn std::error::Error>> {
    let rows = format!("FROM generate_series(0, {ROWS} - 1) AS r(i)");
    let id = "'018f0000-0000-7000-8000-' || lpad(to_hex(i), 12, '0')";
    let created = format!("to_timestamp(({START} + i / 4) / 1000.0)");
    let text = format!(
        "INSERT INTO posts (id, title, slug, body, status, views, author_id, created_at)
            SELECT {id}, 'The title of post ' || i, 'post-' || i, '{BODY}', 'draft', 0, 'author', {created} {rows};
        INSERT INTO items (id, code, owner, title, state, due_at, quantity, tags, lines, created_at)
            SELECT {id}, 'code-' || i, 'owner-' || (i % 1000), 'The title of item ' || i, CASE WHEN i % 3 = 0 THEN 'done' ELSE 'open' END, NULL, i % 97,
            '{{a,b,c}}', '[{{\"sku\":\"one\",\"quantity\":1}},{{\"sku\":\"two\",\"quantity\":2}}]', {created} {rows};
        INSERT INTO owners (id, items) SELECT 'owner-' || i, 0 {rows} WHERE i < 1000;"
    );
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await?;
        let driven = tokio::spawn(connection);
        client.batch_execute(&text).await?;
        client.batch_execute("VACUUM ANALYZE").await?;
        drop(client);
        Ok(driven.await??)
    })
}

#[cfg(not(feature = "postgres"))]
fn postgres(_url: &str) -> Result<(), Box<dyn std::error::Error>> {
    Err("built without Postgres".into())
}
