//! Tests of the relay: gaps, events about many records, and events without record states.

use std::sync::Arc;

use futures_util::FutureExt;
use linchpin::event::{Batch, Missed, Payload, RecordRef};
use linchpin::{ActorRef, Entity, EntityEvent, EventSink, Timestamp, Uuid};
use serde_json::{Value, json};

use linchpin::filter::{FilterSpec, Op, OperandSpec, SourceSpec};

use super::plan::Plan;
use super::relay::Relay;
use crate::channel::{
    Change, Channel, ChannelDesc, Declared, Encoded, Mark, On, Payload as ChannelPayload,
    VariantDesc,
};
use crate::engine::{Engine, Epoch, History, Stream};
use crate::rooms::StoredFrame;
use crate::rooms::tests::{Board, BoardLive, Card, Node, node};

struct TestApp {
    node: Node,
    relay: Relay,
    stream: Stream,
}

impl TestApp {
    async fn start() -> Self {
        let node = node().await;
        let declared = Declared::default().channel::<BoardLive>();
        let plan = Plan::new(&declared, node.app.adapters()).unwrap();
        let engine = Arc::clone(&node.engine) as Arc<dyn Engine>;
        Self {
            relay: Relay::new(Arc::new(plan), engine),
            stream: Stream::new("boards:b1:live", History::default()),
            node,
        }
    }

    async fn epoch(&self) -> Epoch {
        self.node.engine.top(&self.stream).await.unwrap().epoch
    }

    async fn publish(&self, event: EntityEvent) {
        let batch = Batch::new(vec![Arc::new(event)], 0);
        self.relay.publish(&batch).await.unwrap();
    }

    /// Returns the frames in the stream of the room.
    async fn frames(&self) -> Vec<StoredFrame> {
        let slice = self.node.engine.read(&self.stream, 0, 100).await.unwrap();
        let frames = slice.frames.iter();
        frames
            .map(|frame| StoredFrame::decode(&frame.data).unwrap())
            .collect()
    }
}

/// Returns an event for an update of these cards.
fn event_about(keys: &[&str], before: Option<Value>, after: Option<Value>) -> EntityEvent {
    EntityEvent {
        id: Uuid::new_v7(),
        name: "cards.updated".to_owned(),
        entity: Card::DESC.storage_name.into(),
        route: "update".into(),
        record_id: None,
        payload: Payload::from(json!({ "count": keys.len() })),
        payload_ref: None::<RecordRef>,
        before: before.map(Payload::from),
        after: after.map(Payload::from),
        actor: ActorRef {
            kind: "system".to_owned(),
            id: None,
        },
        tenant_id: None,
        request_id: String::new(),
        at: Timestamp::system_now(),
        version: None,
        keys: keys.iter().map(|key| (*key).to_owned()).collect(),
    }
}

fn card(published: bool) -> Value {
    json!({ "boardId": "b1", "authorId": "ann", "published": published })
}

#[tokio::test]
async fn a_gap_renews_streams_that_no_client_reads() {
    let test_app = TestApp::start().await;
    let epoch = test_app.epoch().await;
    assert_eq!(test_app.epoch().await, epoch);
    test_app.node.engine.fail();
    let reported = test_app.relay.missed(Missed::new(1, "a test")).await;
    reported.expect_err("the gap is reported again after the outage");
    test_app.node.engine.recover();
    assert_eq!(test_app.epoch().await, epoch);
    test_app
        .relay
        .missed(Missed::new(1, "a test"))
        .await
        .unwrap();
    assert_ne!(test_app.epoch().await, epoch);
    test_app.node.app.stop().await.unwrap();
}

#[tokio::test]
async fn an_event_about_many_records_sends_one_frame_for_each_record() {
    let test_app = TestApp::start().await;
    let epoch = test_app.epoch().await;
    let before = json!([card(true), null]);
    let after = json!([card(false), card(true)]);
    let event = event_about(&["c1", "c2"], Some(before), Some(after));
    test_app.publish(event.clone()).await;
    // A repeated event adds no frame.
    test_app.publish(event.clone()).await;
    let frames = test_app.frames().await;
    let sent: Vec<_> = frames
        .iter()
        .map(|frame| {
            let about = frame.about.as_ref().unwrap();
            let before = about
                .before
                .as_ref()
                .map(|before| before["published"].clone());
            assert!(frame.truncated && !about.deleted);
            assert_eq!(frame.id, event.id.as_str());
            (&*about.record, about.state["published"].clone(), before)
        })
        .collect();
    let expected = [
        ("c1", json!(false), Some(json!(true))),
        ("c2", json!(true), None),
    ];
    assert_eq!(sent, expected);
    assert_eq!(test_app.epoch().await, epoch);
    test_app.node.app.stop().await.unwrap();
}

