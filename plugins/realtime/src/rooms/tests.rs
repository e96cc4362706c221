//! Tests of rooms with the policies of an app and the memory engine.

mod calls;
mod delivery;
mod joins;
mod limits;
mod presence;
mod sessions;
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

pub(super) use self::sessions::{Sessions, credential};
use super::*;
use crate::channel::{
    Change, Channel, ChannelDesc, Encoded, Incoming, Mark, On, Payload, Publication, Publisher,
    VariantDesc,
};
use crate::connection::{Class, Kind, Meter};
use crate::engine::{Append, EventId, History, MemoryEngine, Stream};
use crate::protocol::ClientFrame;

/// A board that is open to every signed-in user, or visible only to its owner.
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

/// A notice that every user may read.
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

struct NoPublisher;

impl Publisher for NoPublisher {
    fn publish<'a>(&'a self, _: &'a Cx, _: Publication) -> BoxFuture<'a, Result<()>> {
        Box::pin(async { Err(Error::internal("nothing is published")) })
    }
}

/// A node: an app, the memory engine, and the hub under test.
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

/// Starts a node whose engine has this clock.
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
        rooms: Rooms::new(Arc::new(NoPublisher)),
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

/// Opens a connection and reads its first frame.
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
        address_slot: None,
    });
    assert!(next_event(&connection).starts_with("connected"));
    connection
}

/// Returns the next frame as JSON.
fn frame(connection: &Connection) -> Option<Value> {
    let frame = connection.pop()?;
    Some(serde_json::from_str(frame.as_str()).unwrap())
}

/// Returns the event of the next frame with some members; empty if there is no frame.
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

/// Waits a short time for the next event.
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
    async fn append_event(
        &self,
        room: &str,
        event: &str,
        state: Value,
        before: Option<Value>,
    ) -> u64 {
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
        self.append_event("boards:b1:live", "created", state, None)
            .await
    }
}
