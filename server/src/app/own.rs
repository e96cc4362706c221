//! The routes of every app: health checks and the OpenAPI document.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::checks;
use super::config::Config;
use super::setup::RoutesCx;
use crate::event::Health;
use crate::http::{Endpoint, LIVE};
use crate::lease::{self, Lease};
use crate::store::Store;
use crate::{Error, Result};

const READY: &str = "/health/ready";

/// The time limit for the readiness check of the store.
const READY_TIMEOUT: Duration = Duration::from_secs(2);

/// Mounts `/health/live` and `/health/ready`, and also `/openapi.json` and `/docs` if they are
/// enabled. Returns the paths.
pub(super) fn own_routes(
    routes: &mut RoutesCx,
    config: &Config,
    info: &crate::openapi::Info,
    (endpoints, security): (&[Endpoint], &[crate::openapi::Security]),
    (store, lease, health): (&Arc<dyn Store>, Option<&Lease>, &Health),
) -> Vec<&'static str> {
    use axum::routing::get;
    routes.route(LIVE, get(|| async { "ok" }));
    let (store, lease, health) = (Arc::clone(store), lease.cloned(), health.clone());
    let ready = move || {
        let (store, lease, health) = (Arc::clone(&store), lease.clone(), health.clone());
        async move {
            if lease.is_some_and(|lease| !lease.holds(Instant::now())) {
                return Err(lease::ended());
            }
            ready(&*store).await?;
            // `degraded`: the app serves requests, but an event consumer has stopped because its
            // deliveries fail.
            Ok::<_, Error>(if health.is_degraded() {
                "degraded"
            } else {
                "ok"
            })
        }
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
    match tokio::time::timeout(READY_TIMEOUT, store.ready()).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(Error::unavailable(checks::error_text(&error))),
        Err(_) => Err(Error::unavailable(
            "the store did not respond to the readiness check within 2 s",
        )),
    }
}
