//! Tests of server-sent events endpoints with the rooms of an app and the memory engine.

mod rights;

use futures_util::{FutureExt, StreamExt};
use linchpin::http::{AuthDesc, PolicyDesc};
use linchpin::prelude::*;
use linchpin::{Entity, EntityEvent};

use super::tests::*;
use super::*;
use crate::channel::{Change, Sse, SseDesc, SseEvent, SseSource};
use crate::connection::Meter;
use crate::engine::{Append, EventId, Stream};
use crate::sse::{EventStream, Resume};
use serde_json::value::RawValue;
use serde_json::{Value, json};

static CHORE_EVENTS: [SseEvent; 2] = [
    SseEvent::new(Change::Created)
        .name("chore:new")
        .alias(&["task:new"]),
    SseEvent::new(Change::Updated),
];
static CHORES: SseDesc = SseDesc::new(
    "CHORES",
    "/__sse/chores",
    &[SseSource::new(Chore::DESC, &CHORE_EVENTS)],
)
.history(5, 600_000)
.max_connections(2);

static BOARDS: SseDesc = SseDesc::new(
    "BOARDS",
    "/__sse/boards",
    &[SseSource::new(
        Board::DESC,
        &[
            SseEvent::new(Change::Created),
            SseEvent::new(Change::Updated),
        ],
    )],
)
.filter("not_muted", not_muted);

static ADMINS: SseDesc = SseDesc::new(
    "ADMINS",
    "/__sse/admins",
    &[SseSource::new(
        Board::DESC,
        &[SseEvent::new(Change::Created)],
    )],
)
.policy(PolicyDesc::INHERIT.roles(&["admin"]));

static NOTICES: SseDesc = SseDesc::new(
    "NOTICES",
    "/__sse/notices",
    &[SseSource::new(
        Notice::DESC,
        &[SseEvent::new(Change::Created)],
    )],
)
.policy(PolicyDesc::INHERIT.auth(AuthDesc::None));

pub(super) fn endpoints(declared: Declared) -> Declared {
    [&CHORES, &BOARDS, &ADMINS, &NOTICES]
        .into_iter()
        .fold(declared, |declared, desc| declared.sse(Sse::new(desc)))
}

/// A filter as an app writes it: it withholds the record `muted` from bob, and panics for `broken`.
fn not_muted(actor: &Actor, event: &EntityEvent) -> bool {
    let id = event.record_id.as_deref().unwrap_or_default();
    assert!(id != "broken", "a fault of the filter");
    let owner = event.after.as_ref().map(|record| record["ownerId"].clone());
    match &event.payload_ref {
        None => assert_eq!(owner, Some(event.payload["ownerId"].clone())),
        Some(record) => assert_eq!((&*record.entity, &*record.id), ("boards", id)),
    }
    actor.id.as_deref() != Some("bob") || id != "muted"
}

/// A response and its counters.
struct Open {
    stream: EventStream,
    meter: Arc<Meter>,
}

impl Open {
    /// Returns the next blocks; empty at the end.
    async fn text(&mut self) -> String {
        let bytes = self.stream.next().await.unwrap_or_default();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    /// Whether no block is waiting.
    fn is_quiet(&mut self) -> bool {
        self.stream.next().now_or_never().is_none()
    }
}

impl Node {
    /// Opens a stream. Returns the code of the error if it is refused.
    async fn open(
        &self,
        endpoint: &'static SseDesc,
        user: &str,
        resume: Resume,
    ) -> Result<Open, &'static str> {
        let meter = Arc::new(Meter::default());
        let open = OpenEvents {
            endpoint,
            identity: (!user.is_empty()).then(|| credential(user)),
            resume,
            address: None,
            headers: HeaderMap::new(),
            address_slot: None,
            meter: Arc::clone(&meter),
        };
        match self.hub.open_events(open).await {
            Ok(stream) => Ok(Open { stream, meter }),
            Err(error) => Err(error.code().as_str()),
        }
    }

    async fn top(&self, stream: &Stream) -> Position {
        let top = self.engine.top(stream).await.unwrap();
        Position::new(top.epoch.as_str(), top.offset)
    }

