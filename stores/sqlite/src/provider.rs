//! The capabilities of the store, and the provider that opens it for an app.

use std::path::PathBuf;
use std::sync::Arc;

use linchpin_core::Result;
use linchpin_core::schema::SchemaStore;
use linchpin_core::store::{CustomStore, DatabaseUrl, SqlStore, Store, StoreKind, StoreProvider};
use linchpin_vocabulary::store::SQLITE;

use super::schema::SqliteSchema;
use super::{Durability, SqliteOptions, SqliteStore};

/// The capabilities of the store.
pub static KIND: StoreKind = StoreKind::new(SQLITE.name, &["sqlite"], "sqlite:<file>")
    .granting(SQLITE.grants)
    .alone();

/// Opens the file that a URL names: `sqlite:<file>`.
#[derive(Clone, Copy, Debug, Default)]
pub struct SqliteProvider {
    /// The point at which a write returns.
    pub durability: Durability,
}

/// The file of a URL. It is empty if the URL names no file.
fn path(url: &DatabaseUrl) -> &str {
    url.rest().strip_prefix("//").unwrap_or(url.rest())
}

impl StoreProvider for SqliteProvider {
    fn kind(&self) -> &'static StoreKind {
        &KIND
    }

    fn check(&self, url: &DatabaseUrl) -> Result<(), String> {
        match path(url) {
            "" => Err("must name a file: `sqlite:<file>`".to_owned()),
            ":memory:" => Err(
                "must name a file: `sqlite:<file>`; for records in memory, use `memory:`"
                    .to_owned(),
            ),
            _ => Ok(()),
        }
    }

    fn file(&self, url: &DatabaseUrl) -> Option<PathBuf> {
        Some(path(url).into())
    }

    fn schema(&self, url: &DatabaseUrl) -> Result<Option<Arc<dyn SchemaStore>>> {
        Ok(Some(Arc::new(SqliteSchema::unshared(path(url).into()))))
    }

    fn open(&self, url: &DatabaseUrl) -> Result<Arc<dyn Store>> {
        let mut options = SqliteOptions::new(path(url));
        options.durability = self.durability;
        Ok(Arc::new(SqliteStore::open(options)?))
    }
}

/// The SQLite store, as a type.
#[derive(Debug)]
pub enum OnSqlite {}

impl CustomStore for OnSqlite {
    const NAME: &'static str = SQLITE.name;
    type Native = sqlx::SqlitePool;
}

impl SqlStore for OnSqlite {}
