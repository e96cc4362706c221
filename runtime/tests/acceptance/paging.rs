//! Numbered pages.

#![allow(missing_docs)] // test entities

use linchpin::entity::Direction;
use linchpin::prelude::*;
use serde_json::{Value as Json, json};

use crate::cases;
use crate::server::{Reply, Server};

#[derive(FieldEnum, Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    Sent,
    Failed,
}

/// A delivery of a webhook.
#[entity(
    index(endpoint_id, desc(sent_at)),
    sort = desc(sent_at),
    pagination(default = 3, max = 200),
    routes(auth = none, list(paging = "page"))
)]
#[derive(Clone, Debug)]
pub struct Delivery {
    #[field(primary)]
    pub id: String,
    pub endpoint_id: String,
    #[field(default = Outcome::Sent)]
    pub outcome: Outcome,
    pub sent_at: Timestamp,
}

#[operation(kind = "lookup", fields(endpoint_id = param(endpoint_id)), returns = "many", paginate = "page")]
pub const OF_ENDPOINT: Operation<Delivery>;

/// A lookup with a maximum page size.
#[operation(kind = "lookup", fields(endpoint_id = param(endpoint_id)), returns = "many", limit = 4, paginate = "page", route(method = "POST"))]
pub const FEW: Operation<Delivery>;

#[operation(kind = "lookup", fields(outcome = param(outcome)), returns = "many", paginate)]
pub const BY_OUTCOME: Operation<Delivery>;

/// An entity without numbered pages.
#[entity(routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Endpoint {
    #[field(primary)]
    pub id: String,
}

/// An entity with a smaller maximum page size.
#[entity(pagination(default = 2, max = 5), routes(auth = none, list(paging = "page")))]
#[derive(Clone, Debug)]
pub struct Attempt {
    #[field(primary)]
    pub id: i64,
}

pub static WEBHOOKS: Package = package!(
    name = "webhooks",
    entities = [
        entity(Delivery, [OF_ENDPOINT, FEW, BY_OUTCOME]),
        entity(Endpoint, []),
        entity(Attempt, [])
    ],
);

cases!(&crate::paging::WEBHOOKS =>
    pages_have_numbers, invalid_page_numbers_are_refused, lookups_have_page_numbers,
    a_cursor_continues_after_any_page, the_maximum_page_size_of_the_entity_applies,
    page_parameters_need_numbered_paging, code_calls_numbered_pages,
);

async fn seed(s: &Server, n: usize) {
    for i in 0..n {
        // Equal values in the sort field.
        let sent_at = format!("2026-01-01T00:00:{:02}Z", i / 2);
        let body = json!({"id": format!("d{i:03}"), "endpointId": "e", "outcome": if i % 5 == 0 { "failed" } else { "sent" }, "sentAt": sent_at});
        assert_eq!(s.post("/deliveries", body).await.status, 201);
    }
}

