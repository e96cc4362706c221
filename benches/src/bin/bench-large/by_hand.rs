//! Hand-written SQL on the same database.

use std::path::Path;

use rusqlite::Connection;

use crate::{BATCH, Outcome, ROW_INTERVAL_MILLIS, ROWS, START};

/// A separate connection to the database of the store.
pub(crate) enum ByHand {
    Sqlite(Connection),
    #[cfg(feature = "postgres")]
    Postgres(Box<postgres::ByHand>),
}

impl ByHand {
    pub(crate) fn sqlite(file: &Path) -> Outcome<Self> {
        let connection = Connection::open(file)?;
        // The settings of the store's own connections.
        connection.execute_batch("PRAGMA synchronous = FULL; PRAGMA busy_timeout = 5000;")?;
        Ok(Self::Sqlite(connection))
    }

    #[cfg(feature = "postgres")]
    pub(crate) async fn postgres(url: &str) -> Outcome<Self> {
        Ok(Self::Postgres(Box::new(
            postgres::ByHand::connect(url).await?,
        )))
    }

    /// Fills the table.
    pub(crate) async fn seed(&mut self) -> Outcome<()> {
        match self {
            Self::Sqlite(connection) => Ok(seed(connection)?),
            #[cfg(feature = "postgres")]
            Self::Postgres(one) => one.seed().await,
        }
    }

    /// Marks the rows of a batch and returns their number.
    pub(crate) async fn see(&self, batch: i64) -> Outcome<u64> {
        match self {
            Self::Sqlite(connection) => {
                let mut update =
                    connection.prepare_cached("UPDATE large_rows SET seen = ? WHERE batch = ?")?;
                Ok(update.execute((true, batch))? as u64)
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(one) => one.see(batch).await,
        }
    }

    /// Computes aggregates over all rows and returns the number of rows.
    pub(crate) async fn totals(&self) -> Outcome<i64> {
        match self {
            Self::Sqlite(connection) => {
                let sql = "SELECT count(*), coalesce(sum(views), 0), avg(ratio), max(created_at) FROM large_rows";
                Ok(connection
                    .prepare_cached(sql)?
                    .query_row([], |row| row.get(0))?)
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(one) => one.totals().await,
        }
    }

    /// Computes aggregates for each week and returns the number of weeks.
    pub(crate) async fn weeks(&self) -> Outcome<usize> {
        match self {
            Self::Sqlite(connection) => {
                // Weeks begin on a Monday; the first day of 1970 was a Thursday.
                let sql = "SELECT created_at - (created_at - 345600000) % 604800000 AS week, count(*), sum(views) FROM large_rows \
                           GROUP BY week ORDER BY week";
                Ok(connection
                    .prepare_cached(sql)?
                    .query_map([], |row| row.get::<_, i64>(0))?
                    .count())
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(one) => one.weeks().await,
        }
    }
}

fn seed(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    {
        let mut insert = transaction
            .prepare("INSERT INTO large_rows (id, title, batch, views, ratio, seen, created_at) VALUES (?, ?, ?, ?, ?, 0, ?)")?;
        for n in 0..ROWS {
            let values = (
                n,
                format!("The title of row {n}"),
                n / BATCH,
                n % 97,
                f64::from(i32::try_from(n % 1000).unwrap_or(0)) / 8.0,
            );
            insert.execute((
                values.0,
                values.1,
                values.2,
                values.3,
                values.4,
                START + n * ROW_INTERVAL_MILLIS,
            ))?;
        }
    }
    transaction.commit()
}

#[cfg(feature = "postgres")]
mod postgres {
    use tokio_postgres::{Client, NoTls, Statement};

    use crate::{BATCH, Outcome, ROW_INTERVAL_MILLIS, ROWS, START};

    pub(crate) struct ByHand {
        client: Client,
        see: Statement,
        totals: Statement,
        weeks: Statement,
    }

    impl ByHand {
        pub(super) async fn connect(url: &str) -> Outcome<Self> {
            let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
            tokio::spawn(connection);
            let see = client
                .prepare("UPDATE large_rows SET seen = $1 WHERE batch = $2")
                .await?;
            let totals =
                client.prepare("SELECT count(*), coalesce(sum(views), 0)::bigint, avg(ratio), max(created_at) FROM large_rows").await?;
            let weeks = "SELECT date_trunc('week', created_at, 'UTC') AS week, count(*), sum(views)::bigint FROM large_rows GROUP BY week ORDER BY week";
            let weeks = client.prepare(weeks).await?;
            Ok(Self {
                client,
                see,
                totals,
                weeks,
            })
        }

        pub(super) async fn seed(&self) -> Outcome<()> {
            let rows = format!(
                "INSERT INTO large_rows (id, title, batch, views, ratio, seen, created_at)
                 SELECT n, 'The title of row ' || n, n / {BATCH}, n % 97, (n % 1000) / 8.0, false,
                        to_timestamp(({START} + n * {ROW_INTERVAL_MILLIS}) / 1000)
                 FROM generate_series(0::bigint, {last}) AS n",
                last = ROWS - 1
            );
            self.client.batch_execute(&rows).await?;
            // Autovacuum would do this a minute later.
            Ok(self
                .client
                .batch_execute("VACUUM ANALYZE large_rows")
                .await?)
        }

        pub(super) async fn see(&self, batch: i64) -> Outcome<u64> {
            Ok(self.client.execute(&self.see, &[&true, &batch]).await?)
        }

        pub(super) async fn totals(&self) -> Outcome<i64> {
            Ok(self.client.query_one(&self.totals, &[]).await?.try_get(0)?)
        }

        pub(super) async fn weeks(&self) -> Outcome<usize> {
            Ok(self.client.query(&self.weeks, &[]).await?.len())
        }
    }
}
