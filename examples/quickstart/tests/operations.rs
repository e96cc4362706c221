//! Compiles and tests the snippets of `docs/guide.md` about several entities.

use linchpin::prelude::*;
use linchpin::testing::Client;
use serde_json::json;

/// A thread of a forum.
#[entity(sort = asc(title), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Topic {
    #[field(primary)]
    pub id: String,
    pub title: String,
    pub tags: Vec<String>,
    #[field(default = 0, read_only)]
    pub answers: i64,
}

/// An answer to a topic.
#[entity(sort = asc(id), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Answer {
    #[field(primary)]
    pub id: String,
    #[field(filterable)]
    pub topic_id: String,
    #[field(filterable)]
    pub author_id: String,
}

/// A room: open to all, or visible to its owner only.
#[entity(visible(open || owner_id == ctx(actor.id)), action("write", closed == false), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Room {
    #[field(primary)]
    pub id: String,
    pub open: bool,
    #[field(default = false)]
    pub closed: bool,
    pub owner_id: String,
}

/// Visible to callers who see the room.
#[entity(gate(room_id -> Room), index(room_id), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Message {
    #[field(primary)]
    pub id: String,
    pub room_id: String,
}

/// Visible to callers who see the message.
#[entity(gate(message_id -> Message), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Reaction {
    #[field(primary)]
    pub id: String,
    pub message_id: String,
}

/// Removes a tag.
#[operation(kind = "array_pull", field = tags, value = param(tag))]
pub const UNTAG: Operation<Topic>;

/// Replaces all tags.
#[operation(kind = "array_set", field = tags, value = input(tags))]
pub const RETAG: Operation<Topic>;

/// Counts the answers of a topic, and keeps the number in it.
#[operation(
    kind = "computed_aggregate",
    source = Answer,
    source_filter = (topic_id == param(id)),
    compute = count(),
    target_match(id = param(id)),
    materialize_to = answers,
    atomic,
)]
pub const RECOUNT: Operation<Topic>;

/// The topics that an author has answered.
#[operation(
    kind = "derive",
    source(Answer, where = (author_id == param(author_id)), traverse(Topic, on = topic_id)),
    merge = "union",
)]
pub const ANSWERED_BY: Operation<Topic>;

/// A club, which always has an owner.
#[entity(routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Club {
    #[field(primary)]
    pub id: String,
    #[field(read_only, default = 0)]
    pub members: i64,
    #[field(read_only, default = 0)]
    pub owners: i64,
}

/// A member of a club.
#[entity(
    belongs_to(club: Club, key = club_id, on_delete = "cascade"),
    counter(Club.members, by = club_id),
    counter(Club.owners, by = club_id, when(owner), min = 1, code = "last_owner"),
    routes(auth = none),
)]
#[derive(Clone, Debug)]
pub struct Membership {
    #[field(primary, default = uuid)]
    pub id: String,
    pub club_id: String,
    pub user_id: String,
    #[field(default = false)]
    pub owner: bool,
}

/// A track of a record.
#[derive(Clone, Debug, PartialEq, Embedded)]
pub struct Track {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
}

/// A record in a sleeve.
#[entity(routes(
    auth = none,
    list(path = "all"),
    get(path = "{id}/sleeve"),
    update(method = "PUT"),
    delete(method = "POST", path = "{id}/discard", description = "Takes the record off the shelf.\n\nNobody gets it back."),
))]
#[derive(Clone, Debug)]
pub struct Disc {
    #[field(primary, default = uuid)]
    pub id: String,
    pub tracks: Vec<Track>,
}

/// The tracks of the record.
#[operation(
    kind = "collection",
    field = tracks,
    operations(list, add, remove),
    route(tracks_list(path = "{id}/tracks"), tracks_add(path = "{id}/tracks"), tracks_remove(path = "{id}/tracks/{item_id}")),
)]
pub const TRACKS: Operation<Disc>;

/// The public fields of a player.
#[projection(Player)]
#[derive(Debug, PartialEq)]
pub struct PlayerCard {
    pub id: String,
    pub name: String,
}

/// A player.
#[entity(routes(auth = none, get(output = PlayerCard), list(output = PlayerCard)))]
#[derive(Clone, Debug)]
pub struct Player {
    #[field(primary, default = uuid)]
    pub id: String,
    pub name: String,
    pub email: String,
}

