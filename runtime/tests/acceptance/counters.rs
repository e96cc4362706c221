//! `counter`: exact numbers of related records.

#![allow(missing_docs)] // test entities

use std::collections::BTreeMap;

use linchpin::operation::{CustomCall, CustomStore};
use linchpin::prelude::*;
use linchpin::{Actor, Code, Cx};
use serde_json::{Value as Json, json};

use crate::cases;
use crate::server::Server;

mod costs;
mod least;
mod many;
mod paths;

use least::{
    a_deletion_of_the_counting_record_ignores_the_minimum,
    a_refused_change_rolls_back_its_transaction, counters_keep_their_minimum,
};
#[cfg(feature = "postgres")]
use many::concurrent_upserts_of_tenants_do_not_wait;
use many::{
    counters_count_concurrently_created_records, counters_follow_concurrent_changes,
    opposite_moves_do_not_deadlock,
};
use paths::{
    a_record_with_a_counter_is_never_304, a_recount_computes_the_current_number,
    changes_of_other_fields_do_not_count, counters_follow_arrays_and_increments,
    counters_follow_batches, counters_follow_cascades, counters_follow_changed_keys,
    counters_follow_create_update_and_delete, counters_follow_expiry,
    counters_follow_operations_on_one_record, counters_follow_transactions_of_code,
    counters_follow_trees, counters_follow_upserts, counters_stay_within_a_tenant,
};

#[derive(FieldEnum, Clone, Copy, Debug, PartialEq)]
pub enum Status {
    Draft,
    Live,
}

/// A topic with counters of its answers.
#[entity(soft_delete(deleted_at), version(required_on_write = false), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Topic {
    #[field(primary)]
    pub id: String,
    #[field(default = "")]
    pub title: String,
    #[field(read_only, default = 0)]
    pub live: i64,
    #[field(read_only, default = 0)]
    pub total: i64,
    #[field(read_only, default = 0)]
    pub liked: i64,
    #[field(default = now, on_update = now)]
    pub updated_at: Timestamp,
    pub deleted_at: Option<Timestamp>,
}

#[operation(
    kind = "computed_aggregate",
    source = Answer,
    source_filter = (topic_id == param(id) && status == Status::Live),
    compute = count(),
    target_match(id = param(id)),
    materialize_to = live,
    atomic,
)]
pub const RECOUNT: Operation<Topic>;

/// An answer that several counters count.
#[entity(
    soft_delete(deleted_at),
    unique(slug),
    counter(Topic.live, by = topic_id, when(status == Status::Live)),
    counter(Topic.total, by = topic_id),
    counter(Topic.liked, by = topic_id, when(points >= 3 || tags.has("good"))),
    counter(Answer.children, by = parent_id),
    routes(auth = none),
)]
#[derive(Clone, Debug)]
pub struct Answer {
    #[field(primary)]
    pub id: String,
    pub slug: Option<String>,
    #[field(filterable)]
    pub topic_id: Option<String>,
    #[field(filterable)]
    pub parent_id: Option<String>,
    #[field(default = Status::Draft)]
    pub status: Status,
    #[field(default = 0)]
    pub points: i64,
    #[field(default = "")]
    pub text: String,
    pub tags: Vec<String>,
    #[field(read_only, default = 0)]
    pub children: i64,
    pub deleted_at: Option<Timestamp>,
}

#[operation(kind = "transition", field = status, from = Status::Draft, to = Status::Live)]
pub const PUBLISH: Operation<Answer>;

#[operation(kind = "field_update", set(text))]
pub const REWORD: Operation<Answer>;

#[operation(kind = "field_update", set(topic_id), nullable)]
pub const MOVE_TO: Operation<Answer>;

#[operation(kind = "increment", field = points)]
pub const LIKE: Operation<Answer>;

#[operation(kind = "array_push", field = tags, value = input(tag))]
pub const TAG: Operation<Answer>;

#[operation(kind = "array_pull", field = tags, value = param(tag))]
pub const UNTAG: Operation<Answer>;

#[operation(kind = "array_set", field = tags, value = input(tags))]
pub const RETAG: Operation<Answer>;

#[operation(kind = "batch", action = "update", filter = (text == param(text)), set(status = Status::Live))]
pub const SHOW_ALL: Operation<Answer>;

#[operation(kind = "batch", action = "update", filter = (text == param(text)), set(topic_id = param(to)))]
pub const MOVE_ALL: Operation<Answer>;

