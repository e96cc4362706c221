//! Converts a call from within the process into a request.

use std::net::IpAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, IF_MATCH, IF_MODIFIED_SINCE,
    IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, RANGE, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request};
use serde_json::{Map, Value as Json};
use url::form_urlencoded::Serializer;

use crate::entity::EntityDesc;
use crate::http::endpoint::{Action, Endpoint};
use crate::http::request_id::{self, RequestId};
use crate::http::{idempotency, path};
use crate::operation::{self, Place};
use crate::{Actor, Error, Problem, Result};

/// The headers that a call does not copy from the request that opened the connection: they describe
/// the transport, the body or a condition of that request.
const NOT_PASSED: [HeaderName; 16] = [
    ACCEPT_ENCODING,
    CONNECTION,
    CONTENT_LENGTH,
    CONTENT_TYPE,
    EXPECT,
    IF_MATCH,
    IF_MODIFIED_SINCE,
    IF_NONE_MATCH,
    IF_RANGE,
    IF_UNMODIFIED_SINCE,
    RANGE,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    idempotency::KEY,
];

/// A call of a route of an entity: `get`, `list`, `create`, `update`, `delete`, or an operation.
///
/// The members of the call are the parameters of the route: path parameters, query parameters or
/// members of the body, as the route declares them.
#[derive(Clone, Debug)]
pub struct RouteRequest {
    pub(super) entity: &'static EntityDesc,
    pub(super) route: String,
    pub(super) actor: Arc<Actor>,
    pub(super) from: Option<IpAddr>,
    pub(super) headers: HeaderMap,
    members: Map<String, Json>,
    pub(super) id: Option<String>,
    /// Whether the call counts for the rate limit of the route.
    pub(super) counted: bool,
}

impl RouteRequest {
    /// Creates a call on behalf of an actor.
    pub fn new(
        entity: &'static EntityDesc,
        route: impl Into<String>,
        actor: impl Into<Arc<Actor>>,
    ) -> Self {
        Self {
            entity,
            route: route.into(),
            actor: actor.into(),
            from: None,
            headers: HeaderMap::new(),
            members: Map::new(),
            id: None,
            counted: true,
        }
    }

    /// Sets the key of the record, as text.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Adds a parameter.
    #[must_use]
    pub fn member(mut self, name: impl Into<String>, value: impl Into<Json>) -> Self {
        self.members.insert(name.into(), value.into());
        self
    }

    /// Adds parameters.
    #[must_use]
    pub fn members(mut self, members: Map<String, Json>) -> Self {
        self.members.extend(members);
        self
    }

    /// Sets the address of the client, for rate limits.
    #[must_use]
    pub fn from_address(mut self, address: Option<IpAddr>) -> Self {
        self.from = address.map(|address| address.to_canonical());
        self
    }

    /// Adds the headers of the request that opened the connection, for providers of context values
    /// and for middleware. Headers about the body, the conditions and the transport of that request
    /// are left out, and so is its request id.
    #[must_use]
    pub fn headers(mut self, headers: &HeaderMap) -> Self {
        let passed = headers
            .iter()
            .filter(|(name, _)| !NOT_PASSED.contains(name) && **name != request_id::HEADER);
        for (name, value) in passed {
            self.headers.append(name, value.clone());
        }
        self
    }

    /// Sets the id of the call in logs and events. Without one, the call gets a fresh one.
    #[must_use]
    pub fn request_id(mut self, id: &RequestId) -> Self {
        self.headers.insert(request_id::HEADER, id.header());
        self
    }

    /// Gives the call an idempotency key: calls under one key have one effect, if the route is
    /// idempotent.
    ///
    /// # Errors
    /// `validation_failed` if the key is not visible ASCII text.
    pub fn idempotency_key(mut self, key: &str) -> Result<Self> {
        let problem = || Problem::new("idempotencyKey", "format", "must be visible ASCII");
        let value = HeaderValue::from_str(key).map_err(|_| Error::invalid(problem()))?;
        self.headers.insert(idempotency::KEY, value);
        Ok(self)
    }

