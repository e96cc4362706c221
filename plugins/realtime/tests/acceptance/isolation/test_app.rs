//! The app of the test: two teams with spaces and pages, memos that only their owner may read, and
//! public notices.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use linchpin::prelude::*;
use linchpin::testing::Client;
use linchpin::{App, BoxFuture, Config, Running};
use linchpin_auth::{Auth, AuthService, NewUser, TenantCx, TenantResolver};
use linchpin_realtime::channel::Declared;
use linchpin_realtime::{Endpoint, Realtime, channel, sse};
use parking_lot::Mutex;
use serde_json::{Value as Json, json};

/// The WebSocket endpoints: one for users, and one that also accepts anonymous callers.
pub const ENDPOINTS: [&str; 2] = ["/__ws", "/__open"];

#[derive(Clone, Copy, Debug, PartialEq, Eq, FieldEnum)]
pub enum Access {
    Open,
    Closed,
}

/// A space of a team. The team may read an open space. Only the owner may read a closed one.
#[entity(
    tenant(team_id),
    index(team_id),
    visible(access == Access::Open || owner_id == ctx(actor.id))
)]
#[derive(Clone, Debug)]
pub struct Space {
    #[field(primary, default = uuid)]
    pub id: String,
    pub team_id: String,
    pub owner_id: String,
    pub title: String,
    pub access: Access,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, FieldEnum)]
pub enum Status {
    Draft,
    Published,
}

/// A page of a space. Only the owner may read a draft.
#[entity(
    tenant(team_id),
    gate(space_id -> Space),
    index(team_id, space_id),
    visible(status == Status::Published || owner_id == ctx(actor.id))
)]
#[derive(Clone, Debug)]
pub struct Page {
    #[field(primary, default = uuid)]
    pub id: String,
    pub team_id: String,
    pub space_id: String,
    pub owner_id: String,
    pub title: String,
    pub status: Status,
}

/// A memo. Only its owner may read it.
#[entity(scope(owner_id = ctx(actor.id)), index(owner_id))]
#[derive(Clone, Debug)]
pub struct Memo {
    #[field(primary, default = uuid)]
    pub id: String,
    pub owner_id: String,
    pub title: String,
}

/// A public notice.
#[entity(routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Notice {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
}

/// The changes of one space and its pages.
#[channel(of = Space, name = "live", presence)]
pub enum SpaceLive {
    #[on(Space::updated)]
    Space(Space),
    #[on(Page::created, Page::updated, by = space_id)]
    Page(Page),
}

/// The spaces of a team.
#[channel(of = Space, name = "all", scope = collection)]
pub enum SpaceAll {
    #[on(Space::created, Space::updated)]
    Space(Space),
}

/// The changes of one memo.
#[channel(of = Memo, name = "live")]
pub enum MemoLive {
    #[on(Memo::updated)]
    Memo(Memo),
}

/// The memos of a user.
#[channel(of = Memo, name = "all", scope = collection)]
pub enum MemoAll {
    #[on(Memo::created, Memo::updated)]
    Memo(Memo),
}

/// Public notices.
#[channel(of = Notice, name = "all", scope = collection, endpoint = "/__open")]
pub enum NoticeAll {
    #[on(Notice::created, Notice::updated)]
    Notice(Notice),
}

sse! {
    /// The spaces of a team.
    pub const SPACES = "/__sse/spaces";
    Space: [created, updated],
}

sse! {
    /// The memos of a user.
    pub const MEMOS = "/__sse/memos";
    Memo: [created, updated],
}

sse! {
    /// Public notices.
    pub const NOTICES = "/__sse/notices";
    Notice: [created, updated],
    auth = none,
}

static WIKI: Package = package!(
    name = "wiki",
    entities = [entity(Space), entity(Page), entity(Memo), entity(Notice)]
);

