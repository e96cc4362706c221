//! Valid channels that are similar to the mistakes in `fail/channel`.

use linchpin::prelude::*;
use linchpin_realtime::channel;
use linchpin_realtime::channel::{Channel, InvalidRoom, Mark, Payload, Room, Rooms, room_name};

#[derive(Clone, Copy, Debug, PartialEq, Eq, FieldEnum)]
pub enum Status {
    Draft,
    Live,
}

#[entity(namespace = "forum", routes(get(auth = none)))]
#[derive(Clone, Debug)]
pub struct Container {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
    #[field(private)]
    pub hash: Option<String>,
}

#[projection(Container)]
pub struct ContainerCard {
    pub id: String,
    pub title: String,
}

#[entity(
    namespace = "forum",
    index(container_id),
    gate(container_id -> Container),
    routes(get(permission(requires = "read", resource = container_id)), list(disabled)),
)]
#[derive(Clone, Debug)]
pub struct Thread {
    #[field(primary, default = uuid)]
    pub id: String,
    pub container_id: String,
    /// The id of another thread.
    pub parent_id: Option<String>,
    pub score: i64,
    pub status: Status,
}

#[operation(kind = "transition", field = status, from = Status::Draft, to = Status::Live)]
pub const PUBLISH: Operation<Thread>;

#[operation(kind = "field_update", match(id = param(id)), set(score))]
pub const SCORE: Operation<Thread>;

mod elsewhere {
    use linchpin::prelude::*;

    use super::{Thread, ThreadAdapter};

    #[operation(kind = "increment", field = score, by = 5)]
    pub const RESET: Operation<Thread>;

    pub async fn vote(
        _: &Cx,
        _: super::Room<super::ContainerLive>,
        vote: super::Vote,
    ) -> Result<i64> {
        Ok(vote.stars)
    }
}
use elsewhere::RESET;

#[derive(Clone, Debug, Embedded)]
pub struct Vote {
    #[field(range = 1..=5)]
    pub stars: i64,
}

async fn left(_: &Cx, _: Room<ContainerLive>, (): ()) -> Result<()> {
    Ok(())
}

// item, of, name, options, history, auth:
#[channel(
    of = Container,
    name = "live_room-1",
    history(size = 10000, ttl = "7d"),
    presence,
    auth = none,
    roles = ["reader"],
    rate_limit = "10/min",
    endpoint = "/live/ws",
)]
pub enum ContainerLive {
    // on, payload:
    #[on(Container::updated, Container::deleted)]
    Container(ContainerCard),
    // by, when, gates:
    #[on(Thread::created, by = container_id, when(score > 3 && status == Status::Live))]
    #[on(Thread::PUBLISH, Thread::RESET, by = container_id, event = "thread.moved")]
    Thread(Thread),
    // event:
    #[publish(event = "acks", alias = ["forum:acks", "forum-acks"])]
    Acks,
    #[publish(ephemeral)]
    Said {
        #[field(length = 1..=200)]
        text: String,
        at: Option<Timestamp>,
    },
    #[publish]
    Voted(Vote),
    // relay:
    #[relay(rate = "1000/h", echo)]
    Typing { thread_id: String },
    #[relay]
    Waved,
    // incoming:
    #[incoming(Thread::SCORE, by = container_id)]
    Score { score: i64 },
    #[incoming(self::elsewhere::vote)]
    Vote(Vote),
    #[incoming(left, event = "gone")]
    Left,
}

#[channel(of = Container, name = "all", scope = collection, history(size = 0))]
pub enum Containers {
    #[on(Container::created)]
    Container(Container),
}

/// The room of a thread, for events of the thread itself.
#[channel(of = Thread, name = "children")]
enum Children {
    #[on(super::neighbours::Thread::updated)]
    Own(Thread),
    #[publish]
    Closed,
}

// rooms:
async fn say(rooms: &Rooms, cx: &Cx, id: &String, text: String) -> Result<()> {
    let room = rooms.room::<ContainerLive>(id);
    room.publish(cx, ContainerLive::Said { text, at: None })
        .await?;
    let _ = rooms.collection::<Containers>();
    rooms
        .room::<Children>("t1")
        .publish(cx, Children::Closed)
        .await
}

#[test]
fn the_descriptor_contains_the_declaration() {
    let desc = ContainerLive::DESC;
    assert_eq!(
        (desc.ident, desc.name, desc.endpoint),
        ("ContainerLive", "live_room-1", "/live/ws")
    );
    assert_eq!((desc.history.size, desc.history.ttl), (10_000, 604_800_000));
    let names: Vec<Vec<String>> = desc
        .variants
        .iter()
        .map(|variant| desc.names_of(variant))
        .collect();
    assert_eq!(
        names[0],
        ["forum.containers.updated", "forum.containers.deleted"]
    );
    assert_eq!(names[1], ["forum.threads.created", "thread.moved"]);
    assert_eq!(names[2], ["acks", "forum:acks", "forum-acks"]);
    assert_eq!(names[3], ["forum.said"]);
    assert_eq!(names[9], ["gone"]);
    assert!(matches!(
        desc.variants[0].payload,
        Payload::Projection("ContainerCard", ["id", "title"])
    ));
    let Payload::Members(members) = desc.variants[7].payload else {
        panic!("no members")
    };
    let wires: Vec<&str> = members.fields[0]
        .kind
        .item_fields()
        .iter()
        .map(|f| f.wire)
        .collect();
    assert_eq!(wires, ["id", "score"]);
    let Mark::On(on) = desc.variants[1].mark else {
        panic!("no events")
    };
    assert_eq!(
        (on[0].by, on[1].changes.len(), on[0].when.is_some()),
        (Some(1), 2, true)
    );
}

#[test]
fn rooms_have_one_name() {
    assert_eq!(
        room_name::<ContainerLive>("a:b").as_deref(),
        Ok("forum_containers:a%3Ab:live_room-1")
    );
    assert_eq!(room_name::<ContainerLive>(""), Err(InvalidRoom));
}

// unlisted:
mod listed {
    #![deny(dead_code)]

    use linchpin_realtime::channel;
    use linchpin_realtime::channel::Declared;

    use super::Container;

    #[channel(of = Container, name = "listed")]
    enum ContainerListed {
        #[on(Container::updated)]
        Container(Container),
    }

    #[test]
    fn a_private_channel_in_a_list_gives_no_warning() {
        let _ = Declared::default().channel::<ContainerListed>();
    }
}
