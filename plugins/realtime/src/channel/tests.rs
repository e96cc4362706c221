//! Tests of declared channels and endpoints: start-up checks, payloads and publishing.

#![allow(dead_code)] // no test reads every field of its entities

use std::sync::{Arc, Mutex};

use linchpin::prelude::*;
use linchpin::{BoxFuture, package};

use super::{
    Change, Channel, Declared, Facts, Mark, PayloadReader, Publication, Publisher, Room, RoomKey,
    RoomName, Rooms,
};
use crate::{channel, sse};

#[entity(namespace = "forum")]
#[derive(Clone, Debug)]
struct Container {
    #[field(primary, default = uuid)]
    id: String,
    title: String,
}

#[entity(
    path = "all/threads",
    unique(title),
    routes(delete(event = "thread.gone"))
)]
#[derive(Clone, Debug)]
struct Thread {
    #[field(primary)]
    id: i64,
    container_id: String,
    title: String,
    #[field(default = 0)]
    score: i64,
}

#[operation(kind = "upsert", match(title), set(score), on_create(id = param(id), container_id = param(container_id)))]
const PUT: Operation<Thread>;

#[operation(kind = "field_update", match(id = param(id)), set(score))]
const RESET_SCORE: Operation<Thread>;

static FORUM: Package = package!(
    name = "forum",
    entities = [entity(Container), entity(Thread, [PUT, RESET_SCORE])]
);

/// A vote.
#[derive(Clone, Debug, Embedded)]
struct Vote {
    #[field(range = 1..=5)]
    stars: i64,
}

#[allow(clippy::unused_async)] // handlers are asynchronous
async fn vote(_: &Cx, room: Room<Live>, vote: Vote) -> Result<String> {
    Ok(format!("{} {:?}", vote.stars, room.key()))
}

#[channel(of = Container, name = "live", crate = crate)]
enum Live {
    #[on(Thread::created, Thread::PUT, Thread::RESET_SCORE, by = container_id)]
    Thread(Thread),
    #[on(Thread::deleted, by = container_id)]
    Gone(Thread),
    #[publish]
    Announcement {
        #[field(length = 1..=5)]
        text: String,
    },
    #[publish(ephemeral)]
    Voted(Vote),
    #[publish]
    Closed,
    #[incoming(vote)]
    Vote(Vote),
}

#[channel(of = Thread, name = "live", crate = crate)]
enum OfThread {
    #[publish]
    Seen,
}

/// A second channel of the same name at another endpoint. Two of its variants share an event name.
#[channel(of = Container, name = "live", endpoint = "/other", crate = crate)]
enum Again {
    #[on(Thread::PUT, by = container_id)]
    Put(Thread),
    #[publish(event = "threads.created")]
    Created,
}

sse! {
    const THREADS = "/__sse/threads";
    Thread: [updated as "moved", PUT],
    crate = crate,
}

const SOCKETS: &[&str] = &["/__ws"];

