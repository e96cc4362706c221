//! A call of a plugin's route, and its response.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONNECTION, CONTENT_TYPE, UPGRADE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use axum::response::IntoResponse;
use bytes::Bytes;
use futures_util::Stream;
use serde::Serialize;

use super::input;
use super::upgrade::{Socket, UPGRADE_REQUIRED, Upgrade};
use crate::entity::FieldType;
use crate::http::serve::Denied;
use crate::http::{RequestId, extract, response};
use crate::resource::Adapters;
use crate::{Actor, Cx, Error, Result, Value};

/// A call that the policy allows, with valid input.
#[derive(Debug)]
pub struct PluginCall {
    /// The caller, the instant and the request id.
    pub cx: Cx,
    /// Typed access to every adapter of the app.
    pub adapters: Adapters,
    /// The method as sent.
    pub method: Method,
    /// The headers as sent.
    pub headers: HeaderMap,
    /// The remote address of the connection, which may be a proxy.
    pub from: Option<IpAddr>,
    /// The id of the request.
    pub request_id: RequestId,
    pub(super) params: Vec<String>,
    pub(super) query: Vec<Option<Value>>,
    pub(super) upgrade: Option<Upgrade>,
}

impl PluginCall {
    /// Creates a call from a request to a plugin's own router, so that the router can use the
    /// functions of the plugin's described routes. `params` are the path parameters of the
    /// described route.
    ///
    /// # Errors
    /// The error of the actor resolver, if the credential of the request is invalid or cannot be
    /// checked; `internal` if the request did not come through an app.
    pub fn of(parts: &Parts, params: &[&str]) -> Result<Self> {
        let extensions = &parts.extensions;
        if let Some(Denied { error, .. }) = extensions.get::<Denied>() {
            return Err(extract::copy(error));
        }
        let missing = || Error::internal("the request did not come through an app");
        let cx = extensions.get::<Cx>().cloned().ok_or_else(missing)?;
        Ok(Self {
            from: cx.address(),
            cx,
            adapters: extensions.get::<Adapters>().cloned().ok_or_else(missing)?,
            method: parts.method.clone(),
            headers: parts.headers.clone(),
            request_id: extensions.get::<RequestId>().cloned().ok_or_else(missing)?,
            params: params.iter().map(|&param| param.to_owned()).collect(),
            query: Vec::new(),
            upgrade: None,
        })
    }

    /// Replaces the caller, for a plugin's own router that has authenticated the request itself,
    /// for example after it renewed a session. The plugin is responsible for the actor, like an
    /// [`ActorResolver`](crate::http::ActorResolver).
    #[must_use]
    pub fn by(mut self, actor: Arc<Actor>) -> Self {
        self.cx = self.cx.by(actor);
        self
    }

    /// Takes the right to change the protocol of the connection, for [`Reply::upgrade`]. `None` if
    /// the request does not ask for the protocol of the route, if the connection cannot change it,
    /// or on a second call; then return [`Reply::upgrade_required`].
    pub fn upgrade(&mut self) -> Option<Upgrade> {
        self.upgrade.take()
    }

    /// A parameter of the path by its position, decoded.
    pub fn param(&self, position: usize) -> &str {
        self.params.get(position).map_or("", String::as_str)
    }

    /// Returns a query parameter by its position in the declaration; `None` if it was omitted.
    ///
    /// # Errors
    /// `internal` when it is declared with another type.
    pub fn query<T: FieldType>(&self, position: usize) -> Result<Option<T>> {
        let value = self.query.get(position).and_then(Option::as_ref);
        value
            .map(|value| T::from_value(value.as_ref()).map_err(Error::internal))
            .transpose()
    }
}

/// The time limit for a client that does not read one response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnreadLimit(pub(crate) Duration);

/// The response of a plugin's route.
#[derive(Debug)]
pub struct Reply(Response<Body>);

impl Reply {
    /// Creates a response with a JSON body. Members that are null are included.
    ///
    /// # Errors
    /// `internal` if the body cannot be written as JSON, or if `status` is not a status code.
    pub fn json(status: u16, body: &impl Serialize) -> Result<Self> {
        Self::bytes(status, serde_json::to_vec(body).map_err(Error::internal)?)
    }

    /// Creates a response with a JSON body. Members that are null are omitted.
    ///
    /// # Errors
    /// As [`Reply::json`].
    pub fn sparse(status: u16, body: &impl Serialize) -> Result<Self> {
        Self::bytes(status, input::sparse(body)?)
    }

