//! The test app: containers with threads, and tasks of one user each.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use linchpin::prelude::*;
use linchpin::testing::{Answer, Client};
use linchpin::{App, Config, Cx, Running};
use linchpin_auth::{Auth, AuthService, NewUser};
use linchpin_realtime::channel::{Declared, Rooms};
use linchpin_realtime::connection::Limits;
use linchpin_realtime::{Counts, Realtime, channel, sse};
use serde_json::{Value as Json, json};

use crate::socket::Socket;

#[derive(Clone, Copy, Debug, PartialEq, Eq, FieldEnum)]
pub enum Visibility {
    Public,
    Private,
}

/// A container is visible to every user, or to its owner alone.
#[entity(visible(visibility == Visibility::Public || owner_id == ctx(actor.id)))]
#[derive(Clone, Debug)]
pub struct Container {
    #[field(primary, default = uuid)]
    pub id: String,
    pub name: String,
    pub visibility: Visibility,
    pub owner_id: Option<String>,
    #[field(private)]
    pub secret: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, FieldEnum)]
pub enum Status {
    Draft,
    Published,
}

/// A thread of a container. Its owner alone sees the draft.
#[entity(
    gate(container_id -> Container),
    index(container_id),
    visible(status == Status::Published || owner_id == ctx(actor.id))
)]
#[derive(Clone, Debug)]
pub struct Thread {
    #[field(primary, default = uuid)]
    pub id: String,
    pub container_id: String,
    pub owner_id: String,
    pub title: String,
    pub status: Status,
    #[field(default = false)]
    pub pinned: bool,
    #[field(private)]
    pub note: Option<String>,
}

#[operation(kind = "transition", field = status, from = Status::Draft, to = Status::Published)]
pub const PUBLISH: Operation<Thread>;

/// Pins a thread. Only moderators may call it.
#[operation(
    kind = "transition",
    field = pinned,
    from = false,
    to = true,
    route(roles = ["moderator"], idempotent)
)]
pub const PIN: Operation<Thread>;

/// Changes the status of all threads with a title.
#[operation(kind = "batch", action = "update", filter = (title == param(title)), set(status = param(status)))]
pub const SET_STATUS: Operation<Thread>;

/// Moves all threads with a title to another container.
#[operation(kind = "batch", action = "update", filter = (title == param(title)), set(container_id = param(to)))]
pub const MOVE_ALL: Operation<Thread>;

/// Pins all threads with a title; visibility does not depend on the field.
#[operation(kind = "batch", action = "update", filter = (title == param(title)), set(pinned = true))]
pub const PIN_ALL: Operation<Thread>;

/// Removes all threads with a title.
#[operation(kind = "batch", action = "delete", filter = (title == param(title)))]
pub const CLEAR: Operation<Thread>;

/// Opens or closes all containers with a name.
#[operation(kind = "batch", action = "update", filter = (name == param(name)), set(visibility = param(visibility)))]
pub const SET_VISIBILITY: Operation<Container>;

/// Sends a text to everyone in the room of a container.
async fn announce(adapters: &Adapters, cx: &Cx, id: &str, text: String) -> Result<()> {
    let rooms = adapters.provided::<Rooms>()?;
    let room = rooms.room::<ContainerLive>(id);
    room.publish(cx, ContainerLive::Announcement { text }).await
}

/// The events of one container.
#[channel(of = Container, name = "live", presence, history(size = 100, ttl = "10min"))]
pub enum ContainerLive {
    #[on(Container::updated, Container::deleted)]
    Container(Container),
    #[on(Thread::created, Thread::updated, by = container_id)]
    #[on(Thread::PUBLISH, by = container_id)]
    Thread(Thread),
    #[relay]
    Typing { thread_id: String },
    #[incoming(Thread::PIN, by = container_id)]
    Pin,
    #[publish]
    Announcement { text: String },
}

