//! The test app: orders of tenants, and their webhooks.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use linchpin::prelude::*;
use linchpin::testing::Client;
use linchpin::{Actor, ActorKind, JwtAuth, Running};
use linchpin_webhooks::{Webhooks, WebhooksConfig, webhook_events};
use serde_json::{Value as Json, json};

use crate::server;

/// The id of a data key, and its bytes in base64.
pub type DataKey = (&'static str, &'static str);

pub const FIRST: DataKey = ("first", "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE");
pub const SECOND: DataKey = ("second", "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVowMTIzNDU");

const SECRET: &str = "a signing secret for tests of at least 32 bytes";

#[derive(FieldEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    Open,
    Shipped,
}

/// An order of a tenant.
#[entity(namespace = "shop", tenant(tenant_id, optional))]
#[derive(Clone, Debug)]
pub struct Order {
    #[field(primary, default = uuid)]
    pub id: String,
    pub tenant_id: Option<String>,
    #[field(length = 1..=200)]
    pub title: String,
    #[field(default = false)]
    pub paid: bool,
    #[field(default = State::Open)]
    pub state: State,
    #[field(private)]
    pub margin: Option<i64>,
    #[field(write_only)]
    pub note: Option<String>,
    #[field(default = now)]
    pub created_at: Timestamp,
}

/// Marks an order as paid.
#[operation(kind = "field_update", set(paid), partial)]
pub const PAY: Operation<Order>;

#[derive(FieldEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    Draft,
    Published,
}

/// An article of a tenant.
#[entity(namespace = "shop", tenant(tenant_id, optional))]
#[derive(Clone, Debug)]
pub struct Article {
    #[field(primary, default = uuid)]
    pub id: String,
    pub tenant_id: Option<String>,
    pub title: String,
    #[field(default = Status::Draft)]
    pub status: Status,
    /// Whether the article is internal: no event about it is sent to customers.
    #[field(private, default = false)]
    pub internal: bool,
}

/// A note; it has no webhook events.
#[entity(namespace = "shop", routes(auth = "userAuth"))]
#[derive(Clone, Debug)]
pub struct Note {
    #[field(primary, default = uuid)]
    pub id: String,
    pub text: String,
}

pub static SHOP: Package = package!(
    name = "shop",
    entities = [entity(Order, [PAY]), entity(Article), entity(Note)]
);

/// Customers get events about orders and published articles only.
fn webhooks() -> Webhooks {
    Webhooks::new(webhook_events! {
        Order: [created, updated, deleted, PAY],
        Article: [updated when(status == Status::Published), deleted when(!internal)],
    })
}

/// The name of the file with the milliseconds by which the clock is ahead.
const AHEAD: &str = "ahead";

/// The name of the file with the URL of the database, if the database is not in the folder.
const DATABASE: &str = "database";

/// The folder of an app. The database is a file in it, or the folder has a file with its URL.
enum Folder {
    Own(tempfile::TempDir),
    /// A folder of another process.
    Foreign(PathBuf),
}

impl Folder {
    fn path(&self) -> &Path {
        match self {
            Self::Own(folder) => folder.path(),
            Self::Foreign(folder) => folder,
        }
    }

    /// The URL of the database; a file in the folder by default.
    fn database(&self) -> String {
        let file = || format!("sqlite:{}", self.path().join("app.db").display());
        std::fs::read_to_string(self.path().join(DATABASE)).unwrap_or_else(|_| file())
    }
}

pub struct TestApp {
    pub app: Running,
    /// Milliseconds by which the clock of the app is ahead.
    ahead: Arc<AtomicI64>,
    folder: Arc<Folder>,
}

impl TestApp {
    pub async fn start() -> Self {
        Self::with(|_| {}).await
    }

    /// Starts the app with a changed configuration of the plugin.
    pub async fn with(change: impl FnOnce(&mut WebhooksConfig)) -> Self {
        Self::on(
            Arc::new(Folder::Own(tempfile::tempdir().unwrap())),
            Arc::default(),
            &[FIRST],
            change,
        )
        .await
    }

