//! The routes of every app: health checks and the OpenAPI document.

use std::sync::Arc;
use std::time::Duration;

use super::checks;
use super::config::Config;
use super::plugin::RoutesCx;
use crate::http::Endpoint;
use crate::store::Store;
use crate::{Error, Result};

const LIVE: &str = "/health/live";
const READY: &str = "/health/ready";

/// The time limit for the readiness check of the store.
const PATIENCE: Duration = Duration::from_secs(2);

/// Mounts `/health/live`, `/health/ready`, `/openapi.json` and `/docs`, if enabled; returns their
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

/// Checks that the store answers in time.
async fn ready(store: &dyn Store) -> Result<()> {
    match tokio::time::timeout(PATIENCE, store.ready()).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(Error::unavailable(checks::chain(&error))),
        Err(_) => Err(Error::unavailable(
            "the store did not say in time whether it is ready",
        )),
    }
}