/// The changes of batch operations in one container.
#[channel(of = Container, name = "batches")]
pub enum ContainerBatches {
    #[on(Container::SET_VISIBILITY)]
    Container(Container),
    #[on(Thread::SET_STATUS, Thread::MOVE_ALL, Thread::PIN_ALL, Thread::CLEAR, by = container_id)]
    Thread(Thread),
}

/// A task of one user.
#[entity(scope(owner_id = ctx(actor.id)), index(owner_id))]
#[derive(Clone, Debug)]
pub struct Task {
    #[field(primary, default = uuid)]
    pub id: String,
    pub owner_id: String,
    pub title: String,
}

/// The caller's tasks.
#[channel(of = Task, name = "live", scope = collection)]
pub enum TaskLive {
    #[on(Task::created, Task::updated)]
    Task(Task),
}

sse! {
    /// The caller's tasks.
    pub const TASKS = "/__sse/tasks";
    Task: [created],
}

static BOARD: Package = package!(
    name = "board",
    entities = [
        entity(Container, [SET_VISIBILITY]),
        entity(Thread, [PUBLISH, PIN, SET_STATUS, MOVE_ALL, PIN_ALL, CLEAR]),
        entity(Task)
    ]
);

/// The channels of the app.
pub fn declared() -> Declared {
    Declared::default()
        .channel::<ContainerLive>()
        .channel::<ContainerBatches>()
        .channel::<TaskLive>()
        .sse(TASKS)
}

/// A running app.
pub struct TestApp {
    pub app: Running,
    pub auth: Arc<AuthService>,
    /// Milliseconds by which the clock of the app is ahead.
    ahead: Arc<AtomicI64>,
    /// The folder of the database, if it is a file.
    folder: Option<tempfile::TempDir>,
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

    /// An app with changed plugins.
    pub async fn with(
        change: impl FnOnce(Realtime) -> Realtime,
        change_auth: impl FnOnce(Auth) -> Auth,
    ) -> Self {
        Self::in_folder(tempfile::tempdir().unwrap(), change, change_auth).await
    }

    /// Stops the app, and starts it again on the same database.
    pub async fn restart(self) -> Self {
        self.app.stop().await.unwrap();
        Self::in_folder(self.folder.unwrap(), |plugin| plugin, |auth| auth).await
    }

    async fn in_folder(
        folder: tempfile::TempDir,
        change: impl FnOnce(Realtime) -> Realtime,
        change_auth: impl FnOnce(Auth) -> Auth,
    ) -> Self {
        let database = format!("sqlite:{}", folder.path().join("app.db").display());
        let mut test_app = Self::on(&database, change, change_auth).await;
        test_app.folder = Some(folder);
        test_app
    }

    /// A node of an app on this database.
    pub async fn on(
        database: &str,
        change: impl FnOnce(Realtime) -> Realtime,
        change_auth: impl FnOnce(Auth) -> Auth,
    ) -> Self {
        let ahead = Arc::<AtomicI64>::default();
        let clock = {
            let ahead = Arc::clone(&ahead);
            move || {
                let now = Timestamp::system_now().millis();
                Timestamp::from_millis(now + ahead.load(Ordering::Relaxed))
            }
        };
        let plugin = Realtime::new(declared());
        let plugin = plugin.configure(|config| config.drain = Duration::ZERO);
        let config = Config::new()
            .port(0)
            .database(database)
            .signing_secret("a signing secret for tests of at least 32 bytes");
        let auth = Auth::new()
            .roles(["member", "moderator"])
            .default_role("member");
        let app = App::new(config)
            .clock(clock)
            .plugin(change_auth(auth))
            .plugin(change(plugin))
            .package(&BOARD)
            .start()
            .await
            .unwrap();
        Self {
            auth: app.adapters().provided().unwrap(),
            app,
            ahead,
            folder: None,
        }
    }

    pub fn advance(&self, millis: i64) {
        self.ahead.fetch_add(millis, Ordering::Relaxed);
    }

