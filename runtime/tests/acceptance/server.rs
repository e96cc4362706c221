//! A new app on a free port, and a small HTTP client with the checks that the tests need.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use axum::body::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use linchpin::prelude::*;
use serde_json::{Value as Json, json};

#[cfg(feature = "postgres")]
#[path = "../support/postgres.rs"]
pub mod postgres_server;

pub const SECRET: &str = "an-acceptance-secret-of-32-bytes!!";

/// A running app.
pub struct Server {
    address: SocketAddr,
    client: Client<HttpConnector, Full<Bytes>>,
    clock: Arc<AtomicI64>,
    running: linchpin::Running,
    folder: Option<tempfile::TempDir>,
    pub url: String,
}

/// A response.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: axum::http::HeaderMap,
    pub body: Bytes,
}

impl Server {
    pub async fn memory(package: &'static Package) -> Self {
        Self::memory_with(package, |app| app).await
    }

    pub async fn sqlite(package: &'static Package) -> Self {
        Self::sqlite_with(package, |app| app).await
    }

    /// A new app with the package and further setup.
    pub async fn memory_with(package: &'static Package, more: impl FnOnce(App) -> App) -> Self {
        Self::start(package, "memory:".to_owned(), None, more).await
    }

    /// A new app with the package and further setup.
    pub async fn sqlite_with(package: &'static Package, more: impl FnOnce(App) -> App) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("test.db").display());
        Self::start(package, url, Some(folder), more).await
    }

    #[cfg(feature = "postgres")]
    #[allow(dead_code)] // the acceptance cases use it
    pub async fn postgres(package: &'static Package) -> Self {
        Self::postgres_with(package, |app| app).await
    }

    /// A new app with the package and further setup.
    #[cfg(feature = "postgres")]
    #[allow(dead_code)] // the acceptance cases use it
    pub async fn postgres_with(package: &'static Package, more: impl FnOnce(App) -> App) -> Self {
        Self::start(package, postgres_server::fresh_url(), None, more).await
    }

    /// A new app on a store that runs up to 12 transactions concurrently, like several processes.
    #[cfg(feature = "postgres")]
    #[allow(dead_code)] // the acceptance cases use it
    pub async fn postgres_at_once(package: &'static Package) -> Self {
        use linchpin::store::postgres::{PostgresOptions, PostgresStore};
        let options = PostgresOptions {
            transactions: 12,
            ..PostgresOptions::new(postgres_server::fresh_url())
        };
        let store = Arc::new(PostgresStore::open(options).unwrap());
        Self::memory_with(package, |app| app.store(store)).await
    }

    /// A new app on a given database, with the package and further setup.
    #[cfg(feature = "postgres")]
    #[allow(dead_code)] // the tests of one store use it
    pub async fn at_with(
        package: &'static Package,
        url: String,
        more: impl FnOnce(App) -> App,
    ) -> Self {
        Self::start(package, url, None, more).await
    }

    /// A new app on a given database.
    #[allow(dead_code)] // some of the suites that share this file use it
    pub async fn at(package: &'static Package, url: String) -> Self {
        Self::start(package, url, None, |app| app).await
    }

    async fn start(
        package: &'static Package,
        url: String,
        folder: Option<tempfile::TempDir>,
        more: impl FnOnce(App) -> App,
    ) -> Self {
        let clock = Arc::new(AtomicI64::new(
            Timestamp::parse("2026-03-04T05:06:07.008Z")
                .unwrap()
                .millis(),
        ));
        let clock_of_app = Arc::clone(&clock);
        let config = Config::new()
            .signing_secret(SECRET)
            .port(0)
            .database(url.clone())
            // No test cuts the power, and hundreds of apps start. Waiting for the disk at each
            // write, or opening 30 connections at each start, would take most of the time.
            .durability(linchpin::Durability::Normal)
            .postgres(linchpin::Postgres {
                scans: Some(2),
                writers: Some(4),
                ..linchpin::Postgres::default()
            })
            .docs(true);
        let app = App::new(config)
            .plugin(JwtAuth::new())
            .package(package)
            .clock(move || Timestamp::from_millis(clock_of_app.load(Ordering::SeqCst)));
        let running = more(app).start().await.unwrap();
        let address = running.address();
        let client = Client::builder(TokioExecutor::new()).build(HttpConnector::new());
        Self {
            address,
            client,
            clock,
            running,
            folder,
            url,
        }
    }

    /// Stops the app as a stop signal does.
    #[allow(dead_code)] // some of the suites that share this file use it
    pub async fn stop(self) {
        self.running.stop().await.unwrap();
    }

    /// The running app, for calls from code.
    pub fn running(&self) -> &linchpin::Running {
        &self.running
    }

    /// The file of the database, when the store has one.
    pub fn file(&self) -> Option<std::path::PathBuf> {
        self.folder
            .as_ref()
            .map(|folder| folder.path().join("test.db"))
    }

    /// The configured database URL.
    #[allow(dead_code)] // some of the suites that share this file use it
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Moves the clock of the app forward, in milliseconds.
    pub fn advance(&self, millis: i64) {
        self.clock.fetch_add(millis, Ordering::SeqCst);
    }

    /// `Bearer …` for a subject with roles.
    pub fn token(&self, subject: &str, roles: &[&str]) -> String {
        let seconds = self.clock.load(Ordering::SeqCst) / 1000;
        let claims = json!({"sub": subject, "roles": roles, "exp": seconds + 3600});
        let key = jsonwebtoken::EncodingKey::from_secret(SECRET.as_bytes());
        format!(
            "Bearer {}",
            jsonwebtoken::encode(&jsonwebtoken::Header::default(), &claims, &key).unwrap()
        )
    }

