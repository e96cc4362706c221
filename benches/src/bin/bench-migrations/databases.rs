//! Databases with posts of the first version, and copies of them.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls};

use crate::Outcome;
use crate::versions::{START, Versions};

/// The creation time of the first post, in milliseconds since 1970.
const CREATED: usize = 1_760_000_000_000;
const BODY: &str =
    "A body of some eighty characters, as short posts and comments have, and no more.";

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Sqlite,
    Postgres,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "SQLite",
            Self::Postgres => "Postgres",
        }
    }
}

pub(crate) struct Databases<'a> {
    pub(crate) runtime: &'a Runtime,
    folder: PathBuf,
    /// The URL of the server's default database.
    server: String,
}

impl<'a> Databases<'a> {
    pub(crate) fn new(runtime: &'a Runtime, folder: &Path, server: &str) -> Self {
        Self {
            runtime,
            folder: folder.to_owned(),
            server: server.to_owned(),
        }
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.db"))
    }

    pub(crate) fn url(&self, kind: Kind, name: &str) -> String {
        match kind {
            Kind::Sqlite => format!("sqlite:{}", self.file(name).display()),
            Kind::Postgres => {
                let host = self.server.rsplit_once('/').map_or("", |(host, _)| host);
                format!("{host}/{name}")
            }
        }
    }

    /// Connects to a database of Postgres.
    pub(crate) fn client(&self, url: &str) -> Outcome<Client> {
        self.runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
            // The task ends when the client is dropped.
            tokio::spawn(connection);
            Ok(client)
        })
    }

    fn sql(&self, url: &str, statements: &[&str]) -> Outcome<()> {
        let client = self.client(url)?;
        for sql in statements {
            self.runtime.block_on(client.batch_execute(sql))?;
        }
        Ok(())
    }

    /// An empty database.
    pub(crate) fn new_database(&self, kind: Kind, name: &str) -> Outcome<String> {
        if kind == Kind::Postgres {
            self.sql(&self.server, &[&format!("CREATE DATABASE {name}")])?;
        }
        Ok(self.url(kind, name))
    }

    /// A database of the first version with posts.
    pub(crate) fn with_posts(
        &self,
        versions: &Versions,
        kind: Kind,
        name: &str,
        rows: usize,
    ) -> Outcome<String> {
        let url = self.new_database(kind, name)?;
        versions.run(START, &url, "apply")?;
        let columns = "id, title, status, author_id, created_at, body, views";
        match kind {
            Kind::Sqlite => Connection::open(self.file(name))?.execute_batch(&format!(
                "WITH RECURSIVE r(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM r WHERE i < {rows} - 1) \
                 INSERT INTO posts ({columns}) \
                 SELECT printf('018f0000-0000-7000-8000-%012x', i), 'The title of post ' || i, \
                 'draft', 'author-' || (i % 1000), {CREATED} + i / 4, '{BODY}', i % 1000 FROM r"
            ))?,
            Kind::Postgres => self.sql(
                &url,
                &[
                    &format!(
                        "INSERT INTO posts ({columns}) \
                         SELECT '018f0000-0000-7000-8000-' || lpad(to_hex(i), 12, '0'), \
                         'The title of post ' || i, 'draft', 'author-' || (i % 1000), \
                         to_timestamp(({CREATED} + i / 4) / 1000.0), '{BODY}', i % 1000 \
                         FROM generate_series(0, {rows} - 1) AS r(i)"
                    ),
                    "VACUUM ANALYZE",
                ],
            )?,
        }
        Ok(url)
    }

    /// Copies a database that no connection uses.
    pub(crate) fn copy(&self, kind: Kind, from: &str, to: &str) -> Outcome<String> {
        match kind {
            Kind::Sqlite => {
                let connection = Connection::open(self.file(from))?;
                connection.pragma_update(None, "wal_checkpoint", "TRUNCATE")?;
                fs::copy(self.file(from), self.file(to))?;
            }
            Kind::Postgres => self.sql(
                &self.server,
                &[
                    &format!("CREATE DATABASE {to} TEMPLATE {from}"),
                    // Flushes the copy, so that its writes do not slow down the measurement.
                    "CHECKPOINT",
                ],
            )?,
        }
        Ok(self.url(kind, to))
    }

    pub(crate) fn remove(&self, kind: Kind, name: &str) -> Outcome<()> {
        match kind {
            Kind::Sqlite => {
                for end in ["", "-wal", "-shm", "-relay", ".migrate-lock"] {
                    let _ = fs::remove_file(format!("{}{end}", self.file(name).display()));
                }
                Ok(())
            }
            Kind::Postgres => {
                let sql = format!("DROP DATABASE {name} WITH (FORCE)");
                self.sql(&self.server, &[&sql])
            }
        }
    }

    /// Runs a query that returns one number.
    pub(crate) fn number(&self, kind: Kind, name: &str, sql: &str) -> Outcome<i64> {
        match kind {
            Kind::Sqlite => {
                let connection = Connection::open(self.file(name))?;
                Ok(connection.query_row(sql, [], |row| row.get(0))?)
            }
            Kind::Postgres => {
                let client = self.client(&self.url(kind, name))?;
                let row = self.runtime.block_on(client.query_one(sql, &[]))?;
                Ok(row.try_get(0)?)
            }
        }
    }
}
