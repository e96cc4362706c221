//! The test app, its users, and their browsers.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use aws_lc_rs::agreement::{ECDH_P256, PrivateKey};
use aws_lc_rs::encoding::{AsBigEndian, EcPrivateKeyBin};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use linchpin::prelude::*;
use linchpin::testing::{Answer, Client};
use linchpin::{Actor, ActorKind, Cx, JwtAuth, Running};
use linchpin_push::{Push, PushConfig, PushMessage, PushQueue, VapidKey};
use serde_json::{Value as Json, json};

use crate::server;

const SECRET: &str = "a signing secret for tests of at least 32 bytes";
const DATA_KEY: (&str, &str) = ("first", "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE");

static NOTHING: Package = package!(name = "nothing", entities = []);

/// A browser that may subscribe.
#[derive(Clone)]
pub struct Browser {
    pub private_key: String,
    pub p256dh: String,
    pub auth: String,
}

impl Browser {
    pub fn new() -> Self {
        let key = PrivateKey::generate(&ECDH_P256).unwrap();
        let private: EcPrivateKeyBin<'_> = key.as_be_bytes().unwrap();
        let mut auth = [0; 16];
        aws_lc_rs::rand::fill(&mut auth).unwrap();
        Self {
            private_key: URL_SAFE_NO_PAD.encode(private.as_ref()),
            p256dh: URL_SAFE_NO_PAD.encode(key.compute_public_key().unwrap().as_ref()),
            auth: URL_SAFE_NO_PAD.encode(auth),
        }
    }

    /// The body of a subscription at an address.
    pub fn at(&self, endpoint: &str) -> Json {
        json!({
            "endpoint": endpoint,
            "expirationTime": null,
            "keys": { "p256dh": self.p256dh, "auth": self.auth },
        })
    }
}

pub struct TestApp {
    pub app: Running,
    /// Milliseconds by which the clock of the app is ahead.
    ahead: Arc<AtomicI64>,
    folder: Arc<tempfile::TempDir>,
    /// The URL of the database, if it is not the file in the folder.
    database: Option<String>,
    pub keys: Vec<VapidKey>,
}

impl TestApp {
    pub async fn start() -> Self {
        Self::with(|push| push).await
    }

    /// Starts the app with a changed plugin.
    pub async fn with(change: impl FnOnce(Push) -> Push) -> Self {
        let folder = Arc::new(tempfile::tempdir().unwrap());
        Self::on(folder, Arc::default(), vec![VapidKey::generate()], change).await
    }

    /// Starts the app again on the same database, with these keys.
    pub async fn restarted(self, keys: Vec<VapidKey>) -> Self {
        self.restarted_with(keys, |push| push).await
    }

    /// Starts the app again on the same database, with these keys and settings.
    pub async fn restarted_with(
        self,
        keys: Vec<VapidKey>,
        change: impl FnOnce(Push) -> Push,
    ) -> Self {
        let (ahead, folder) = (Arc::clone(&self.ahead), Arc::clone(&self.folder));
        self.app.stop().await.unwrap();
        Self::on(folder, ahead, keys, change).await
    }

    /// Writes to the database that another worker has leased all subscriptions for a minute.
    pub fn take_leases(&self) {
        let connection = rusqlite::Connection::open(self.folder.path().join("app.db")).unwrap();
        let until = self.now().millis() + 60_000;
        let sql = "update push_push_subscriptions set lease_token = 'another', lease_until = ?";
        connection.busy_timeout(Duration::from_secs(10)).unwrap();
        connection.execute(sql, [until]).unwrap();
    }

    /// Starts the app on the SQLite file in this folder.
    async fn on(
        folder: Arc<tempfile::TempDir>,
        ahead: Arc<AtomicI64>,
        keys: Vec<VapidKey>,
        change: impl FnOnce(Push) -> Push,
    ) -> Self {
        let database = format!("sqlite:{}", folder.path().join("app.db").display());
        Self::start_on((&database, folder), ahead, keys, change).await
    }

    /// Starts the app on the database with this URL.
    pub async fn at(database: &str) -> Self {
        let folder = Arc::new(tempfile::tempdir().unwrap());
        let keys = vec![VapidKey::generate()];
        let test_app = Self::start_on((database, folder), Arc::default(), keys, |push| push).await;
        Self {
            database: Some(database.to_owned()),
            ..test_app
        }
    }

    /// Starts the app on the database with this URL. The folder is kept for a restart.
    async fn start_on(
        (database, folder): (&str, Arc<tempfile::TempDir>),
        ahead: Arc<AtomicI64>,
        keys: Vec<VapidKey>,
        change: impl FnOnce(Push) -> Push,
    ) -> Self {
        let clock = {
            let ahead = Arc::clone(&ahead);
            move || {
                let now = Timestamp::system_now().millis();
                Timestamp::from_millis(now + ahead.load(Ordering::Relaxed))
            }
        };
        let config = Config::new()
            .port(0)
            .database(database)
            .signing_secret(SECRET)
            .data_keys([DATA_KEY]);
        let push = Push::new(PushConfig::default()).configure(|config| {
            config.vapid.clone_from(&keys);
            "mailto:ops@example.com".clone_into(&mut config.subject);
            config.allow_http = true;
            config.allow_cidrs = vec!["127.0.0.0/8".parse().unwrap()];
            config.hosts = vec!["127.0.0.1".to_owned(), "*.push.example".to_owned()];
        });
        let app = App::new(config)
            .clock(clock)
            .plugin(JwtAuth::new())
            .plugin(change(push.serve_worker()))
            .package(&NOTHING)
            .start()
            .await
            .unwrap();
        Self {
            app,
            ahead,
            folder,
            database: None,
            keys,
        }
    }

