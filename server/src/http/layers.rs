//! Layers of tower that plugins put around every request, outside of all layers of the framework.

use std::convert::Infallible;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::X_CONTENT_TYPE_OPTIONS;
use axum::http::{Method, Response};
use axum::response::IntoResponse;
use axum::routing::Route;
use futures_util::FutureExt;
use tower_layer::Layer;
use tower_service::Service;

use super::protection::panic_text;
use super::request_id::{self, RequestId};
use super::response;
use super::router::App;
use super::serve;
use crate::Error;
use crate::resource::BoxFuture;

/// Layers, in the order in which they were added: the first is outermost.
#[derive(Clone, Default)]
pub struct Layers(Vec<Arc<dyn Fn(axum::Router) -> axum::Router + Send + Sync>>);

impl std::fmt::Debug for Layers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Layers").field(&self.0.len()).finish()
    }
}

impl Layers {
    /// Adds a layer inside the existing ones.
    pub fn add<L>(&mut self, layer: L)
    where
        L: Layer<Route> + Clone + Send + Sync + 'static,
        L::Service: Service<Request> + Clone + Send + Sync + 'static,
        <L::Service as Service<Request>>::Response: IntoResponse + 'static,
        <L::Service as Service<Request>>::Error: Into<Infallible> + 'static,
        <L::Service as Service<Request>>::Future: Send + 'static,
    {
        self.0
            .push(Arc::new(move |router| router.layer(layer.clone())));
    }

    /// Puts all layers around an app; `None` if there are no layers.
    pub(super) fn around(self, app: Weak<App>) -> Option<axum::Router> {
        let all =
            |router, layer: &Arc<dyn Fn(axum::Router) -> axum::Router + Send + Sync>| layer(router);
        (!self.0.is_empty()).then(|| {
            self.0
                .iter()
                .rev()
                .fold(axum::Router::new().fallback_service(Inner(app)), all)
        })
    }
}

/// The client address of a request, which passes through the layers as an extension.
#[derive(Clone, Copy)]
struct ClientAddress(Option<IpAddr>);

/// The service inside the layers. Its reference to the app is weak, because the app owns the layers
/// and they own this service.
#[derive(Clone)]
struct Inner(Weak<App>);

impl Service<Request> for Inner {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request) -> Self::Future {
        let from = request
            .extensions_mut()
            .remove::<ClientAddress>()
            .and_then(|peer| peer.0);
        match self.0.upgrade() {
            Some(app) => Box::pin(serve::serve(app, request, from).map(Ok)),
            // Every request keeps the app alive, so the app exists here.
            None => Box::pin(async { Ok(Error::unavailable("the app is gone").into_response()) }),
        }
    }
}

/// Responds to a request through the layers. Responses of the layers themselves also get a request
/// id, and panics become errors.
///
/// Layers have no time limit; the time limits of routes apply inside.
pub(super) async fn serve(
    app: Arc<App>,
    mut layers: axum::Router,
    mut request: Request,
    from: Option<IpAddr>,
) -> Response<Body> {
    let id = RequestId::of(request.headers());
    let head = request.method() == Method::HEAD;
    // The layers and the response use the same id.
    request
        .headers_mut()
        .insert(request_id::HEADER, id.header());
    request.extensions_mut().insert(ClientAddress(from));
    let work = async { layers.call(request).await };
    let mut response = match AssertUnwindSafe(work).catch_unwind().await {
        Ok(Ok(response)) => response,
        Err(panic) => Error::internal(panic_text(&*panic)).into_response(),
    };
    // The layers have only a weak reference to the app, so the app is kept until they have
    // finished.
    drop(app);
    if response.headers().contains_key(request_id::HEADER) {
        return response;
    }
    // The layer responded without calling the app, or replaced the app's response.
    let raised;
    (response, raised) = response::raised(response, &id);
    if head {
        response = response::without_body(response);
    }
    let (status, cause) = (
        response.status().as_u16(),
        raised.as_deref().map(serve::causes).unwrap_or_default(),
    );
    if response.status().is_server_error() {
        tracing::error!(
            request_id = id.as_str(),
            status,
            cause,
            "a layer sent the response"
        );
    } else {
        tracing::info!(
            request_id = id.as_str(),
            status,
            cause,
            "a layer sent the response"
        );
    }
    response
        .headers_mut()
        .insert(request_id::HEADER, id.header());
    response
        .headers_mut()
        .insert(X_CONTENT_TYPE_OPTIONS, response::NOSNIFF);
    response
}
