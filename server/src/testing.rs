//! In-process calls to an app, for tests: they need no sockets, and return the same responses as
//! over HTTP.
//!
//! ```
//! use linchpin::prelude::*;
//! use linchpin::testing::Client;
//! use serde_json::json;
//!
//! #[entity(routes(auth = none))]
//! #[derive(Clone, Debug)]
//! pub struct Note {
//!     #[field(primary, default = uuid)]
//!     pub id: String,
//!     pub text: String,
//! }
//!
//! static NOTES: Package = package!(name = "notes", entities = [entity(Note)]);
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<()> {
//! let config = Config::new().port(0).database("memory:").signing_secret("only a test: 32 bytes or more of it");
//! let app = App::new(config).package(&NOTES).start().await?;
//! let client = Client::new(&app);
//!
//! let created = client.post("/notes", json!({"text": "milk"})).await?;
//! assert_eq!(created.status(), 201);
//! let path = format!("/notes/{}", created.json()?["id"].as_str().unwrap_or_default());
//! assert_eq!(client.get(&path).await?.json()?["text"], "milk");
//! assert!(client.get("/openapi.json").await?.text()?.contains("/notes"));
//! # app.stop().await
//! # }
//! ```

use axum::body::Body;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tower_service::Service as _;

use crate::http::HttpService;
use crate::{Error, Result, Running};

/// A test client that calls an app from within its process. It is cheap to clone; use one client
/// per caller.
#[derive(Clone, Debug)]
pub struct Client {
    service: HttpService,
    headers: HeaderMap,
}

impl Client {
    /// Creates an anonymous client.
    pub fn new(app: &Running) -> Self {
        Self {
            service: app.service(),
            headers: HeaderMap::new(),
        }
    }

    /// Returns a client that sends `Authorization: Bearer <token>` with each call. Get a token from
    /// `AuthService::sign_in` of linchpin-auth, or from `JwtAuth::token`.
    ///
    /// # Errors
    /// If the token is not valid in a header.
    pub fn bearer(&self, token: &str) -> Result<Self> {
        self.with_header(AUTHORIZATION.as_str(), &format!("Bearer {token}"))
    }

    /// Returns a client that sends this header with each call, instead of an earlier value.
    ///
    /// # Errors
    /// If the name or the value is not valid in a header.
    pub fn with_header(&self, name: &str, value: &str) -> Result<Self> {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(Error::internal)?;
        let value = HeaderValue::from_str(value).map_err(Error::internal)?;
        let mut client = self.clone();
        client.headers.insert(name, value);
        Ok(client)
    }

    /// Sends `GET path`; the path may contain a query.
    ///
    /// # Errors
    /// If the path is malformed. An error response of the app is not an error of this method.
    pub async fn get(&self, path: &str) -> Result<Answer> {
        self.send(Method::GET, path, None::<()>).await
    }

    /// Sends `POST path` with a JSON body; `()` sends no body.
    ///
    /// # Errors
    /// Like [`Client::get`]; also if the body cannot be serialized to JSON.
    pub async fn post(&self, path: &str, body: impl Serialize) -> Result<Answer> {
        self.send(Method::POST, path, Some(body)).await
    }

    /// Sends `PATCH path` with a JSON body; `()` sends no body.
    ///
    /// # Errors
    /// Like [`Client::post`].
    pub async fn patch(&self, path: &str, body: impl Serialize) -> Result<Answer> {
        self.send(Method::PATCH, path, Some(body)).await
    }

    /// Sends `PUT path` with a JSON body; `()` sends no body.
    ///
    /// # Errors
    /// Like [`Client::post`].
    pub async fn put(&self, path: &str, body: impl Serialize) -> Result<Answer> {
        self.send(Method::PUT, path, Some(body)).await
    }

    /// Sends `DELETE path`.
    ///
    /// # Errors
    /// Like [`Client::get`].
    pub async fn delete(&self, path: &str) -> Result<Answer> {
        self.send(Method::DELETE, path, None::<()>).await
    }

    /// Sends any request; headers of the client are added unless the request already has them.
    ///
    /// # Errors
    /// If the body of the response ends early.
    pub async fn call(&self, mut request: Request<Body>) -> Result<Answer> {
        for (name, value) in &self.headers {
            request
                .headers_mut()
                .entry(name)
                .or_insert_with(|| value.clone());
        }
        let Ok(response) = self.service.clone().call(request).await;
        let (head, body) = response.into_parts();
        let body = body.collect().await.map_err(Error::internal)?.to_bytes();
        Ok(Answer(Response::from_parts(head, body)))
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<impl Serialize>,
    ) -> Result<Answer> {
        let body = body
            .map(|value| serde_json::to_vec(&value))
            .transpose()
            .map_err(Error::internal)?;
        let request = Request::builder().method(method).uri(path);
        // `()` becomes `null` in JSON. No route accepts `null` as a body, so here it means that
        // there is no body.
        let request = match body.filter(|text| text != b"null") {
            Some(text) => request
                .header(CONTENT_TYPE, "application/json")
                .body(Body::from(text)),
            None => request.body(Body::empty()),
        };
        self.call(request.map_err(Error::internal)?).await
    }
}

/// A response of the app.
#[derive(Clone, Debug)]
pub struct Answer(Response<Bytes>);

impl Answer {
    /// The status, such as 201.
    pub fn status(&self) -> u16 {
        self.0.status().as_u16()
    }

    /// The headers.
    pub fn headers(&self) -> &HeaderMap {
        self.0.headers()
    }

    /// The value of a header, if it exists and is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers().get(name)?.to_str().ok()
    }

    /// The raw body.
    pub fn bytes(&self) -> &Bytes {
        self.0.body()
    }

    /// The body as text; empty if there is no body.
    ///
    /// # Errors
    /// If the body is not UTF-8.
    pub fn text(&self) -> Result<&str> {
        std::str::from_utf8(self.bytes()).map_err(Error::internal)
    }

    /// The body as JSON; `null` if there is no body.
    ///
    /// # Errors
    /// If the body is not JSON.
    pub fn json(&self) -> Result<serde_json::Value> {
        if self.bytes().is_empty() {
            Ok(serde_json::Value::Null)
        } else {
            self.read()
        }
    }

    /// The JSON body as a value of your own type.
    ///
    /// # Errors
    /// If the body has another form.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_slice(self.bytes()).map_err(Error::internal)
    }
}
