//! A new app on a free port, and a small client with the checks that the cases need.

use std::net::SocketAddr;
use std::sync::Arc;

use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use linchpin::axum::body::Bytes;
use linchpin::axum::http::{HeaderMap, Request};
use linchpin::prelude::*;
use linchpin::store::memory::Memory;
use linchpin::store::sqlite::{SqliteOptions, SqliteStore};
use linchpin_auth::{ApiCredential, Argon2Cost, Auth, Clock, Env, FakeClock, SecretText};
use serde_json::{Value as Json, json};
use tokio::sync::OnceCell;

use crate::document::Document;
use crate::testbed::{NOTES, TestBed};

pub const SECRET: &str = "an-acceptance-secret-of-32-bytes!!";
pub const GOOD: &str = "violet-otter-91-lamp";

/// The store of a case. Several apps on one store share its records, except in memory.
pub struct Store {
    url: String,
    clock: Arc<FakeClock>,
    /// The port of the apps; 0 for any free port.
    port: u16,
    /// The cost of password hashes.
    argon2: Argon2Cost,
    _folder: Option<tempfile::TempDir>,
}

impl Store {
    pub fn memory() -> Self {
        Self::at("memory:".to_owned(), None)
    }

    pub fn sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self::at(
            format!("sqlite:{}", folder.path().join("test.db").display()),
            Some(folder),
        )
    }

    #[cfg(feature = "postgres")]
    pub fn postgres() -> Self {
        Self::at(crate::postgres_server::fresh_url(), None)
    }

    fn at(url: String, folder: Option<tempfile::TempDir>) -> Self {
        let now = Timestamp::parse("2026-03-04T05:06:07.008Z").unwrap();
        Self {
            url,
            clock: Arc::new(FakeClock::at(now)),
            port: 0,
            argon2: Argon2Cost::OF_TESTS,
            _folder: folder,
        }
    }

    /// Makes the apps listen on a fixed port, which is known before they start.
    pub fn at_a_free_port(self) -> Self {
        Self {
            port: crate::ports::free_port(),
            ..self
        }
    }

    /// Makes the apps hash passwords with the minimum cost of production, for cases in which calls
    /// race with a hash.
    pub fn hashing_slowly(self) -> Self {
        Self {
            argon2: Argon2Cost {
                m: 19_456,
                t: 2,
                p: 1,
            },
            ..self
        }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether a second app reads the records of the first.
    pub fn keeps(&self) -> bool {
        self.url != "memory:"
    }

    /// The file of the records, for a store that is a file.
    pub fn file(&self) -> Option<std::path::PathBuf> {
        self.url.strip_prefix("sqlite:").map(Into::into)
    }

    /// The store itself, for tests that wrap it.
    pub fn opened(&self) -> Arc<dyn linchpin::store::Store> {
        #[cfg(feature = "postgres")]
        if self.url.starts_with("postgres") {
            use linchpin::store::postgres::{PostgresOptions, PostgresStore};
            return Arc::new(PostgresStore::open(PostgresOptions::new(self.url.as_str())).unwrap());
        }
        match self.file() {
            Some(file) => Arc::new(SqliteStore::open(SqliteOptions::new(file)).unwrap()),
            None => Arc::new(Memory::new()),
        }
    }

    /// The URL of the store.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// An app with the default settings of the plugin, except for a cheap password hash.
    pub async fn app(&self) -> Server {
        self.app_with(|auth| auth).await
    }

    /// An app with the plugin changed.
    pub async fn app_with(&self, change: impl FnOnce(Auth) -> Auth) -> Server {
        self.try_app(change).await.unwrap()
    }

    /// Like [`Store::app_with`], for an app that may fail to start.
    pub async fn try_app(&self, change: impl FnOnce(Auth) -> Auth) -> linchpin::Result<Server> {
        self.try_app_in(linchpin::Environment::Development, change)
            .await
    }

    /// An app that publishes all events to a sink.
    pub async fn watched(
        &self,
        sink: impl linchpin::EventSink,
        change: impl FnOnce(Auth) -> Auth,
    ) -> Server {
        self.start(linchpin::Environment::Development, change, |app| {
            app.event_sink("case", sink)
        })
        .await
        .unwrap()
    }

    /// An app with an additional plugin.
    pub async fn with_plugin(
        &self,
        plugin: impl linchpin::Plugin,
        change: impl FnOnce(Auth) -> Auth,
    ) -> Server {
        self.start(linchpin::Environment::Development, change, |app| {
            app.plugin(plugin)
        })
        .await
        .unwrap()
    }

    /// An app that stores its records in another store.
    pub async fn on(
        &self,
        store: impl linchpin::store::Store,
        change: impl FnOnce(Auth) -> Auth,
    ) -> Server {
        self.start(linchpin::Environment::Development, change, |app| {
            app.store(Arc::new(store))
        })
        .await
        .unwrap()
    }

    /// An app with a guard on the routes that match a path pattern.
    pub async fn guarded(
        &self,
        pattern: &str,
        guard: linchpin::http::RouteGuard,
    ) -> linchpin::Result<Server> {
        self.start(
            linchpin::Environment::Development,
            |auth| auth,
            |app| app.guard(pattern, guard),
        )
        .await
    }

    pub async fn try_app_in(
        &self,
        environment: linchpin::Environment,
        change: impl FnOnce(Auth) -> Auth,
    ) -> linchpin::Result<Server> {
        self.start(environment, change, |app| app).await
    }

    async fn start(
        &self,
        environment: linchpin::Environment,
        change: impl FnOnce(Auth) -> Auth,
        more: impl FnOnce(App) -> App,
    ) -> linchpin::Result<Server> {
        let auth = Auth::new()
            .roles(["admin", "member"])
            .default_role("member")
            .configure(|config| {
                config.auth.password.argon2 = self.argon2;
            });
        let env = Env {
            clock: self.clock.clone(),
            ..Env::system()
        };
        let reading = Arc::clone(&self.clock);
        // Production accepts only a database that migrations have created.
        let url = match environment {
            linchpin::Environment::Production => "memory:",
            linchpin::Environment::Development => self.url.as_str(),
        };
        let config = Config::new()
            .signing_secret(SECRET)
            .port(self.port)
            .database(url)
            // No case cuts the power, and hundreds of apps start. Disk syncs at each write, or 30
            // connections for each app, would take most of the time.
            .durability(linchpin::Durability::Normal)
            .postgres(linchpin::Postgres {
                scans: Some(2),
                writers: Some(4),
                ..linchpin::Postgres::default()
            })
            .environment(environment);
        let app = App::new(config)
            .plugin(
                change(auth.env(env))
                    .configure(|config| config.security.api_credentials.push(remover())),
            )
            .plugin(TestBed {
                clock: Arc::clone(&self.clock),
            })
            .package(&NOTES)
            .clock(move || reading.now());
        let running = more(app).start().await?;
        let client = Client::builder(TokioExecutor::new()).build(HttpConnector::new());
        Ok(Server {
            address: running.address(),
            client,
            running,
            clock: Arc::clone(&self.clock),
            document: OnceCell::new(),
        })
    }
}

