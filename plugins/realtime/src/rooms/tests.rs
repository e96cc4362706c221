//! Rooms of an app with its own policies, over the memory engine.

mod calls;
mod presence;
mod sight;
mod spellings;
mod users;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use linchpin::axum::http::HeaderMap;
use linchpin::axum::http::request::Parts;
use linchpin::http::{
    ActorResolver, Credential, CredentialChanges, CredentialFeed, CredentialPlace, CredentialUse,
    Credentials, Origin, PolicyDesc, RateLimit, Resolution, RouteAuth,
};
use linchpin::prelude::*;
use linchpin::{
    Actor, ActorKind, Adapters, App, Attached, BoxFuture, Config, Cx, Entity, MiddlewareCx, Plugin,
    PostCx, Running,
};
use parking_lot::Mutex;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::*;
use crate::channel::{
    Change, Channel, ChannelDesc, Encoded, Incoming, Mark, On, Payload, Publication, Publisher,
    VariantDesc,
};
use crate::connection::{Class, Kind, Meter};
use crate::engine::{Append, EventId, History, MemoryEngine, Stream};
use crate::protocol::ClientFrame;

/// Open to everyone who is signed in, or visible to its owner only.
#[entity(visible(open || owner_id == ctx(actor.id)))]
#[derive(Clone, Debug)]
pub struct Board {
    #[field(primary)]
    pub id: String,
    pub open: bool,
    pub owner_id: Option<String>,
}

/// A card of a board; drafts are for their authors.
#[entity(
    gate(board_id -> Board),
    index(board_id),
    visible(published || author_id == ctx(actor.id))
)]
#[derive(Clone, Debug)]
pub struct Card {
    #[field(primary)]
    pub id: String,
    pub board_id: String,
    pub author_id: String,
    pub published: bool,
}

/// Publishes a card.
#[operation(kind = "transition", field = published, from = false, to = true)]
pub const PUBLISH: Operation<Card>;

/// A task of one user.
#[entity(scope(owner_id = ctx(actor.id)), index(owner_id))]
#[derive(Clone, Debug)]
pub struct Chore {
    #[field(primary)]
    pub id: String,
    pub owner_id: String,
}

/// A notice that everybody reads.
#[entity(routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Notice {
    #[field(primary)]
    pub id: String,
    pub text: String,
}

static BOARDS: Package = package!(
    name = "boards",
    entities = [
        entity(Board),
        entity(Card, [PUBLISH]),
        entity(Chore),
        entity(Notice),
        entity(spellings::Lane),
        entity(spellings::Ticket)
    ]
);

pub(crate) struct BoardLive;
struct ChoreLive;

static BOARD_VARIANTS: [VariantDesc; 4] = [
    VariantDesc::new(
        "Board",
        Mark::On(&[On::new(Board::DESC, &[Change::Updated, Change::Deleted])]),
    )
    .payload(Payload::Record),
    VariantDesc::new(
        "Card",
        Mark::On(&[On::new(Card::DESC, &[Change::Created, Change::Updated]).by(1)]),
    )
    .payload(Payload::Record),
    VariantDesc::new(
        "Typing",
        Mark::Relay {
            rate: None,
            echo: false,
        },
    )
    .name("typing"),
    VariantDesc::new(
        "Publish",
        Mark::Operation(Incoming::new(Card::DESC, PUBLISH.spec()).by(1)),
    )
    .name("publish"),
];
static CHORE_VARIANTS: [VariantDesc; 1] = [VariantDesc::new(
    "Chore",
    Mark::On(&[On::new(Chore::DESC, &[Change::Created])]),
)
.payload(Payload::Record)];
static BOARD_LIVE: ChannelDesc = ChannelDesc::new("BoardLive", "live", Board::DESC)
    .presence()
    .history(5, 600_000)
    .variants(&BOARD_VARIANTS);