    /// Appends an event to the stream of an endpoint.
    async fn append_to_endpoint(
        &self,
        stream: &Stream,
        entity: &str,
        state: Value,
        before: Option<Value>,
    ) {
        let object = |value: Value| value.as_object().cloned().unwrap();
        let about = About {
            entity: entity.to_owned(),
            record: state["id"].as_str().unwrap().to_owned(),
            state: object(state.clone()),
            before: before.map(object),
            deleted: false,
            left: false,
            quiet: false,
        };
        self.append_about(stream, about, &state, false).await;
    }

    async fn append_about(&self, stream: &Stream, about: About, payload: &Value, truncated: bool) {
        let entity = about.entity.as_str();
        let number = {
            let mut events = self.events.lock();
            *events += 1;
            *events
        };
        let event = EntityEvent {
            id: linchpin::Uuid::new_v7(),
            name: format!("{entity}.created"),
            entity: entity.to_owned().into(),
            route: "create".into(),
            record_id: None,
            payload: Value::Null.into(),
            payload_ref: None,
            before: None,
            after: None,
            actor: linchpin::ActorRef {
                kind: "system".to_owned(),
                id: None,
            },
            tenant_id: None,
            request_id: String::new(),
            at: Timestamp::system_now(),
            version: None,
            keys: Vec::new(),
        };
        let stored = StoredEvent {
            origin: Some(Origin::of(&event)),
            frame: StoredFrame {
                event: format!("{entity}.{number}"),
                aliases: Vec::new(),
                payload: RawValue::from_string(payload.to_string()).unwrap(),
                truncated,
                id: event.id.to_string(),
                at: event.at.to_string(),
                about: Some(about),
            },
        };
        let append = Append {
            stream: stream.clone(),
            event: EventId::new(event.id.as_str()).unwrap(),
            frame: stored.encode().unwrap(),
            fence: None,
        };
        self.engine.append(&[append]).await.unwrap();
    }

    async fn chore(&self, owner: &str, id: &str) {
        let state = json!({ "id": id, "ownerId": owner });
        self.append_to_endpoint(&chores_of(owner), "chores", state, None)
            .await;
    }

    async fn board(&self, id: &str, open: bool, was_open: Option<bool>) {
        let stream = stream_of(&BOARDS, &[]);
        let state = |open: bool| json!({ "id": id, "open": open, "ownerId": "alice" });
        self.append_to_endpoint(
            &stream,
            Board::DESC.storage_name,
            state(open),
            was_open.map(state),
        )
        .await;
    }
}

fn stream_of(endpoint: &SseDesc, owners: &[Option<String>]) -> Stream {
    Stream::new(
        stream_name(endpoint.path, owners),
        endpoint.history.of_stream(),
    )
}

fn chores_of(user: &str) -> Stream {
    stream_of(&CHORES, &[Some(user.to_owned())])
}

/// Returns the blocks of an event without its data.
fn head(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.starts_with("data: "));
    lines.collect::<Vec<_>>().join("|")
}

