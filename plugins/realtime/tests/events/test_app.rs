//! The test app: notifications of one user each, boards, and public notices.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use linchpin::prelude::*;
use linchpin::testing::Client;
use linchpin::{Actor, App, Config, EntityEvent, Running};
use linchpin_auth::{Auth, AuthService, NewUser};
use linchpin_realtime::channel::Declared;
use linchpin_realtime::{Counts, Realtime, sse};
use serde_json::{Value as Json, json};

use crate::client::Events;

/// A notification of one user.
#[entity(namespace = "notifications", scope(user_id = ctx(actor.id)), index(user_id))]
#[derive(Clone, Debug)]
pub struct Notification {
    #[field(primary, default = uuid)]
    pub id: String,
    pub user_id: String,
    pub text: String,
    #[field(private)]
    pub source: Option<String>,
}

/// Renames the notifications with a text.
#[operation(kind = "batch", action = "update", filter = (text == param(text)), set(text = param(to)))]
pub const REWORD: Operation<Notification>;

/// A board is visible to every user, or to its owner alone, until it is closed.
#[entity(soft_delete(closed_at), visible(open || owner_id == ctx(actor.id)))]
#[derive(Clone, Debug)]
pub struct Board {
    #[field(primary, default = uuid)]
    pub id: String,
    pub name: String,
    pub open: bool,
    pub owner_id: String,
    pub closed_at: Option<Timestamp>,
}

/// A public notice.
#[entity(routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Notice {
    #[field(primary, default = uuid)]
    pub id: String,
    pub text: String,
}

sse! {
    /// The signed-in user's notifications.
    pub const NOTIFICATIONS = "/__sse/notifications";
    Notification: [
        created as "notifications:notification.created" + "community:notification.created",
        updated as "notifications:notification.updated",
        deleted as "notifications:notification.dismissed",
        REWORD as "notifications:notification.reworded",
    ],
}

sse! {
    /// Changes of boards.
    pub const BOARDS = "/__sse/boards";
    Board: [created, updated, deleted],
    filter = is_not_quiet,
}

sse! {
    /// Public notices.
    pub const NOTICES = "/__sse/notices";
    Notice: [created],
    auth = none,
}

sse! {
    /// Changes of boards, for moderators.
    pub const MODERATION = "/__sse/moderation";
    Board: [created],
    roles = ["moderator"],
}

static PACKAGE: Package = package!(
    name = "desk",
    entities = [
        entity(Notification, [REWORD]),
        entity(Board),
        entity(Notice)
    ]
);

/// Events of boards named `quiet` are sent to no caller; the filter fails for `broken`.
fn is_not_quiet(_: &Actor, event: &EntityEvent) -> bool {
    let name = event.payload["name"].as_str().unwrap();
    assert!(name != "broken", "a fault of the filter");
    name != "quiet"
}

/// A running app.
pub struct TestApp {
    pub app: Running,
    pub auth: Arc<AuthService>,
    /// The milliseconds by which the clock of the app is ahead.
    ahead: Arc<AtomicI64>,
    _folder: tempfile::TempDir,
}

/// An account with a session.
pub struct User {
    pub id: String,
    pub token: String,
    pub http: Client,
}

impl TestApp {
    pub async fn start() -> Self {
        Self::with(|plugin| plugin, |auth| auth).await
    }

    /// Starts an app with changed plugins.
    pub async fn with(
        change: impl FnOnce(Realtime) -> Realtime,
        change_auth: impl FnOnce(Auth) -> Auth,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ahead = Arc::<AtomicI64>::default();
        let clock = {
            let ahead = Arc::clone(&ahead);
            move || {
                let now = Timestamp::system_now().millis();
                Timestamp::from_millis(now + ahead.load(Ordering::Relaxed))
            }
        };
        let declared = Declared::default()
            .sse(NOTIFICATIONS)
            .sse(BOARDS)
            .sse(NOTICES)
            .sse(MODERATION);
        let plugin = Realtime::new(declared).configure(|config| config.drain = Duration::ZERO);
        let config = Config::new()
            .port(0)
            .database(format!("sqlite:{}", folder.path().join("app.db").display()))
            .signing_secret("a signing secret for tests of at least 32 bytes");
        let auth = Auth::new()
            .roles(["member", "moderator"])
            .default_role("member");
        let app = App::new(config)
            .clock(clock)
            .plugin(change_auth(auth))
            .plugin(change(plugin))
            .package(&PACKAGE)
            .start()
            .await
            .unwrap();
        Self {
            auth: app.adapters().provided().unwrap(),
            app,
            ahead,
            _folder: folder,
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.app.address()
    }

    pub fn advance(&self, millis: i64) {
        self.ahead.fetch_add(millis, Ordering::Relaxed);
    }

    /// Creates an account.
    pub async fn user(&self, name: &str) -> User {
        let new = NewUser::new(format!("{name}@x.test"))
            .roles(["member"])
            .verified();
        let account = self.auth.create_user(new).await.unwrap();
        self.session(&account.id).await
    }

    /// Opens a further session of an account.
    pub async fn session(&self, id: &str) -> User {
        let token = self.auth.sign_in(id).await.unwrap().expose().to_owned();
        User {
            id: id.to_owned(),
            http: Client::new(&self.app).bearer(&token).unwrap(),
            token,
        }
    }

    /// Opens a stream of a user and reads its first block. Also returns the position.
    pub async fn open(&self, user: &User, path: &str) -> (Events, String) {
        self.open_with(user, path, &[]).await
    }

    pub async fn open_with(
        &self,
        user: &User,
        path: &str,
        headers: &[(&str, &str)],
    ) -> (Events, String) {
        let bearer = format!("Bearer {}", user.token);
        let mut all = vec![("authorization", bearer.as_str())];
        all.extend(headers);
        let mut events = Events::open(self.address(), path, &all).await;
        assert_eq!(events.status, 200, "{}", events.head);
        let first = events.block().await;
        let id = first
            .strip_prefix(": connected\nretry: 3000\nid: ")
            .unwrap();
        (events, id.trim_end().to_owned())
    }

    /// Creates a notification of a user. Returns the record.
    pub async fn notify(&self, user: &User, text: &str) -> Json {
        create(user, "/notifications", json!({ "text": text })).await
    }

    /// Creates a board of a user. Returns the record.
    pub async fn board(&self, owner: &User, name: &str, open: bool) -> Json {
        let board = json!({ "name": name, "open": open, "ownerId": owner.id });
        create(owner, "/boards", board).await
    }

    /// Returns the number of open connections of an endpoint.
    pub fn connections(&self, path: &str) -> u64 {
        let counts = self.app.adapters().provided::<Counts>().unwrap().read();
        counts[path].connections
    }
}

pub async fn create(user: &User, path: &str, body: Json) -> Json {
    let answer = user.http.post(path, body).await.unwrap();
    assert_eq!(answer.status(), 201, "{:?}", answer.text());
    answer.json().unwrap()
}