fn ids(page: &Json) -> Vec<String> {
    page["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["id"].as_str().unwrap().to_owned())
        .collect()
}

/// The ids of a range of records, the latest first.
fn latest(n: usize, range: std::ops::Range<usize>) -> Vec<String> {
    let mut all: Vec<usize> = (0..n).collect();
    all.sort_by_key(|i| (std::cmp::Reverse(i / 2), std::cmp::Reverse(*i)));
    all[range.start.min(n)..range.end.min(n)]
        .iter()
        .map(|i| format!("d{i:03}"))
        .collect()
}

/// The ids of a page, and whether it has a next page.
fn page_of(reply: &Reply) -> (Vec<String>, bool) {
    assert_eq!(reply.status, 200, "{reply:?}");
    let page = reply.json();
    assert_eq!(
        page.as_object().unwrap().keys().collect::<Vec<_>>(),
        ["hasMore", "items", "nextCursor"]
    );
    let more = page["hasMore"].as_bool().unwrap();
    assert_eq!(more, page["nextCursor"].is_string());
    (ids(&page), more)
}

async fn pages_have_numbers(s: &Server) {
    seed(s, 45).await;
    assert_eq!(
        page_of(&s.get("/deliveries?page=2&pageSize=20").await),
        (latest(45, 20..40), true)
    );
    assert_eq!(
        page_of(&s.get("/deliveries").await),
        (latest(45, 0..20), true)
    );
    assert_eq!(
        page_of(&s.get("/deliveries?page=3").await),
        (latest(45, 40..45), false)
    );
    // After the last page.
    assert_eq!(
        page_of(&s.get("/deliveries?page=4").await),
        (Vec::new(), false)
    );
    assert_eq!(
        page_of(&s.get("/deliveries?page=500&pageSize=20").await),
        (Vec::new(), false)
    );
    s.get("/deliveries?page=0")
        .await
        .problem("range", "query:page");
    let cursor = s.get("/deliveries").await.json()["nextCursor"]
        .as_str()
        .unwrap()
        .to_owned();
    s.get(&format!("/deliveries?page=2&cursor={cursor}"))
        .await
        .problem("not_allowed", "query:page");
    // Filters and sorts work as in other lists.
    let failed = s
        .get("/deliveries?page=2&pageSize=4&outcome=failed&sortDir=asc")
        .await;
    assert_eq!(
        page_of(&failed),
        (
            ["d020", "d025", "d030", "d035"].map(str::to_owned).to_vec(),
            true
        )
    );
}

async fn invalid_page_numbers_are_refused(s: &Server) {
    seed(s, 3).await;
    for (query, code, at) in [
        ("page=-1", "range", "page"),
        ("page=x", "type", "page"),
        ("page=", "type", "page"),
        ("page=1.5", "type", "page"),
        ("pageSize=0", "range", "pageSize"),
        ("pageSize=x", "type", "pageSize"),
        ("page=501&pageSize=20", "range", "page"),
        ("page=501", "range", "page"),
        // The page size after clamping decides which page numbers are valid.
        ("page=101&pageSize=1000", "range", "page"),
        ("page=99999999999999999999&pageSize=1", "range", "page"),
    ] {
        s.get(&format!("/deliveries?{query}"))
            .await
            .problem(code, &format!("query:{at}"));
        s.get(&format!("/deliveries/of-endpoint/e?{query}"))
            .await
            .problem(code, &format!("query:{at}"));
    }
    for query in [
        "page=100&pageSize=1000",
        "page=10000&pageSize=1",
        "page=1&pageSize=99999999999999999999",
    ] {
        assert_eq!(
            s.get(&format!("/deliveries?{query}")).await.status,
            200,
            "{query}"
        );
    }
    // Both problems are reported together, and a repeated number is a problem.
    assert_eq!(
        s.get("/deliveries?page=0&pageSize=x")
            .await
            .problems()
            .len(),
        2
    );
    s.get("/deliveries?page=1&page=2")
        .await
        .problem("duplicate", "query:page");
    // `limit` belongs to pages with cursors.
    assert_eq!(
        s.get("/deliveries?limit=2").await.code(),
        (400, "unknown_parameter")
    );
    assert_eq!(
        s.get("/deliveries/of-endpoint/e?limit=2").await.code(),
        (400, "unknown_parameter")
    );
}

async fn lookups_have_page_numbers(s: &Server) {
    seed(s, 45).await;
    assert_eq!(
        page_of(&s.get("/deliveries/of-endpoint?endpointId=e&page=2").await),
        (latest(45, 20..40), true)
    );
    assert_eq!(
        page_of(&s.get("/deliveries/of-endpoint/e?page=3&pageSize=20").await),
        (latest(45, 40..45), false)
    );
    assert_eq!(
        page_of(&s.get("/deliveries/of-endpoint/nobody").await),
        (Vec::new(), false)
    );
    // In a POST, the page parameters are members of the body; the maximum of the operation applies,
    // too.
    let few = |body: Json| s.post("/deliveries/few", body);
    assert_eq!(
        page_of(&few(json!({"endpointId": "e", "page": 2, "pageSize": 100})).await),
        (latest(45, 4..8), true)
    );
    few(json!({"endpointId": "e", "page": 0}))
        .await
        .problem("range", "page");
    few(json!({"endpointId": "e", "page": "2"}))
        .await
        .problem("type", "page");
    few(json!({"endpointId": "e", "page": 2501, "pageSize": 4}))
        .await
        .problem("range", "page");
    few(json!({"endpointId": "e", "page": 1, "cursor": "x"}))
        .await
        .problem("not_allowed", "page");
    few(json!({"endpointId": "e", "limit": 1}))
        .await
        .problem("unknown_field", "limit");
}

/// A cursor continues after any page. It contains values and not a page number.
async fn a_cursor_continues_after_any_page(s: &Server) {
    seed(s, 45).await;
    let second = s.get("/deliveries?page=2&pageSize=10").await.json();
    let cursor = second["nextCursor"].as_str().unwrap();
    // Newer records are created in the meantime.
    for i in 0..7 {
        let body =
            json!({"id": format!("new{i}"), "endpointId": "e", "sentAt": "2027-01-01T00:00:00Z"});
        assert_eq!(s.post("/deliveries", body).await.status, 201);
    }
    assert_eq!(
        page_of(
            &s.get(&format!("/deliveries?cursor={cursor}&pageSize=5"))
                .await
        ),
        (latest(45, 20..25), true)
    );
    let rest = s
        .walk(&format!("/deliveries?pageSize=9&cursor={cursor}"))
        .await;
    assert_eq!(
        rest.iter()
            .map(|d| d["id"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>(),
        latest(45, 20..45)
    );
    assert_eq!(
        s.get(&format!("/deliveries?cursor={cursor}&outcome=sent"))
            .await
            .code(),
        (400, "invalid_cursor")
    );
    assert_eq!(
        s.get(&format!("/deliveries/of-endpoint/e?cursor={cursor}"))
            .await
            .code(),
        (400, "invalid_cursor")
    );
}

/// The maximum page size of an entity is never exceeded.
async fn the_maximum_page_size_of_the_entity_applies(s: &Server) {
    for id in 1..=12 {
        assert_eq!(
            s.post("/attempts", json!({"id": id.to_string()}))
                .await
                .status,
            201
        );
    }
    let numbers = |reply: Reply| {
        reply.json()["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|i| i["id"].as_str().unwrap().parse::<i64>().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(numbers(s.get("/attempts?page=2").await), [6, 7, 8, 9, 10]);
    assert_eq!(
        numbers(s.get("/attempts?page=2&pageSize=7").await),
        [6, 7, 8, 9, 10]
    );
    assert_eq!(
        numbers(s.get("/attempts?page=6&pageSize=2").await),
        [11, 12]
    );
    assert_eq!(s.get("/attempts?page=2000").await.status, 200);
    s.get("/attempts?page=2001")
        .await
        .problem("range", "query:page");
}

async fn page_parameters_need_numbered_paging(s: &Server) {
    for path in [
        "/endpoints?page=1",
        "/endpoints?pageSize=2",
        "/deliveries/by-outcome/sent?page=1",
        "/deliveries/by-outcome/sent?pageSize=1",
    ] {
        assert_eq!(
            s.get(path).await.code(),
            (400, "unknown_parameter"),
            "{path}"
        );
    }
    let document = s.get("/openapi.json").await.json();
    let query_parameters = |path: &str, method: &str| -> Vec<String> {
        let parameters = document["paths"][path][method]["parameters"]
            .as_array()
            .unwrap_or_else(|| panic!("{path}: {document}"));
        parameters
            .iter()
            .filter(|p| p["in"] == "query")
            .map(|p| p["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        query_parameters("/endpoints", "get")[..2],
        ["limit", "cursor"]
    );
    assert_eq!(
        query_parameters("/deliveries", "get")[..3],
        ["page", "pageSize", "cursor"]
    );
    assert_eq!(
        query_parameters("/deliveries/of-endpoint", "get"),
        ["endpointId", "page", "pageSize", "cursor"]
    );
}

async fn code_calls_numbered_pages(s: &Server) {
    seed(s, 45).await;
    let (deliveries, endpoints) = (
        s.running().adapter::<Delivery>().unwrap(),
        s.running().adapter::<Endpoint>().unwrap(),
    );
    let cx = Cx::system("test");
    let ids_of_page =
        |page: Page<Delivery>| page.items.into_iter().map(|d| d.id).collect::<Vec<_>>();
    assert_eq!(
        ids_of_page(
            deliveries
                .list(&cx, ListQuery::new().page(3))
                .await
                .unwrap()
        ),
        latest(45, 40..45)
    );
    let second_page = || {
        ListQuery::new()
            .page(2)
            .limit(10)
            .sort(delivery::sent_at, Direction::Desc)
    };
    assert_eq!(
        ids_of_page(deliveries.list(&cx, second_page()).await.unwrap()),
        latest(45, 10..20)
    );
    let page = PageArgs {
        page: Some(2),
        ..PageArgs::default()
    };
    assert_eq!(
        ids_of_page(
            deliveries
                .of_endpoint(&cx, "e".to_owned(), page.clone())
                .await
                .unwrap()
        ),
        latest(45, 20..40)
    );
    let problems_of = |error: Error| {
        error
            .details()
            .iter()
            .map(|p| (p.path.clone(), p.code))
            .collect::<Vec<_>>()
    };
    let too_far = deliveries
        .list(&cx, ListQuery::new().page(1000))
        .await
        .unwrap_err();
    assert_eq!(problems_of(too_far), [("query:page".to_owned(), "range")]);
    let refused = endpoints
        .list(&cx, ListQuery::new().page(1))
        .await
        .unwrap_err();
    assert_eq!(
        problems_of(refused),
        [("query:page".to_owned(), "not_allowed")]
    );
    let refused = deliveries
        .by_outcome(&cx, Outcome::Sent, page)
        .await
        .unwrap_err();
    assert_eq!(
        problems_of(refused),
        [("query:page".to_owned(), "not_allowed")]
    );
}
