//! What the benchmarked servers share: the records, the schema, the token, the command line.
//!
//! The schema is Linchpin's own, so that all servers can be given copies of one seeded file.

use std::path::Path;

use serde::{Deserialize, Serialize};

/// The signing secret of every server and the driver.
pub const SECRET: &str = "a-secret-of-the-benchmarks-32-bytes";

/// The table as `#[entity]` declares it in `bench-generated`.
pub const SCHEMA: &str = r#"CREATE TABLE "posts" (
  "id" TEXT NOT NULL PRIMARY KEY,
  "title" TEXT NOT NULL,
  "slug" TEXT NOT NULL,
  "body" TEXT NOT NULL,
  "status" TEXT NOT NULL CHECK ("status" IN ('draft', 'published', 'archived')),
  "views" INTEGER NOT NULL,
  "author_id" TEXT NOT NULL,
  "created_at" INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX "ux_posts_slug" ON "posts" ("slug");
CREATE INDEX "ix_posts_created_at" ON "posts" ("created_at" DESC, "id" DESC);"#;

/// Records of the seeded file.
pub const ROWS: usize = 20_000;

/// The claims every server asks for.
#[derive(Debug, Serialize, Deserialize)]
pub struct Claims {
    /// Who calls.
    pub sub: String,
    /// Seconds since the epoch.
    pub exp: i64,
}

/// A token that every server accepts.
///
/// # Panics
/// Never: the header and key are fixed.
pub fn token() -> String {
    let claims = Claims { sub: "bench".to_owned(), exp: now_millis() / 1000 + 86_400 };
    let key = jsonwebtoken::EncodingKey::from_secret(SECRET.as_bytes());
    jsonwebtoken::encode(&jsonwebtoken::Header::default(), &claims, &key).unwrap_or_default()
}

/// Milliseconds since the epoch.
pub fn now_millis() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Creates the file that all servers start from.
///
/// # Errors
/// When SQLite refuses.
pub fn seed(file: &Path) -> rusqlite::Result<()> {
    let mut connection = rusqlite::Connection::open(file)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.execute_batch(SCHEMA)?;
    let transaction = connection.transaction()?;
    {
        let mut insert = transaction.prepare("INSERT INTO posts VALUES (?, ?, ?, ?, 'draft', ?, ?, ?)")?;
        let start = now_millis() - 86_400_000;
        for i in 0..ROWS {
            let id = uuid::Uuid::now_v7().to_string();
            let body = "A body of some eighty characters, as short posts and comments have, and no more.";
            let at = start + i64::try_from(i / 4).unwrap_or(0);
            insert.execute(rusqlite::params![id, format!("The title of post {i}"), format!("post-{i}"), body, 0, "author", at])?;
        }
    }
    transaction.commit()?;
    connection.pragma_update(None, "wal_checkpoint", "TRUNCATE")
}

/// `<port> <file>` of a server's command line.
pub fn arguments() -> (u16, String) {
    let mut args = std::env::args().skip(1);
    let port = args.next().and_then(|a| a.parse().ok()).unwrap_or(0);
    (port, args.next().unwrap_or_else(|| "bench.db".to_owned()))
}
