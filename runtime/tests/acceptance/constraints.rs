//! Constraints hold for every write, including context values, defaults and single items.

#![allow(missing_docs)] // a fixture

use linchpin::prelude::*;
use linchpin::{Config, JwtAuth};
use serde_json::{Value as Json, json};

use crate::cases;
use crate::server::{Reply, SECRET, Server};

/// A line of a sheet.
#[derive(Clone, Debug, PartialEq, Embedded)]
pub struct Line {
    #[field(primary)]
    pub id: String,
}

/// A list that is required, and one that is optional.
#[derive(Clone, Debug, PartialEq, Embedded)]
pub struct Mark {
    #[field(required)]
    pub by: Vec<String>,
    pub on: Vec<String>,
}

/// Names are unique per owner; the owner is private.
#[entity(unique(owner_id, slug), scope(owner_id = ctx(actor.id)), routes(auth = "userAuth"))]
#[derive(Clone, Debug)]
pub struct Shelf {
    #[field(primary)]
    pub id: String,
    #[field(private)]
    pub owner_id: String,
    pub slug: String,
}

/// A unique over a private field: the conflict must not name it.
#[entity(unique(code), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Stamp {
    #[field(primary)]
    pub id: String,
    #[field(private, default = "one")]
    pub code: String,
}

/// Indexed texts without a declared length, and a uuid.
#[entity(unique(address), index(kind, short, note), unique(serial), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Link {
    #[field(primary)]
    pub id: Uuid,
    pub address: String,
    pub kind: Option<String>,
    #[field(length = ..=20)]
    pub short: Option<String>,
    pub note: Option<String>,
    pub serial: Option<Uuid>,
    #[field(each(format = "uuid"))]
    pub others: Vec<String>,
    #[field(filterable)]
    pub free: Option<String>,
}

#[operation(kind = "upsert", match(address), set(note), on_create(id = param(id)))]
pub const PUT_LINK: Operation<Link>;

/// Required lists, which may be empty.
#[entity(routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Ballot {
    #[field(primary)]
    pub id: String,
    #[field(required)]
    pub votes: Vec<String>,
    #[field(required)]
    pub marks: Vec<Mark>,
    pub rest: Vec<Mark>,
}

#[operation(kind = "field_update", match(id = param(id)), set(votes))]
pub const RECOUNT: Operation<Ballot>;

/// A sheet whose texts have at most five characters.
#[entity(version(required_on_write = false), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Sheet {
    #[field(primary)]
    pub id: String,
    #[field(length = 1..=5)]
    pub signed_by: Option<String>,
    #[field(default = ctx(actor.id), length = ..=5)]
    pub made_by: Option<String>,
    #[field(range = "2020-01-01T00:00:00Z"..="2031-01-01T00:00:00Z")]
    pub signed_at: Option<Timestamp>,
    #[field(each(length = 1..=5))]
    pub readers: Vec<String>,
    #[field(items = 1..=3)]
    pub lines: Vec<Line>,
    #[field(default = false)]
    pub closed: bool,
    #[field(range = 10..=100)]
    pub height: Option<i64>,
    #[field(range = -9.0..=-2.5)]
    pub depth: Option<f64>,
    #[field(default = -1.0, range = -5.0..=0.1)]
    pub drift: f64,
}

#[operation(kind = "transition", field = closed, from = false, to = true, set(signed_by = ctx(actor.id)))]
pub const CLOSE: Operation<Sheet>;

#[operation(kind = "batch", action = "update", filter = (closed == false), set(signed_by = ctx(actor.id), signed_at = now()))]
pub const SIGN_ALL: Operation<Sheet>;

#[operation(kind = "array_push", field = readers, value = ctx(actor.id))]
pub const READ: Operation<Sheet>;

#[operation(kind = "collection", field = lines, operations(add, remove, set), max_items = 4)]
pub const LINES: Operation<Sheet>;

#[operation(kind = "increment", field = height)]
pub const GROW: Operation<Sheet>;

