//! `search` in the store.

#![allow(missing_docs)] // test entities

use linchpin::prelude::*;
use serde_json::{Value as Json, json};

use crate::cases;
use crate::fixture::Status;
use crate::server::Server;

/// A document with texts.
#[entity(sort = asc(rank), pagination(default = 2, max = 4), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Doc {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
    pub body: Option<String>,
    #[field(default = Status::Draft)]
    pub status: Status,
    pub tags: Vec<String>,
    #[field(default = 0)]
    pub rank: i64,
}

#[operation(kind = "search", fields(title))]
pub const FIND: Operation<Doc>;

#[operation(
    kind = "search",
    fields(title, body),
    paginate,
    use_search_provider = false
)]
pub const FIND_PAGE: Operation<Doc>;

#[operation(kind = "search", fields(title), filter = (status == param(status) && tags.has(param(tag))), optional_params(status, tag))]
pub const FIND_IN: Operation<Doc>;

#[operation(
    kind = "search",
    fields(title, body),
    paginate,
    route(method = "POST", path = "hunt")
)]
pub const HUNT: Operation<Doc>;

pub static DOCS: Package = package!(
    name = "docs",
    entities = [entity(Doc, [FIND, FIND_PAGE, FIND_IN, HUNT])]
);

cases!(&crate::search::DOCS =>
    search_finds_text_in_its_fields, search_requires_a_text, search_pages_through_its_hits,
    search_texts_have_no_wildcards, a_search_limits_its_hits, a_search_applies_filters,
    a_search_may_be_a_post, code_calls_searches,
);

async fn seed(s: &Server, titles: &[&str]) {
    for (rank, title) in titles.iter().enumerate() {
        let reply = s
            .post("/docs", json!({"title": title, "rank": rank, "tags": []}))
            .await;
        assert_eq!(reply.status, 201, "{reply:?}");
    }
}

fn titles(list: &Json) -> Vec<&str> {
    list.as_array()
        .unwrap()
        .iter()
        .map(|d| d["title"].as_str().unwrap())
        .collect()
}

async fn search_finds_text_in_its_fields(s: &Server) {
    seed(s, &["Needle doc", "5000", "50% off"]).await;
    assert_eq!(
        titles(&s.get("/docs/find?q=needle").await.json()),
        ["Needle doc"]
    );
    assert_eq!(
        titles(&s.get("/docs/find?q=50%25").await.json()),
        ["50% off"]
    );
}

async fn search_requires_a_text(s: &Server) {
    s.get("/docs/find").await.problem("required", "query:q");
    s.get("/docs/find?q=").await.problem("empty", "query:q");
    s.get("/docs/find?q=%20%09%C2%A0")
        .await
        .problem("empty", "query:q");
}

async fn search_pages_through_its_hits(s: &Server) {
    seed(s, &["one a", "none", "two a", "three a"]).await;
    let page = s.get("/docs/find-page?q=A&limit=1").await.json();
    assert_eq!(
        (titles(&page["items"]), &page["hasMore"]),
        (vec!["one a"], &json!(true))
    );
    let cursor = page["nextCursor"].as_str().unwrap();
    let next = s
        .get(&format!("/docs/find-page?q=A&limit=1&cursor={cursor}"))
        .await
        .json();
    assert_eq!(titles(&next["items"]), ["two a"]);
    // A cursor belongs to its search text.
    assert_eq!(
        s.get(&format!("/docs/find-page?q=one&cursor={cursor}"))
            .await
            .code(),
        (400, "invalid_cursor")
    );
    assert_eq!(s.walk("/docs/find-page?q=a").await.len(), 3);
}

async fn search_texts_have_no_wildcards(s: &Server) {
    seed(s, &["a_b", "axb", "a\\b", "a*b", "ΟΔΟΣ", "it's \"so\""]).await;
    for (q, hits) in [
        ("a_b", &["a_b"][..]),
        ("a%5Cb", &["a\\b"]),
        ("A*B", &["a*b"]),
        ("%20%20odos", &[]),
        ("%CE%BF%CE%B4%CE%BF%CF%82", &["ΟΔΟΣ"]),
        ("'s+%22SO", &["it's \"so\""]),
        ("%25_%5C", &[]),
        ("a%25b", &[]),
    ] {
        assert_eq!(
            titles(&s.get(&format!("/docs/find?q={q}")).await.json()),
            hits,
            "{q}"
        );
    }
}

