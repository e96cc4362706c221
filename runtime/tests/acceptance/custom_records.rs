//! Tests handlers that select records by an SQL condition.
//!
//! The handler sees only records that the guard allows.

#![allow(missing_docs)] // a fixture
#![allow(clippy::unused_async)] // functions of custom operations are async by their signature

use linchpin::operation::CustomStore;
use linchpin::prelude::*;
use linchpin::{Code, FieldEnum};
use serde_json::json;

use crate::cases;
use crate::server::{Reply, Server};

#[derive(FieldEnum, Clone, Copy, Debug, PartialEq)]
pub enum Colour {
    Red,
    Blue,
}

/// A record of a tenant.
#[entity(tenant(tenant_id), soft_delete(deleted_at), sort = asc(weight), index(weight))]
#[derive(Clone, Debug)]
pub struct Crate {
    #[field(primary)]
    pub id: String,
    pub tenant_id: String,
    #[field(default = 0)]
    pub weight: i64,
    #[field(default = Colour::Red)]
    pub colour: Colour,
    pub label: Option<String>,
    #[field(default = now)]
    pub made_at: Timestamp,
    #[field(private)]
    pub secret: Option<String>,
    pub deleted_at: Option<Timestamp>,
}

/// The heaviest records of a colour.
#[operation(
    kind = "custom",
    http(method = "GET"),
    params(colour: Colour, most: i64),
    output = Vec<Crate>,
    handler(memory = heaviest_memory, sqlite = heaviest, postgres = heaviest),
)]
pub const HEAVIEST: Operation<Crate>;

async fn heaviest_memory(
    call: MemoryCall<Crate>,
    colour: Colour,
    most: i64,
) -> Result<Vec<String>> {
    let mut all = call.visible().await?;
    all.retain(|one| one.colour == colour);
    all.sort_by_key(|one| (std::cmp::Reverse(one.weight), one.id.clone()));
    Ok(all
        .into_iter()
        .take(usize::try_from(most).unwrap_or_default())
        .map(|one| one.id)
        .collect())
}

async fn heaviest<S: SqlStore>(
    call: CustomCall<Crate, S>,
    colour: Colour,
    most: i64,
) -> Result<Records<Crate>> {
    let found = call
        .records("colour = $1 AND made_at <= $2")
        .bind(colour)
        .bind(call.cx().now());
    Ok(found
        .order_by("weight DESC")
        .limit(u32::try_from(most).unwrap_or_default()))
}

/// Records with this label, or records without a label.
#[operation(
    kind = "custom",
    http(method = "GET"),
    params(label: Option<String>),
    output = Vec<Crate>,
    handler(memory = labelled_memory, sqlite = labelled, postgres = labelled),
)]
pub const LABELLED: Operation<Crate>;

async fn labelled_memory(call: MemoryCall<Crate>, label: Option<String>) -> Result<Vec<String>> {
    Ok(call
        .visible()
        .await?
        .into_iter()
        .filter(|one| one.label == label)
        .map(|one| one.id)
        .collect())
}

async fn labelled<S: SqlStore>(
    call: CustomCall<Crate, S>,
    label: Option<String>,
) -> Result<Records<Crate>> {
    Ok(call
        .records("label = $1 OR ($1 IS NULL AND label IS NULL)")
        .bind(label))
}

/// Reads records and returns their weights.
#[operation(
    kind = "custom",
    http(method = "GET"),
    output = Vec<i64>,
    handler(memory = weights_memory, sqlite = weights, postgres = weights),
)]
pub const WEIGHTS: Operation<Crate>;

async fn weights_memory(call: MemoryCall<Crate>) -> Result<Vec<i64>> {
    Ok(call
        .visible()
        .await?
        .iter()
        .map(|one| one.weight)
        .filter(|weight| weight % 2 == 1)
        .collect())
}

async fn weights<S: SqlStore>(call: CustomCall<Crate, S>) -> Result<Vec<i64>> {
    Ok(call
        .read(call.records("weight % 2 = 1"))
        .await?
        .iter()
        .map(|one| one.weight)
        .collect())
}

/// Uses the hostile SQL text with the number `how`.
#[operation(
    kind = "custom",
    http(method = "GET"),
    params(how: i64),
    output = Vec<Crate>,
    handler(memory = hostile_memory, sqlite = hostile, postgres = hostile),
)]
pub const HOSTILE: Operation<Crate>;

async fn hostile_memory<S: CustomStore>(_: CustomCall<Crate, S>, _: i64) -> Result<Vec<String>> {
    Err(Error::internal("as the others"))
}