static CHORE_LIVE: ChannelDesc = ChannelDesc::new("ChoreLive", "live", Chore::DESC)
    .collection()
    .policy(PolicyDesc::INHERIT.rate_limit(RateLimit::new(3, 60_000)))
    .variants(&CHORE_VARIANTS);

impl Channel for BoardLive {
    type Of = Board;
    const DESC: &'static ChannelDesc = &BOARD_LIVE;
    fn encode(&self) -> Result<Encoded> {
        Err(Error::internal("nothing is published"))
    }
}

impl Channel for ChoreLive {
    type Of = Chore;
    const DESC: &'static ChannelDesc = &CHORE_LIVE;
    fn encode(&self) -> Result<Encoded> {
        Err(Error::internal("nothing is published"))
    }
}

struct NoCode;

impl Publisher for NoCode {
    fn publish<'a>(&'a self, _: &'a Cx, _: Publication) -> BoxFuture<'a, Result<()>> {
        Box::pin(async { Err(Error::internal("nothing is published")) })
    }
}

/// Users by the name in `x-user`. Users in `ended` have no session any more.
#[derive(Clone, Default)]
pub(super) struct Sessions {
    pub(super) ended: Arc<Mutex<Vec<String>>>,
    /// Users the checks of whose sessions have no end.
    pub(super) stuck: Arc<Mutex<Vec<&'static str>>>,
    /// A user whose sessions are of another one now.
    pub(super) acting: Arc<Mutex<Option<(&'static str, &'static str)>>>,
    /// The next answer is given as late as this is notified.
    pub(super) late: Arc<Mutex<Option<Arc<Notify>>>>,
    /// The checks of sessions that have begun.
    checks: Arc<AtomicUsize>,
    pub(super) feed: CredentialFeed,
    found: Arc<OnceLock<(RouteCaller, Adapters)>>,
}

impl Sessions {
    /// The number of checks of sessions so far.
    pub(super) fn checks(&self) -> usize {
        self.checks.load(Ordering::Relaxed)
    }
}

pub(super) fn credential(user: &str) -> Credential {
    Credential {
        actor: Arc::new(Actor::user(user)),
        expires_at: None,
        attached: Attached::default(),
    }
}

impl ActorResolver for Sessions {
    fn resolve(&self, parts: &Parts, _: Origin<'_>) -> Resolution {
        let user = parts.headers.get("x-user").and_then(|v| v.to_str().ok());
        Resolution::Ready(Ok(Arc::new(
            user.map_or_else(Actor::anonymous, Actor::user),
        )))
    }
}

impl Credentials for Sessions {
    fn presented(&self, headers: &HeaderMap) -> Option<CredentialPlace> {
        headers.get("x-user").map(|_| CredentialPlace::Header)
    }

    fn of_headers<'a>(
        &'a self,
        headers: &'a HeaderMap,
    ) -> BoxFuture<'a, Result<Option<Credential>>> {
        let user = headers.get("x-user").and_then(|v| v.to_str().ok());
        let found = user.map(credential);
        Box::pin(async move { Ok(found) })
    }

    fn of_token<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Option<Credential>>> {
        Box::pin(async move { Ok(Some(credential(token))) })
    }

    fn again<'a>(
        &'a self,
        earlier: &'a Credential,
        _: CredentialUse,
    ) -> BoxFuture<'a, Result<Option<Credential>>> {
        self.checks.fetch_add(1, Ordering::Relaxed);
        let user = earlier.actor.id.clone().unwrap_or_default();
        let stands = !self.ended.lock().contains(&user);
        let stuck = self.stuck.lock().contains(&user.as_str());
        let acting = *self.acting.lock();
        let late = self.late.lock().take();
        Box::pin(async move {
            if let Some(late) = late {
                late.notified().await;
            }
            if stuck {
                std::future::pending::<()>().await;
            }
            Ok(stands.then(|| match acting {
                Some((who, other)) if who == user => credential(other),
                _ => earlier.clone(),
            }))
        })
    }

    fn changes(&self) -> CredentialChanges {
        self.feed.subscribe()
    }
}