async fn a_search_limits_its_hits(s: &Server) {
    seed(s, &["a0", "a1", "a2", "a3", "a4", "a5"]).await;
    assert_eq!(
        titles(&s.get("/docs/find?q=a").await.json()),
        ["a0", "a1", "a2", "a3"],
        "max_limit"
    );
    assert_eq!(
        titles(&s.get("/docs/find?q=a&limit=3").await.json()).len(),
        3
    );
    assert_eq!(
        titles(&s.get("/docs/find?q=a&limit=99").await.json()).len(),
        4
    );
    assert_eq!(
        s.get("/docs/find-page?q=a").await.json()["items"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    s.get("/docs/find?q=a&limit=0")
        .await
        .problem("range", "query:limit");
    assert_eq!(
        s.get("/docs/find?q=a&cursor=x").await.code(),
        (400, "unknown_parameter")
    );
    let text = |n| "x".repeat(n);
    assert_eq!(
        s.get(&format!("/docs/find?q=%20{}%20", text(512)))
            .await
            .status,
        200
    );
    s.get(&format!("/docs/find?q={}", text(513)))
        .await
        .problem("max_length", "query:q");
    // The limit counts characters, not bytes.
    assert_eq!(
        s.get(&format!("/docs/find?q={}", "%C3%A9".repeat(512)))
            .await
            .status,
        200
    );
    s.get("/docs/find?q=a%00b")
        .await
        .problem("format", "query:q");
    s.get("/docs/find?q=a&q=b")
        .await
        .problem("duplicate", "query:q");
}

async fn a_search_applies_filters(s: &Server) {
    for (title, status, tags) in [
        ("a draft", "draft", json!(["x"])),
        ("a post", "published", json!(["x", "y"])),
        ("post", "draft", json!([])),
    ] {
        s.post(
            "/docs",
            json!({"title": title, "status": status, "tags": tags}),
        )
        .await;
    }
    let count = async |query: &str| {
        s.get(&format!("/docs/find-in?{query}"))
            .await
            .json()
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!(count("q=a").await, 2);
    assert_eq!(count("q=a&status=draft").await, 1);
    assert_eq!(count("q=a&tag=x").await, 2);
    assert_eq!(count("q=a&tag=y&status=published").await, 1);
    assert_eq!(count("q=post&tag=z").await, 0);
    s.get("/docs/find-in?q=a&status=zzz")
        .await
        .problem("enum", "query:status");
}

async fn a_search_may_be_a_post(s: &Server) {
    seed(s, &["a0", "a1", "a2"]).await;
    let page = s
        .post("/docs/hunt", json!({"q": "A", "limit": 2}))
        .await
        .json();
    assert_eq!(titles(&page["items"]).len(), 2);
    let next = s
        .post(
            "/docs/hunt",
            json!({"q": "A", "limit": 2, "cursor": page["nextCursor"]}),
        )
        .await
        .json();
    assert_eq!(titles(&next["items"]), ["a2"]);
    s.post("/docs/hunt", json!({"q": 5}))
        .await
        .problem("type", "q");
    s.post("/docs/hunt", json!({"q": null}))
        .await
        .problem("null_not_allowed", "q");
    s.post("/docs/hunt", json!({"q": " "}))
        .await
        .problem("empty", "q");
    s.post("/docs/hunt", json!({"q": "a\0"}))
        .await
        .problem("format", "q");
}

async fn code_calls_searches(s: &Server) {
    seed(s, &["a0", "a1", "b"]).await;
    let docs = s.running().adapter::<Doc>().unwrap();
    let cx = Cx::system("a test");
    let found = docs
        .find(&cx, "A", linchpin::entity::PageArgs::default())
        .await
        .unwrap();
    assert_eq!(
        found.iter().map(|d| d.title.as_str()).collect::<Vec<_>>(),
        ["a0", "a1"]
    );
    let page = docs
        .find_page(&cx, "b", linchpin::entity::PageArgs::default())
        .await
        .unwrap();
    assert_eq!((page.items.len(), page.has_more), (1, false));
    for blank in ["", "  ", "\0", &"x".repeat(513)] {
        let refused = docs
            .find(&cx, blank, linchpin::entity::PageArgs::default())
            .await
            .unwrap_err();
        assert_eq!(
            refused.code(),
            linchpin::Code::ValidationFailed,
            "{blank:?}"
        );
    }
}