static PLAYERS: Package = package!(name = "players", entities = [entity(Player, [])]);

static SHELF: Package = package!(name = "shelf", entities = [entity(Disc, [TRACKS])]);

/// Topics and answers, clubs and members.
pub static FORUM: Package = package!(
    name = "forum",
    entities = [
        entity(Topic, [UNTAG, RETAG, RECOUNT, ANSWERED_BY]),
        entity(Answer, []),
        entity(Club, []),
        entity(Membership, [])
    ],
);

/// Answers a topic. Both records are written, or neither is.
async fn answer(
    answers: &AnswerAdapter,
    topics: &TopicAdapter,
    cx: &Cx,
    answer: AnswerCreate,
) -> Result<Topic> {
    cx.transaction(async |cx| {
        let answer = answers.create(cx, answer).await?;
        topics.recount(cx, &answer.topic_id).await
    })
    .await
}

fn answer_input(id: &str, topic: &str) -> AnswerCreate {
    AnswerCreate {
        id: id.to_owned(),
        topic_id: topic.to_owned(),
        author_id: "alice".to_owned(),
    }
}

#[tokio::test]
async fn the_code_of_the_guide_gives_the_documented_results() -> Result<()> {
    let app = App::new(
        Config::new()
            .port(0)
            .database("memory:")
            .signing_secret("only a test: 32 bytes or more of it"),
    );
    let app = app.package(&FORUM).start().await?;
    let (topics, answers) = (app.adapter::<Topic>()?, app.adapter::<Answer>()?);
    let cx = Cx::actor(Actor::user("alice"));
    let tags = Some(vec!["a".to_owned(), "b".to_owned()]);
    topics
        .create(
            &cx,
            TopicCreate {
                id: "t".to_owned(),
                title: "T".to_owned(),
                tags,
            },
        )
        .await?;

    assert_eq!(topics.untag(&cx, "t", "a").await?.tags, ["b"]);
    assert_eq!(
        topics.retag(&cx, "t", vec!["c".to_owned()]).await?.tags,
        ["c"]
    );
    assert_eq!(
        answer(&answers, &topics, &cx, answer_input("1", "t"))
            .await?
            .answers,
        1
    );
    assert_eq!(
        answer(&answers, &topics, &cx, answer_input("2", "t"))
            .await?
            .answers,
        2
    );
    // The topic does not exist, so the answer is not stored either.
    assert!(
        answer(&answers, &topics, &cx, answer_input("3", "gone"))
            .await
            .is_err()
    );
    assert!(answers.get(&cx, "3").await?.is_none());
    let answered = topics.answered_by(&cx, "alice").await?;
    assert_eq!(
        answered
            .iter()
            .map(|topic| topic.id.as_str())
            .collect::<Vec<_>>(),
        ["t"]
    );

    let (clubs, members) = (app.adapter::<Club>()?, app.adapter::<Membership>()?);
    clubs.create(&cx, ClubCreate { id: "c".to_owned() }).await?;
    let in_club = |user: &str, owner| MembershipCreate {
        club_id: "c".to_owned(),
        user_id: user.to_owned(),
        owner: Some(owner),
    };
    let first = members.create(&cx, in_club("ann", true)).await?;
    members.create(&cx, in_club("bob", false)).await?;
    let club = clubs.get(&cx, "c").await?.ok_or_else(Error::not_found)?;
    assert_eq!((club.members, club.owners), (2, 1));
    // Code cannot write a counter, just as a client cannot.
    let counter_update = clubs
        .update(
            &cx,
            "c",
            ClubPatch {
                members: Some(9),
                ..ClubPatch::default()
            },
            None,
        )
        .await
        .err();
    let counter_update = counter_update.ok_or_else(Error::not_found)?;
    assert_eq!(
        (
            counter_update.details()[0].path.as_str(),
            counter_update.details()[0].code
        ),
        ("members", "read_only")
    );
    let refused = members
        .delete(&cx, first.id, None)
        .await
        .map_err(|error| (error.code().status(), error.code().as_str()));
    assert_eq!(refused, Err((409, "last_owner")));
    app.stop().await
}

