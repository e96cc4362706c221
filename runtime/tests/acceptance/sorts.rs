//! Lookups with named sorts.

#![allow(missing_docs)] // test entities

use linchpin::entity::Direction;
use linchpin::prelude::*;
use serde_json::{Value as Json, json};

use crate::cases;
use crate::server::Server;

/// An entry of a thread list.
#[entity(
    index(container_id, desc(pinned), desc(published_at)),
    index(container_id, desc(score), title),
    index(container_id, title),
    index(desc(pinned), title),
    sort(desc(pinned), asc(title)),
    pagination(default = 3, max = 50),
    routes(auth = none)
)]
#[derive(Clone, Debug)]
pub struct Topic {
    #[field(primary)]
    pub id: String,
    pub container_id: String,
    #[field(default = false)]
    pub pinned: bool,
    pub published_at: Option<Timestamp>,
    #[field(default = 0)]
    pub score: i64,
    pub title: Option<String>,
    #[field(default = now, client_set)]
    pub made_at: Timestamp,
}

/// The topics of a container that have started.
#[operation(
    kind = "lookup",
    fields(container_id = param(container_id)),
    filter = (made_at <= now()),
    returns = "many",
    paginate,
    strict_params,
    sorts(new(desc(pinned), desc(published_at)), top(desc(score), title), by_title(title)),
)]
pub const OF_CONTAINER: Operation<Topic>;

/// The topics of a container, with numbered pages and parameters in the body.
#[operation(
    kind = "lookup",
    fields(container_id = param(container_id)),
    returns = "many",
    paginate = "page",
    strict_params,
    sorts(by_title(title), new(desc(pinned), desc(published_at))),
    route(method = "POST"),
)]
pub const PAGES: Operation<Topic>;

/// The topics that were created before an instant that the caller sends, and before now.
#[operation(
    kind = "lookup",
    fields(container_id = param(container_id)),
    filter = (made_at <= now() && made_at <= param(until)),
    returns = "many",
    paginate,
    strict_params,
    sorts(by_title(title)),
)]
pub const UNTIL: Operation<Topic>;

#[operation(kind = "lookup", fields(container_id = param(container_id)), returns = "many")]
pub const PLAIN: Operation<Topic>;

pub static BOARD: Package = package!(
    name = "board",
    entities = [entity(Topic, [OF_CONTAINER, PAGES, UNTIL, PLAIN])]
);

cases!(&crate::sorts::BOARD =>
    a_lookup_offers_named_sorts, pages_continue_at_nulls_and_ties,
    later_pages_use_the_clock_of_the_first_page, an_instant_of_the_caller_is_not_replaced,
    a_default_sort_may_have_several_fields, sorts_may_be_sent_in_the_body, code_calls_named_sorts,
    the_document_lists_sorts,
);

/// Creates every combination of pinned, date and title, including nulls, with ties that only the
/// key breaks.
async fn seed(s: &Server) -> Vec<Json> {
    let mut all = Vec::new();
    for n in 0..36 {
        let mut topic = json!({
            "id": format!("t{:02}", n * 7 % 36), "containerId": "c", "pinned": n % 3 == 0, "score": n % 4,
            "publishedAt": null, "title": null, "madeAt": "2026-01-01T00:00:00Z",
        });
        if n % 5 != 0 {
            topic["publishedAt"] = json!(format!("2026-01-0{}T00:00:00Z", 1 + n % 4));
        }
        if n % 7 != 0 {
            topic["title"] = json!(format!("t{}", n % 3));
        }
        all.push(topic);
    }
    for topic in &all {
        assert_eq!(s.post("/topics", topic.clone()).await.status, 201);
    }
    for other in ["x", "y"] {
        let elsewhere = json!({"id": other, "containerId": "elsewhere", "pinned": true, "score": 99, "title": "first"});
        assert_eq!(s.post("/topics", elsewhere).await.status, 201);
    }
    all
}

