//! `derive`: records of several entities in one response.

#![allow(missing_docs)] // test entities

use linchpin::prelude::*;
use serde_json::{Value as Json, json};

use crate::cases;
use crate::server::Server;

/// An unpublished text.
#[entity(sort = asc(rank), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Sketch {
    #[field(primary)]
    pub id: String,
    pub title: String,
    pub rank: i64,
    pub story_id: Option<String>,
    pub tags: Vec<String>,
}

/// A published text.
#[entity(sort = asc(rank), soft_delete(deleted_at), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Story {
    #[field(primary)]
    pub id: String,
    pub title: String,
    pub rank: i64,
    #[field(private)]
    pub secret: Option<String>,
    pub deleted_at: Option<Timestamp>,
}

macro_rules! feeds {
    ($($name:ident $merge:literal),*) => {$(
        #[operation(kind = "derive", source(Sketch, select = title), source(Story, select = title), merge = $merge)]
        pub const $name: Operation<Story>;
    )*};
}
feeds!(UNITED "union", ALL "concat", COMMON "intersect", FIRST_OF "first", BEST "priority");

#[operation(
    kind = "derive",
    source(Sketch, where = (title == param(of)), select = title),
    source(Story, select = title),
    merge = "first",
    optional_params(of),
)]
pub const SOME: Operation<Story>;

#[operation(kind = "derive", source(Sketch, select = title), source(Story, select = title), merge = "union", post_filter = (title != "a"))]
pub const REST: Operation<Story>;

#[operation(kind = "derive", source(Sketch, traverse(Story, on = story_id)), source(Story, where = (rank > 1)), merge = "union")]
pub const STORIES: Operation<Story>;

#[operation(kind = "derive", source(Sketch, select = tags), merge = "union", flatten)]
pub const TAGS: Operation<Sketch>;

pub static FEEDS: Package = package!(
    name = "feeds",
    entities = [
        entity(
            Story,
            [UNITED, ALL, COMMON, FIRST_OF, BEST, SOME, REST, STORIES]
        ),
        entity(Sketch, [TAGS])
    ],
);

cases!(&crate::derives::FEEDS =>
    derive_merges_by_union_concat_and_intersect, derive_merges_by_first_and_priority,
    a_derive_without_a_field_returns_records, a_derive_reads_public_lists,
);

async fn seed(s: &Server) {
    for (rank, title) in ["b", "a"].into_iter().enumerate() {
        let body = json!({"id": format!("d{rank}"), "title": title, "rank": rank, "storyId": "l1", "tags": ["y", title]});
        assert_eq!(s.post("/sketches", body).await.status, 201);
    }
    for (rank, title) in ["a", "c"].into_iter().enumerate() {
        let body = json!({"id": format!("l{rank}"), "title": title, "rank": rank});
        assert_eq!(s.post("/stories", body).await.status, 201);
    }
}

async fn feed(s: &Server, path: &str) -> Json {
    let reply = s.get(path).await;
    assert_eq!(reply.status, 200, "{path} {reply:?}");
    reply.json()
}

async fn derive_merges_by_union_concat_and_intersect(s: &Server) {
    seed(s).await;
    assert_eq!(feed(s, "/stories/united").await, json!(["a", "b", "c"]));
    assert_eq!(feed(s, "/stories/all").await, json!(["b", "a", "a", "c"]));
    assert_eq!(feed(s, "/stories/common").await, json!(["a"]));
}

async fn derive_merges_by_first_and_priority(s: &Server) {
    seed(s).await;
    assert_eq!(feed(s, "/stories/some?of=none").await, json!(["a", "c"]));
    assert_eq!(feed(s, "/stories/first-of").await, json!(["b", "a"]));
    assert_eq!(feed(s, "/stories/best").await, json!(["b", "a", "c"]));
    assert_eq!(feed(s, "/stories/rest").await, json!(["b", "c"]));
}

async fn a_derive_without_a_field_returns_records(s: &Server) {
    seed(s).await;
    let stories = feed(s, "/stories/stories").await;
    assert_eq!(
        stories,
        json!([{"id": "l1", "title": "c", "rank": 1, "deletedAt": null}])
    );
    assert_eq!(s.delete("/stories/l1").await.status, 204);
    assert_eq!(feed(s, "/stories/stories").await, json!([]));
    let stories = s.running().adapter::<Story>().unwrap();
    let cx = Cx::system("a test");
    let lists = [
        stories.all(&cx).await.unwrap(),
        stories.common(&cx).await.unwrap(),
    ];
    assert_eq!(lists.map(|list: Vec<String>| list.len()), [3, 1]);
    assert_eq!(
        stories.first_of(&cx).await.unwrap(),
        stories.best(&cx).await.unwrap()
    );
    let typed: Vec<String> = s
        .running()
        .adapter::<Story>()
        .unwrap()
        .united(&Cx::system("a test"))
        .await
        .unwrap();
    assert_eq!(typed, ["a", "b"]);
}

async fn a_derive_reads_public_lists(s: &Server) {
    seed(s).await;
    assert_eq!(feed(s, "/sketches/tags").await, json!(["a", "b", "y"]));
}