    /// Starts the app on the database with this URL.
    pub async fn at(database: &str, change: impl FnOnce(&mut WebhooksConfig)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(DATABASE), database).unwrap();
        Self::on(
            Arc::new(Folder::Own(folder)),
            Arc::default(),
            &[FIRST],
            change,
        )
        .await
    }

    /// Starts the app again on the same database.
    pub async fn restarted(self) -> Self {
        self.restarted_with(&[FIRST]).await
    }

    /// Changes the database, and starts the app again on it.
    pub async fn restarted_after(self, change: impl FnOnce()) -> Self {
        let (ahead, folder) = (Arc::clone(&self.ahead), Arc::clone(&self.folder));
        self.app.stop().await.unwrap();
        change();
        Self::on(folder, ahead, &[FIRST], |_| {}).await
    }

    /// Starts the app again on the same database, with these data keys.
    pub async fn restarted_with(self, keys: &[DataKey]) -> Self {
        let (ahead, folder) = (Arc::clone(&self.ahead), Arc::clone(&self.folder));
        self.app.stop().await.unwrap();
        Self::on(folder, ahead, keys, |_| {}).await
    }

    /// Starts the app on the database of this folder.
    async fn on(
        folder: Arc<Folder>,
        ahead: Arc<AtomicI64>,
        keys: &[DataKey],
        change: impl FnOnce(&mut WebhooksConfig),
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
            .database(folder.database())
            .signing_secret(SECRET)
            .data_keys(keys.iter().copied());
        let webhooks = webhooks().configure(|config| {
            config.allow_http = true;
            config.allow_cidrs = vec!["127.0.0.0/8".parse().unwrap()];
            change(config);
        });
        let app = App::new(config)
            .clock(clock)
            .plugin(JwtAuth::new())
            .plugin(webhooks)
            .package(&SHOP)
            .start()
            .await
            .unwrap();
        Self { app, ahead, folder }
    }

    /// Starts the app on the database of another process, with the clock of that process.
    pub async fn joining(folder: &Path) -> Self {
        let ahead = Arc::new(AtomicI64::new(0));
        let (file, clock_ahead) = (folder.join(AHEAD), Arc::clone(&ahead));
        std::thread::spawn(move || {
            loop {
                let text = std::fs::read_to_string(&file).unwrap_or_default();
                if let Ok(by) = text.parse() {
                    clock_ahead.store(by, Ordering::Relaxed);
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        // The folder belongs to the other process.
        let folder = Folder::Foreign(folder.to_owned());
        Self::on(Arc::new(folder), ahead, &[FIRST], |_| {}).await
    }

    /// Advances the clock of the app, also in other processes on the same database.
    pub fn advance(&self, by: Duration) {
        self.shift_clock(i64::try_from(by.as_millis()).unwrap());
    }

    /// Sets the clock of the app back.
    pub fn turn_back(&self, by: Duration) {
        self.shift_clock(-i64::try_from(by.as_millis()).unwrap());
    }

    /// Advances the clock, or sets it back if the number of milliseconds is negative.
    fn shift_clock(&self, by: i64) {
        let ahead = self.ahead.fetch_add(by, Ordering::Relaxed) + by;
        let (new, file) = (self.folder().join("ahead.new"), self.folder().join(AHEAD));
        std::fs::write(&new, ahead.to_string()).unwrap();
        std::fs::rename(new, file).unwrap();
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The numbers in the row that a query with one or two columns returns.
    pub fn numbers(&self, sql: &str) -> Vec<i64> {
        let database = self.folder.database();
        if database.starts_with("postgres:") {
            let number = |text: String| text.parse::<i64>().ok();
            // `server::rows` reads two columns, so the query returns an additional column without a
            // number.
            let sql = format!("SELECT found.*, '' FROM ({sql}) found");
            let rows = server::rows(&database, &sql, |a, b| [number(a), number(b)]);
            return rows.into_iter().flatten().flatten().collect();
        }
        let connection = rusqlite::Connection::open(self.path()).unwrap();
        connection.busy_timeout(Duration::from_secs(20)).unwrap();
        let mut statement = connection.prepare(sql).unwrap();
        let columns = statement.column_count();
        let row = statement.query_row([], |row| (0..columns).map(|at| row.get(at)).collect());
        row.unwrap()
    }

    /// Waits until a delivery has `count` attempts, and returns them.
    pub async fn attempts(&self, delivery: &str, count: usize) -> Vec<Json> {
        for _ in 0..6_000 {
            let page = self.get(&format!("{delivery}/attempts")).await;
            let attempts = page["items"].as_array().unwrap();
            if attempts.len() >= count {
                return attempts.clone();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("there are not {count} attempts of {delivery}");
    }

    /// The path of the SQLite database.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("app.db")
    }

    /// A caller with a role in a tenant.
    pub fn caller(&self, tenant: Option<&str>, role: &str) -> Client {
        let actor = Actor {
            kind: ActorKind::User,
            id: Some(format!("user-of-{}", tenant.unwrap_or("nobody"))),
            tenant_id: tenant.map(str::to_owned),
            roles: vec![role.to_owned()],
            ..Actor::anonymous()
        };
        let token = JwtAuth::token(SECRET, &actor, Duration::from_hours(24 * 300)).unwrap();
        Client::new(&self.app).bearer(&token).unwrap()
    }

    /// A caller who may manage the endpoints of the tenant `t1`.
    pub fn admin(&self) -> Client {
        self.caller(Some("t1"), "admin")
    }

    /// Creates an endpoint for all events, and returns its record with the secret. The members of
    /// `more` are added to the request.
    pub async fn endpoint(&self, url: &str, more: Json) -> Json {
        let mut body = json!({ "url": url, "events": ["*"] });
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let made = self
            .admin()
            .post("/webhooks/endpoints", body)
            .await
            .unwrap();
        assert_eq!(made.status(), 201, "{:?}", made.text());
        made.json().unwrap()
    }

    pub async fn order(&self, title: &str) -> Json {
        let made = self
            .admin()
            .post("/orders", json!({ "title": title }))
            .await
            .unwrap();
        assert_eq!(made.status(), 201, "{:?}", made.text());
        made.json().unwrap()
    }

    pub async fn get(&self, path: &str) -> Json {
        let found = self.admin().get(path).await.unwrap();
        assert_eq!(found.status(), 200, "{path}: {:?}", found.text());
        found.json().unwrap()
    }

    /// The deliveries of the tenant, newest first.
    pub async fn deliveries(&self) -> Vec<Json> {
        let page = self.get("/webhooks/deliveries?pageSize=100").await;
        page["items"].as_array().unwrap().clone()
    }

    /// Waits until the newest delivery has a status, and returns the delivery.
    pub async fn until(&self, status: &str) -> Json {
        let mut last = Json::Null;
        for _ in 0..6_000 {
            last = self
                .deliveries()
                .await
                .into_iter()
                .next()
                .unwrap_or_default();
            if last["status"] == status {
                return last;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the newest delivery is not {status}: {last}");
    }
}