/// Conditions that try to match foreign records. The guard still limits them.
const WIDE: [&str; 6] = [
    "TRUE",
    "weight < 0 OR TRUE",
    "weight < 0 OR tenant_id IS NOT NULL",
    "(1 = 1) OR (1 = 1)",
    "deleted_at IS NULL OR deleted_at IS NOT NULL",
    "id IN (SELECT id FROM crates) OR label = 'x'') OR (1 = 1'",
];

/// Conditions that try to close or to comment out the guard. They are refused with 500.
const ESCAPES: [&str; 14] = [
    "TRUE) OR (TRUE",
    "TRUE) --",
    "TRUE --",
    "TRUE /*",
    "TRUE) OR (TRUE) /*",
    "TRUE; SELECT 1",
    "TRUE) UNION ALL SELECT * FROM crates WHERE (TRUE",
    "TRUE UNION ALL SELECT * FROM crates",
    "label = 'a",
    "label = E'\\') OR (TRUE) OR (label = '",
    "label = $$a",
    "label = $2 OR TRUE",
    "label = ? OR TRUE",
    "",
];

/// `ORDER BY` texts that try to escape the guard.
const ORDERS: [&str; 4] = [
    "weight UNION ALL SELECT * FROM crates",
    "weight LIMIT 100 --",
    "weight; DELETE FROM crates",
    "weight) OR (TRUE",
];

async fn hostile<S: SqlStore>(call: CustomCall<Crate, S>, how: i64) -> Result<Records<Crate>> {
    let how = usize::try_from(how).unwrap_or_default();
    Ok(match how {
        0..100 => call.records(WIDE[how]),
        100..200 => call.records(ESCAPES[how - 100]),
        200..300 => call.records("TRUE").order_by(ORDERS[how - 200]),
        // A bound value without a placeholder, and placeholders without a bound value.
        300 => call.records("TRUE").bind(1),
        301 => call.records("weight = $2").bind(1),
        _ => call.records("weight = $1 AND weight = $2").bind(1),
    })
}

pub static CRATES: Package = package!(
    name = "parcel",
    entities = [entity(Crate, [HEAVIEST, LABELLED, WEIGHTS, HOSTILE])]
);

cases!(&crate::custom_records::CRATES =>
    a_condition_selects_visible_records, bound_values_are_not_part_of_the_text,
    a_function_reads_records_by_a_condition, wide_conditions_return_visible_records_only,
    conditions_cannot_escape_the_guard, conditions_see_writes_of_the_transaction,
);

async fn get(s: &Server, tenant: &str, path: &str) -> Reply {
    s.raw(
        "GET",
        path,
        &[("authorization", &s.token_in("u", tenant))],
        "",
    )
    .await
}

fn ids(reply: &Reply) -> Vec<String> {
    let records = reply.json();
    let records = records.as_array().unwrap_or_else(|| panic!("{reply:?}"));
    records
        .iter()
        .map(|one| one["id"].as_str().unwrap().to_owned())
        .collect()
}

fn speaks_sql(s: &Server) -> bool {
    !format!("{:?}", s.running().adapters()).contains("memory")
}

async fn crates(s: &Server) {
    let made: [(&str, &str, i64, &str, Option<&str>); 7] = [
        ("t1", "a", 1, "red", None),
        ("t1", "b", 5, "red", Some("$1")),
        ("t1", "c", 9, "red", Some("x') OR (1 = 1")),
        ("t1", "d", 9, "blue", None),
        ("t1", "gone", 7, "red", None),
        ("t2", "y", 50, "red", None),
        ("t2", "z", 70, "red", Some("$1")),
    ];
    for (tenant, id, weight, colour, label) in made {
        let token = s.token_in("u", tenant);
        let body =
            json!({"id": id, "weight": weight, "colour": colour, "label": label}).to_string();
        let reply = s
            .raw(
                "POST",
                "/crates",
                &[
                    ("authorization", &token),
                    ("content-type", "application/json"),
                ],
                &body,
            )
            .await;
        assert_eq!(reply.status, 201, "{reply:?}");
    }
    assert_eq!(
        s.raw(
            "DELETE",
            "/crates/gone",
            &[("authorization", &s.token_in("u", "t1"))],
            ""
        )
        .await
        .status,
        204
    );
}