/// Returns the channels and endpoints of the app. The test covers all of them.
pub fn declared() -> Declared {
    Declared::default()
        .channel::<SpaceLive>()
        .channel::<SpaceAll>()
        .channel::<MemoLive>()
        .channel::<MemoAll>()
        .channel::<NoticeAll>()
        .sse(SPACES)
        .sse(MEMOS)
        .sse(NOTICES)
}

/// The team of each user, which is its tenant.
#[derive(Default)]
struct Teams(Mutex<HashMap<String, String>>);

impl TenantResolver for Teams {
    fn tenant<'a>(&'a self, cx: &'a TenantCx) -> BoxFuture<'a, Result<Option<String>>> {
        Box::pin(async move { Ok(self.0.lock().get(&cx.user_id).cloned()) })
    }
}

/// A running app.
pub struct TestApp {
    pub app: Running,
    pub auth: Arc<AuthService>,
    teams: Arc<Teams>,
    _folder: tempfile::TempDir,
}

/// A caller of the app.
pub struct Caller {
    pub name: &'static str,
    pub id: Option<String>,
    pub token: Option<String>,
    pub http: Client,
}

impl TestApp {
    pub async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let teams = Arc::<Teams>::default();
        let config = Config::new()
            .port(0)
            .database(format!("sqlite:{}", folder.path().join("app.db").display()))
            .signing_secret("a signing secret for tests of at least 32 bytes");
        let realtime = Realtime::new(declared())
            .endpoint(Endpoint::new(ENDPOINTS[1]).anonymous())
            .configure(|config| {
                config.drain = Duration::ZERO;
                config.limits.handshakes_per_minute = 1_000;
                config.limits.frames_burst = 1_000;
            });
        let resolver = Arc::clone(&teams);
        let auth = Auth::new()
            .roles(["member"])
            .default_role("member")
            .configure(|config| config.auth.tenants = Some(resolver));
        let app = App::new(config)
            .plugin(auth)
            .plugin(realtime)
            .package(&WIKI)
            .start()
            .await
            .unwrap();
        Self {
            auth: app.adapters().provided().unwrap(),
            app,
            teams,
            _folder: folder,
        }
    }

    /// Creates a user of a team, with a session.
    pub async fn user(&self, name: &'static str, team: &str) -> Caller {
        let new = NewUser::new(format!("{name}@x.test"))
            .roles(["member"])
            .verified();
        let account = self.auth.create_user(new).await.unwrap();
        let id = account.id.clone();
        self.teams.0.lock().insert(id.clone(), team.to_owned());
        let token = self.auth.sign_in(&id).await.unwrap().expose().to_owned();
        Caller {
            name,
            id: Some(id),
            http: Client::new(&self.app).bearer(&token).unwrap(),
            token: Some(token),
        }
    }

    /// Returns a caller without a credential.
    pub fn anonymous(&self) -> Caller {
        Caller {
            name: "anonymous",
            id: None,
            token: None,
            http: Client::new(&self.app),
        }
    }
}

impl Caller {
    /// Creates a record. Returns its id.
    pub async fn create(&self, entity: &str, body: Json) -> String {
        let answer = self.http.post(&format!("/{entity}"), body).await.unwrap();
        assert_eq!(answer.status(), 201, "{:?}", answer.text());
        let record: Json = answer.json().unwrap();
        record["id"].as_str().unwrap().to_owned()
    }

    /// Changes the title of a record.
    pub async fn retitle(&self, entity: &str, id: &str, title: &str) {
        let path = format!("/{entity}/{id}");
        let done = self.http.patch(&path, json!({ "title": title })).await;
        let done = done.unwrap();
        assert_eq!(done.status(), 200, "{path}: {:?}", done.text());
    }

    /// Returns the status of a read.
    pub async fn read_status(&self, path: &str) -> u16 {
        self.http.get(path).await.unwrap().status()
    }

    /// Returns the request header with the caller's credential.
    pub fn bearer(&self) -> Option<String> {
        self.token.as_ref().map(|token| format!("Bearer {token}"))
    }
}
