//! What the relay does with gaps, and with events that say too little.

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

struct Bed {
    node: Node,
    relay: Relay,
    stream: Stream,
}

impl Bed {
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

    /// The frames in the stream of the room.
    async fn frames(&self) -> Vec<StoredFrame> {
        let slice = self.node.engine.read(&self.stream, 0, 100).await.unwrap();
        let frames = slice.frames.iter();
        frames
            .map(|frame| StoredFrame::decode(&frame.data).unwrap())
            .collect()
    }
}

/// An update of these cards.
fn of_many(keys: &[&str], before: Option<Value>, after: Option<Value>) -> EntityEvent {
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
    let bed = Bed::start().await;
    let epoch = bed.epoch().await;
    assert_eq!(bed.epoch().await, epoch);
    bed.node.engine.fail();
    let reported = bed.relay.missed(Missed::new(1, "a test")).await;
    reported.expect_err("it is reported again when the engine is back");
    bed.node.engine.recover();
    assert_eq!(bed.epoch().await, epoch);
    bed.relay.missed(Missed::new(1, "a test")).await.unwrap();
    assert_ne!(bed.epoch().await, epoch);
    bed.node.app.stop().await.unwrap();
}

#[tokio::test]
async fn each_record_of_an_event_about_many_has_a_frame_of_its_own() {
    let bed = Bed::start().await;
    let epoch = bed.epoch().await;
    let before = json!([card(true), null]);
    let after = json!([card(false), card(true)]);
    let event = of_many(&["c1", "c2"], Some(before), Some(after));
    bed.publish(event.clone()).await;
    // A repetition adds nothing.
    bed.publish(event.clone()).await;
    let frames = bed.frames().await;
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
    assert_eq!(bed.epoch().await, epoch);
    bed.node.app.stop().await.unwrap();
}

#[tokio::test]
async fn removed_records_are_judged_by_what_they_were() {
    let bed = Bed::start().await;
    let before = json!([card(true)]);
    bed.publish(of_many(&["c1"], Some(before), None)).await;
    let frames = bed.frames().await;
    let about = frames[0].about.as_ref().unwrap();
    assert!(about.deleted);
    assert_eq!(about.state["published"], true);
    bed.node.app.stop().await.unwrap();
}

/// An event of one record by a route that the channel does not list.
fn unlisted(entity: &str, key: &str, before: Option<Value>, after: Option<Value>) -> EntityEvent {
    EntityEvent {
        entity: entity.to_owned().into(),
        route: "unlisted".into(),
        record_id: Some(key.to_owned()),
        keys: Vec::new(),
        payload: Payload::from(json!({ "secret": "of the payload" })),
        ..of_many(&[], before, after)
    }
}

#[tokio::test]
async fn a_change_of_sight_that_no_variant_lists_is_told_without_its_payload() {
    let bed = Bed::start().await;
    let cards = Card::DESC.storage_name;
    // Nobody sees more or less of a new card, or of one whose conditions did not change.
    bed.publish(unlisted(cards, "c1", None, Some(card(true))))
        .await;
    bed.publish(unlisted(cards, "c1", Some(card(true)), Some(card(true))))
        .await;
    assert!(bed.frames().await.is_empty());
    let withdrawn = unlisted(cards, "c1", Some(card(true)), Some(card(false)));
    bed.publish(withdrawn).await;
    let mut elsewhere = card(true);
    elsewhere["boardId"] = json!("b2");
    let moved = unlisted(cards, "c2", Some(card(true)), Some(elsewhere));
    bed.publish(moved).await;
    let board = |open| json!({ "open": open, "ownerId": "ann" });
    let closed = unlisted("boards", "b1", Some(board(true)), Some(board(false)));
    bed.publish(closed).await;
    bed.publish(unlisted("boards", "b1", Some(board(false)), None))
        .await;
    let sent = bed.frames().await.into_iter().map(|frame| {
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
    bed.node.app.stop().await.unwrap();
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

/// Updates of cards while `published` has this value.
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
    let mut bed = Bed::start().await;
    let declared = Declared::default().channel::<Published>();
    let plan = Plan::new(&declared, bed.node.app.adapters()).unwrap();
    let engine = Arc::clone(&bed.node.engine) as Arc<dyn Engine>;
    bed.relay = Relay::new(Arc::new(plan), engine);
    bed.stream = Stream::new("boards:b1:published", History::default());
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
        bed.publish(change(false, false)).await;
        bed.publish(change(true, false)).await;
        let frames = bed.frames().await;
        let about = frames.last().unwrap().about.as_ref().unwrap();
        assert_eq!((about.left, about.quiet), (true, route == "unlisted"));
    }
    assert_eq!(bed.frames().await.len(), 2);
    bed.node.app.stop().await.unwrap();
}

/// The cards of a board, with an event of their own for drafts.
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
    let mut bed = Bed::start().await;
    let declared = Declared::default().channel::<Sorted>();
    let plan = Plan::new(&declared, bed.node.app.adapters()).unwrap();
    let engine = Arc::clone(&bed.node.engine) as Arc<dyn Engine>;
    bed.relay = Relay::new(Arc::new(plan), engine);
    bed.stream = Stream::new("boards:b1:sorted", History::default());
    // Whichever of the variants is declared first.
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
        bed.publish(change).await;
        let frames = bed.frames().await;
        let about = frames.last().unwrap().about.as_ref().unwrap();
        assert_eq!(about.state["published"], is_published);
        assert!(!about.left && !about.quiet, "{about:?}");
    }
    assert_eq!(bed.frames().await.len(), 2, "one for each change");
    // It leaves the room once with its board.
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
    bed.publish(moved).await;
    let frames = bed.frames().await;
    assert_eq!(frames.len(), 3);
    assert!(frames[2].about.as_ref().unwrap().left);
    bed.node.app.stop().await.unwrap();
}

/// Such events are in the outbox after an update of the app.
#[tokio::test]
async fn an_event_that_does_not_say_its_records_renews_all_streams() {
    let bed = Bed::start().await;
    for (keys, after) in [
        (&[][..], None),
        (&["c1"], None),
        (&["c1", "c2"], Some(json!([card(true)]))),
    ] {
        let epoch = bed.epoch().await;
        bed.publish(of_many(keys, None, after)).await;
        assert_ne!(bed.epoch().await, epoch);
        assert!(bed.frames().await.is_empty());
    }
    bed.node.app.stop().await.unwrap();
}

/// An engine knows the last frames of a stream only, so a long batch is not repeated as a whole.
#[tokio::test]
async fn a_failure_repeats_only_the_events_that_were_not_appended() {
    let bed = Bed::start().await;
    let keys: Vec<String> = (0..100).map(|n| format!("c{n}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let states = Value::from(vec![card(true); 100]);
    let event = || Arc::new(of_many(&keys, None, Some(states.clone())));
    let batch = Batch::new((0..5).map(|_| event()).collect(), 0);
    let mut publishing = bed.relay.publish(&batch);
    // The relay pauses after each part.
    assert!(publishing.as_mut().now_or_never().is_none());
    assert!(publishing.as_mut().now_or_never().is_none());
    bed.node.engine.fail();
    assert!(publishing.await.is_err());
    bed.node.engine.recover();
    assert_eq!(batch.progress(), Some(2));
    let top = bed.node.engine.top(&bed.stream).await.unwrap();
    assert_eq!(top.offset, 200);
    bed.node.app.stop().await.unwrap();
}
