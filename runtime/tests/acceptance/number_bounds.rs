//! Numbers that the server computes: a result beyond ±(2^53−1) is refused, and nothing is written.

#![allow(missing_docs)] // test entities

use linchpin::Code;
use linchpin::prelude::*;
use serde_json::{Value as Json, json};

use crate::cases;
use crate::server::{Reply, Server};

/// The greatest integer in range.
const MOST: i64 = (1 << 53) - 1;
/// An integer in range. Two times this integer is out of range.
const GREAT: i64 = 1 << 52;

fn worth(lot: &Lot) -> i64 {
    lot.price.saturating_mul(lot.pieces)
}

fn weight(lot: &Lot) -> f64 {
    lot.each * lot.pieces as f64
}

fn secret(lot: &Lot) -> Option<i64> {
    (lot.price < 0).then(|| lot.price.saturating_mul(4))
}

/// A lot of pieces of one kind.
#[entity(unique(code), version(required_on_write = false), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Lot {
    #[field(primary)]
    pub id: String,
    pub code: Option<String>,
    #[field(default = 1)]
    pub price: i64,
    #[field(default = 1)]
    pub pieces: i64,
    #[field(default = 1.0)]
    pub each: f64,
    #[field(default = false)]
    pub closed: bool,
    #[field(computed(worth, from(price, pieces)))]
    pub worth: i64,
    #[field(computed(weight, from(each, pieces)))]
    pub weight: f64,
    #[field(private, computed(secret, from(price)))]
    pub secret: Option<i64>,
    #[field(read_only, default = 0)]
    pub sales: i64,
    #[field(read_only, default = 0)]
    pub large: i64,
    #[field(default = 0)]
    pub sum: i64,
    pub all: Option<f64>,
    pub numbers: Option<serde_json::Value>,
}

#[operation(kind = "increment", field = pieces, by = 2)]
pub const ADD: Operation<Lot>;

#[operation(kind = "field_update", set(pieces))]
pub const RECOUNT: Operation<Lot>;

#[operation(kind = "transition", field = closed, from = false, to = true, set(pieces = param(pieces)))]
pub const CLOSE: Operation<Lot>;

#[operation(kind = "batch", action = "update", filter = (price >= param(least)), set(pieces = param(pieces)))]
pub const CHANGE_ALL: Operation<Lot>;

/// Sums the coins of a lot.
#[operation(
    kind = "computed_aggregate",
    source = Coin,
    source_filter = (lot_id == param(id)),
    compute = sum(amount),
    target_match(id = param(id)),
    materialize_to = sales,
)]
pub const NEARLY: Operation<Lot>;

#[operation(kind = "upsert", match(code), set(price, pieces), on_create(id = param(key)))]
pub const PUT: Operation<Lot>;

#[operation(
    kind = "computed_aggregate",
    source = Coin,
    source_filter = (lot_id == param(id)),
    compute = sum(amount),
    target_match(id = param(id)),
    materialize_to = sum,
)]
pub const SUM: Operation<Lot>;

#[operation(
    kind = "computed_aggregate",
    source = Coin,
    source_filter = (lot_id == param(id)),
    compute = sum(ratio),
    target_match(id = param(id)),
    materialize_to = all,
)]
pub const WEIGH: Operation<Lot>;

#[operation(
    kind = "computed_aggregate",
    source = Coin,
    source_filter = (lot_id == param(id)),
    compute = sum(amount),
    target_match(id = param(id)),
    materialize_to = price,
    atomic,
)]
pub const REPRICE: Operation<Lot>;

#[operation(
    kind = "computed_aggregate",
    source = Coin,
    source_filter = (lot_id == param(id)),
    compute(total = sum(amount), all = sum(ratio)),
    target_match(id = param(id)),
    materialize_to = numbers,
)]
pub const RENUMBER: Operation<Lot>;

/// A sale of one piece.
#[entity(
    counter(Lot.sales, by = lot_id),
    counter(Lot.large, by = lot_id, when(large)),
    routes(auth = none)
)]
#[derive(Clone, Debug)]
pub struct Sale {
    #[field(primary)]
    pub id: String,
    pub lot_id: Option<String>,
    #[field(default = false)]
    pub large: bool,
}

#[operation(kind = "batch", action = "update", filter = (large == param(large)), set(lot_id = param(lot)))]
pub const MOVE_ALL: Operation<Sale>;

/// A coin with a value to sum.
#[entity(index(lot_id), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Coin {
    #[field(primary, default = uuid)]
    pub id: String,
    pub lot_id: String,
    #[field(default = 0)]
    pub amount: i64,
    #[field(default = 0.0)]
    pub ratio: f64,
}

pub static LOTS: Package = package!(
    name = "lots",
    entities = [
        entity(
            Lot,
            [
                ADD, RECOUNT, CLOSE, CHANGE_ALL, NEARLY, PUT, SUM, WEIGH, REPRICE, RENUMBER
            ]
        ),
        entity(Sale, [MOVE_ALL]),
        entity(Coin)
    ],
);