#[operation(kind = "increment", field = depth, by = -0.5)]
pub const SINK: Operation<Sheet>;

#[operation(kind = "increment", field = drift, by = 1.1)]
pub const MOVE: Operation<Sheet>;

pub static SHEETS: Package = package!(
    name = "sheets",
    entities = [
        entity(Sheet, [CLOSE, SIGN_ALL, READ, LINES, GROW, SINK, MOVE]),
        entity(Ballot, [RECOUNT]),
        entity(Shelf),
        entity(Stamp),
        entity(Link, [PUT_LINK])
    ]
);

cases!(&crate::constraints::SHEETS =>
    context_values_are_validated, context_defaults_are_validated, item_limits_hold_for_single_items,
    item_limits_hold_for_concurrent_calls, clock_values_are_validated, computed_sums_are_validated,
    required_lists_must_be_sent, a_conflict_names_no_private_field,
    indexed_texts_have_one_size_limit, uuids_ignore_case,
);

async fn a_conflict_names_no_private_field(s: &Server) {
    let shelf = async |name: &str, id: &str| {
        post_as(s, name, "/shelves", json!({ "id": id, "slug": "x" })).await
    };
    let stamp = async |id: &str| s.post("/stamps", json!({ "id": id })).await;
    assert_eq!(
        (
            shelf("ada", "a").await.status,
            shelf("bob", "b").await.status,
            stamp("a").await.status
        ),
        (201, 201, 201)
    );
    let details = |taken: Reply| {
        assert_eq!(taken.code(), (409, "conflict"));
        taken.json()["details"].clone()
    };
    let conflict_at =
        |path: &str| json!([{ "path": path, "code": "unique", "message": "is already taken" }]);
    assert_eq!(details(shelf("ada", "c").await), conflict_at("slug"));
    assert_eq!(details(stamp("b").await), conflict_at(""));
    assert_eq!(details(stamp("a").await), conflict_at("id"));
}

/// A text of this length without repetitions, so that no store can compress it.
fn random(length: usize) -> String {
    let mut state = 0x2545_f491_4f6c_dd1d_u64 ^ length as u64;
    let next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        char::from(
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
                [(state >> 58) as usize],
        )
    };
    std::iter::repeat_with(next).take(length).collect()
}

const UUIDS: [&str; 3] = [
    "0196f2a4-0000-7abc-8def-000000000001",
    "0196f2a4-0000-7abc-8def-000000000002",
    "0196f2a4-0000-7abc-8def-000000000003",
];

/// Indexed texts have one size limit on every store, checked before the statement.
async fn indexed_texts_have_one_size_limit(s: &Server) {
    let link = |members: Json| {
        let mut link = json!({ "id": UUIDS[0], "address": "a" });
        link.as_object_mut()
            .unwrap()
            .extend(members.as_object().unwrap().clone());
        async move { s.post("/links", link).await }
    };
    link(json!({ "address": random(2049) }))
        .await
        .problem("max_length", "address");
    // The limit counts bytes.
    link(json!({ "address": "é".repeat(1025) }))
        .await
        .problem("max_length", "address");
    // `kind`, `short` and `note` are in one index. `short` needs at most 80 of 2,048 bytes, so
    // `kind` and `note` may have 984 bytes each.
    link(json!({ "kind": random(985) }))
        .await
        .problem("max_length", "kind");
    link(json!({ "note": random(985), "short": "s".repeat(21) }))
        .await
        .problem("max_length", "note");
    let full = json!({ "address": random(2048), "kind": random(984), "note": random(983), "short": "é".repeat(20), "free": random(9000) });
    let made = link(full.clone()).await;
    assert_eq!(made.status, 201, "{made:?}");
    // The same limit applies to every kind of write.
    s.patch(
        &format!("/links/{}", UUIDS[0]),
        json!({ "address": random(3000) }),
    )
    .await
    .problem("max_length", "address");
    s.post(
        "/links/put-link",
        json!({ "address": "b", "id": UUIDS[1], "note": random(3000) }),
    )
    .await
    .problem("max_length", "note");
    // A filter value is compared and never stored.
    assert_eq!(
        s.get(&format!("/links?address={}", random(3000)))
            .await
            .json()["items"],
        json!([])
    );
    let document = s.get("/openapi.json").await.json();
    for schema in ["LinkCreate", "LinkUpdate"] {
        let max_length_of = |field: &str| {
            document["components"]["schemas"][schema]["properties"][field]["maxLength"].clone()
        };
        assert_eq!(
            ["address", "kind", "short", "free"].map(max_length_of),
            [json!(2048), json!(984), json!(20), Json::Null],
            "{schema}"
        );
    }
}