impl Plugin for Sessions {
    fn name(&self) -> &'static str {
        "sessions"
    }

    fn setup_middleware<'a>(&'a self, cx: &'a mut MiddlewareCx) -> BoxFuture<'a, Result<()>> {
        Box::pin(async {
            cx.set_credentials(Arc::new(self.clone()))?;
            cx.set_actor_resolver(Arc::new(self.clone()))
        })
    }

    fn setup_post<'a>(&'a self, cx: &'a mut PostCx) -> BoxFuture<'a, Result<()>> {
        let found = (cx.route_caller().clone(), cx.adapters().clone());
        let _ = self.found.set(found);
        Box::pin(async { cx.registrar().set_route_auth(RouteAuth::default()) })
    }
}

pub(crate) struct Node {
    pub(crate) app: Running,
    pub(super) sessions: Sessions,
    pub(crate) engine: Arc<MemoryEngine>,
    pub(super) hub: Arc<RoomHub>,
    meter: Arc<Meter>,
    pub(super) events: Mutex<u32>,
}

pub(crate) async fn node() -> Node {
    node_at(Arc::new(Timestamp::system_now)).await
}

/// A node whose engine has this clock.
async fn node_at(clock: Arc<dyn Fn() -> Timestamp + Send + Sync>) -> Node {
    let sessions = Sessions::default();
    let config = Config::new()
        .port(0)
        .database("memory:")
        .signing_secret("a signing secret for tests of at least 32 bytes");
    let app = App::new(config)
        .package(&BOARDS)
        .plugin(sessions.clone())
        .start()
        .await
        .unwrap();
    let (caller, adapters) = sessions.found.get().cloned().unwrap();
    let engine = Arc::new(MemoryEngine::new(Arc::clone(&clock)));
    engine.start().await.unwrap();
    let settings = HubSettings {
        engine: Arc::clone(&engine) as Arc<dyn Engine>,
        declared: super::event_tests::endpoints(
            Declared::default()
                .channel::<BoardLive>()
                .channel::<ChoreLive>()
                .channel::<spellings::LaneLive>()
                .channel::<spellings::TicketLive>(),
        ),
        caller,
        credentials: Some(Arc::new(sessions.clone())),
        limits: Arc::new(Limits {
            rooms: 3,
            connections_per_user: 2,
            ..Limits::default()
        }),
        clock,
        recheck: Duration::from_mins(1),
        rooms: Rooms::new(Arc::new(NoCode)),
        rates: Arc::new(linchpin::http::RatesInProcess::default()),
    };
    let hub = RoomHub::new(settings, &adapters).unwrap();
    for (id, open, owner) in [("b1", true, None), ("b2", false, Some("alice"))] {
        add_board(&app, id, open, owner).await;
    }
    Node {
        app,
        sessions,
        engine,
        hub,
        meter: Arc::default(),
        events: Mutex::new(0),
    }
}

async fn add_board(app: &Running, id: &str, open: bool, owner: Option<&str>) {
    let board = BoardCreate {
        id: id.to_owned(),
        open,
        owner_id: owner.map(str::to_owned),
    };
    let boards = app.adapter::<Board>().unwrap();
    boards.create(&Cx::system("a test"), board).await.unwrap();
}

/// A connection whose first frame was taken.
pub(super) fn connect(node: &Node, id: &str, user: &str) -> Arc<Connection> {
    connect_as(node, id, Actor::user(user))
}

fn connect_as(node: &Node, id: &str, actor: Actor) -> Arc<Connection> {
    let limits = Arc::clone(&node.hub.settings.limits);
    let credential = Credential {
        actor: Arc::new(actor),
        expires_at: None,
        attached: Attached::default(),
    };
    let connection =
        Connection::socket(id, Some(credential), false, limits, Arc::clone(&node.meter));
    assert_eq!(connection.kind(), Kind::Socket);
    node.hub.arrive(Arrival {
        connection: Arc::clone(&connection),
        endpoint: "/__ws".to_owned(),
        address: None,
        headers: HeaderMap::new(),
        place: None,
    });
    assert!(next_event(&connection).starts_with("connected"));
    connection
}