    /// Waits until no subscription is leased. The results of all requests are then written.
    pub async fn until_idle(&self) {
        let sql = "select count(*), '' from push_push_subscriptions where lease_token is not null";
        for _ in 0..6_000 {
            let leases = match self.database.as_deref() {
                None => {
                    let connection = rusqlite::Connection::open(self.folder.path().join("app.db"));
                    let connection = connection.unwrap();
                    connection.busy_timeout(Duration::from_secs(10)).unwrap();
                    connection.query_row(sql, [], |row| row.get(0)).unwrap()
                }
                Some(url) if url.starts_with("postgres:") => {
                    let count = |count: String| count.parse::<i64>().unwrap();
                    server::rows(url, sql, |leases, _| count(leases))[0]
                }
                // An in-memory store cannot be read from outside. Its workers finish within this
                // pause.
                Some(_) => {
                    tokio::time::sleep(Duration::from_millis(200)).await;
                    0
                }
            };
            if leases == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("a subscription is still leased");
    }

    /// Advances the clock of the app.
    pub fn advance(&self, by: Duration) {
        let by = i64::try_from(by.as_millis()).unwrap();
        self.ahead.fetch_add(by, Ordering::Relaxed);
    }

    pub fn now(&self) -> Timestamp {
        let now = Timestamp::system_now().millis();
        Timestamp::from_millis(now + self.ahead.load(Ordering::Relaxed))
    }

    /// All bytes that the database has on disk.
    pub fn stored(&self) -> Vec<u8> {
        let files = std::fs::read_dir(self.folder.path()).unwrap();
        let read = |file: std::io::Result<std::fs::DirEntry>| std::fs::read(file.unwrap().path());
        files.flat_map(|file| read(file).unwrap()).collect()
    }

    /// A user in the tenant `t1`, whose session has the name of the user.
    pub fn user(&self, id: &str) -> Client {
        self.user_of(id, id, "t1")
    }

    /// A user with a session in a tenant.
    pub fn user_of(&self, id: &str, session: &str, tenant: &str) -> Client {
        let actor = Actor {
            kind: ActorKind::User,
            id: Some(id.to_owned()),
            tenant_id: Some(tenant.to_owned()),
            session_id: Some(session.to_owned()),
            ..Actor::anonymous()
        };
        let token = JwtAuth::token(SECRET, &actor, Duration::from_hours(24 * 300)).unwrap();
        Client::new(&self.app).bearer(&token).unwrap()
    }

    /// Subscribes a browser of a user, and returns the id of the subscription.
    pub async fn subscribe(&self, user: &str, browser: &Browser, endpoint: &str) -> String {
        let answer = self.user(user).subscribe(browser, endpoint).await;
        assert!(matches!(answer.status(), 200 | 201), "{:?}", answer.text());
        answer.json().unwrap()["id"].as_str().unwrap().to_owned()
    }

    pub fn queue(&self) -> Arc<PushQueue> {
        self.app.adapters().provided::<PushQueue>().unwrap()
    }

    /// Queues a message, and returns the number of browsers that it is queued for.
    pub async fn send(&self, message: &PushMessage) -> usize {
        let cx = Cx::system("a test").at(self.now());
        self.queue().send(&cx, message).await.unwrap()
    }

    /// The stored messages to a user, newest first.
    pub fn deliveries(&self, user: &str) -> Vec<Json> {
        let path = self.folder.path().join("app.db");
        let sql = format!(
            "select json_object('id', id, 'status', status, 'reason', reason, 'attempts', attempts, \
             'providerStatus', provider_status, 'urgency', urgency, 'ttl', ttl, 'topic', topic, \
             'nextRetryAt', next_retry_at, 'message', message) from push_push_deliveries \
             where user_id = '{user}' order by id desc"
        );
        query(&path, &sql)
    }

    /// The stored subscriptions of a user.
    pub fn subscriptions(&self, user: &str) -> Vec<Json> {
        let path = self.folder.path().join("app.db");
        let sql = format!(
            "select json_object('id', id, 'status', status, 'endpoint', endpoint, \
             'failureCount', failure_count, 'auth', auth) from push_push_subscriptions \
             where user_id = '{user}' order by id"
        );
        query(&path, &sql)
    }

    /// Waits until the newest message to a user has a status, and returns the message.
    pub async fn until(&self, user: &str, status: &str) -> Json {
        let mut last = Json::Null;
        for _ in 0..6_000 {
            last = self.deliveries(user).into_iter().next().unwrap_or_default();
            if last["status"] == status {
                return last;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the newest message is not {status}: {last}");
    }
}

/// The first column of each row of a query, as JSON.
fn query(path: &std::path::Path, sql: &str) -> Vec<Json> {
    let connection = rusqlite::Connection::open(path).unwrap();
    let mut statement = connection.prepare(sql).unwrap();
    let rows = statement
        .query_map([], |row| row.get::<_, String>(0))
        .unwrap();
    rows.map(|row| serde_json::from_str(&row.unwrap()).unwrap())
        .collect()
}

/// Requests of browsers.
pub trait Requests {
    async fn subscribe(&self, browser: &Browser, endpoint: &str) -> Answer;
    async fn delete_with(&self, path: &str, body: Json) -> Answer;
}

impl Requests for Client {
    async fn subscribe(&self, browser: &Browser, endpoint: &str) -> Answer {
        self.post("/__push/subscribe", browser.at(endpoint))
            .await
            .unwrap()
    }

    async fn delete_with(&self, path: &str, body: Json) -> Answer {
        let request = linchpin::axum::http::Request::delete(path)
            .header("content-type", "application/json")
            .body(linchpin::axum::body::Body::from(body.to_string()))
            .unwrap();
        self.call(request).await.unwrap()
    }
}