cases!(&crate::number_bounds::LOTS =>
    generated_routes_keep_computed_fields_in_range, operations_keep_computed_fields_in_range,
    a_batch_keeps_computed_fields_in_range, calls_from_code_keep_computed_fields_in_range,
    counters_stay_in_range, sums_stay_in_range, sums_beyond_the_integers_of_a_store_are_refused,
);

async fn create_ok(s: &Server, path: &str, body: Json) -> Json {
    let reply = s.post(path, body).await;
    assert_eq!(reply.status, 201, "{reply:?}");
    reply.json()
}

async fn get_lot(s: &Server, id: &str) -> Json {
    s.get(&format!("/lots/{id}")).await.json()
}

async fn generated_routes_keep_computed_fields_in_range(s: &Server) {
    s.post("/lots", json!({"id": "a", "price": MOST, "pieces": 2}))
        .await
        .problem("range", "worth");
    s.post("/lots", json!({"id": "a", "price": -MOST, "pieces": 2}))
        .await
        .problem("range", "worth");
    // A product that is not a finite number.
    s.post("/lots", json!({"id": "a", "each": 1e308, "pieces": 100}))
        .await
        .problem("range", "weight");
    // The error does not name the private field.
    let refused = s.post("/lots", json!({"id": "a", "price": -GREAT})).await;
    refused.problem("range", "");
    assert!(
        !String::from_utf8_lossy(&refused.body).contains("secret"),
        "{refused:?}"
    );
    assert_eq!(s.get("/lots").await.json()["items"], json!([]));
    // The maximum and minimum are accepted.
    assert_eq!(
        create_ok(s, "/lots", json!({"id": "a", "price": MOST})).await["worth"],
        json!(MOST)
    );
    assert_eq!(
        create_ok(s, "/lots", json!({"id": "b", "price": MOST, "pieces": -1})).await["worth"],
        json!(-MOST)
    );
    let before = get_lot(s, "a").await;
    s.patch("/lots/a", json!({"pieces": 2}))
        .await
        .problem("range", "worth");
    s.patch("/lots/a", json!({"price": GREAT, "pieces": -3}))
        .await
        .problem("range", "worth");
    s.patch(
        "/lots/a",
        json!({"each": -1e308, "price": 1, "pieces": 1000}),
    )
    .await
    .problem("range", "weight");
    assert_eq!(
        get_lot(s, "a").await,
        before,
        "neither a value nor the version changes"
    );
}

async fn operations_keep_computed_fields_in_range(s: &Server) {
    create_ok(s, "/lots", json!({"id": "a", "code": "A", "price": GREAT})).await;
    let before = get_lot(s, "a").await;
    let refused = |reply: Reply| reply.problem("range", "worth");
    refused(s.post("/lots/a/add", json!({})).await);
    refused(
        s.raw_json("PATCH", "/lots/a/recount", json!({"pieces": 2}))
            .await,
    );
    refused(s.post("/lots/a/close", json!({"pieces": 2})).await);
    refused(
        s.post("/lots/put", json!({"code": "A", "pieces": 2, "key": "x"}))
            .await,
    );
    refused(
        s.post(
            "/lots/put",
            json!({"code": "B", "price": GREAT, "pieces": 2, "key": "x"}),
        )
        .await,
    );
    assert_eq!(get_lot(s, "a").await, before);
    assert_eq!(s.get("/lots/x").await.status, 404);
    create_ok(s, "/coins", json!({"lotId": "b", "amount": GREAT})).await;
    create_ok(s, "/lots", json!({"id": "b", "pieces": 2})).await;
    refused(s.post("/lots/reprice", json!({"id": "b"})).await);
    assert_eq!(
        (
            &get_lot(s, "b").await["price"],
            &get_lot(s, "b").await["version"]
        ),
        (&json!(1), &json!(1))
    );
    assert_eq!(
        s.post("/lots/a/close", json!({"pieces": 1})).await.status,
        200
    );
}

async fn a_batch_keeps_computed_fields_in_range(s: &Server) {
    for (id, price) in [("a", 1), ("b", 2), ("c", GREAT), ("d", 3)] {
        create_ok(s, "/lots", json!({"id": id, "price": price})).await;
    }
    let before = s.get("/lots").await.json();
    // One record would be out of range, so no record changes.
    s.post("/lots/change-all", json!({"least": 1, "pieces": 2}))
        .await
        .problem("range", "worth");
    assert_eq!(s.get("/lots").await.json(), before);
    assert_eq!(
        s.post("/lots/change-all", json!({"least": 1, "pieces": 1}))
            .await
            .json(),
        json!(4)
    );
}