#[tokio::test]
async fn deleted_records_are_checked_by_their_former_values() {
    let test_app = TestApp::start().await;
    let before = json!([card(true)]);
    test_app
        .publish(event_about(&["c1"], Some(before), None))
        .await;
    let frames = test_app.frames().await;
    let about = frames[0].about.as_ref().unwrap();
    assert!(about.deleted);
    assert_eq!(about.state["published"], true);
    test_app.node.app.stop().await.unwrap();
}

/// Returns an event of one record from a route that the channel does not list.
fn unlisted(entity: &str, key: &str, before: Option<Value>, after: Option<Value>) -> EntityEvent {
    EntityEvent {
        entity: entity.to_owned().into(),
        route: "unlisted".into(),
        record_id: Some(key.to_owned()),
        keys: Vec::new(),
        payload: Payload::from(json!({ "secret": "of the payload" })),
        ..event_about(&[], before, after)
    }
}

#[tokio::test]
async fn a_visibility_change_without_a_variant_is_published_without_payload() {
    let test_app = TestApp::start().await;
    let cards = Card::DESC.storage_name;
    // A new card does not change the visibility, and neither does an update that keeps the fields
    // that conditions read.
    test_app
        .publish(unlisted(cards, "c1", None, Some(card(true))))
        .await;
    test_app
        .publish(unlisted(cards, "c1", Some(card(true)), Some(card(true))))
        .await;
    assert!(test_app.frames().await.is_empty());
    let withdrawn = unlisted(cards, "c1", Some(card(true)), Some(card(false)));
    test_app.publish(withdrawn).await;
    let mut elsewhere = card(true);
    elsewhere["boardId"] = json!("b2");
    let moved = unlisted(cards, "c2", Some(card(true)), Some(elsewhere));
    test_app.publish(moved).await;
    let board = |open| json!({ "open": open, "ownerId": "ann" });
    let closed = unlisted("boards", "b1", Some(board(true)), Some(board(false)));
    test_app.publish(closed).await;
    test_app
        .publish(unlisted("boards", "b1", Some(board(false)), None))
        .await;
    let sent = test_app.frames().await.into_iter().map(|frame| {
        assert_eq!(frame.payload.get(), "null");
        let about = frame.about.unwrap();
        assert!(about.quiet);
        (about.record, about.left, about.deleted)
    });
    let sent: Vec<_> = sent.collect();
    let expected = [
        ("c1".to_owned(), false, false),
        ("c2".to_owned(), true, false),
        ("b1".to_owned(), false, false),
        ("b1".to_owned(), false, true),
    ];
    assert_eq!(sent, expected);
    test_app.node.app.stop().await.unwrap();
}

/// The published cards of a board.
struct Published;

static PUBLISHED: ChannelDesc =
    ChannelDesc::new("Published", "published", Board::DESC).variants(&PUBLISHED_VARIANTS);
static PUBLISHED_VARIANTS: [VariantDesc; 1] = [VariantDesc::new(
    "Card",
    Mark::On(&[published(|| linchpin::Value::Bool(true))]),
)
.payload(ChannelPayload::Record)];

/// Returns a variant for updates of cards while `published` has this value.
const fn published(value: fn() -> linchpin::Value) -> On {
    On::new(Card::DESC, &[Change::Updated])
        .by(1)
        .when(FilterSpec::Cond(
            3,
            Op::Eq,
            OperandSpec::One(SourceSpec::Literal(value)),
        ))
}

impl Channel for Published {
    type Of = Board;
    const DESC: &'static ChannelDesc = &PUBLISHED;
    fn encode(&self) -> linchpin::Result<Encoded> {
        Err(linchpin::Error::internal("nothing is published"))
    }
}

#[tokio::test]
async fn a_record_that_no_longer_satisfies_the_condition_leaves_the_room() {
    let mut test_app = TestApp::start().await;
    let declared = Declared::default().channel::<Published>();
    let plan = Plan::new(&declared, test_app.node.app.adapters()).unwrap();
    let engine = Arc::clone(&test_app.node.engine) as Arc<dyn Engine>;
    test_app.relay = Relay::new(Arc::new(plan), engine);
    test_app.stream = Stream::new("boards:b1:published", History::default());
    for route in ["update", "unlisted"] {
        let change = |before, after| EntityEvent {
            route: route.into(),
            ..unlisted(
                Card::DESC.storage_name,
                "c1",
                Some(card(before)),
                Some(card(after)),
            )
        };
        test_app.publish(change(false, false)).await;
        test_app.publish(change(true, false)).await;
        let frames = test_app.frames().await;
        let about = frames.last().unwrap().about.as_ref().unwrap();
        assert_eq!((about.left, about.quiet), (true, route == "unlisted"));
    }
    assert_eq!(test_app.frames().await.len(), 2);
    test_app.node.app.stop().await.unwrap();
}