/// Upper and lower case name the same uuid; it is stored, compared and returned in lower case.
async fn uuids_ignore_case(s: &Server) {
    let upper = UUIDS.map(str::to_uppercase);
    let link = json!({ "id": upper[0], "address": "a", "serial": upper[1], "others": [upper[2]] });
    let made = s.post("/links", link).await;
    assert_eq!(
        (made.status, made.header("location")),
        (201, format!("/links/{}", UUIDS[0]))
    );
    assert_eq!(
        (&made.json()["serial"], &made.json()["others"]),
        (&json!(UUIDS[1]), &json!([UUIDS[2]]))
    );
    assert_eq!(
        s.get(&format!("/links/{}", upper[0])).await.json()["id"],
        UUIDS[0]
    );
    for condition in [
        format!("serial={}", upper[1]),
        format!("id[in]={}", upper[0]),
    ] {
        assert_eq!(
            s.get(&format!("/links?{condition}")).await.json()["items"]
                .as_array()
                .map(Vec::len),
            Some(1),
            "{condition}"
        );
    }
    let again = s
        .post(
            "/links",
            json!({ "id": UUIDS[2], "address": "b", "serial": upper[1] }),
        )
        .await;
    assert_eq!(again.code(), (409, "conflict"));
    s.post(
        "/links",
        json!({ "id": UUIDS[2], "address": "b", "serial": upper[1].replace('-', "") }),
    )
    .await
    .problem("format", "serial");
}

async fn required_lists_must_be_sent(s: &Server) {
    let post = async |body: Json| s.post("/ballots", body).await;
    let none = post(json!({ "id": "a" })).await;
    none.problem("required", "votes");
    none.problem("required", "marks");
    assert_eq!(
        none.json()["details"].as_array().map(Vec::len),
        Some(2),
        "{none:?}"
    );
    post(json!({ "id": "a", "votes": null, "marks": [] }))
        .await
        .problem("null_not_allowed", "votes");
    post(json!({ "id": "a", "votes": [], "marks": [{ "on": [] }] }))
        .await
        .problem("required", "marks[0].by");
    assert_eq!(
        post(json!({ "id": "a", "votes": [], "marks": [{ "by": [] }] }))
            .await
            .status,
        201
    );
    let made = s.get("/ballots/a").await.json();
    assert_eq!(
        made,
        json!({ "id": "a", "votes": [], "marks": [{ "by": [], "on": [] }], "rest": [] })
    );
    s.patch("/ballots/a/recount", json!({}))
        .await
        .problem("required", "votes");
    assert_eq!(
        s.patch("/ballots/a", json!({})).await.status,
        200,
        "a PATCH may omit a required list"
    );
    let document = s.get("/openapi.json").await.json();
    let required = |schema: &str| document["components"]["schemas"][schema]["required"].clone();
    assert_eq!(required("BallotCreate"), json!(["id", "votes", "marks"]));
    let item = &document["components"]["schemas"]["BallotCreate"]["properties"]["marks"]["items"]["required"];
    assert_eq!(item, &json!(["by"]));
}

/// Sends a request as a user.
async fn post_as(s: &Server, name: &str, path: &str, body: Json) -> Reply {
    let token = s.token(name, &[]);
    s.raw(
        "POST",
        path,
        &[
            ("content-type", "application/json"),
            ("authorization", &token),
        ],
        &body.to_string(),
    )
    .await
}

