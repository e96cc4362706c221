//! `collection`: the items of a list, one by one.

#![allow(missing_docs)] // a fixture

use linchpin::prelude::*;
use linchpin::{Actor, Cx};
use serde_json::{Value as Json, json};

use crate::cases;
use crate::server::Server;

/// A member of a team.
#[derive(Clone, Debug, PartialEq, Embedded)]
pub struct Member {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(length = 1..=20)]
    pub name: String,
    pub email: Option<String>,
    #[field(default = 0)]
    pub rank: i64,
}

/// A seat with a number.
#[derive(Clone, Debug, PartialEq, Embedded)]
pub struct Seat {
    pub number: i64,
    pub taken: bool,
}

#[entity(version(required_on_write = false), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Team {
    #[field(primary)]
    pub id: String,
    pub members: Vec<Member>,
    pub seats: Vec<Seat>,
    pub listed: Vec<Seat>,
    #[field(default = now, on_update = now)]
    pub updated_at: Timestamp,
}

#[operation(kind = "collection", field = members, operations(list, add, remove, update, set), max_items = 2, route(members_remove(roles = ["admin"], auth = "userAuth")))]
pub const MEMBERS: Operation<Team>;

#[operation(kind = "collection", field = seats, operations(list, add, remove, update), identify_by = number)]
pub const SEATS: Operation<Team>;

#[operation(kind = "collection", field = listed, operations(list), identify_by = number)]
pub const LISTED: Operation<Team>;

pub static TEAMS: Package = package!(
    name = "teams",
    entities = [entity(Team, [MEMBERS, SEATS, LISTED])]
);

cases!(&super::TEAMS =>
    collection_adds_and_updates_items, a_full_collection_is_refused,
    a_collection_mounts_its_methods_only, item_keys_are_unique, number_keys_have_one_spelling,
    item_bodies_are_validated, list_bounds_apply_to_create_and_update,
    item_routes_check_and_increase_the_version, concurrent_adds_fill_one_free_place_once,
    code_calls_collection_methods,
);

async fn team(s: &Server) {
    assert_eq!(s.post("/teams", json!({"id": "t"})).await.status, 201);
}

async fn add(s: &Server, name: &str) -> Json {
    let reply = s
        .post("/teams/t/members-add", json!({ "name": name }))
        .await;
    assert_eq!(reply.status, 201, "{reply:?}");
    reply.json()
}

async fn members(s: &Server) -> Json {
    s.get("/teams/t/members-list").await.json()
}

async fn collection_adds_and_updates_items(s: &Server) {
    team(s).await;
    let before = s.get("/teams/t").await.json();
    s.advance(5);
    let ann = add(s, "Ann").await;
    assert_eq!(
        (&ann["name"], &ann["email"], &ann["rank"]),
        (&json!("Ann"), &Json::Null, &json!(0))
    );
    assert_eq!(members(s).await, json!([ann]));
    let path = format!("/teams/t/members-update/{}", ann["id"].as_str().unwrap());
    let changed = s
        .patch(&path, json!({"name": "Anna", "email": "a@b.example"}))
        .await;
    assert_eq!(
        (
            changed.status,
            &changed.json()["name"],
            &changed.json()["id"]
        ),
        (200, &json!("Anna"), &ann["id"])
    );
    assert_eq!(members(s).await, json!([changed.json()]));
    let cleared = s.patch(&path, json!({"email": null})).await.json();
    assert_eq!(
        (&cleared["email"], &cleared["name"]),
        (&Json::Null, &json!("Anna"))
    );
    assert_eq!(
        s.patch(&path, json!({})).await.json(),
        cleared,
        "an empty PATCH changes nothing"
    );
    let set = s
        .raw_json(
            "PUT",
            "/teams/t/members-set",
            json!([{"id": "x", "name": "Xi"}]),
        )
        .await;
    assert_eq!((set.status, &set.json()[0]["name"]), (200, &json!("Xi")));
    let record = s.get("/teams/t").await.json();
    assert_eq!(
        record["members"],
        set.json(),
        "the items are part of the record"
    );
    assert!(record["updatedAt"].as_str() > before["updatedAt"].as_str());
    assert_eq!(
        s.delete("/teams/t/members-remove/x").await.status,
        401,
        "the operation has its own policy"
    );
    let token = s.token("root", &["admin"]);
    let removed = s
        .raw(
            "DELETE",
            "/teams/t/members-remove/x",
            &[("authorization", &token)],
            "",
        )
        .await;
    assert_eq!((removed.status, removed.body.len()), (204, 0));
    assert_eq!(members(s).await, json!([]));
}