    /// Does not count the call for the rate limit of the route. Use it for checks that the server
    /// itself makes.
    #[must_use]
    pub fn uncounted(mut self) -> Self {
        self.counted = false;
        self
    }

    /// The head and the body of the call.
    ///
    /// # Errors
    /// `validation_failed` for a path parameter that is missing or of another type.
    pub(super) fn parts(mut self, endpoint: &Endpoint) -> Result<(Parts, Body)> {
        let mut uri = self.path(endpoint)?;
        let (query, body) = self.split(endpoint);
        let mut pairs = Serializer::new(String::new());
        for (name, value) in &query {
            match value {
                Json::Null => drop(pairs.append_pair(&format!("{name}[null]"), "true")),
                Json::Array(items) => {
                    for item in items {
                        pairs.append_pair(name, &text_of(item));
                    }
                }
                one => drop(pairs.append_pair(name, &text_of(one))),
            }
        }
        let query = pairs.finish();
        if !query.is_empty() {
            uri.push('?');
            uri.push_str(&query);
        }
        let method = Method::from_bytes(endpoint.method.as_str().as_bytes());
        let mut request = Request::builder()
            .method(method.map_err(Error::internal)?)
            .uri(uri);
        if let Some(headers) = request.headers_mut() {
            *headers = self.headers;
            if body.is_some() {
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            }
        }
        let body = match body {
            Some(body) => Body::from(serde_json::to_vec(&body).map_err(Error::internal)?),
            None => Body::empty(),
        };
        let (parts, body) = request.body(body).map_err(Error::internal)?.into_parts();
        Ok((parts, body))
    }

    /// Writes members into the path parameters of the path.
    fn path(&mut self, endpoint: &Endpoint) -> Result<String> {
        let (_, names) = path::canonical(&endpoint.path);
        let record = match endpoint.action {
            Action::Get | Action::Update | Action::Delete => names.last().map(String::as_str),
            Action::Operation(spec, _) => {
                let of_record = spec.params.iter().find(|p| p.place == Place::Id);
                of_record.map(|param| param.name)
            }
            Action::Create | Action::List | Action::Extra(_) | Action::Plugin(_) => None,
        };
        let mut out = String::with_capacity(endpoint.path.len() + 40);
        let mut problems = Vec::new();
        for segment in endpoint.path.split('/').skip(1) {
            out.push('/');
            let inner = segment.strip_prefix('{').and_then(|s| s.strip_suffix('}'));
            let Some(name) = inner else {
                out.push_str(segment);
                continue;
            };
            let given = match self.id.take_if(|_| record == Some(name)) {
                Some(id) => Some(Json::String(id)),
                None => self.members.remove(name),
            };
            let at = || format!("path:{name}");
            match given {
                Some(Json::String(text)) => path::push_segment(&mut out, &text),
                Some(value @ (Json::Number(_) | Json::Bool(_))) => {
                    path::push_segment(&mut out, &value.to_string());
                }
                Some(_) => problems.push(Problem::new(at(), "type", "must be text or a number")),
                None => problems.push(Problem::new(at(), "required", "is required")),
            }
        }
        if problems.is_empty() {
            Ok(out)
        } else {
            Err(Error::validation(problems))
        }
    }

    /// Splits the members that are not in the path into the query and the body.
    fn split(&mut self, endpoint: &Endpoint) -> (Map<String, Json>, Option<Json>) {
        let mut members = std::mem::take(&mut self.members);
        if matches!(
            endpoint.method,
            operation::Method::Get | operation::Method::Delete
        ) {
            return (members, None);
        }
        let mut query = Map::new();
        if let Action::Operation(spec, _) = endpoint.action {
            for param in spec.params {
                match param.place {
                    Place::Whole(_) => return (query, members.remove(param.name)),
                    Place::Query | Place::Segment => {
                        if let Some(value) = members.remove(param.name) {
                            query.insert(param.name.to_owned(), value);
                        }
                    }
                    Place::Id | Place::Body => {}
                }
            }
        }
        (query, Some(Json::Object(members)))
    }
}

/// A value in the text form of a query.
fn text_of(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}
