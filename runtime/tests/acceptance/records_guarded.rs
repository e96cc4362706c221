//! A handler's condition selects only records that the caller may see, for every kind of
//! restriction: expiry, soft delete, scopes, gates, numeric tenants.

#![allow(missing_docs, dead_code)] // a fixture
#![allow(clippy::unused_async)] // functions of custom operations are async by their signature

use linchpin::FieldEnum;
use linchpin::prelude::*;
use serde_json::json;

use crate::cases;
use crate::server::{Reply, Server};

#[derive(FieldEnum, Clone, Copy, Debug, PartialEq)]
pub enum State {
    Here,
    Gone,
}

/// A room. Its talks are visible only to callers who see the room.
#[entity(visible(open || owner_id == ctx(actor.id)), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Room {
    #[field(primary)]
    pub id: String,
    #[field(default = true)]
    pub open: bool,
    pub owner_id: Option<String>,
}

/// A talk that is visible through its room, until it expires or is marked as deleted.
#[entity(
    gate(room_id -> Room),
    ttl(until),
    soft_delete(state = State::Gone),
    visible(loud || owner_id == ctx(actor.id)),
    belongs_to(room: Room, key = room_id),
    routes(auth = none),
)]
#[derive(Clone, Debug)]
pub struct Talk {
    #[field(primary)]
    pub id: String,
    pub room_id: String,
    pub owner_id: Option<String>,
    #[field(default = true)]
    pub loud: bool,
    #[field(default = State::Here)]
    pub state: Option<State>,
    #[field(default = 1)]
    pub weight: i64,
    pub until: Option<Timestamp>,
}

/// A bill of a numeric tenant and of its creator.
#[entity(tenant(tenant_id), scope(owner_id = ctx(actor.id)), routes(auth = "userAuth"))]
#[derive(Clone, Debug)]
pub struct Bill {
    #[field(primary)]
    pub id: String,
    pub tenant_id: i64,
    pub owner_id: String,
    #[field(default = 0)]
    pub sum: i64,
}

macro_rules! everything {
    ($($name:ident, $of:ident, $memory:ident, $sql:ident;)*) => {$(
        #[operation(
            kind = "custom",
            http(method = "GET"),
            params(wide: i64),
            output = Vec<$of>,
            handler(memory = $memory, sqlite = $sql, postgres = $sql),
        )]
        pub const $name: Operation<$of>;

        async fn $memory(call: MemoryCall<$of>, _: i64) -> Result<Vec<String>> {
            Ok(call.visible().await?.into_iter().map(|one| one.id).collect())
        }

        async fn $sql<S: SqlStore>(call: CustomCall<$of, S>, wide: i64) -> Result<Records<$of>> {
            Ok(match wide {
                0 => call.records("TRUE OR id IS NULL"),
                1 => call.records("TRUE").order_by("id").limit(50),
                // Twelve values, used in another order, some of them twice. The framework binds the
                // values of the row-level filter and of the limit after them.
                _ => call
                    .records("($12 = 12 AND $1 = 1 AND $11 = 11 AND $10=$2+8 AND $3+$4 = 7 AND $6-$5 = $8-$7 AND $9=9) OR $12 = $1")
                    .bind(1).bind(2).bind(3).bind(4).bind(5).bind(6).bind(7).bind(8).bind(9).bind(10).bind(11).bind(12)
                    .order_by("CASE WHEN $7 = 7 THEN id ELSE NULL END")
                    .limit(50),
            })
        }
    )*};
}
everything! {
    TALKS, Talk, talks_memory, talks;
    BILLS, Bill, bills_memory, bills;
}

pub static HOUSE: Package = package!(
    name = "records_house",
    entities = [
        entity(Room, []),
        entity(Talk, [TALKS]),
        entity(Bill, [BILLS])
    ],
);

cases!(&crate::records_guarded::HOUSE =>
    conditions_of_functions_apply_gates_and_visibility,
    conditions_of_functions_apply_numeric_tenants,
);

async fn send_as(
    s: &Server,
    token: Option<&str>,
    method: &str,
    path: &str,
    body: &serde_json::Value,
) -> Reply {
    let mut headers = vec![("content-type", "application/json")];
    headers.extend(token.map(|token| ("authorization", token)));
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    s.raw(method, path, &headers, &body).await
}

/// The ids that each of the three conditions of a custom operation returns.
async fn ids(s: &Server, token: Option<&str>, path: &str) -> Vec<Vec<String>> {
    let mut out = Vec::new();
    for wide in 0..3 {
        let reply = send_as(
            s,
            token,
            "GET",
            &format!("{path}?wide={wide}"),
            &json!(null),
        )
        .await;
        assert_eq!(reply.status, 200, "{wide} {reply:?}");
        let mut found: Vec<String> = reply
            .json()
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["id"].as_str().unwrap().to_owned())
            .collect();
        found.sort();
        out.push(found);
    }
    out
}

async fn conditions_of_functions_apply_gates_and_visibility(s: &Server) {
    for room in [
        json!({"id": "open"}),
        json!({"id": "shut", "open": false, "ownerId": "ada"}),
    ] {
        assert_eq!(s.post("/rooms", room).await.status, 201);
    }
    let ada = s.token("ada", &[]);
    for (id, room, more) in [
        ("a", "open", json!({})),
        ("b", "shut", json!({})),
        ("c", "open", json!({"loud": false, "ownerId": "ada"})),
        ("d", "open", json!({"until": "2026-03-04T05:06:08Z"})),
        ("e", "open", json!({"state": null})),
        ("f", "open", json!({})),
    ] {
        let mut body = json!({"id": id, "roomId": room});
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let made = send_as(s, Some(&ada), "POST", "/talks", &body).await;
        assert_eq!(made.status, 201, "{made:?}");
    }
    assert_eq!(
        send_as(s, Some(&ada), "DELETE", "/talks/f", &json!(null))
            .await
            .status,
        204
    );
    assert_eq!(
        ids(s, None, "/talks/talks").await,
        vec![vec!["a", "d", "e"]; 3]
    );
    assert_eq!(
        ids(s, Some(&ada), "/talks/talks").await,
        vec![vec!["a", "b", "c", "d", "e"]; 3]
    );
    s.advance(10_000);
    assert_eq!(ids(s, None, "/talks/talks").await, vec![vec!["a", "e"]; 3]);
}

async fn conditions_of_functions_apply_numeric_tenants(s: &Server) {
    for (owner, tenant, id) in [("ada", "1", "a"), ("bob", "1", "b"), ("ada", "2", "c")] {
        let made = send_as(
            s,
            Some(&s.token_in(owner, tenant)),
            "POST",
            "/bills",
            &json!({"id": id}),
        )
        .await;
        assert_eq!(made.status, 201, "{made:?}");
    }
    assert_eq!(
        ids(s, Some(&s.token_in("ada", "1")), "/bills/bills").await,
        vec![vec!["a"]; 3]
    );
    assert_eq!(
        ids(s, Some(&s.token_in("ada", "2")), "/bills/bills").await,
        vec![vec!["c"]; 3]
    );
    assert_eq!(
        ids(s, Some(&s.token_in("eve", "1")), "/bills/bills").await,
        vec![Vec::<String>::new(); 3]
    );
    for tenant in ["x", "1 OR 1", ""] {
        let reply = send_as(
            s,
            Some(&s.token_in("ada", tenant)),
            "GET",
            "/bills/bills?wide=0",
            &json!(null),
        )
        .await;
        assert!(matches!(reply.status, 401 | 403), "{tenant}: {reply:?}");
    }
}