#[operation(kind = "batch", action = "delete", filter = (text == param(text)))]
pub const DROP_ALL: Operation<Answer>;

#[operation(kind = "batch", action = "update", filter = (status == Status::Draft), set(status = Status::Live), limit = 2, sort = asc(id), returns = "records")]
pub const SHOW_TWO: Operation<Answer>;

#[operation(kind = "consume", filter = (text == param(text)), returns = "entity")]
pub const TAKE: Operation<Answer>;

#[operation(kind = "upsert", match(slug), set(topic_id, status, text), on_create(id = uuid()), returns = "created")]
pub const ENSURE: Operation<Answer>;

#[operation(kind = "restore", route(roles = ["editor"]))]
pub const RESTORE: Operation<Answer>;

#[operation(kind = "custom", http(method = "POST"), params(a: String, b: String), handler(memory = swap, sqlite = swap, postgres = swap))]
pub const SWAP: Operation<Answer>;

/// Exchanges the topics of two answers.
async fn swap<S: CustomStore>(call: CustomCall<Answer, S>, a: String, b: String) -> Result<()> {
    let answers = call.adapter();
    call.cx()
        .transaction(async |cx| {
            let one = answers.get(cx, &*a).await?.ok_or_else(Error::not_found)?;
            let other = answers.get(cx, &*b).await?.ok_or_else(Error::not_found)?;
            answers
                .update(
                    cx,
                    &*a,
                    AnswerPatch {
                        topic_id: Some(other.topic_id),
                        ..AnswerPatch::default()
                    },
                    None,
                )
                .await?;
            answers
                .update(
                    cx,
                    &*b,
                    AnswerPatch {
                        topic_id: Some(one.topic_id),
                        ..AnswerPatch::default()
                    },
                    None,
                )
                .await
        })
        .await
        .map(|_| ())
}

/// A note that two posts count: it is deleted with the first, and kept without the second.
#[entity(
    belongs_to(topic: Post, key = post_id, on_delete = "cascade"),
    belongs_to(other: Post, key = other_id, on_delete = "set_null"),
    counter(Post.notes, by = post_id),
    counter(Post.mentions, by = other_id),
    routes(auth = none),
)]
#[derive(Clone, Debug)]
pub struct Note {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(filterable)]
    pub post_id: String,
    pub other_id: Option<String>,
}

#[entity(soft_delete(deleted_at), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Post {
    #[field(primary)]
    pub id: String,
    #[field(read_only, default = 0)]
    pub notes: i64,
    #[field(read_only, default = 0)]
    pub mentions: i64,
    pub deleted_at: Option<Timestamp>,
}

/// An offer that expires.
#[entity(ttl(until), unique(name), counter(Shop.offers, by = shop_id), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Offer {
    #[field(primary, default = uuid)]
    pub id: String,
    pub shop_id: i64,
    pub name: String,
    pub until: Option<Timestamp>,
}

#[entity(routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Shop {
    #[field(primary)]
    pub id: i64,
    #[field(read_only, default = 0)]
    pub offers: i64,
}

/// A pin of a tenant; its counter belongs to an entity of the same tenant.
#[entity(tenant(team), unique(slug), counter(Board.pins, by = board_id))]
#[derive(Clone, Debug)]
pub struct Pin {
    #[field(primary, default = uuid)]
    pub id: String,
    pub team: String,
    pub board_id: String,
    pub slug: Option<String>,
}

#[operation(kind = "upsert", match(slug), set(board_id), on_create(id = uuid()))]
pub const PLACE: Operation<Pin>;

#[entity(tenant(team))]
#[derive(Clone, Debug)]
pub struct Board {
    #[field(primary)]
    pub id: String,
    pub team: String,
    #[field(read_only, default = 0)]
    pub pins: i64,
}

#[derive(FieldEnum, Clone, Copy, Debug, PartialEq)]
pub enum Rank {
    Member,
    Owner,
}

/// A club needs at least one owner.
#[entity(soft_delete(deleted_at), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Club {
    #[field(primary)]
    pub id: String,
    #[field(read_only, default = 0)]
    pub owners: i64,
    #[field(read_only, default = 0)]
    pub members: i64,
    pub deleted_at: Option<Timestamp>,
}