async fn a_condition_selects_visible_records(s: &Server) {
    crates(s).await;
    let reply = get(s, "t1", "/crates/heaviest?colour=red&most=2").await;
    assert_eq!(
        (reply.status, ids(&reply)),
        (200, vec!["c".to_owned(), "b".to_owned()]),
        "{reply:?}"
    );
    assert!(
        reply.json()[0].get("secret").is_none(),
        "private fields are not returned"
    );
    assert_eq!(reply.json()[0]["colour"], "red");
    assert_eq!(
        ids(&get(s, "t1", "/crates/heaviest?colour=blue&most=9").await),
        ["d"]
    );
    assert_eq!(
        ids(&get(s, "t1", "/crates/heaviest?colour=red&most=0").await),
        Vec::<String>::new()
    );
    assert_eq!(
        ids(&get(s, "t2", "/crates/heaviest?colour=red&most=9").await),
        ["z", "y"]
    );
    assert_eq!(
        get(s, "t3", "/crates/heaviest?colour=red&most=9")
            .await
            .json(),
        json!([])
    );
    assert_eq!(
        s.get("/crates/heaviest?colour=red&most=9").await.status,
        401
    );
}

async fn bound_values_are_not_part_of_the_text(s: &Server) {
    crates(s).await;
    assert_eq!(ids(&get(s, "t1", "/crates/labelled?label=$1").await), ["b"]);
    assert_eq!(
        ids(&get(s, "t1", "/crates/labelled?label=x')%20OR%20(1%20=%201").await),
        ["c"],
        "a value is never part of the text"
    );
    assert_eq!(
        ids(&get(s, "t1", "/crates/labelled").await),
        ["a", "d"],
        "null selects records without a label, in the default order"
    );
}

async fn a_function_reads_records_by_a_condition(s: &Server) {
    crates(s).await;
    assert_eq!(
        get(s, "t1", "/crates/weights").await.json(),
        json!([1, 5, 9, 9])
    );
    assert_eq!(get(s, "t2", "/crates/weights").await.json(), json!([]));
}

async fn wide_conditions_return_visible_records_only(s: &Server) {
    crates(s).await;
    for (how, text) in WIDE.iter().enumerate().filter(|_| speaks_sql(s)) {
        let ids_of_tenant =
            async |tenant: &str| ids(&get(s, tenant, &format!("/crates/hostile?how={how}")).await);
        assert_eq!(ids_of_tenant("t1").await, ["a", "b", "c", "d"], "{text}");
        assert_eq!(
            (ids_of_tenant("t2").await, ids_of_tenant("t3").await),
            (vec!["y".to_owned(), "z".to_owned()], Vec::new()),
            "{text}"
        );
    }
}

async fn conditions_cannot_escape_the_guard(s: &Server) {
    crates(s).await;
    let (conditions, orders) = ((100..).zip(ESCAPES), (200..).zip(ORDERS));
    for (how, text) in conditions
        .chain(orders)
        .chain((300..303).map(|how| (how, "values")))
    {
        for tenant in ["t1", "t3"] {
            let reply = get(s, tenant, &format!("/crates/hostile?how={how}")).await;
            assert_eq!(
                (reply.status, &reply.json()["code"]),
                (500, &json!("internal")),
                "{text}: {reply:?}"
            );
        }
    }
    assert_eq!(
        ids(&get(s, "t2", "/crates/heaviest?colour=red&most=9").await),
        ["z", "y"],
        "no record was removed"
    );
}

async fn conditions_see_writes_of_the_transaction(s: &Server) {
    crates(s).await;
    let crates = s.running().adapter::<Crate>().unwrap();
    let cx = Cx::actor(Actor {
        tenant_id: Some("t1".to_owned()),
        ..Actor::user("u")
    })
    .at(s.now());
    let undone: Result<()> = cx
        .transaction(async |cx| {
            crates
                .update(
                    cx,
                    "a",
                    CratePatch {
                        weight: Some(99),
                        ..CratePatch::default()
                    },
                    None,
                )
                .await?;
            let seen: Vec<(String, i64)> = crates
                .heaviest(cx, Colour::Red, 1)
                .await?
                .into_iter()
                .map(|one| (one.id, one.weight))
                .collect();
            assert_eq!(
                seen,
                [("a".to_owned(), 99)],
                "the condition sees writes of the transaction"
            );
            Err(Error::new(Code::Conflict, "not now"))
        })
        .await;
    assert_eq!(undone.unwrap_err().code(), Code::Conflict);
    assert_eq!(
        crates.heaviest(&cx, Colour::Red, 1).await.unwrap()[0].weight,
        9
    );
    let stranger = crates
        .heaviest(&Cx::actor(Actor::anonymous()), Colour::Red, 1)
        .await
        .unwrap_err();
    assert_eq!(stranger.code(), Code::Unauthorized);
}
