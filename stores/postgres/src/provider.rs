//! The capabilities of the store, and the provider that opens it for an app.

use std::sync::Arc;

use linchpin_core::Result;
use linchpin_core::schema::SchemaStore;
use linchpin_core::store::{CustomStore, DatabaseUrl, SqlStore, Store, StoreKind, StoreProvider};
use linchpin_vocabulary::store::POSTGRES;

use super::connect::Connector;
use super::schema::Schema;
use super::{PostgresOptions, PostgresStore};

/// The capabilities of the store.
pub static KIND: StoreKind =
    StoreKind::new(POSTGRES.name, &["postgres", "postgresql"], "postgres://…")
        .granting(POSTGRES.grants)
        .respelling_json();

/// Opens the database that a URL names: `postgres://user:password@host:port/database`.
#[derive(Clone, Debug)]
pub struct PostgresProvider {
    /// Numbers of connections and time limits. The URL of these options is ignored.
    pub options: PostgresOptions,
}

impl Default for PostgresProvider {
    fn default() -> Self {
        Self {
            options: PostgresOptions::new(""),
        }
    }
}

impl StoreProvider for PostgresProvider {
    fn kind(&self) -> &'static StoreKind {
        &KIND
    }

    fn check(&self, url: &DatabaseUrl) -> Result<(), String> {
        if url.rest().starts_with("//") {
            Ok(())
        } else {
            Err("must be `postgres://user:password@host:port/database`".to_owned())
        }
    }

    fn schema(&self, url: &DatabaseUrl) -> Result<Option<Arc<dyn SchemaStore>>> {
        let options = self.options_for(url);
        let connector = Connector::new(&options)?;
        Ok(Some(Arc::new(Schema::new(&options, &connector)?)))
    }

    fn open(&self, url: &DatabaseUrl) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(PostgresStore::open(self.options_for(url))?))
    }
}

impl PostgresProvider {
    fn options_for(&self, url: &DatabaseUrl) -> PostgresOptions {
        PostgresOptions {
            url: url.expose().to_owned(),
            ..self.options.clone()
        }
    }
}

/// The `PostgreSQL` store, as a type.
#[derive(Debug)]
pub enum OnPostgres {}

impl CustomStore for OnPostgres {
    const NAME: &'static str = POSTGRES.name;
    type Native = sqlx::PgPool;
}

impl SqlStore for OnPostgres {}