#[tokio::test]
async fn each_caller_receives_events_of_its_own_partition() {
    let node = node().await;
    let mut alice = node.open(&CHORES, "alice", Resume::Top).await.unwrap();
    let mut bob = node.open(&CHORES, "bob", Resume::Top).await.unwrap();
    let at = node.top(&chores_of("alice")).await;
    let opening = format!(": connected\nretry: 3000\nid: {at}\n\n");
    assert_eq!(alice.text().await, opening);
    assert!(bob.text().await.starts_with(": connected\n"));
    node.chore("bob", "c0").await;
    node.chore("alice", "c1").await;
    let text = alice.text().await;
    let epoch = &at.epoch;
    assert_eq!(
        text,
        format!(
            "event: chores.2\nid: {epoch}-1\ndata: {{\"id\":\"c1\",\"ownerId\":\"alice\"}}\n\n"
        )
    );
    assert!(bob.text().await.contains("c0"));
    assert!(alice.is_quiet() && bob.is_quiet());
    // An anonymous caller has no partition.
    let refused = node.open(&CHORES, "", Resume::Top).await;
    assert_eq!(refused.err(), Some("unauthorized"));
    drop((alice, bob));
    assert_eq!(node.hub.connections(), 0);
    assert!(node.hub.live_rooms().is_empty());
    node.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_client_resumes_after_its_position_or_receives_a_reset() {
    let node = node().await;
    let stream = chores_of("alice");
    for id in ["c1", "c2", "c3"] {
        node.chore("alice", id).await;
    }
    let top = node.top(&stream).await;
    let at = |offset| Position::new(Arc::clone(&top.epoch), offset);
    let mut back = node
        .open(&CHORES, "alice", Resume::After(at(1)))
        .await
        .unwrap();
    assert!(back.text().await.ends_with(&format!("id: {}\n\n", at(1))));
    node.chore("alice", "c4").await;
    for (number, offset) in [(2, 2), (3, 3), (4, 4)] {
        let expected = format!("event: chores.{number}|id: {}|", at(offset));
        assert_eq!(head(&back.text().await), expected);
    }
    assert!(back.is_quiet());
    drop(back);
    for id in ["c5", "c6", "c7"] {
        node.chore("alice", id).await;
    }
    for (resume, reason) in [
        (Resume::After(at(1)), "history_unavailable"),
        (Resume::After(at(999_999)), "offset_ahead"),
        (Resume::After(Position::new("another", 1)), "epoch_changed"),
        (Resume::Lost, "epoch_changed"),
    ] {
        let mut open = node.open(&CHORES, "alice", resume).await.unwrap();
        assert!(open.text().await.ends_with(&format!("id: {}\n\n", at(7))));
        let text = open.text().await;
        assert_eq!(head(&text), format!("event: linchpin:reset|id: {}|", at(7)));
        assert!(text.contains(&format!("\"reason\":\"{reason}\"")), "{text}");
        assert!(open.is_quiet());
    }
    // A client without a position has missed nothing.
    let mut fresh = node.open(&CHORES, "alice", Resume::Top).await.unwrap();
    assert!(fresh.text().await.ends_with(&format!("id: {}\n\n", at(7))));
    assert!(fresh.is_quiet());
    node.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_client_that_missed_more_events_than_the_queue_holds_gets_all_of_them() {
    let node = node().await;
    let stream = stream_of(&NOTICES, &[]);
    let notice = |n: u32| json!({ "id": format!("n{n}"), "text": "hello" });
    node.append_to_endpoint(&stream, "notices", notice(0), None)
        .await;
    let after = node.top(&stream).await;
    for n in 1..=400 {
        node.append_to_endpoint(&stream, "notices", notice(n), None)
            .await;
    }
    let mut open = node
        .open(&NOTICES, "", Resume::After(after.clone()))
        .await
        .unwrap();
    open.text().await;
    for n in 1..=400 {
        assert!(open.text().await.contains(&format!("\"n{n}\"")));
    }
    node.append_to_endpoint(&stream, "notices", notice(401), None)
        .await;
    assert!(open.text().await.contains("\"n401\""));
    node.app.stop().await.unwrap();
}

#[tokio::test]
async fn open_streams_per_user_are_limited_and_a_closed_one_no_longer_counts() {
    let node = node().await;
    let first = node.open(&CHORES, "alice", Resume::Top).await.unwrap();
    let second = node.open(&CHORES, "alice", Resume::Top).await.unwrap();
    let third = node.open(&CHORES, "alice", Resume::Top).await;
    assert_eq!(third.err(), Some("rate_limited"));
    // Another endpoint, another user, and sockets are counted separately.
    let other = node.open(&BOARDS, "alice", Resume::Top).await;
    let bob = node.open(&CHORES, "bob", Resume::Top).await;
    assert!(other.is_ok() && bob.is_ok());
    let socket = connect(&node, "1", "alice");
    let _two = connect(&node, "2", "alice");
    assert!(socket.closing().is_none());
    drop(first);
    assert!(node.open(&CHORES, "alice", Resume::Top).await.is_ok());
    drop(second);
    node.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_closed_without_affecting_others() {
    let node = node().await;
    let mut slow = node.open(&NOTICES, "alice", Resume::Top).await.unwrap();
    let mut fast = node.open(&NOTICES, "bob", Resume::Top).await.unwrap();
    fast.text().await;
    slow.text().await;
    let stream = stream_of(&NOTICES, &[]);
    let most = node.hub.settings.limits.queue_frames;
    for n in 0..=most {
        let state = json!({ "id": format!("n{n}"), "text": "hello" });
        node.append_to_endpoint(&stream, "notices", state, None)
            .await;
        assert!(fast.text().await.contains(&format!("\"n{n}\"")));
    }
    assert_eq!(slow.text().await, "");
    assert_eq!(slow.meter.read().queue_bytes, 0);
    assert!(fast.is_quiet());
    node.app.stop().await.unwrap();
}