#[entity(
    unique(club_id, user_id),
    belongs_to(club: Club, key = club_id, on_delete = "cascade"),
    counter(Club.owners, by = club_id, when(rank == Rank::Owner), min = 1, code = "last_owner"),
    counter(Club.members, by = club_id),
    routes(auth = none),
)]
#[derive(Clone, Debug)]
pub struct Membership {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(immutable)]
    pub club_id: String,
    #[field(immutable)]
    pub user_id: String,
    #[field(default = Rank::Member)]
    pub rank: Rank,
}

#[operation(kind = "upsert", match(club_id, user_id), set(rank))]
pub const ASSIGN: Operation<Membership>;

#[operation(kind = "batch", action = "update", filter = (club_id == param(club)), set(rank = Rank::Member))]
pub const DEMOTE_ALL: Operation<Membership>;

pub static FORUM: Package = package!(
    name = "forum",
    entities = [
        entity(Topic, [RECOUNT]),
        entity(
            Answer,
            [
                PUBLISH, REWORD, MOVE_TO, LIKE, TAG, UNTAG, RETAG, SHOW_ALL, MOVE_ALL, DROP_ALL,
                SHOW_TWO, TAKE, ENSURE, RESTORE, SWAP
            ]
        ),
        entity(Note, []),
        entity(Post, []),
        entity(Offer, []),
        entity(Shop, []),
        entity(Pin, [PLACE]),
        entity(Board, []),
        entity(Club, []),
        entity(Membership, [ASSIGN, DEMOTE_ALL]),
    ],
);

cases!(&super::FORUM =>
    a_counter_follows_every_change, counters_follow_create_update_and_delete,
    counters_follow_changed_keys, counters_follow_operations_on_one_record,
    counters_follow_arrays_and_increments, counters_follow_batches, counters_follow_upserts,
    counters_follow_trees, counters_follow_cascades, counters_follow_expiry,
    counters_stay_within_a_tenant, a_recount_computes_the_current_number,
    counters_follow_transactions_of_code, changes_of_other_fields_do_not_count,
    a_record_with_a_counter_is_never_304, counters_keep_their_minimum,
    a_deletion_of_the_counting_record_ignores_the_minimum,
    a_refused_change_rolls_back_its_transaction, counters_follow_concurrent_changes,
    opposite_moves_do_not_deadlock, counters_count_concurrently_created_records,
);

async fn post(s: &Server, path: &str, body: Json) -> Json {
    let reply = s.post(path, body).await;
    assert_eq!(reply.status, 201, "{reply:?}");
    reply.json()
}

async fn get(s: &Server, path: &str) -> Json {
    let reply = s.get(path).await;
    assert_eq!(reply.status, 200, "{path} {reply:?}");
    reply.json()
}

/// Restores a record as an editor.
async fn restore(s: &Server, id: &str) -> u16 {
    s.raw(
        "POST",
        &format!("/answers/{id}/restore"),
        &[("authorization", &s.token("e", &["editor"]))],
        "",
    )
    .await
    .status
}

fn system() -> Cx {
    Cx::system("look")
}

/// Checks that every counter equals the number of the records that it counts, also in deleted
/// records.
async fn check_counters(s: &Server, after: &str) {
    let answers = s.running().adapter::<Answer>().unwrap();
    let topics = s.running().adapter::<Topic>().unwrap();
    let cx = system().at(s.now());
    let all = answers
        .list(&cx, AnswerListQuery::new().limit(200))
        .await
        .unwrap()
        .items;
    for topic in topics
        .list(&cx, TopicListQuery::new().include_deleted().limit(200))
        .await
        .unwrap()
        .items
    {
        let own = || {
            all.iter()
                .filter(|answer| answer.topic_id.as_ref() == Some(&topic.id))
        };
        let live = own().filter(|answer| answer.status == Status::Live).count();
        let liked = own()
            .filter(|answer| answer.points >= 3 || answer.tags.iter().any(|tag| tag == "good"))
            .count();
        let counters = (topic.live, topic.total, topic.liked);
        assert_eq!(
            counters,
            (live as i64, own().count() as i64, liked as i64),
            "{} after {after}",
            topic.id
        );
    }
    for answer in answers
        .list(&cx, AnswerListQuery::new().include_deleted().limit(200))
        .await
        .unwrap()
        .items
    {
        let children = all
            .iter()
            .filter(|other| other.parent_id.as_ref() == Some(&answer.id))
            .count();
        assert_eq!(
            answer.children, children as i64,
            "{} after {after}",
            answer.id
        );
    }
    let (notes, posts) = (
        s.running().adapter::<Note>().unwrap(),
        s.running().adapter::<Post>().unwrap(),
    );
    let all = notes
        .list(&cx, NoteListQuery::new().limit(200))
        .await
        .unwrap()
        .items;
    for post in posts
        .list(&cx, PostListQuery::new().include_deleted().limit(200))
        .await
        .unwrap()
        .items
    {
        let notes = all.iter().filter(|note| note.post_id == post.id).count();
        let mentions = all
            .iter()
            .filter(|note| note.other_id.as_ref() == Some(&post.id))
            .count();
        assert_eq!(
            (post.notes, post.mentions),
            (notes as i64, mentions as i64),
            "{} after {after}",
            post.id
        );
    }
    let (members, clubs) = (
        s.running().adapter::<Membership>().unwrap(),
        s.running().adapter::<Club>().unwrap(),
    );
    let mut counted: BTreeMap<String, (i64, i64)> = BTreeMap::new();
    for member in members
        .list(&cx, MembershipListQuery::new().limit(200))
        .await
        .unwrap()
        .items
    {
        let (owners, all) = counted.entry(member.club_id).or_default();
        *owners += i64::from(member.rank == Rank::Owner);
        *all += 1;
    }
    for club in clubs
        .list(&cx, ClubListQuery::new().include_deleted().limit(200))
        .await
        .unwrap()
        .items
    {
        assert_eq!(
            (club.owners, club.members),
            counted.get(&club.id).copied().unwrap_or_default(),
            "{} after {after}",
            club.id
        );
    }
}