async fn sheet(s: &Server, id: &str) {
    let made = post_as(
        s,
        "ada",
        "/sheets",
        json!({ "id": id, "lines": [{ "id": "1" }] }),
    )
    .await;
    assert_eq!(made.status, 201, "{made:?}");
}

async fn context_values_are_validated(s: &Server) {
    sheet(s, "a").await;
    let before = s.get("/sheets/a").await.json();
    for operation in ["a/close", "sign-all"] {
        post_as(s, "somebody", &format!("/sheets/{operation}"), json!({}))
            .await
            .problem("max_length", "signedBy");
    }
    post_as(s, "somebody", "/sheets/a/read", json!({}))
        .await
        .problem("max_length", "readers");
    assert_eq!(
        s.get("/sheets/a").await.json(),
        before,
        "nothing is written"
    );
    for operation in ["a/read", "sign-all", "a/close"] {
        assert_eq!(
            post_as(s, "ada", &format!("/sheets/{operation}"), json!({}))
                .await
                .status,
            200,
            "{operation}"
        );
    }
    let after = s.get("/sheets/a").await.json();
    assert_eq!(
        (&after["signedBy"], &after["readers"], &after["closed"]),
        (&json!("ada"), &json!(["ada"]), &json!(true))
    );
}

async fn context_defaults_are_validated(s: &Server) {
    let new = |id: &str| json!({ "id": id, "lines": [{ "id": "1" }] });
    post_as(s, "somebody", "/sheets", new("a"))
        .await
        .problem("max_length", "madeBy");
    assert_eq!(s.get("/sheets/a").await.status, 404);
    assert_eq!(
        post_as(s, "ada", "/sheets", new("a")).await.json()["madeBy"],
        "ada"
    );
}

async fn item_limits_hold_for_single_items(s: &Server) {
    post_as(s, "ada", "/sheets", json!({ "id": "a", "lines": [] }))
        .await
        .problem("min_items", "lines");
    sheet(s, "a").await;
    let add = |id: &str| {
        let body = json!({ "id": id });
        async move { s.post("/sheets/a/lines-add", body).await }
    };
    let remove = |id: &str| {
        let path = format!("/sheets/a/lines-remove/{id}");
        async move { s.delete(&path).await }
    };
    remove("1").await.problem("min_items", "lines");
    assert_eq!(remove("7").await.code(), (404, "not_found"));
    assert_eq!((add("2").await.status, add("3").await.status), (201, 201));
    // The collection allows four items, but the field does not.
    add("4").await.problem("max_items", "lines");
    assert_eq!(
        (remove("1").await.status, remove("2").await.status),
        (204, 204)
    );
    remove("3").await.problem("min_items", "lines");
    assert_eq!(
        s.get("/sheets/a").await.json()["lines"],
        json!([{ "id": "3" }])
    );
}