/// The next frame as JSON.
fn frame(connection: &Connection) -> Option<Value> {
    let frame = connection.pop()?;
    Some(serde_json::from_str(frame.as_str()).unwrap())
}

/// The event of the next frame with some members; empty if there is none.
pub(super) fn next_event(connection: &Connection) -> String {
    let Some(value) = frame(connection) else {
        return String::new();
    };
    let mut shown = value["event"].as_str().unwrap_or_default().to_owned();
    for key in ["code", "from", "offset", "reason", "userId"] {
        match &value[key] {
            Value::Null => {}
            Value::String(text) => shown.push_str(&format!(" {text}")),
            other => shown.push_str(&format!(" {other}")),
        }
    }
    shown
}

/// The next event within a moment.
pub(super) async fn event_soon(connection: &Connection) -> String {
    for _ in 0..200 {
        let event = next_event(connection);
        if !event.is_empty() {
            return event;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    String::new()
}

impl Node {
    pub(super) async fn join(&self, connection: &Arc<Connection>, room: &str) -> String {
        self.join_from(connection, room, None).await
    }

    async fn join_from(
        &self,
        connection: &Arc<Connection>,
        room: &str,
        since: Option<Position>,
    ) -> String {
        match self
            .hub
            .subscribe(connection, room, since.as_ref(), None)
            .await
        {
            Ok(joined) => format!("{joined:?}"),
            Err(error) => error.code().as_str().to_owned(),
        }
    }

    /// Appends an event about a card or a board to the stream of a room.
    async fn happens(&self, room: &str, event: &str, state: Value, before: Option<Value>) -> u64 {
        let number = {
            let mut events = self.events.lock();
            *events += 1;
            *events
        };
        let entity = if state.get("boardId").is_some() {
            Card::DESC
        } else {
            Board::DESC
        };
        let object = |value: Value| value.as_object().cloned().unwrap();
        let stored = StoredFrame {
            event: event.to_owned(),
            aliases: Vec::new(),
            payload: RawValue::from_string(state.to_string()).unwrap(),
            truncated: false,
            id: format!("e{number}"),
            at: "2026-01-02T03:04:05.000Z".to_owned(),
            about: Some(About {
                entity: entity.storage_name.to_owned(),
                record: state["id"].as_str().unwrap().to_owned(),
                state: object(state),
                before: before.map(object),
                deleted: event == "deleted",
                left: false,
                quiet: event == "quiet",
            }),
        };
        let history = History {
            size: 5,
            ttl: Duration::from_mins(10),
        };
        let append = Append {
            stream: Stream::new(room, history),
            event: EventId::new(&format!("e{number}")).unwrap(),
            frame: stored.encode().unwrap(),
            fence: None,
        };
        self.engine.append(&[append]).await.unwrap()[0].offset
    }

    pub(super) async fn card(&self, id: &str, author: &str, published: bool) -> u64 {
        let state =
            json!({ "id": id, "boardId": "b1", "authorId": author, "published": published });
        self.happens("boards:b1:live", "created", state, None).await
    }
}

#[tokio::test]
async fn a_hidden_room_and_a_missing_one_are_refused_alike() {
    let node = node().await;
    let (alice, bob) = (connect(&node, "1", "alice"), connect(&node, "2", "bob"));
    assert_eq!(node.join(&alice, "boards:b2:live").await, "Fresh");
    assert!(next_event(&alice).starts_with("subscribed"));
    for room in ["boards:b2:live", "boards:none:live"] {
        assert_eq!(node.join(&bob, room).await, "not_found");
    }
    for room in [
        "x",
        "a:b",
        "boards:live",
        "boards:b1:other",
        "boards:%61:live",
    ] {
        assert_eq!(node.join(&bob, room).await, "invalid_room");
    }
    // A refused join keeps nothing alive.
    assert_eq!(node.hub.live_rooms().len(), 1);
    node.app.stop().await.unwrap();
}

#[tokio::test]
async fn an_event_reaches_only_who_may_read_its_record() {
    let node = node().await;
    let (alice, bob) = (connect(&node, "1", "alice"), connect(&node, "2", "bob"));
    for connection in [&alice, &bob] {
        assert_eq!(node.join(connection, "boards:b1:live").await, "Fresh");
    }
    assert_eq!(next_event(&alice), "subscribed 0");
    assert_eq!(event_soon(&alice).await, "presence_join bob");
    assert_eq!(next_event(&bob), "subscribed 0");
    let draft = node.card("c1", "alice", false).await;
    let open = node.card("c2", "alice", true).await;
    assert_eq!(event_soon(&alice).await, format!("created {draft}"));
    assert_eq!(event_soon(&alice).await, format!("created {open}"));
    assert_eq!(event_soon(&bob).await, format!("created {open}"));
    assert_eq!(next_event(&bob), "");
    // A card that leaves the sight of others.
    let state = json!({ "id": "c2", "boardId": "b1", "authorId": "alice", "published": false });
    let before = json!({ "id": "c2", "boardId": "b1", "authorId": "alice", "published": true });
    let offset = node
        .happens("boards:b1:live", "updated", state, Some(before))
        .await;
    assert_eq!(event_soon(&alice).await, format!("updated {offset}"));
    let hidden = loop {
        match frame(&bob) {
            Some(hidden) => break hidden,
            None => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    };
    assert_eq!(
        hidden,
        json!({
            "event": "hidden", "room": "boards:b1:live", "offset": offset,
            "payload": { "entity": Card::DESC.storage_name, "id": "c2" },
        })
    );
    node.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_room_whose_record_leaves_sight_or_is_deleted_ends() {
    let node = node().await;
    let (alice, bob) = (connect(&node, "1", "alice"), connect(&node, "2", "bob"));
    for connection in [&alice, &bob] {
        node.join(connection, "boards:b1:live").await;
    }
    assert_eq!(next_event(&alice), "subscribed 0");
    assert_eq!(event_soon(&alice).await, "presence_join bob");
    assert_eq!(next_event(&bob), "subscribed 0");
    let board = |open| json!({ "id": "b1", "open": open, "ownerId": "alice" });
    node.happens("boards:b1:live", "updated", board(false), Some(board(true)))
        .await;
    assert_eq!(event_soon(&bob).await, "unsubscribed not_found");
    assert_eq!(event_soon(&alice).await, "updated 1");
    node.happens("boards:b1:live", "deleted", board(false), None)
        .await;
    assert_eq!(event_soon(&alice).await, "deleted 2");
    assert_eq!(event_soon(&alice).await, "unsubscribed not_found");
    assert!(node.hub.live_rooms().is_empty());
    assert_eq!(
        (next_event(&alice), next_event(&bob)),
        (String::new(), String::new())
    );
    node.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_client_continues_where_it_was_or_starts_at_the_top() {
    let node = node().await;
    let alice = connect(&node, "1", "alice");
    let room = "boards:b1:live";
    for i in 0..4 {
        node.card(
            &format!("c{i}"),
            if i == 2 { "bob" } else { "alice" },
            false,
        )
        .await;
    }
    let stream = Stream::new(room, History::default());
    let top = node.engine.top(&stream).await.unwrap();
    let at = |offset| Position::new(top.epoch.as_str(), offset);
    assert_eq!(
        node.join_from(&alice, room, Some(at(1))).await,
        "Recovered(2)"
    );
    assert_eq!(next_event(&alice), "subscribed 1");
    assert_eq!(
        (next_event(&alice), next_event(&alice)),
        ("created 2".into(), "created 4".into())
    );
    node.card("c5", "alice", false).await;
    assert_eq!(event_soon(&alice).await, "created 5");
    node.hub.unsubscribe(&alice, room).await;
    node.card("c6", "alice", false).await;
    node.card("c7", "alice", false).await;
    for (since, reason) in [
        (Position::new("another epoch...", 6), "EpochChanged"),
        (at(1), "HistoryUnavailable"),
        (at(99), "OffsetAhead"),
    ] {
        assert_eq!(
            node.join_from(&alice, room, Some(since)).await,
            format!("Reset({reason})")
        );
        assert!(next_event(&alice).starts_with("subscribed 7 "));
        node.hub.unsubscribe(&alice, room).await;
    }
    assert_eq!(next_event(&alice), "");
    // What was published and withdrawn is not disclosed afterwards.
    let bob = connect(&node, "2", "bob");
    let card = |published| json!({ "id": "c8", "boardId": "b1", "authorId": "alice", "published": published });
    node.happens(room, "updated", card(true), Some(card(false)))
        .await;
    node.happens(room, "updated", card(false), Some(card(true)))
        .await;
    assert_eq!(
        node.join_from(&bob, room, Some(at(7))).await,
        "Recovered(1)"
    );
    assert_eq!(next_event(&bob), "subscribed 7");
    assert_eq!(next_event(&bob), "hidden 9");
    node.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_collection_has_one_stream_for_each_partition() {
    let node = node().await;
    let (alice, bob) = (connect(&node, "1", "alice"), connect(&node, "2", "bob"));
    for connection in [&alice, &bob] {
        assert_eq!(node.join(connection, "chores:live").await, "Fresh");
        assert_eq!(next_event(connection), "subscribed 0");
    }
    let names: Vec<String> = node
        .hub
        .live_rooms()
        .iter()
        .map(|live| live.stream.name().to_owned())
        .collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names.contains(&stream_name("chores:live", &[Some("alice".to_owned())])));
    node.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_relayed_frame_reaches_the_other_members() {
    let node = node().await;
    // The limit of relayed frames refills with the time.
    tokio::time::pause();
    let (alice, bob) = (connect(&node, "1", "alice"), connect(&node, "2", "bob"));
    let room = "boards:b1:live";
    let call = |event: &str, payload: &str| {
        let text = format!(
            r#"{{"action":"event","event":"{event}","room":"{room}","payload":{payload},"ackId":1}}"#
        );
        match ClientFrame::parse(&text) {
            Ok(ClientFrame::Event(call)) => call,
            other => panic!("{other:?}"),
        }
    };
    let failed = node.hub.event(&alice, &call("typing", "null")).await;
    assert_eq!(failed.unwrap_err().code().as_str(), "not_subscribed");
    for connection in [&alice, &bob] {
        node.join(connection, room).await;
    }
    assert_eq!(next_event(&alice), "subscribed 0");
    assert_eq!(event_soon(&alice).await, "presence_join bob");
    assert_eq!(next_event(&bob), "subscribed 0");
    let done = node
        .hub
        .event(&alice, &call("typing", "null"))
        .await
        .unwrap();
    assert_eq!(done.result, "null");
    assert_eq!(event_soon(&bob).await, "typing alice");
    assert_eq!(next_event(&alice), "");
    for _ in 0..9 {
        node.hub
            .event(&alice, &call("typing", "null"))
            .await
            .unwrap();
    }
    let failed = node.hub.event(&alice, &call("typing", "null")).await;
    assert_eq!(failed.unwrap_err().code().as_str(), "rate_limited");
    let failed = node.hub.event(&alice, &call("unknown", "null")).await;
    assert_eq!(failed.unwrap_err().code().as_str(), "unknown_event");
    // An operation on a record of another room, or of none.
    let failed = node
        .hub
        .event(&alice, &call("publish", r#"{"id":"c1"}"#))
        .await;
    assert_eq!(failed.unwrap_err().code().as_str(), "not_found");
    let failed = node.hub.event(&alice, &call("publish", "{}")).await;
    assert_eq!(failed.unwrap_err().code().as_str(), "validation_failed");
    node.app.stop().await.unwrap();
}

#[tokio::test]
async fn presence_follows_users_and_not_their_connections() {
    let node = node().await;
    let bob = connect(&node, "0", "bob");
    let room = "boards:b1:live";
    node.join(&bob, room).await;
    let present = frame(&bob).unwrap()["presence"].clone();
    assert_eq!(present["count"], 1);
    let (one, two) = (connect(&node, "1", "alice"), connect(&node, "2", "alice"));
    node.join(&one, room).await;
    assert_eq!(frame(&one).unwrap()["presence"]["count"], 2);
    node.join(&two, room).await;
    assert_eq!(event_soon(&bob).await, "presence_join alice");
    let present = node.hub.presence(&bob, room, None).await.unwrap();
    assert!(present.as_str().contains(r#""count":2,"truncated":false"#));
    tokio::time::pause();
    node.hub.ended(&one);
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(next_event(&bob), "", "alice has another connection");
    // Away and back within the grace.
    node.hub.unsubscribe(&two, room).await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    node.join(&two, room).await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(next_event(&bob), "");
    node.hub.ended(&two);
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(next_event(&bob), "");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(next_event(&bob), "presence_leave alice");
}

#[tokio::test]
async fn limits_of_rooms_and_of_connections_hold() {
    let node = node().await;
    let alice = connect(&node, "1", "alice");
    for room in ["boards:b1:live", "boards:b2:live", "chores:live"] {
        assert_eq!(node.join(&alice, room).await, "Fresh");
    }
    add_board(&node.app, "b3", true, None).await;
    assert_eq!(node.join(&alice, "boards:b3:live").await, "too_many_rooms");
    let again = node.join(&alice, "boards:b1:live").await;
    assert_eq!(again, "Fresh");
    let _second = connect(&node, "2", "alice");
    assert_eq!(alice.closing(), None);
    let _third = connect(&node, "3", "alice");
    assert_eq!(alice.closing(), Some(Close::Replaced));
    node.hub.ended(&alice);
    assert!(node.hub.live_rooms().is_empty());
    assert_eq!(node.hub.connections(), 2);
    node.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_session_that_ends_ends_its_connections_at_once() {
    let node = node().await;
    let (alice, bob) = (connect(&node, "1", "alice"), connect(&node, "2", "bob"));
    let watch = tokio::spawn(Arc::clone(&node.hub).watch());
    node.join(&alice, "boards:b1:live").await;
    // The task listens once it has run.
    tokio::task::yield_now().await;
    node.sessions.ended.lock().push("alice".to_owned());
    for _ in 0..200 {
        node.sessions.feed.user_changed("alice");
        if alice.is_closing() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(alice.closing(), Some(Close::SessionEnded));
    assert_eq!(bob.closing(), None);
    watch.abort();
    node.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_frame_that_nobody_can_read_is_withheld() {
    let node = node().await;
    let alice = connect(&node, "1", "alice");
    let room = "boards:b1:live";
    node.join(&alice, room).await;
    assert_eq!(next_event(&alice), "subscribed 0");
    let append = |id: &str, frame: &'static [u8]| Append {
        stream: Stream::new(room, History::default()),
        event: EventId::new(id).unwrap(),
        frame: bytes::Bytes::from_static(frame),
        fence: None,
    };
    let broken = [
        append("x1", b"not json"),
        // The state lacks the fields that conditions read.
        append("x2", br#"{"event":"e","payload":null,"id":"x2","at":"","about":{"entity":"cards","record":"c","state":{}}}"#),
        append("x3", br#"{"event":"e","payload":null,"id":"x3","at":"","about":{"entity":"unknown","record":"c","state":{}}}"#),
        append("x4", br#"{"event":"said","payload":null,"id":"x4","at":""}"#),
    ];
    node.engine.append(&broken).await.unwrap();
    assert_eq!(event_soon(&alice).await, "said 4");
    assert_eq!(next_event(&alice), "");
    assert_eq!(
        alice.push(ServerFrame::pong(None), Class::Durable),
        crate::connection::Pushed::Queued
    );
    node.app.stop().await.unwrap();
}

#[tokio::test]
async fn frames_that_were_replayed_do_not_come_again_from_a_late_subscription() {
    let node = node().await;
    let (alice, bob) = (connect(&node, "1", "alice"), connect(&node, "2", "bob"));
    let room = "boards:b1:live";
    node.join(&alice, room).await;
    assert!(next_event(&alice).starts_with("subscribed"));
    let start = node
        .engine
        .top(&Stream::new(room, History::default()))
        .await;
    // The node does not receive these; a reader of the stream finds them.
    node.engine.cut();
    node.card("c1", "alice", true).await;
    node.card("c2", "alice", true).await;
    let since = Position::new(start.unwrap().epoch.as_str(), 0);
    let joined = node.join_from(&bob, room, Some(since)).await;
    assert_eq!(joined, "Recovered(2)");
    assert!(next_event(&bob).starts_with("subscribed"));
    assert_eq!(next_event(&bob), "created 1");
    assert_eq!(next_event(&bob), "created 2");
    node.engine.recover();
    node.card("c3", "alice", true).await;
    let mut of_alice = Vec::new();
    while of_alice.last().is_none_or(|last| last != "created 3") {
        let event = event_soon(&alice).await;
        assert!(!event.is_empty(), "{of_alice:?}");
        if event.starts_with("created") {
            of_alice.push(event);
        }
    }
    assert_eq!(of_alice, ["created 1", "created 2", "created 3"]);
    assert_eq!(event_soon(&bob).await, "created 3");
    node.app.stop().await.unwrap();
}

#[tokio::test]
async fn joins_of_a_channel_have_the_limit_of_its_declaration() {
    let node = node().await;
    let (alice, bob) = (connect(&node, "1", "alice"), connect(&node, "2", "bob"));
    for _ in 0..3 {
        assert_eq!(node.join(&alice, "chores:live").await, "Fresh");
        // A room that is joined already is not counted.
        assert_eq!(node.join(&alice, "chores:live").await, "Fresh");
        node.hub.unsubscribe(&alice, "chores:live").await;
    }
    assert_eq!(node.join(&alice, "chores:live").await, "rate_limited");
    assert_eq!(node.join(&bob, "chores:live").await, "Fresh");
    node.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_change_that_comes_with_a_join_is_checked_again() {
    let node = node().await;
    let (alice, bob) = (connect(&node, "1", "alice"), connect(&node, "2", "bob"));
    let room = "boards:b1:live";
    node.join(&alice, room).await;
    assert!(next_event(&alice).starts_with("subscribed"));
    node.engine.cut();
    let state = |open: bool| json!({ "id": "b1", "open": open, "ownerId": "alice" });
    node.happens(room, "updated", state(false), Some(state(true)))
        .await;
    // The event is in the stream; the read of the join still sees the open board.
    assert_eq!(node.join(&bob, room).await, "Fresh");
    assert!(next_event(&bob).starts_with("subscribed"));
    let boards = node.app.adapter::<Board>().unwrap();
    let closed = BoardPatch {
        open: Some(false),
        ..BoardPatch::default()
    };
    let cx = Cx::system("a test");
    boards.update(&cx, "b1", closed, None).await.unwrap();
    node.engine.recover();
    assert_eq!(event_soon(&bob).await, "unsubscribed not_found");
    node.app.stop().await.unwrap();
}
