//! A call of a plugin's route, and its answer.

use std::net::IpAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use axum::response::IntoResponse;
use serde::Serialize;

use super::desc;
use crate::entity::FieldType;
use crate::http::serve::Denied;
use crate::http::{RequestId, extract, response};
use crate::resource::Adapters;
use crate::{Actor, Cx, Error, Result, Value};

/// A call that policy has let through and whose input has been judged.
#[derive(Debug)]
pub struct PluginCall {
    /// Who calls, when, under which request.
    pub cx: Cx,
    /// Typed access to every adapter of the app.
    pub adapters: Adapters,
    /// The method as sent.
    pub method: Method,
    /// The headers as sent.
    pub headers: HeaderMap,
    /// The other end of the connection, which may be a proxy.
    pub from: Option<IpAddr>,
    /// The id of the request.
    pub request_id: RequestId,
    pub(super) params: Vec<String>,
    pub(super) query: Vec<Option<Value>>,
}

impl PluginCall {
    /// The call of a request that came to a router of the plugin's own, for what its described
    /// routes do as well. `params` are those of the path that they would have.
    ///
    /// # Errors
    /// Why the request has no actor: a credential that cannot be checked, or was not meant.
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
        })
    }

    /// The same call by an actor that a router of the plugin's own has found: where the credential
    /// of a request was renewed on the way, say. Whoever calls this answers for the actor, as an
    /// [`ActorResolver`](crate::http::ActorResolver) does.
    #[must_use]
    pub fn by(mut self, actor: Arc<Actor>) -> Self {
        self.cx = self.cx.by(actor);
        self
    }

    /// A parameter of the path by its position, decoded.
    pub fn param(&self, position: usize) -> &str {
        self.params.get(position).map_or("", String::as_str)
    }

    /// A parameter of the query by its position in the declaration; `None` when it was left out.
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

/// The answer of a plugin's route.
#[derive(Debug)]
pub struct Reply(Response<Body>);

impl Reply {
    /// A body with every member.
    ///
    /// # Errors
    /// `internal` when it cannot be written as JSON.
    pub fn json(status: u16, body: &impl Serialize) -> Result<Self> {
        Self::bytes(status, serde_json::to_vec(body).map_err(Error::internal)?)
    }

    /// A body without members that are null.
    ///
    /// # Errors
    /// As [`Reply::json`].
    pub fn sparse(status: u16, body: &impl Serialize) -> Result<Self> {
        Self::bytes(status, desc::sparse(body)?)
    }

    fn bytes(status: u16, body: Vec<u8>) -> Result<Self> {
        Ok(Self(response::json(
            StatusCode::from_u16(status).map_err(Error::internal)?,
            body,
        )))
    }

    /// No body.
    ///
    /// # Errors
    /// `internal` when that is no status.
    pub fn empty(status: u16) -> Result<Self> {
        Ok(Self(response::empty(
            StatusCode::from_u16(status).map_err(Error::internal)?,
        )))
    }

    /// A refusal that has headers of its own; without any, answer the error itself.
    pub fn refused(error: Error) -> Self {
        Self(error.into_response())
    }

    /// With a header; one of that name is replaced.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.headers_mut().insert(name, value);
        self
    }

    /// With a further header: of `Set-Cookie` there may be several.
    #[must_use]
    pub fn and_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.headers_mut().append(name, value);
        self
    }
}

/// For routers of the plugin's own.
impl IntoResponse for Reply {
    fn into_response(self) -> Response<Body> {
        self.0
    }
}
