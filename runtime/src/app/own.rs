//! What every app has without asking: its store, its health, its document.

use std::sync::Arc;
use std::time::Duration;

use super::checks::{self, startup};
use super::config::{Config, Database};
use super::plugin::RoutesCx;
use crate::http::Endpoint;
use crate::store::{Store, memory::Memory};
use crate::{Error, Result};

const LIVE: &str = "/health/live";
const READY: &str = "/health/ready";

/// How long the store may take to say that it is ready.
const PATIENCE: Duration = Duration::from_secs(2);

/// Refuses a database whose store is not in this build.
pub(super) fn compiled(database: &Database) -> Result<()> {
    let missing = match database {
        Database::Sqlite(_) if !cfg!(feature = "sqlite") => {
            "this build has no `sqlite` feature; enable it or use memory:"
        }
        Database::Postgres(_) if !cfg!(feature = "postgres") => {
            "this build has no `postgres` feature; enable it in Cargo.toml"
        }
        _ => return Ok(()),
    };
    Err(startup(missing))
}

/// What the store that the settings name will say of itself: whether nobody else writes while a
/// transaction lasts.
pub(super) fn writes_alone(database: &Database) -> bool {
    match database {
        Database::Memory | Database::Sqlite(_) => true,
        Database::Postgres(_) => false,
    }
}

/// Opens the store that the settings name.
pub(super) fn connect(config: &Config) -> Result<Arc<dyn Store>> {
    match &config.database {
        Database::Memory => Ok(Arc::new(Memory::new())),
        #[cfg(feature = "sqlite")]
        Database::Sqlite(file) => super::listen::sqlite(file, config.durability),
        #[cfg(feature = "postgres")]
        Database::Postgres(url) => super::listen::postgres(url.expose(), config),
        #[cfg(not(all(feature = "sqlite", feature = "postgres")))]
        other => compiled(other).and_then(|()| Err(startup("the database has no store"))),
    }
}

/// `/health/live`, `/health/ready`, `/openapi.json` and `/docs`, as far as they are wanted: their
/// paths.
pub(super) fn own_routes(
    routes: &mut RoutesCx,
    config: &Config,
    info: &crate::openapi::Info,
    (endpoints, security): (&[Endpoint], &[crate::openapi::Security]),
    store: &Arc<dyn Store>,
) -> Vec<&'static str> {
    use axum::routing::get;
    routes.route(LIVE, get(|| async { "ok" }));
    let store = Arc::clone(store);
    let ready = move || {
        let store = Arc::clone(&store);
        async move { ready(&*store).await.map(|()| "ok") }
    };
    routes.route(READY, get(ready));
    let mut own = Vec::new();
    if config.openapi {
        let [document, pages @ ..] = crate::openapi::PATHS;
        routes.merge(crate::openapi::openapi_router(crate::openapi::document(
            info, endpoints, security,
        )));
        own.push(document);
        if config.docs_on() {
            routes.merge(crate::openapi::docs_router());
            own.extend(pages);
        }
    }
    routes.areas.extend(own.iter().copied().map(str::to_owned));
    own.extend([LIVE, READY]);
    own
}

/// Whether the store answers in time.
async fn ready(store: &dyn Store) -> Result<()> {
    match tokio::time::timeout(PATIENCE, store.ready()).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(Error::unavailable(checks::chain(&error))),
        Err(_) => Err(Error::unavailable(
            "the store did not say in time whether it is ready",
        )),
    }
}
