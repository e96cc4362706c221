//! Calls to an app from within its process: what tests of an app need, without sockets and with the
//! same answers.
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

/// Calls an app as a client does, from within its process. Cheap to clone; each caller of a test is
/// one.
#[derive(Clone, Debug)]
pub struct Client {
    service: HttpService,
    headers: HeaderMap,
}

impl Client {
    /// A client nobody knows.
    pub fn new(app: &Running) -> Self {
        Self {
            service: app.service(),
            headers: HeaderMap::new(),
        }
    }

    /// The same client with `Authorization: Bearer <token>` on each call: of `AuthService::sign_in`
    /// with linchpin-auth, or of `JwtAuth::token`.
    ///
    /// # Errors
    /// When the token cannot stand in a header.
    pub fn bearer(&self, token: &str) -> Result<Self> {
        self.with_header(AUTHORIZATION.as_str(), &format!("Bearer {token}"))
    }

    /// The same client with this header on each call, in place of an earlier value.
    ///
    /// # Errors
    /// When name or value cannot stand in a header.
    pub fn with_header(&self, name: &str, value: &str) -> Result<Self> {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(Error::internal)?;
        let value = HeaderValue::from_str(value).map_err(Error::internal)?;
        let mut client = self.clone();
        client.headers.insert(name, value);
        Ok(client)
    }

    /// `GET path`; the path may carry a query.
    ///
    /// # Errors
    /// When the path is none. What the app refuses is an answer, not an error.
    pub async fn get(&self, path: &str) -> Result<Answer> {
        self.send(Method::GET, path, None::<()>).await
    }

    /// `POST path` with a JSON body; `()` sends none.
    ///
    /// # Errors
    /// As [`Client::get`]; or the body is not JSON.
    pub async fn post(&self, path: &str, body: impl Serialize) -> Result<Answer> {
        self.send(Method::POST, path, Some(body)).await
    }

    /// `PATCH path` with a JSON body; `()` sends none.
    ///
    /// # Errors
    /// As [`Client::post`].
    pub async fn patch(&self, path: &str, body: impl Serialize) -> Result<Answer> {
        self.send(Method::PATCH, path, Some(body)).await
    }

    /// `PUT path` with a JSON body; `()` sends none.
    ///
    /// # Errors
    /// As [`Client::post`].
    pub async fn put(&self, path: &str, body: impl Serialize) -> Result<Answer> {
        self.send(Method::PUT, path, Some(body)).await
    }

    /// `DELETE path`.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub async fn delete(&self, path: &str) -> Result<Answer> {
        self.send(Method::DELETE, path, None::<()>).await
    }

    /// Any request; the client's headers are added where the request has none of that name.
    ///
    /// # Errors
    /// When the answer's body breaks off.
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
        // `()` is `null` in JSON, which no route takes: it stands for no body.
        let request = match body.filter(|text| text != b"null") {
            Some(text) => request
                .header(CONTENT_TYPE, "application/json")
                .body(Body::from(text)),
            None => request.body(Body::empty()),
        };
        self.call(request.map_err(Error::internal)?).await
    }
}

/// What the app answered.
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

    /// The value of a header, when there is one and it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers().get(name)?.to_str().ok()
    }

    /// The body as it came.
    pub fn bytes(&self) -> &Bytes {
        self.0.body()
    }

    /// The body as text; empty when there is none.
    ///
    /// # Errors
    /// When the body is not UTF-8.
    pub fn text(&self) -> Result<&str> {
        std::str::from_utf8(self.bytes()).map_err(Error::internal)
    }

    /// The body as JSON; `null` when there is none.
    ///
    /// # Errors
    /// When the body is not JSON.
    pub fn json(&self) -> Result<serde_json::Value> {
        if self.bytes().is_empty() {
            Ok(serde_json::Value::Null)
        } else {
            self.read()
        }
    }

    /// The body as JSON of a type of yours.
    ///
    /// # Errors
    /// When the body is something else.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_slice(self.bytes()).map_err(Error::internal)
    }
}