/// The cards of a board, with a separate event for drafts.
struct Sorted;

static SORTED: ChannelDesc =
    ChannelDesc::new("Sorted", "sorted", Board::DESC).variants(&SORTED_VARIANTS);
static SORTED_VARIANTS: [VariantDesc; 2] = [
    VariantDesc::new(
        "Done",
        Mark::On(&[published(|| linchpin::Value::Bool(true))]),
    )
    .payload(ChannelPayload::Record),
    VariantDesc::new(
        "Draft",
        Mark::On(&[published(|| linchpin::Value::Bool(false))]),
    )
    .payload(ChannelPayload::Record),
];

impl Channel for Sorted {
    type Of = Board;
    const DESC: &'static ChannelDesc = &SORTED;
    fn encode(&self) -> linchpin::Result<Encoded> {
        Err(linchpin::Error::internal("nothing is published"))
    }
}

#[tokio::test]
async fn a_record_that_satisfies_the_condition_of_another_variant_stays_in_the_room() {
    let mut test_app = TestApp::start().await;
    let declared = Declared::default().channel::<Sorted>();
    let plan = Plan::new(&declared, test_app.node.app.adapters()).unwrap();
    let engine = Arc::clone(&test_app.node.engine) as Arc<dyn Engine>;
    test_app.relay = Relay::new(Arc::new(plan), engine);
    test_app.stream = Stream::new("boards:b1:sorted", History::default());
    // The result does not depend on the order of the variants.
    for is_published in [true, false] {
        let change = EntityEvent {
            route: "update".into(),
            ..unlisted(
                Card::DESC.storage_name,
                "c1",
                Some(card(!is_published)),
                Some(card(is_published)),
            )
        };
        test_app.publish(change).await;
        let frames = test_app.frames().await;
        let about = frames.last().unwrap().about.as_ref().unwrap();
        assert_eq!(about.state["published"], is_published);
        assert!(!about.left && !about.quiet, "{about:?}");
    }
    assert_eq!(
        test_app.frames().await.len(),
        2,
        "one frame for each change"
    );
    // A card that moves to another board leaves the room once.
    let mut elsewhere = card(false);
    elsewhere["boardId"] = json!("b2");
    let moved = EntityEvent {
        route: "update".into(),
        ..unlisted(
            Card::DESC.storage_name,
            "c1",
            Some(card(true)),
            Some(elsewhere),
        )
    };
    test_app.publish(moved).await;
    let frames = test_app.frames().await;
    assert_eq!(frames.len(), 3);
    assert!(frames[2].about.as_ref().unwrap().left);
    test_app.node.app.stop().await.unwrap();
}

/// After an update of the app, the outbox may contain events without record keys.
#[tokio::test]
async fn an_event_without_record_keys_renews_all_streams() {
    let test_app = TestApp::start().await;
    for (keys, after) in [
        (&[][..], None),
        (&["c1"], None),
        (&["c1", "c2"], Some(json!([card(true)]))),
    ] {
        let epoch = test_app.epoch().await;
        test_app.publish(event_about(keys, None, after)).await;
        assert_ne!(test_app.epoch().await, epoch);
        assert!(test_app.frames().await.is_empty());
    }
    test_app.node.app.stop().await.unwrap();
}

/// An engine remembers only the last frames of a stream, so a long batch must not be repeated as a
/// whole.
#[tokio::test]
async fn a_failure_repeats_only_the_events_that_were_not_appended() {
    let test_app = TestApp::start().await;
    let keys: Vec<String> = (0..100).map(|n| format!("c{n}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let states = Value::from(vec![card(true); 100]);
    let event = || Arc::new(event_about(&keys, None, Some(states.clone())));
    let batch = Batch::new((0..5).map(|_| event()).collect(), 0);
    let mut publishing = test_app.relay.publish(&batch);
    // The relay pauses after each part.
    assert!(publishing.as_mut().now_or_never().is_none());
    assert!(publishing.as_mut().now_or_never().is_none());
    test_app.node.engine.fail();
    assert!(publishing.await.is_err());
    test_app.node.engine.recover();
    assert_eq!(batch.progress(), Some(2));
    let top = test_app.node.engine.top(&test_app.stream).await.unwrap();
    assert_eq!(top.offset, 200);
    test_app.node.app.stop().await.unwrap();
}