async fn topics(s: &Server, ids: &[&str]) {
    for id in ids {
        post(s, "/topics", json!({"id": id})).await;
    }
}

/// Create, PATCH, batch update, delete, restore, and 25 concurrent creates.
async fn a_counter_follows_every_change(s: &Server) {
    topics(s, &["t"]).await;
    let live = async || get(s, "/topics/t").await["live"].clone();
    post(
        s,
        "/answers",
        json!({"id": "a", "topicId": "t", "status": "live", "text": "x"}),
    )
    .await;
    assert_eq!(live().await, 1);
    post(
        s,
        "/answers",
        json!({"id": "b", "topicId": "t", "text": "x"}),
    )
    .await;
    assert_eq!(live().await, 1);
    assert_eq!(
        s.patch("/answers/b", json!({"status": "live"}))
            .await
            .status,
        200
    );
    assert_eq!(live().await, 2);
    assert_eq!(
        s.patch("/answers/a", json!({"status": "draft"}))
            .await
            .status,
        200
    );
    assert_eq!(live().await, 1);
    assert_eq!(
        s.post("/answers/show-all", json!({"text": "x"}))
            .await
            .json(),
        json!(2)
    );
    assert_eq!(live().await, 2);
    assert_eq!(s.delete("/answers/a").await.status, 204);
    assert_eq!(live().await, 1);
    assert_eq!(restore(s, "a").await, 200);
    assert_eq!(live().await, 2);
    let made = s
        .parallel(25, |n| async move {
            s.post(
                "/answers",
                json!({"id": format!("p{n}"), "topicId": "t", "status": "live"}),
            )
            .await
        })
        .await;
    assert!(made.iter().all(|reply| reply.status == 201), "{made:?}");
    assert_eq!(live().await, 27);
    check_counters(s, "after all operations").await;
    // Clients cannot write counters.
    for reply in [
        s.post("/topics", json!({"id": "u", "live": 3})).await,
        s.patch("/topics/t", json!({"live": 3})).await,
    ] {
        assert_eq!(
            reply.problems(),
            [("live".to_owned(), "read_only".to_owned())]
        );
    }
}

/// One process runs several transactions concurrently. Only the database server isolates them, and
/// there is no deadlock.
#[cfg(feature = "postgres")]
mod many_transactions {
    use crate::server::Server;

    async fn server() -> Server {
        Server::postgres_at_once(&super::FORUM).await
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_counter_follows_every_change() {
        super::a_counter_follows_every_change(&server().await).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn counters_follow_concurrent_changes() {
        super::counters_follow_concurrent_changes(&server().await).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn opposite_moves_do_not_deadlock() {
        super::opposite_moves_do_not_deadlock(&server().await).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn counters_keep_their_minimum() {
        super::counters_keep_their_minimum(&server().await).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn counters_count_concurrently_created_records() {
        super::counters_count_concurrently_created_records(&server().await).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn concurrent_upserts_of_tenants_do_not_wait() {
        super::concurrent_upserts_of_tenants_do_not_wait(&server().await).await;
    }
}