/// The ids of topics in an order: null is the smallest, and the key breaks ties in the direction of
/// the last field.
fn ordered(topics: &[Json], keys: &[(&str, bool)]) -> Vec<String> {
    let last = keys.last().unwrap().1;
    let mut all: Vec<&Json> = topics.iter().collect();
    // The order of JSON values of one type.
    let value = |topic: &Json, key: &str| match &topic[key] {
        Json::Null => (0, 0, String::new()),
        Json::Bool(b) => (1, i64::from(*b), String::new()),
        Json::Number(n) => (1, n.as_i64().unwrap(), String::new()),
        text => (1, 0, text.as_str().unwrap().to_owned()),
    };
    all.sort_by(|a, b| {
        let by = |(key, desc): &(&str, bool)| {
            let ascending = value(a, key).cmp(&value(b, key));
            if *desc {
                ascending.reverse()
            } else {
                ascending
            }
        };
        keys.iter()
            .chain(&[("id", last)])
            .map(by)
            .find(|o| o.is_ne())
            .unwrap()
    });
    all.iter()
        .map(|topic| topic["id"].as_str().unwrap().to_owned())
        .collect()
}

const NEW: &[(&str, bool)] = &[("pinned", true), ("publishedAt", true)];
const TOP: &[(&str, bool)] = &[("score", true), ("title", false)];

fn ids(items: &[Json]) -> Vec<String> {
    items
        .iter()
        .map(|item| item["id"].as_str().unwrap().to_owned())
        .collect()
}