fn check(
    declared: &Declared,
    routes: &[(&str, &str)],
    change: impl FnOnce(&mut Facts<'_>),
) -> Vec<String> {
    let entities: Vec<&linchpin::EntityEntry> = FORUM.entities.iter().collect();
    let routes: Vec<(String, String)> = routes
        .iter()
        .map(|(method, path)| ((*method).to_owned(), (*path).to_owned()))
        .collect();
    let sockets: Vec<String> = SOCKETS.iter().map(|path| (*path).to_owned()).collect();
    let mut facts = Facts {
        entities: &entities,
        routes: &routes,
        sockets: &sockets,
        engine: "memory",
        shared: false,
        persistent: true,
        cluster: false,
    };
    change(&mut facts);
    declared.check(&facts)
}

fn declared() -> Declared {
    Declared::default()
        .channel::<Live>()
        .channel::<OfThread>()
        .sse(THREADS)
}

#[test]
fn event_names_are_those_of_the_outbox() {
    let threads = <Thread as Entity>::DESC;
    let names = |change: Change| change.event_names(threads);
    assert_eq!(names(Change::Created), ["threads.created"]);
    assert_eq!(names(Change::Deleted), ["thread.gone"]);
    assert_eq!(
        names(Change::Operation(PUT.spec())),
        ["threads.created", "threads.updated"]
    );
    assert_eq!(
        names(Change::Operation(RESET_SCORE.spec())),
        ["threads.reset-score"]
    );
    let containers = <Container as Entity>::DESC;
    assert_eq!(
        Change::Updated.event_names(containers),
        ["forum.containers.updated"]
    );
    assert_eq!(
        THREADS.names(),
        ["moved", "threads.created", "threads.updated"]
    );
}

#[test]
fn a_room_belongs_to_one_channel() {
    let declared = declared();
    for (name, channel) in [
        ("forum_containers:c1:live", Some("Live")),
        ("threads:7:live", Some("OfThread")),
        ("threads:live", None),
        ("threads:7:other", None),
        ("containers:c1:live", None),
    ] {
        let room = RoomName::parse(name).unwrap_or_else(|e| panic!("{name}: {e}"));
        let found = declared.channel_of(&room).map(|channel| channel.ident);
        assert_eq!(found, channel, "{name}");
    }
    let rooms = Rooms::new(Arc::new(Recorder::default()));
    let name = rooms.room::<OfThread>(7).name();
    assert_eq!(name.as_deref(), Ok("threads:7:live"));
}

#[test]
fn a_correct_declaration_has_no_problems() {
    let routes = [("GET", "/threads/{id}"), ("GET", "/{a}/{b}")];
    let problems = check(&declared(), &routes, |_| ());
    assert_eq!(problems, [""; 0]);
}

#[test]
fn duplicate_channel_names_and_unknown_endpoints_are_reported() {
    let problems = check(&declared().channel::<Again>(), &[], |_| ());
    let expected = [
        "have the same name `live`: give one of them another `name`",
        "uses `/other`, which is not a WebSocket endpoint: add this path to `realtime.endpoints` (now /__ws)",
        "share the event name `threads.created`: set another name with `event = \"..\"`",
    ];
    assert_eq!(problems.len(), expected.len(), "{problems:#?}");
    for (problem, expected) in problems.iter().zip(expected) {
        assert!(problem.contains(expected), "{problem}");
    }
    let twice = check(&declared().channel::<Live>(), &[], |_| ());
    assert!(
        twice.len() == 1 && twice[0].ends_with("is registered twice"),
        "{twice:?}"
    );
}

#[test]
fn endpoint_paths_must_not_collide_with_routes() {
    let taken = [("GET", "/__sse/threads/"), ("POST", "/__ws")];
    let problems = check(&declared(), &taken, |_| ());
    assert_eq!(problems.len(), 2, "{problems:#?}");
    assert_eq!(
        problems[0],
        "route `POST /__ws` and WebSocket endpoint `/__ws` share the path `/__ws`"
    );
    assert!(problems[1].starts_with("route `GET /__sse/threads/` and SSE endpoint `THREADS`"));
}

#[test]
fn an_entity_that_no_package_lists_is_reported() {
    let none: &[&linchpin::EntityEntry] = &[];
    let problems = check(&declared(), &[], |facts| facts.entities = none);
    assert!(
        problems.iter().any(|problem| problem
            .contains("uses entity `Container`, but no package of the app lists it")),
        "{problems:#?}"
    );
}

#[test]
fn several_nodes_need_a_shared_engine() {
    let problems = check(&declared(), &[], |facts| facts.cluster = true);
    assert_eq!(problems.len(), 1, "{problems:#?}");
    assert!(
        problems[0].contains("`realtime.engine` is `memory`"),
        "{}",
        problems[0]
    );
    let problems = check(&declared(), &[], |facts| {
        (facts.cluster, facts.shared, facts.persistent) = (true, true, false);
    });
    assert_eq!(problems.len(), 3, "{problems:#?}");
    assert!(
        problems
            .iter()
            .all(|problem| problem.contains("keeps history"))
    );
}

fn reader(variant: usize) -> PayloadReader {
    PayloadReader::new(&Live::DESC.variants[variant]).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn payloads_of_clients_are_validated_like_bodies() {
    let now = Timestamp::from_millis(0);
    // Variant 5 is `Vote`. Variant 4 is `Closed`, which has no payload.
    let read = |variant: usize, payload: Option<&str>| {
        reader(variant)
            .read(payload.map(str::as_bytes), now)
            .map_err(|error| {
                let details = error.details().iter();
                details
                    .map(|problem| format!("{} {}", problem.path, problem.code))
                    .collect::<Vec<_>>()
            })
    };
    assert_eq!(
        read(5, Some(r#"{"stars":3}"#)).as_deref(),
        Ok(r#"{"stars":3}"#)
    );
    let errors = |texts: &[&str]| Err(texts.iter().map(|text| (*text).to_owned()).collect());
    assert_eq!(read(5, Some(r#"{"stars":9}"#)), errors(&["stars range"]));
    assert_eq!(
        read(5, Some(r#"{"stars":1,"x":2}"#)),
        errors(&["x unknown_field"])
    );
    assert_eq!(read(5, None), errors(&["stars required"]));
    assert_eq!(read(5, Some("7")), errors(&[" type"]));
    assert_eq!(read(4, None).as_deref(), Ok("null"));
    assert_eq!(read(4, Some("{}")).as_deref(), Ok("null"));
    assert_eq!(read(4, Some(r#"{"a":1}"#)), errors(&[" unknown_field"]));
}

/// Records the published frames.
#[derive(Default)]
struct Recorder(Mutex<Vec<(String, bool, RoomKey, String)>>);

impl Publisher for Recorder {
    fn publish<'a>(&'a self, _: &'a Cx, frame: Publication) -> BoxFuture<'a, Result<()>> {
        let sent = (
            frame.variant.name.to_owned(),
            frame.ephemeral,
            frame.room,
            frame.payload.to_string(),
        );
        self.0.lock().unwrap_or_else(|e| panic!("{e}")).push(sent);
        Box::pin(async { Ok(()) })
    }
}

#[tokio::test]
async fn code_publishes_marked_variants_only() {
    let recorder = Arc::new(Recorder::default());
    let room = Rooms::new(recorder.clone()).room::<Live>("c1");
    let cx = Cx::system("a test");
    let text = "hi".to_owned();
    for event in [
        Live::Announcement { text },
        Live::Voted(Vote { stars: 2 }),
        Live::Closed,
    ] {
        room.publish(&cx, event)
            .await
            .unwrap_or_else(|e| panic!("{e}"));
    }
    let refused = room.publish(&cx, Live::Vote(Vote { stars: 2 })).await;
    assert!(refused.is_err());
    let sent = recorder.0.lock().unwrap_or_else(|e| panic!("{e}"));
    let key = || RoomKey::Record("c1".to_owned());
    assert_eq!(
        *sent,
        [
            (
                "forum.announcement".to_owned(),
                false,
                key(),
                r#"{"text":"hi"}"#.to_owned()
            ),
            (
                "forum.voted".to_owned(),
                true,
                key(),
                r#"{"stars":2}"#.to_owned()
            ),
            ("forum.closed".to_owned(), false, key(), "null".to_owned()),
        ]
    );
}

#[tokio::test]
async fn a_handler_gets_the_room_and_the_payload() {
    let (_, variant) = Live::DESC
        .incoming("forum.vote")
        .unwrap_or_else(|| panic!("no event"));
    let Mark::Handler { function, handle } = variant.mark else {
        panic!("no handler")
    };
    let rooms = Rooms::new(Arc::new(Recorder::default()));
    let (cx, key) = (Cx::system("a test"), RoomKey::Record("c1".to_owned()));
    let answer = handle(&cx, rooms, key, r#"{"stars":3}"#).await;
    assert_eq!(function, "vote");
    assert_eq!(
        answer.unwrap_or_else(|e| panic!("{e}")),
        r#"3 Record("c1")"#
    );
    assert!(Live::DESC.incoming("forum.closed").is_none());
}