async fn calls_from_code_keep_computed_fields_in_range(s: &Server) {
    let (lots, cx) = (s.running().adapter::<Lot>().unwrap(), Cx::system("a test"));
    create_ok(s, "/lots", json!({"id": "a", "price": GREAT})).await;
    let refused = lots.add(&cx, "a").await.unwrap_err();
    assert_eq!(
        (refused.code(), refused.details()[0].path.as_str()),
        (Code::ValidationFailed, "worth")
    );
    // Other writes of the transaction are kept.
    cx.transaction(async |cx| {
        assert_eq!(
            lots.add(cx, "a").await.unwrap_err().code(),
            Code::ValidationFailed
        );
        lots.update(
            cx,
            "a",
            LotPatch {
                price: Some(3),
                ..LotPatch::default()
            },
            None,
        )
        .await
    })
    .await
    .unwrap();
    assert_eq!(
        (
            &get_lot(s, "a").await["worth"],
            &get_lot(s, "a").await["pieces"]
        ),
        (&json!(3), &json!(1))
    );
}

async fn counters_stay_in_range(s: &Server) {
    create_ok(s, "/lots", json!({"id": "a"})).await;
    create_ok(s, "/lots", json!({"id": "b"})).await;
    create_ok(s, "/coins", json!({"lotId": "a", "amount": MOST - 1})).await;
    assert_eq!(
        s.post("/lots/nearly", json!({"id": "a"})).await.json()["sales"],
        json!(MOST - 1)
    );
    create_ok(s, "/sales", json!({"id": "1", "lotId": "a"})).await;
    create_ok(s, "/sales", json!({"id": "2", "lotId": "b", "large": true})).await;
    assert_eq!(get_lot(s, "a").await["sales"], json!(MOST));
    s.post("/sales", json!({"id": "3", "lotId": "a"}))
        .await
        .problem("range", "lotId");
    s.patch("/sales/2", json!({"lotId": "a"}))
        .await
        .problem("range", "lotId");
    s.post("/sales/move-all", json!({"large": true, "lot": "a"}))
        .await
        .problem("range", "lotId");
    // Nothing was written.
    assert_eq!(
        s.get("/sales").await.json()["items"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    assert_eq!(s.get("/sales/2").await.json()["lotId"], "b");
    assert_eq!(
        (
            &get_lot(s, "a").await["sales"],
            &get_lot(s, "a").await["large"]
        ),
        (&json!(MOST), &json!(0))
    );
    assert_eq!(
        (
            &get_lot(s, "b").await["sales"],
            &get_lot(s, "b").await["large"]
        ),
        (&json!(1), &json!(1))
    );
    // Another counter of the same record is below its maximum. After one record is removed, one
    // more can be counted.
    assert_eq!(
        s.patch("/sales/1", json!({"large": true})).await.status,
        200
    );
    assert_eq!(s.delete("/sales/1").await.status, 204);
    assert_eq!(s.patch("/sales/2", json!({"lotId": "a"})).await.status, 200);
    assert_eq!(get_lot(s, "a").await["sales"], json!(MOST));
    // A key without a record changes no counter.
    create_ok(s, "/sales", json!({"id": "4", "lotId": "nowhere"})).await;
}

async fn sums_stay_in_range(s: &Server) {
    create_ok(s, "/lots", json!({"id": "a"})).await;
    create_ok(
        s,
        "/coins",
        json!({"lotId": "a", "amount": MOST, "ratio": 1e308}),
    )
    .await;
    for (route, member) in [("sum", "sum"), ("weigh", "all"), ("reprice", "price")] {
        let reply = s.post(&format!("/lots/{route}"), json!({"id": "a"})).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        assert!(!reply.json()[member].is_null());
    }
    assert_eq!(
        s.post("/lots/renumber", json!({"id": "a"})).await.json()["numbers"]["total"],
        json!(MOST)
    );
    let before = get_lot(s, "a").await;
    create_ok(
        s,
        "/coins",
        json!({"lotId": "a", "amount": 1, "ratio": 1e308}),
    )
    .await;
    for (route, member) in [
        ("sum", "sum"),
        ("weigh", "all"),
        ("reprice", "price"),
        ("renumber", "numbers"),
    ] {
        s.post(&format!("/lots/{route}"), json!({"id": "a"}))
            .await
            .problem("range", member);
    }
    assert_eq!(get_lot(s, "a").await, before);
}

/// Sums beyond the JSON range, and beyond the integers of the store.
async fn sums_beyond_the_integers_of_a_store_are_refused(s: &Server) {
    create_ok(s, "/lots", json!({"id": "a"})).await;
    let (coins, cx) = (s.running().adapter::<Coin>().unwrap(), Cx::system("a test"));
    cx.transaction(async |cx| {
        for _ in 0..1025 {
            coins
                .create(
                    cx,
                    CoinCreate {
                        lot_id: "a".to_owned(),
                        amount: Some(MOST),
                        ratio: None,
                    },
                )
                .await?;
        }
        Ok(())
    })
    .await
    .unwrap();
    let before = get_lot(s, "a").await;
    for (route, member) in [
        ("sum", "sum"),
        ("reprice", "price"),
        ("renumber", "numbers"),
    ] {
        s.post(&format!("/lots/{route}"), json!({"id": "a"}))
            .await
            .problem("range", member);
    }
    assert_eq!(get_lot(s, "a").await, before);
}