async fn a_lookup_offers_named_sorts(s: &Server) {
    let topics = seed(s).await;
    for (sort, keys) in [("new", NEW), ("top", TOP), ("byTitle", &[("title", false)])] {
        let path = format!("/topics/of-container/c?sort={sort}");
        assert_eq!(ids(&s.walk(&path).await), ordered(&topics, keys), "{sort}");
        assert_eq!(
            ids(&s.walk(&format!("{path}&limit=5")).await),
            ordered(&topics, keys),
            "{sort}"
        );
    }
    // Without a name, the first sort is used.
    assert_eq!(
        ids(&s.walk("/topics/of-container?containerId=c").await),
        ordered(&topics, NEW)
    );
    for wrong in ["zzz", "", "New", "title", "top,new"] {
        s.get(&format!("/topics/of-container/c?sort={wrong}"))
            .await
            .problem("enum", "query:sort");
    }
    s.get("/topics/of-container/c?sort=new&sort=top")
        .await
        .problem("duplicate", "query:sort");
    assert_eq!(
        s.get("/topics/of-container/c?sortDir=asc").await.code(),
        (400, "unknown_parameter")
    );
    assert_eq!(
        s.get("/topics/plain/c?sort=new").await.code(),
        (400, "unknown_parameter")
    );
    let cursor = s.get("/topics/of-container/c?sort=new").await.json()["nextCursor"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(
        s.get(&format!("/topics/of-container/c?sort=top&cursor={cursor}"))
            .await
            .code(),
        (400, "invalid_cursor")
    );
    assert_eq!(
        s.get(&format!(
            "/topics/of-container/elsewhere?sort=new&cursor={cursor}"
        ))
        .await
        .code(),
        (400, "invalid_cursor")
    );
    // A cursor of the first sort is also valid without the name of the sort.
    assert_eq!(
        s.get(&format!("/topics/of-container/c?cursor={cursor}"))
            .await
            .status,
        200
    );
}

/// Reads all topics in pages of one record, so that there is a cursor at each null and each tie.
async fn pages_continue_at_nulls_and_ties(s: &Server) {
    let topics = seed(s).await;
    for (sort, keys) in [("new", NEW), ("top", TOP)] {
        let all = ordered(&topics, keys);
        let mut cursor = String::new();
        for (n, id) in all.iter().enumerate() {
            let page = s
                .get(&format!(
                    "/topics/of-container/c?sort={sort}&limit=1{cursor}"
                ))
                .await
                .json();
            assert_eq!(
                ids(page["items"].as_array().unwrap()),
                std::slice::from_ref(id),
                "{sort} {n}"
            );
            assert_eq!(page["hasMore"], n + 1 < all.len());
            cursor = page["nextCursor"]
                .as_str()
                .map_or_else(String::new, |cursor| format!("&cursor={cursor}"));
        }
    }
}

/// Comparisons with the clock keep the instant of the first page.
async fn later_pages_use_the_clock_of_the_first_page(s: &Server) {
    let mut topics = seed(s).await;
    let path = "/topics/of-container/c?sort=new&limit=4";
    let first = s.get(path).await.json();
    let cursor = first["nextCursor"].as_str().unwrap().to_owned();
    // These topics are created after the first page, so no later page contains them.
    s.advance(60_000);
    for n in 0..4 {
        let made_at = s.now().to_string();
        let late = json!({"id": format!("late{n}"), "containerId": "c", "pinned": n % 2 == 0, "publishedAt": null, "score": 0, "title": null, "madeAt": made_at});
        assert_eq!(s.post("/topics", late.clone()).await.status, 201);
        topics.push(late);
    }
    s.advance(60_000);
    let rest = s.walk(&format!("{path}&cursor={cursor}")).await;
    let seen = [ids(first["items"].as_array().unwrap()), ids(&rest)].concat();
    assert_eq!(seen, ordered(&topics[..36], NEW));
    assert_eq!(ids(&s.walk(path).await), ordered(&topics, NEW));
}

/// An instant that the caller sends is not replaced by the clock: it is the same on every page.
async fn an_instant_of_the_caller_is_not_replaced(s: &Server) {
    let topics = seed(s).await;
    let adapter = s.running().adapter::<Topic>().unwrap();
    let start = s.now();
    for until in [
        start,
        Timestamp::from_millis(start.millis() + 1),
        Timestamp::from_millis(start.millis() + 2),
    ] {
        let (mut cursor, mut seen, mut clock) = (None, Vec::new(), start);
        loop {
            let page = PageArgs {
                limit: Some(15),
                cursor,
                ..PageArgs::default()
            };
            let cx = Cx::system("test").at(clock);
            let page = adapter
                .until(&cx, "c".to_owned(), until, page)
                .await
                .unwrap();
            seen.extend(page.items.into_iter().map(|topic| topic.id));
            clock = Timestamp::from_millis(clock.millis() + 1);
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(seen, ordered(&topics, &[("title", false)]), "{until}");
    }
}

async fn a_default_sort_may_have_several_fields(s: &Server) {
    let mut topics = seed(s).await;
    for other in ["x", "y"] {
        topics.push(json!({"id": other, "pinned": true, "title": "first"}));
    }
    let (default_order, reversed_order): (&[_], &[_]) = (
        &[("pinned", true), ("title", false)],
        &[("pinned", false), ("title", true)],
    );
    assert_eq!(
        ids(&s.walk("/topics?limit=4").await),
        ordered(&topics, default_order)
    );
    // `sortDir` without `sort` sets the direction of the first field of the default sort. If this
    // reverses the first field, the other fields are reversed, too.
    assert_eq!(
        ids(&s.walk("/topics?sortDir=desc").await),
        ordered(&topics, default_order)
    );
    assert_eq!(
        ids(&s.walk("/topics?sortDir=asc").await),
        ordered(&topics, reversed_order)
    );
    assert_eq!(
        ids(&s.walk("/topics?sort=pinned&limit=7").await),
        ordered(&topics, reversed_order)
    );
    assert_eq!(
        ids(&s.walk("/topics?sort=id&sortDir=desc&limit=9").await),
        {
            let mut all = ids(&topics);
            all.sort();
            all.reverse();
            all
        }
    );
    // A lookup without a sort uses the default sort, too.
    assert_eq!(
        ids(&s.walk("/topics/plain/c?limit=5").await),
        ordered(&topics[..36], default_order)
    );
}

async fn sorts_may_be_sent_in_the_body(s: &Server) {
    let topics = seed(s).await;
    let post_pages = |body: Json| s.post("/topics/pages", body);
    let second = post_pages(json!({"containerId": "c", "sort": "new", "page": 2, "pageSize": 10}))
        .await
        .json();
    assert_eq!(
        ids(second["items"].as_array().unwrap()),
        ordered(&topics, NEW)[10..20]
    );
    let next = post_pages(
        json!({"containerId": "c", "sort": "new", "pageSize": 3, "cursor": second["nextCursor"]}),
    )
    .await
    .json();
    assert_eq!(
        ids(next["items"].as_array().unwrap()),
        ordered(&topics, NEW)[20..23]
    );
    let first = post_pages(json!({"containerId": "c", "pageSize": 40}))
        .await
        .json();
    assert_eq!(
        ids(first["items"].as_array().unwrap()),
        ordered(&topics, &[("title", false)])
    );
    post_pages(json!({"containerId": "c", "sort": "zzz"}))
        .await
        .problem("enum", "sort");
    post_pages(json!({"containerId": "c", "sort": 1}))
        .await
        .problem("type", "sort");
    let other =
        post_pages(json!({"containerId": "c", "sort": "byTitle", "cursor": second["nextCursor"]}))
            .await;
    assert_eq!(other.code(), (400, "invalid_cursor"));
}

async fn code_calls_named_sorts(s: &Server) {
    let topics = seed(s).await;
    let adapter = s.running().adapter::<Topic>().unwrap();
    let cx = Cx::system("test");
    let ids_of_page = |page: Page<Topic>| page.items.into_iter().map(|t| t.id).collect::<Vec<_>>();
    let sorted_by = |sort: &str| PageArgs {
        limit: Some(50),
        sort: Some(sort.to_owned()),
        ..PageArgs::default()
    };
    assert_eq!(
        ids_of_page(
            adapter
                .of_container(&cx, "c".to_owned(), sorted_by("top"))
                .await
                .unwrap()
        ),
        ordered(&topics, TOP)
    );
    let problems_of = |error: Error| {
        error
            .details()
            .iter()
            .map(|p| (p.path.clone(), p.code))
            .collect::<Vec<_>>()
    };
    let unknown = adapter
        .of_container(&cx, "c".to_owned(), sorted_by("zzz"))
        .await
        .unwrap_err();
    assert_eq!(problems_of(unknown), [("query:sort".to_owned(), "enum")]);
    let plain = adapter
        .plain(&cx, "c".to_owned(), sorted_by("top"))
        .await
        .unwrap_err();
    assert_eq!(
        problems_of(plain),
        [("query:sort".to_owned(), "not_allowed")]
    );
    let several = adapter
        .list(
            &cx,
            ListQuery::new()
                .sort(topic::pinned, Direction::Desc)
                .limit(50),
        )
        .await
        .unwrap();
    assert_eq!(several.items.len(), 38);
}

async fn the_document_lists_sorts(s: &Server) {
    let document = s.get("/openapi.json").await.json();
    let parameters = document["paths"]["/topics/of-container"]["get"]["parameters"]
        .as_array()
        .unwrap()
        .clone();
    let sort = parameters.iter().find(|p| p["name"] == "sort").unwrap();
    assert_eq!(
        sort["schema"],
        json!({"type": "string", "enum": ["new", "top", "byTitle"], "default": "new"})
    );
    let list = document["paths"]["/topics"]["get"]["parameters"]
        .as_array()
        .unwrap()
        .clone();
    let sort = list.iter().find(|p| p["name"] == "sort").unwrap();
    assert_eq!(sort["description"], "Default: pinned desc, title asc.");
}