/// The program that removes notes.
fn remover() -> ApiCredential {
    ApiCredential {
        id: "remover".into(),
        token: SecretText::new("what-removes-the-notes-of-this-testbed"),
        roles: Vec::new(),
    }
}

/// A running app.
pub struct Server {
    address: SocketAddr,
    client: Client<HttpConnector, Full<Bytes>>,
    running: linchpin::Running,
    clock: Arc<FakeClock>,
    /// The OpenAPI document of the app, after a first call of a route.
    document: OnceCell<Arc<Document>>,
}

/// A response.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// A signed-in user.
#[derive(Clone, Debug)]
pub struct SignedIn {
    pub id: String,
    pub token: String,
    pub refresh: String,
}

impl Server {
    pub async fn stop(self) {
        self.running.stop().await.unwrap();
    }

    /// The adapters and the bus of the app.
    pub fn adapters(&self) -> &linchpin::Adapters {
        self.running.adapters()
    }

    /// A value that was provided at start-up.
    pub fn provided<T: Send + Sync + 'static>(&self) -> Arc<T> {
        self.running.adapters().provided::<T>().unwrap()
    }

    /// The service, without its socket.
    pub fn service(&self) -> linchpin::http::HttpService {
        self.running.service()
    }

    pub fn host(&self) -> String {
        self.address.to_string()
    }

    pub fn now_seconds(&self) -> i64 {
        self.clock.now().millis().div_euclid(1000)
    }

    /// Sets the clock to the real time, because tokens that other programs issue contain real
    /// times.
    pub async fn to_the_present(&self) {
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap()
            .as_secs();
        self.advance(i64::try_from(now).unwrap() - self.now_seconds())
            .await;
    }

    pub async fn advance(&self, seconds: i64) {
        let reply = self
            .post("/__test/clock", json!({ "advanceSeconds": seconds }))
            .await;
        assert_eq!(reply.status, 200, "{reply:?}");
    }

    /// Sets the clock back.
    pub fn set_back(&self, seconds: i64) {
        self.clock.set(Timestamp::from_millis(
            self.clock.now().millis() - seconds * 1000,
        ));
    }

    pub async fn raw(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Reply {
        let reply = self.any(method, path, headers, body).await;
        // The plugin also answers 405 if no route of the path has the method.
        let is_documented = || {
            reply.status == 405
                || self
                    .document
                    .get()
                    .is_some_and(|document| document.has_route(method, path))
        };
        let is_of_plugin = path.starts_with("/auth/") && is_documented();
        reply.is_well_formed(is_of_plugin);
        reply
    }

    /// A POST whose response may be 503.
    pub async fn raw_any(&self, path: &str, body: Json) -> Reply {
        self.any(
            "POST",
            path,
            &[("content-type", "application/json")],
            &body.to_string(),
        )
        .await
    }

    /// A GET whose response may be 503.
    pub async fn get_any(&self, token: &str, path: &str) -> Reply {
        self.any(
            "GET",
            path,
            &[("authorization", &format!("Bearer {token}"))],
            "",
        )
        .await
    }

    /// A call whose response may be 503.
    pub async fn unchecked(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Reply {
        self.any(method, path, headers, body).await
    }

    /// A call with any response, such as a page or a redirect. It is only compared with the OpenAPI
    /// document.
    pub async fn any(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Reply {
        let reply = self.call(method, path, headers, body).await;
        if path.starts_with("/auth/") {
            let fetch_document =
                async || Document::of(&self.call("GET", "/openapi.json", &[], "").await.body);
            self.document
                .get_or_init(fetch_document)
                .await
                .compare(method, path, &reply);
        }
        reply
    }

    async fn call(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        let mut request = Request::builder()
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

    pub async fn post(&self, path: &str, body: Json) -> Reply {
        self.raw(
            "POST",
            path,
            &[("content-type", "application/json")],
            &body.to_string(),
        )
        .await
    }

    /// A call with an access token.
    pub async fn with(&self, token: &str, method: &str, path: &str, body: Option<Json>) -> Reply {
        let bearer = format!("Bearer {token}");
        let mut headers = vec![("authorization", bearer.as_str())];
        if body.is_some() {
            headers.push(("content-type", "application/json"));
        }
        self.raw(
            method,
            path,
            &headers,
            &body.map(|body| body.to_string()).unwrap_or_default(),
        )
        .await
    }

    pub async fn get(&self, token: &str, path: &str) -> Reply {
        self.with(token, "GET", path, None).await
    }

    pub async fn me(&self, token: &str) -> Reply {
        self.get(token, "/auth/me").await
    }

    pub async fn register(&self, email: &str) -> SignedIn {
        let reply = self
            .post(
                "/auth/register",
                json!({ "email": email, "password": GOOD }),
            )
            .await;
        assert_eq!(reply.status, 201, "{reply:?}");
        reply.signed_in()
    }

    pub async fn login(&self, email: &str) -> SignedIn {
        let reply = self
            .post("/auth/login", json!({ "email": email, "password": GOOD }))
            .await;
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.signed_in()
    }

    /// Registers an administrator with a recent step-up.
    pub async fn admin(&self, email: &str) -> SignedIn {
        let admin = self.register(email).await;
        self.change(&admin.id, json!({ "roles": ["admin"] })).await;
        self.prove(&admin).await;
        admin
    }

    /// Marks a session as recently proved.
    pub async fn prove(&self, who: &SignedIn) {
        let session = self.me(&who.token).await.text("sessionId");
        let reply = self
            .post(&format!("/__test/sessions/{session}/step-up"), json!({}))
            .await;
        assert_eq!(reply.status, 200, "{reply:?}");
    }

    /// Changes an account as the app itself.
    pub async fn change(&self, id: &str, change: Json) {
        let reply = self.post(&format!("/__test/users/{id}"), change).await;
        assert_eq!(reply.status, 200, "{reply:?}");
    }
}

impl Reply {
    pub fn json(&self) -> Json {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e} in {self:?}"))
    }

    pub fn text(&self, member: &str) -> String {
        self.json()[member].as_str().unwrap_or_default().to_owned()
    }

    pub fn header(&self, name: &str) -> String {
        self.headers
            .get(name)
            .and_then(|v| v.to_str().ok())
            .unwrap_or_default()
            .to_owned()
    }

    pub fn signed_in(&self) -> SignedIn {
        SignedIn {
            id: self.text("userId"),
            token: self.text("token"),
            refresh: self.text("refreshToken"),
        }
    }

    /// Checks the status and code of a refusal.
    #[track_caller]
    pub fn refused(&self, status: u16, code: &str) {
        assert_eq!(
            (self.status, self.text("code").as_str()),
            (status, code),
            "{self:?}"
        );
        assert_eq!(
            self.headers.contains_key("www-authenticate"),
            code == "unauthorized",
            "{self:?}"
        );
    }

    /// Checks for 400 `validation_failed` with this detail.
    #[track_caller]
    pub fn problem(&self, code: &str, path: &str) {
        self.refused(400, "validation_failed");
        let details = self.json()["details"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        assert!(
            details
                .iter()
                .any(|d| d["code"] == code && d["path"] == path),
            "no {code} at {path} in {self:?}"
        );
    }

    /// The `Set-Cookie` header of a cookie.
    pub fn cookie(&self, name: &str) -> Option<String> {
        let begins = format!("{name}=");
        self.headers
            .get_all("set-cookie")
            .iter()
            .filter_map(|v| v.to_str().ok())
            .find(|v| v.starts_with(&begins))
            .map(str::to_owned)
    }

    /// The value of a cookie that the response sets.
    pub fn cookie_value(&self, name: &str) -> String {
        let set = self
            .cookie(name)
            .unwrap_or_else(|| panic!("no {name} in {self:?}"));
        set[name.len() + 1..]
            .split(';')
            .next()
            .unwrap_or_default()
            .to_owned()
    }

    /// Checks that apply to every response.
    fn is_well_formed(&self, is_of_plugin: bool) {
        assert!(self.status < 500, "{self:?}");
        assert!(!self.header("x-request-id").is_empty(), "{self:?}");
        if self.status >= 400 {
            let body = self.json();
            assert!(
                body["error"].is_string() && body["code"].is_string(),
                "{self:?}"
            );
            assert_eq!(body["requestId"], self.header("x-request-id"));
        }
        if is_of_plugin {
            assert_eq!(
                (
                    self.header("cache-control").as_str(),
                    self.header("referrer-policy").as_str()
                ),
                ("no-store", "no-referrer"),
                "{self:?}"
            );
        }
    }
}

/// The claims of a token, unverified.
pub fn claims(token: &str) -> Json {
    part(token, 1)
}

/// The header of a token.
pub fn header(token: &str) -> Json {
    part(token, 0)
}

fn part(token: &str, at: usize) -> Json {
    use base64::Engine;
    let text = token.split('.').nth(at).unwrap();
    serde_json::from_slice(
        &base64::engine::general_purpose::URL_SAFE_NO_PAD
            .decode(text)
            .unwrap(),
    )
    .unwrap()
}
