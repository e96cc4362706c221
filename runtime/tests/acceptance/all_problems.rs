//! All problems of a body are reported together, in lists too, on every route.

#![allow(missing_docs)] // test entities

use linchpin::prelude::*;
use serde_json::{Value as Json, json};

use crate::cases;
use crate::server::{Reply, Server};

#[derive(Clone, Debug, Embedded)]
pub struct Line {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(length = 1..)]
    pub name: String,
    #[field(each(length = 1..))]
    pub labels: Vec<String>,
}

#[entity(routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Basket {
    #[field(primary)]
    pub id: String,
    #[field(length = 1..=5)]
    pub note: Option<String>,
    #[field(each(length = 1..), items = ..=4, unique_items)]
    pub tags: Vec<String>,
    pub lines: Vec<Line>,
}

#[operation(kind = "array_set", field = tags, value = input(tags))]
pub const RETAG: Operation<Basket>;

#[operation(kind = "array_push", field = tags, value = input(tag))]
pub const TAG: Operation<Basket>;

#[operation(kind = "field_update", set(tags, note))]
pub const CHANGE: Operation<Basket>;

#[operation(kind = "upsert", match(id), set(tags, note))]
pub const PUT: Operation<Basket>;

#[operation(kind = "collection", field = lines, operations(add, update, set))]
pub const LINES: Operation<Basket>;

pub static BASKETS: Package = package!(
    name = "baskets",
    entities = [entity(Basket, [RETAG, TAG, CHANGE, PUT, LINES])]
);

cases!(&crate::all_problems::BASKETS =>
    generated_routes_report_all_problems, operations_report_all_problems,
    item_routes_report_all_problems,
);

fn problem_list(reply: &Reply) -> Vec<String> {
    assert_eq!(reply.code(), (400, "validation_failed"), "{reply:?}");
    reply
        .problems()
        .into_iter()
        .map(|(path, code)| format!("{path} {code}"))
        .collect()
}

async fn generated_routes_report_all_problems(s: &Server) {
    let create = |body: Json| s.post("/baskets", body);
    let all = create(json!({"id": "a", "note": "", "tags": ["x", "", 3], "color": "red"})).await;
    assert_eq!(
        problem_list(&all),
        [
            "color unknown_field",
            "note min_length",
            "tags[1] min_length",
            "tags[2] type"
        ]
    );
    let again = create(json!({"id": "a", "tags": ["x", null, "x"]})).await;
    assert_eq!(
        problem_list(&again),
        ["tags[1] type", "tags[2] duplicate_item"]
    );
    let many = create(json!({"id": "a", "tags": ["a", "b", "c", 4, "\u{0}"]})).await;
    assert_eq!(
        problem_list(&many),
        ["tags max_items", "tags[3] type", "tags[4] format"]
    );
    // Two values that are not texts do not count as duplicates of each other or of the empty text.
    assert_eq!(
        problem_list(&create(json!({"id": "a", "tags": [1, 2]})).await),
        ["tags[0] type", "tags[1] type"]
    );
    assert_eq!(s.get("/baskets").await.json()["items"], json!([]));
    assert_eq!(create(json!({"id": "a", "tags": ["x"]})).await.status, 201);
    let patched = s
        .patch("/baskets/a", json!({"tags": ["", 3], "note": "too long"}))
        .await;
    assert_eq!(
        problem_list(&patched),
        ["note max_length", "tags[0] min_length", "tags[1] type"]
    );
    assert_eq!(s.get("/baskets/a").await.json()["tags"], json!(["x"]));
}

async fn operations_report_all_problems(s: &Server) {
    assert_eq!(s.post("/baskets", json!({"id": "a"})).await.status, 201);
    let set = |tags: Json| s.raw_json("PUT", "/baskets/a/retag", json!({"tags": tags}));
    // Duplicates are removed. The index in a problem is still the index in the request.
    assert_eq!(
        problem_list(&set(json!(["x", "x", "", 3])).await),
        ["tags[2] min_length", "tags[3] type"]
    );
    assert_eq!(
        problem_list(&set(json!(["x", "x", "x", "x", "x", 3])).await),
        ["tags[5] type"]
    );
    assert_eq!(
        problem_list(&set(json!(["x", "x", ""])).await),
        ["tags[2] min_length"]
    );
    assert_eq!(
        problem_list(&set(json!(["a", "b", "c", "d", "e", "a"])).await),
        ["tags max_items"]
    );
    assert_eq!(
        set(json!(["a", "b", "a", "c", "d"])).await.json()["tags"],
        json!(["a", "b", "c", "d"])
    );
    assert_eq!(
        problem_list(
            &s.post("/baskets/a/tag", json!({"tag": "", "more": 1}))
                .await
        ),
        ["more unknown_field", "tag min_length"]
    );
    let change = s
        .raw_json(
            "PATCH",
            "/baskets/a/change",
            json!({"tags": ["", 3], "note": "too long"}),
        )
        .await;
    assert_eq!(
        problem_list(&change),
        ["note max_length", "tags[0] min_length", "tags[1] type"]
    );
    let put = s
        .post("/baskets/put", json!({"id": "a", "tags": 1, "note": ""}))
        .await;
    assert_eq!(problem_list(&put), ["note min_length", "tags type"]);
    // Missing members are reported together with invalid ones.
    assert_eq!(
        problem_list(
            &s.raw_json("PATCH", "/baskets/a/change", json!({"tags": [""]}))
                .await
        ),
        ["note required", "tags[0] min_length"]
    );
}

async fn item_routes_report_all_problems(s: &Server) {
    assert_eq!(s.post("/baskets", json!({"id": "a"})).await.status, 201);
    let add = s
        .post(
            "/baskets/a/lines-add",
            json!({"name": "", "labels": ["", 3]}),
        )
        .await;
    assert_eq!(
        problem_list(&add),
        ["labels[0] min_length", "labels[1] type", "name min_length"]
    );
    let set = s
        .raw_json(
            "PUT",
            "/baskets/a/lines-set",
            json!([{"name": "a"}, {"name": "", "labels": ["x", 1, ""]}]),
        )
        .await;
    assert_eq!(
        problem_list(&set),
        [
            "[1].labels[1] type",
            "[1].labels[2] min_length",
            "[1].name min_length"
        ]
    );
    let patch = s
        .patch(
            "/baskets/a",
            json!({"lines": [{"name": 1, "labels": [""]}], "tags": [""]}),
        )
        .await;
    assert_eq!(
        problem_list(&patch),
        [
            "lines[0].labels[0] min_length",
            "lines[0].name type",
            "tags[0] min_length"
        ]
    );
    assert_eq!(
        s.post("/baskets/a/lines-add", json!({"id": "l", "name": "a"}))
            .await
            .status,
        201
    );
    let update = s
        .patch(
            "/baskets/a/lines-update/l",
            json!({"name": "", "labels": [2]}),
        )
        .await;
    assert_eq!(problem_list(&update), ["labels[0] type", "name min_length"]);
}