    /// An app whose connections have these limits.
    pub async fn limited(change: impl FnOnce(&mut Limits)) -> Self {
        let plugin = |plugin: Realtime| plugin.configure(|config| change(&mut config.limits));
        Self::with(plugin, |auth| auth).await
    }

    /// Publishes an announcement at once, from code.
    pub async fn announce(&self, container: &str, text: &str) {
        let cx = Cx::system("a test");
        announce(self.app.adapters(), &cx, container, text.to_owned())
            .await
            .unwrap();
    }

    /// The number of open connections.
    pub fn connections(&self) -> u64 {
        let counts = self.app.adapters().provided::<Counts>().unwrap().read();
        counts["/__ws"].connections
    }

    /// Waits until this number of connections is open.
    pub async fn wait_for_connections(&self, count: u64) {
        while self.connections() != count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub fn rooms(&self) -> Arc<Rooms> {
        self.app.adapters().provided().unwrap()
    }

    /// A new account.
    pub async fn user(&self, name: &str) -> User {
        self.user_with(name, &["member"]).await
    }

    pub async fn user_with(&self, name: &str, roles: &[&str]) -> User {
        let new = NewUser::new(format!("{name}@x.test"))
            .roles(roles.iter().copied())
            .verified();
        let account = self.auth.create_user(new).await.unwrap();
        self.session(&account.id).await
    }

    /// A further session of an account.
    pub async fn session(&self, id: &str) -> User {
        let token = self.auth.sign_in(id).await.unwrap().expose().to_owned();
        self.user_with_token(id, token)
    }

    /// Returns a user with a client of this node. The token may be from another node.
    pub fn user_with_token(&self, id: &str, token: String) -> User {
        User {
            id: id.to_owned(),
            http: Client::new(&self.app).bearer(&token).unwrap(),
            token,
        }
    }

    /// Opens a connection of a user, and reads the first frame.
    pub async fn connect(&self, user: &User) -> Socket {
        let bearer = format!("Bearer {}", user.token);
        let mut socket = Socket::open(self.app.address(), &[("authorization", &bearer)]).await;
        let connected = socket.next().await;
        assert_eq!(connected["event"], "connected");
        assert_eq!(connected["userId"], json!(user.id));
        socket
    }

    /// A connection that has joined a room.
    pub async fn member(&self, user: &User, room: &str) -> Socket {
        let mut socket = self.connect(user).await;
        socket.join(room).await;
        socket
    }

    /// A container of a user; returns its id.
    pub async fn container(&self, owner: &User, visibility: &str) -> String {
        let body = json!({
            "name": "one", "visibility": visibility, "ownerId": owner.id,
        });
        created(owner.http.post("/containers", body).await.unwrap())
    }

    /// A draft; returns its id.
    pub async fn draft(&self, owner: &User, container: &str) -> String {
        let body = json!({
            "containerId": container, "ownerId": owner.id, "title": "first", "status": "draft",
        });
        created(owner.http.post("/threads", body).await.unwrap())
    }

    pub async fn publish(&self, owner: &User, thread: &str) {
        let path = format!("/threads/{thread}/publish");
        let done = owner.http.post(&path, ()).await.unwrap();
        assert_eq!(done.status(), 200, "{:?}", done.text());
    }
}

/// The id of a created record.
pub fn created(answer: Answer) -> String {
    assert_eq!(answer.status(), 201, "{:?}", answer.text());
    let record: Json = answer.json().unwrap();
    record["id"].as_str().unwrap().to_owned()
}

/// The room of a container.
pub fn room(container: &str) -> String {
    format!("containers:{container}:live")
}

impl TestApp {
    /// The connections that the server has closed, by code.
    pub fn closes(&self) -> Vec<(u16, u64)> {
        let counts = self.app.adapters().provided::<Counts>().unwrap().read();
        let closes = counts["/__ws"].closes.iter();
        closes
            .map(|(close, count)| (close.code(), *count))
            .collect()
    }
}