    fn bytes(status: u16, body: Vec<u8>) -> Result<Self> {
        Ok(Self(response::json(
            StatusCode::from_u16(status).map_err(Error::internal)?,
            body,
        )))
    }

    /// Creates a response without a body.
    ///
    /// # Errors
    /// `internal` if `status` is not a status code.
    pub fn empty(status: u16) -> Result<Self> {
        Ok(Self(response::empty(
            StatusCode::from_u16(status).map_err(Error::internal)?,
        )))
    }

    /// Creates a response whose body is written chunk by chunk while the client reads it. The
    /// client gets each chunk at once. The stream is dropped when the client has left.
    ///
    /// ```
    /// use linchpin::Result;
    /// use linchpin::http::{Nothing, PluginCall, Reply, Route};
    ///
    /// static TICKS: Route<Nothing> = Route::get("ticks", "ticks")
    ///     .of("clock")
    ///     .doc("Sends one event.")
    ///     .public()
    ///     .streams("text/event-stream");
    ///
    /// async fn ticks(_: PluginCall, _: Nothing) -> Result<Reply> {
    ///     let events = futures_util::stream::iter(["data: tick\n\n"]);
    ///     Reply::stream(200, "text/event-stream", events)
    /// }
    /// let route = TICKS.bind("/clock", ticks);
    /// ```
    ///
    /// # Errors
    /// `internal` if `status` is not a status code, or the media type is not a valid header value.
    pub fn stream<B: Into<Bytes> + 'static>(
        status: u16,
        content_type: &str,
        body: impl Stream<Item = B> + Send + 'static,
    ) -> Result<Self> {
        let chunks =
            futures_util::StreamExt::map(body, |chunk| Ok::<Bytes, Infallible>(chunk.into()));
        let mut response = Response::new(Body::from_stream(chunks));
        *response.status_mut() = StatusCode::from_u16(status).map_err(Error::internal)?;
        let media = HeaderValue::from_str(content_type).map_err(Error::internal)?;
        response.headers_mut().insert(CONTENT_TYPE, media);
        Ok(Self(response))
    }

    /// Sets a shorter time limit for a client that does not read. The connection is closed if the
    /// client has read no byte of the response for this time. The limit of all responses is 30 s; a
    /// longer one has no effect.
    #[must_use]
    pub fn unread_limit(mut self, limit: Duration) -> Self {
        self.0.extensions_mut().insert(UnreadLimit(limit));
        self
    }

    /// Changes the protocol of the connection: sends 101, and then runs `run` with the socket. Add
    /// headers with [`Reply::header`].
    ///
    /// The socket counts for the limits of connections until the future ends, and a stop of the app
    /// waits for it within the grace period (see [`Plugin::stopping`](crate::Plugin::stopping)).
    /// The future is dropped at the end of that period. If the client leaves before the response is
    /// sent, or if the response is not sent, `run` is dropped and never called.
    pub fn upgrade<F, Fut>(upgrade: Upgrade, run: F) -> Self
    where
        F: FnOnce(Socket) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let mut response = response::empty(StatusCode::SWITCHING_PROTOCOLS);
        let headers = response.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static(upgrade.protocol()));
        upgrade.then(Box::new(move |socket| Box::pin(run(socket))));
        Self(response)
    }

    /// 426 `upgrade_required`: the route speaks this protocol only.
    pub fn upgrade_required(protocol: &'static str) -> Self {
        let error = Error::new(
            UPGRADE_REQUIRED,
            format!("This path accepts only the protocol {protocol}"),
        );
        Self::refused(error)
            .header(CONNECTION, HeaderValue::from_static("upgrade"))
            .header(UPGRADE, HeaderValue::from_static(protocol))
    }

    /// Creates an error response to which headers can be added. If no header is needed, return the
    /// error itself.
    pub fn refused(error: Error) -> Self {
        Self(error.into_response())
    }

    /// Sets a header, and replaces an existing one of the same name.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.headers_mut().insert(name, value);
        self
    }

    /// Adds a header without replacing others, such as several `Set-Cookie` headers.
    #[must_use]
    pub fn and_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.headers_mut().append(name, value);
        self
    }
}

/// Converts the reply for the plugin's own routers.
impl IntoResponse for Reply {
    fn into_response(self) -> Response<Body> {
        self.0
    }
}