async fn a_full_collection_is_refused(s: &Server) {
    team(s).await;
    let two = [add(s, "a").await, add(s, "b").await];
    assert_eq!(
        s.post("/teams/t/members-add", json!({"name": "c"}))
            .await
            .code(),
        (409, "collection_full")
    );
    let three = json!([{"name": "a"}, {"name": "b"}, {"name": "c"}]);
    assert_eq!(
        s.raw_json("PUT", "/teams/t/members-set", three)
            .await
            .code(),
        (409, "collection_full")
    );
    assert_eq!(members(s).await, json!(two));
}

async fn a_collection_mounts_its_methods_only(s: &Server) {
    team(s).await;
    assert_eq!(s.get("/teams/t/listed-list").await.json(), json!([]));
    assert_eq!(
        s.post("/teams/t/listed-add", json!({"number": 1, "taken": false}))
            .await
            .code(),
        (404, "not_found")
    );
}

async fn item_keys_are_unique(s: &Server) {
    team(s).await;
    let ann = add(s, "Ann").await;
    let again = s
        .post(
            "/teams/t/members-add",
            json!({"id": ann["id"], "name": "Bob"}),
        )
        .await;
    assert_eq!(again.code(), (409, "conflict"));
    assert_eq!(again.problems(), [("id".to_owned(), "unique".to_owned())]);
    assert_eq!(
        s.patch("/teams/t/members-update/nobody", json!({"name": "x"}))
            .await
            .code(),
        (404, "not_found")
    );
    assert_eq!(
        s.get("/teams/nowhere/members-list").await.code(),
        (404, "not_found")
    );
    assert_eq!(
        s.post("/teams/nowhere/members-add", json!({"name": "x"}))
            .await
            .code(),
        (404, "not_found")
    );
    let twice = s
        .raw_json(
            "PUT",
            "/teams/t/members-set",
            json!([{"id": "x", "name": "a"}, {"id": "x", "name": "b"}]),
        )
        .await;
    twice.problem("duplicate_item", "[1].id");
    assert_eq!(members(s).await, json!([ann]));
}

async fn number_keys_have_one_spelling(s: &Server) {
    team(s).await;
    for number in [7, 70] {
        assert_eq!(
            s.post(
                "/teams/t/seats-add",
                json!({"number": number, "taken": false})
            )
            .await
            .status,
            201
        );
    }
    assert_eq!(
        s.patch("/teams/t/seats-update/7", json!({"taken": true}))
            .await
            .json(),
        json!({"number": 7, "taken": true})
    );
    for odd in ["07", "x", "7.0", "+7", "%00"] {
        assert_eq!(
            s.patch(
                &format!("/teams/t/seats-update/{odd}"),
                json!({"taken": true})
            )
            .await
            .status,
            if odd == "%00" { 400 } else { 404 }
        );
    }
    assert_eq!(s.delete("/teams/t/seats-remove/7").await.status, 204);
    assert_eq!(
        s.delete("/teams/t/seats-remove/7").await.code(),
        (404, "not_found")
    );
    assert_eq!(
        s.get("/teams/t/seats-list").await.json(),
        json!([{"number": 70, "taken": false}])
    );
}