    /// `Bearer …` for a subject of a tenant.
    pub fn token_in(&self, subject: &str, tenant: &str) -> String {
        self.token_of(subject, tenant, &[])
    }

    /// `Bearer …` for a subject of a tenant with roles.
    pub fn token_of(&self, subject: &str, tenant: &str, roles: &[&str]) -> String {
        let seconds = self.clock.load(Ordering::SeqCst) / 1000;
        let claims =
            json!({"sub": subject, "roles": roles, "tenant": tenant, "exp": seconds + 1_000_000});
        let key = jsonwebtoken::EncodingKey::from_secret(SECRET.as_bytes());
        format!(
            "Bearer {}",
            jsonwebtoken::encode(&jsonwebtoken::Header::default(), &claims, &key).unwrap()
        )
    }

    /// The application clock.
    pub fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.clock.load(Ordering::SeqCst))
    }

    pub async fn raw(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Reply {
        // Brackets are not allowed in a URI, but people type them. The client library refuses them,
        // so they are encoded.
        let path = path
            .replace('[', "%5B")
            .replace(']', "%5D")
            .replace('@', "%40");
        let mut request = axum::http::Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.address));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request
            .body(Full::new(Bytes::copy_from_slice(body.as_bytes())))
            .unwrap();
        let (parts, body) = self.client.request(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Reply {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body,
        }
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.raw("GET", path, &[], "").await
    }

    pub async fn delete(&self, path: &str) -> Reply {
        self.raw("DELETE", path, &[], "").await
    }

    pub async fn post(&self, path: &str, body: Json) -> Reply {
        self.raw(
            "POST",
            path,
            &[("content-type", "application/json")],
            &body.to_string(),
        )
        .await
    }

    pub async fn raw_json(&self, method: &str, path: &str, body: Json) -> Reply {
        self.raw(
            method,
            path,
            &[("content-type", "application/json")],
            &body.to_string(),
        )
        .await
    }

    pub async fn patch(&self, path: &str, body: Json) -> Reply {
        self.raw(
            "PATCH",
            path,
            &[("content-type", "application/json")],
            &body.to_string(),
        )
        .await
    }

    /// Creates a post with this slug and returns the response.
    pub async fn create(&self, slug: &str) -> Json {
        let reply = self
            .post("/posts", json!({"slug": slug, "title": "A title"}))
            .await;
        assert_eq!(reply.status, 201, "{reply:?}");
        reply.json()
    }

    /// The path of a post.
    #[allow(clippy::unused_self)] // reads like the other calls of a case
    pub fn path(&self, record: &Json) -> String {
        format!("/posts/{}", record["id"].as_str().unwrap())
    }

    /// All records of a list, page after page.
    pub async fn walk(&self, path: &str) -> Vec<Json> {
        let (base, mut query) = path
            .split_once('?')
            .map_or((path, String::new()), |(b, q)| (b, q.to_owned()));
        let mut seen = Vec::new();
        loop {
            let reply = self.get(&format!("{base}?{query}")).await;
            assert_eq!(reply.status, 200, "{base}?{query} {reply:?}");
            let page = reply.json();
            seen.extend(page["items"].as_array().unwrap().iter().cloned());
            let Some(cursor) = page["nextCursor"].as_str() else {
                return seen;
            };
            assert!(seen.len() < 500_000, "the pages do not end");
            let kept: Vec<&str> = query
                .split('&')
                .filter(|p| !p.is_empty() && !p.starts_with("cursor="))
                .collect();
            query = [kept.join("&"), format!("cursor={cursor}")]
                .into_iter()
                .filter(|p| !p.is_empty())
                .collect::<Vec<_>>()
                .join("&");
        }
    }

    /// Runs `n` requests at once.
    pub async fn parallel<F: Future>(
        &self,
        n: usize,
        request: impl Fn(usize) -> F,
    ) -> Vec<F::Output> {
        futures_util::future::join_all((0..n).map(request)).await
    }
}

impl Reply {
    pub fn json(&self) -> Json {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e} in {self:?}"))
    }

    pub fn header(&self, name: &str) -> String {
        self.headers
            .get(name)
            .and_then(|v| v.to_str().ok())
            .unwrap_or_default()
            .to_owned()
    }

    /// The status and the code of an error.
    pub fn code(&self) -> (u16, &'static str) {
        let code = self.json()["code"].as_str().unwrap_or_default().to_owned();
        // Tests meet few different codes, so this may leak them. A `&'static str` is short to
        // compare.
        (self.status, Box::leak(code.into_boxed_str()))
    }

    /// Path and code of each detail, in order.
    pub fn problems(&self) -> Vec<(String, String)> {
        let text = |d: &Json, key: &str| d[key].as_str().unwrap_or_default().to_owned();
        self.json()["details"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|d| (text(d, "path"), text(d, "code")))
            .collect()
    }

    /// Asserts 400 `validation_failed` with this detail.
    pub fn problem(&self, code: &str, path: &str) {
        assert_eq!(self.code(), (400, "validation_failed"), "{self:?}");
        assert!(
            self.problems()
                .contains(&(path.to_owned(), code.to_owned())),
            "no {code} at {path} in {:?}",
            self.problems()
        );
    }
}