async fn item_limits_hold_for_concurrent_calls(s: &Server) {
    sheet(s, "a").await;
    let added = s
        .parallel(16, |n| async move {
            s.post("/sheets/a/lines-add", json!({ "id": format!("x{n}") }))
                .await
                .status
        })
        .await;
    assert_eq!(
        added.iter().filter(|status| **status == 201).count(),
        2,
        "{added:?}"
    );
    let items = s.get("/sheets/a").await.json()["lines"]
        .as_array()
        .unwrap()
        .clone();
    let remove = async |n: usize| {
        s.delete(&format!(
            "/sheets/a/lines-remove/{}",
            items[n % 3]["id"].as_str().unwrap()
        ))
        .await
        .status
    };
    let removed = s.parallel(9, remove).await;
    assert_eq!(
        removed.iter().filter(|status| **status == 204).count(),
        2,
        "{removed:?}"
    );
    assert_eq!(
        s.get("/sheets/a").await.json()["lines"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

/// An addition to null starts at 0; only the sum is checked.
async fn computed_sums_are_validated(s: &Server) {
    sheet(s, "a").await;
    let before = s.get("/sheets/a").await.json();
    for (operation, field) in [("grow", "height"), ("sink", "depth"), ("move", "drift")] {
        post_as(s, "ada", &format!("/sheets/a/{operation}"), json!({}))
            .await
            .problem("range", field);
    }
    assert_eq!(
        s.get("/sheets/a").await.json(),
        before,
        "nothing is written"
    );
    assert_eq!(
        s.patch(
            "/sheets/a",
            json!({ "height": 99, "depth": -2.5, "drift": -1.25 })
        )
        .await
        .status,
        200
    );
    for operation in ["grow", "sink", "move"] {
        assert_eq!(
            post_as(s, "ada", &format!("/sheets/a/{operation}"), json!({}))
                .await
                .status,
            200,
            "{operation}"
        );
    }
    post_as(s, "ada", "/sheets/a/grow", json!({}))
        .await
        .problem("range", "height");
    assert_eq!(s.get("/sheets/a").await.json()["height"], 100);
}

async fn clock_values_are_validated(s: &Server) {
    sheet(s, "a").await;
    assert_eq!(
        post_as(s, "ada", "/sheets/sign-all", json!({}))
            .await
            .status,
        200
    );
    s.advance(10 * 365 * 86_400_000);
    post_as(s, "ada", "/sheets/sign-all", json!({}))
        .await
        .problem("range", "signedAt");
}

const EMPTY: &str = "";
const FAR: &str = "far too long";

/// An operation of this entity writes a value that its field forbids, through a const that the
/// macro cannot evaluate.
#[entity(routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Label {
    #[field(primary)]
    pub id: String,
    #[field(length = 1..=5)]
    pub text: Option<String>,
}

#[operation(kind = "batch", action = "update", filter = (id == param(id)), set(text = EMPTY))]
pub const CLEAR: Operation<Label>;

/// The default of its field is not an email address.
#[entity(routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Letter {
    #[field(primary)]
    pub id: String,
    #[field(default = "nobody", format = "email")]
    pub to: String,
}

/// The target of its transition is too long.
#[entity(routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Step {
    #[field(primary)]
    pub id: String,
    #[field(default = "a", length = 1..=5)]
    pub at: String,
}

#[operation(kind = "transition", field = at, from = "a", to = FAR)]
pub const GO: Operation<Step>;

/// The value that its operation pushes is too long.
#[entity(routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Parcel {
    #[field(primary)]
    pub id: String,
    #[field(each(length = 1..=5))]
    pub stamps: Vec<String>,
}

#[operation(kind = "array_push", field = stamps, value = FAR)]
pub const STAMP: Operation<Parcel>;

static STEPS: Package = package!(name = "steps", entities = [entity(Step, [GO])]);
static PARCELS: Package = package!(name = "parcels", entities = [entity(Parcel, [STAMP])]);
static LABELS: Package = package!(name = "labels", entities = [entity(Label, [CLEAR])]);
static LETTERS: Package = package!(name = "letters", entities = [entity(Letter)]);

/// The app does not start if a declaration writes a constant that its field forbids.
#[tokio::test]
async fn constants_are_validated_at_start_up() {
    for (package, message) in [
        (
            &LABELS,
            "\"\" cannot be written by operation `clear`: `text` of `Label` must be at least 1 character",
        ),
        (
            &STEPS,
            "\"far too long\" cannot be written by operation `go`: `at` of `Step` must be at most 5 characters",
        ),
        (
            &PARCELS,
            "\"far too long\" cannot be written by operation `stamp`: `stamps` of `Parcel` must be at most 5 characters",
        ),
        (
            &LETTERS,
            "\"nobody\" cannot be the default: `to` of `Letter` must be an email address",
        ),
    ] {
        let config = Config::new()
            .signing_secret(SECRET)
            .port(0)
            .database("memory:");
        let refused = linchpin::App::new(config)
            .plugin(JwtAuth::new())
            .package(package)
            .start()
            .await
            .unwrap_err();
        assert!(refused.to_string().contains(message), "{refused}");
    }
}