static ROOMS: Package = package!(
    name = "rooms",
    entities = [entity(Room, []), entity(Message, []), entity(Reaction, [])]
);

#[tokio::test]
async fn messages_of_a_room_reach_callers_who_can_read_the_room() -> Result<()> {
    let app = App::new(
        Config::new()
            .port(0)
            .database("memory:")
            .signing_secret("only a test: 32 bytes or more of it"),
    );
    let app = app.package(&ROOMS).start().await?;
    let (rooms, messages, reactions) = (
        app.adapter::<Room>()?,
        app.adapter::<Message>()?,
        app.adapter::<Reaction>()?,
    );
    let (alice, bob) = (
        Cx::actor(Actor::user("alice")),
        Cx::actor(Actor::user("bob")),
    );
    let text = |text: &str| text.to_owned();
    rooms
        .create(
            &alice,
            RoomCreate {
                id: text("r"),
                open: false,
                closed: None,
                owner_id: text("alice"),
            },
        )
        .await?;
    let message = |id: &str| MessageCreate {
        id: text(id),
        room_id: text("r"),
    };
    messages.create(&alice, message("m")).await?;
    reactions
        .create(
            &alice,
            ReactionCreate {
                id: text("x"),
                message_id: text("m"),
            },
        )
        .await?;

    assert!(
        reactions.get(&alice, "x").await?.is_some() && reactions.get(&bob, "x").await?.is_none()
    );
    let refused = messages
        .create(&bob, message("n"))
        .await
        .err()
        .ok_or_else(Error::not_found)?;
    assert_eq!(
        (
            refused.details()[0].path.as_str(),
            refused.details()[0].code
        ),
        ("roomId", "reference")
    );
    rooms
        .update(
            &alice,
            "r",
            RoomPatch {
                open: Some(true),
                ..RoomPatch::default()
            },
            None,
        )
        .await?;
    assert!(reactions.get(&bob, "x").await?.is_some());
    app.stop().await
}

#[tokio::test]
async fn moved_routes_are_served_at_their_new_paths() -> Result<()> {
    let app = App::new(
        Config::new()
            .port(0)
            .database("memory:")
            .signing_secret("only a test: 32 bytes or more of it"),
    );
    let app = app.package(&SHELF).start().await?;
    let client = Client::new(&app);
    let disc = client.post("/discs", json!({})).await?;
    let path = format!("/discs/{}", disc.json()?["id"].as_str().unwrap_or_default());
    assert_eq!(
        disc.header("location"),
        Some(format!("{path}/sleeve").as_str())
    );
    let track = client
        .post(&format!("{path}/tracks"), json!({ "title": "Overture" }))
        .await?
        .json()?;
    assert_eq!(
        client.get(&format!("{path}/tracks")).await?.json()?,
        json!([track])
    );
    assert_eq!(
        client.get("/discs/all").await?.json()?["items"][0]["tracks"],
        json!([track])
    );
    assert_eq!(
        client
            .delete(&format!(
                "{path}/tracks/{}",
                track["id"].as_str().unwrap_or_default()
            ))
            .await?
            .status(),
        204
    );
    assert_eq!(
        client
            .post(&format!("{path}/discard"), json!({}))
            .await?
            .status(),
        204
    );
    assert_eq!(client.get(&format!("{path}/sleeve")).await?.status(), 404);
    app.stop().await
}

#[tokio::test]
async fn anonymous_callers_can_read_the_public_card_of_a_player() -> Result<()> {
    let app = App::new(
        Config::new()
            .port(0)
            .database("memory:")
            .signing_secret("only a test: 32 bytes or more of it"),
    );
    let app = app.package(&PLAYERS).start().await?;
    let ann = PlayerCreate {
        name: "Ann".to_owned(),
        email: "ann@example.com".to_owned(),
    };
    let ann = app
        .adapter::<Player>()?
        .create(&Cx::system("seed"), ann)
        .await?;
    let shown = Client::new(&app)
        .get(&format!("/players/{}", ann.id))
        .await?
        .json()?;
    let card = PlayerCard::from(ann);
    assert_eq!(shown, json!({ "id": card.id, "name": card.name }));
    app.stop().await
}