async fn item_bodies_are_validated(s: &Server) {
    team(s).await;
    let ann = add(s, "Ann").await;
    let post = |body: Json| s.post("/teams/t/members-add", body);
    post(json!({})).await.problem("required", "name");
    post(json!({"name": ""}))
        .await
        .problem("min_length", "name");
    post(json!({"name": 1})).await.problem("type", "name");
    post(json!({"name": null}))
        .await
        .problem("null_not_allowed", "name");
    post(json!({"name": "x", "more": 1}))
        .await
        .problem("unknown_field", "more");
    post(json!([])).await.problem("type", "");
    assert_eq!(
        s.raw(
            "POST",
            "/teams/t/members-add",
            &[("content-type", "text/plain")],
            "{}"
        )
        .await
        .status,
        415
    );
    assert_eq!(
        s.raw_json("POST", "/teams/t/members-add?x=1", json!({"name": "x"}))
            .await
            .code(),
        (400, "unknown_parameter")
    );
    let path = format!("/teams/t/members-update/{}", ann["id"].as_str().unwrap());
    s.patch(&path, json!({"id": "other"}))
        .await
        .problem("immutable", "id");
    s.patch(&path, json!({"name": null}))
        .await
        .problem("null_not_allowed", "name");
    s.patch(&path, json!({"name": "a".repeat(21)}))
        .await
        .problem("max_length", "name");
    s.patch(&path, json!({"more": 1}))
        .await
        .problem("unknown_field", "more");
    s.raw_json("PUT", "/teams/t/members-set", json!({"name": "x"}))
        .await
        .problem("type", "");
    s.raw_json("PUT", "/teams/t/members-set", json!([{"name": ""}]))
        .await
        .problem("min_length", "[0].name");
    assert_eq!(members(s).await, json!([ann]));
}

// The same bounds apply if create or PATCH writes the field.
async fn list_bounds_apply_to_create_and_update(s: &Server) {
    let three = json!([{"name": "a"}, {"name": "b"}, {"name": "c"}]);
    s.post("/teams", json!({"id": "u", "members": three}))
        .await
        .problem("max_items", "members");
    team(s).await;
    s.patch("/teams/t", json!({"members": three}))
        .await
        .problem("max_items", "members");
    let twice = json!([{"id": "x", "name": "a"}, {"id": "x", "name": "b"}]);
    s.patch("/teams/t", json!({"members": twice}))
        .await
        .problem("duplicate_item", "members[1].id");
}

async fn item_routes_check_and_increase_the_version(s: &Server) {
    team(s).await;
    add(s, "Ann").await;
    assert_eq!(s.get("/teams/t").await.header("etag"), "\"2\"");
    let json = ("content-type", "application/json");
    let stale = s
        .raw(
            "POST",
            "/teams/t/members-add",
            &[("if-match", "\"1\""), json],
            r#"{"name":"b"}"#,
        )
        .await;
    assert_eq!(stale.code(), (412, "precondition_failed"));
    assert_eq!(
        s.raw(
            "POST",
            "/teams/t/members-add",
            &[("if-match", "\"2\""), json],
            r#"{"name":"b"}"#
        )
        .await
        .status,
        201
    );
    let gone = s
        .raw(
            "PUT",
            "/teams/t/members-set",
            &[("if-match", "\"2\""), json],
            "[]",
        )
        .await;
    assert_eq!(gone.code(), (412, "precondition_failed"));
}

// Of several concurrent adds to a list with one free place, exactly one succeeds.
async fn concurrent_adds_fill_one_free_place_once(s: &Server) {
    team(s).await;
    add(s, "Ann").await;
    let replies = s
        .parallel(25, |i| {
            s.post("/teams/t/members-add", json!({"name": format!("n{i}")}))
        })
        .await;
    assert_eq!(replies.iter().filter(|r| r.status == 201).count(), 1);
    assert_eq!(
        replies
            .iter()
            .filter(|r| r.code() == (409, "collection_full"))
            .count(),
        24
    );
    assert_eq!(members(s).await.as_array().unwrap().len(), 2);
}

async fn code_calls_collection_methods(s: &Server) {
    team(s).await;
    let teams = s.running().adapter::<Team>().unwrap();
    let cx = Cx::actor(Actor::user("clerk"));
    let ann = Member {
        id: "ann".to_owned(),
        name: "Ann".to_owned(),
        email: None,
        rank: 3,
    };
    assert_eq!(teams.members_add(&cx, "t", ann.clone()).await.unwrap(), ann);
    let patch = MemberPatch {
        email: Some(Some("a@b.example".to_owned())),
        ..MemberPatch::default()
    };
    assert_eq!(
        teams
            .members_update(&cx, "t", "ann", patch)
            .await
            .unwrap()
            .email
            .as_deref(),
        Some("a@b.example")
    );
    assert_eq!(teams.members_list(&cx, "t").await.unwrap().len(), 1);
    teams.members_remove(&cx, "t", "ann").await.unwrap();
    assert_eq!(
        teams
            .members_set(&cx, "t", vec![ann.clone()])
            .await
            .unwrap(),
        [ann]
    );
}
