//! `restore`, lookups of deleted records, and `already = "ok"` of transitions.

#![allow(missing_docs)] // test entities

use linchpin::prelude::*;
use serde_json::{Value as Json, json};

use crate::cases;
use crate::server::{Reply, Server};

#[derive(FieldEnum, Clone, Copy, Debug, PartialEq)]
pub enum Stage {
    Draft,
    Live,
    Shelved,
    Gone,
}

/// An entity with `soft_delete` by a date.
#[entity(
    tenant(team, optional),
    soft_delete(deleted_at),
    version(required_on_write = false),
    unique(slug),
    index(title),
    sort = asc(slug),
    pagination(default = 2, max = 5),
    routes(auth = "userAuth")
)]
#[derive(Clone, Debug)]
pub struct Leaf {
    #[field(primary)]
    pub id: String,
    pub slug: String,
    #[field(default = "t")]
    pub title: String,
    #[field(default = Stage::Draft)]
    pub stage: Stage,
    #[field(private)]
    pub team: Option<String>,
    pub deleted_at: Option<Timestamp>,
}

#[operation(kind = "transition", field = stage, from = Stage::Draft, to = Stage::Live, already = "ok", set(title = "live"))]
pub const PUBLISH: Operation<Leaf>;

#[operation(kind = "transition", field = stage, from = Stage::Draft, to = Stage::Live, already = "ok", returns = "boolean")]
pub const RELEASE: Operation<Leaf>;

#[operation(kind = "transition", field = stage, from = [Stage::Draft, Stage::Live], to = Stage::Shelved)]
pub const SHELVE: Operation<Leaf>;

#[operation(kind = "restore", route(roles = ["editor"], event = "leaf.back"))]
pub const RESTORE: Operation<Leaf>;

#[operation(kind = "lookup", fields(title = param(title)), returns = "many", paginate, deleted = "only", route(roles = ["editor"]))]
pub const TRASH: Operation<Leaf>;

#[operation(kind = "lookup", fields(slug = param(slug)), returns = "one", deleted = "only", route(roles = ["editor"]))]
pub const LOST: Operation<Leaf>;

/// An entity with `soft_delete` by an enum variant.
#[entity(soft_delete(stage = Stage::Gone), routes(auth = none, roles = ["editor"], create(auth = none)))]
#[derive(Clone, Debug)]
pub struct Sheet {
    #[field(primary)]
    pub id: String,
    #[field(default = Stage::Draft)]
    pub stage: Stage,
}

#[operation(kind = "restore")]
pub const RECOVER: Operation<Sheet>;

static LEAVES: Package = package!(
    name = "leaves",
    entities = [
        entity(Leaf, [PUBLISH, RELEASE, SHELVE, RESTORE, TRASH, LOST]),
        entity(Sheet, [RECOVER])
    ]
);

cases!(&crate::deleted::LEAVES =>
    a_transition_accepts_a_record_that_is_already_in_the_target_state,
    restore_brings_a_deleted_record_back, a_lookup_of_deleted_records_omits_live_records,
    restore_sets_a_deletion_enum_to_its_default, restore_is_restricted_to_the_tenant,
    restore_checks_the_version, one_of_several_concurrent_restores_succeeds,
);

async fn send(s: &Server, method: &str, path: &str, body: &Json) -> Reply {
    let token = s.token("e", &["editor"]);
    let text = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    s.raw(
        method,
        path,
        &[
            ("authorization", &token),
            ("content-type", "application/json"),
        ],
        &text,
    )
    .await
}

async fn call(s: &Server, method: &str, path: &str) -> Reply {
    send(s, method, path, &Json::Null).await
}

async fn make(s: &Server, id: &str, slug: &str) {
    assert_eq!(
        send(s, "POST", "/leaves", &json!({"id": id, "slug": slug}))
            .await
            .status,
        201
    );
}

async fn a_transition_accepts_a_record_that_is_already_in_the_target_state(s: &Server) {
    make(s, "a", "a").await;
    let first = call(s, "POST", "/leaves/a/publish").await;
    assert_eq!(
        (first.status, first.header("etag")),
        (200, "\"2\"".to_owned())
    );
    assert!(first.headers.contains_key("x-event-id"));
    send(s, "PATCH", "/leaves/a", &json!({"title": "own"})).await;
    let again = call(s, "POST", "/leaves/a/publish").await;
    // The record is unchanged, including the fields in `set`.
    assert_eq!(
        (again.status, again.header("etag"), &again.json()["title"]),
        (200, "\"3\"".to_owned(), &json!("own"))
    );
    assert!(!again.headers.contains_key("x-event-id"));
    let boolean = call(s, "POST", "/leaves/a/release").await;
    assert_eq!((boolean.status, boolean.json()), (200, json!(true)));
    // A stale version is reported as usual.
    let token = s.token("e", &[]);
    let stale = s
        .raw(
            "POST",
            "/leaves/a/publish",
            &[("authorization", &token), ("if-match", "\"1\"")],
            "",
        )
        .await;
    assert_eq!(stale.code(), (412, "precondition_failed"));
    assert_eq!(call(s, "POST", "/leaves/a/shelve").await.status, 200);
    let third = call(s, "POST", "/leaves/a/publish").await;
    assert_eq!(third.code(), (400, "invalid_transition"));
    // Without `already = "ok"`, the second call is refused.
    assert_eq!(
        call(s, "POST", "/leaves/a/shelve").await.code(),
        (400, "invalid_transition")
    );
    assert_eq!(
        call(s, "POST", "/leaves/b/publish").await.code(),
        (404, "not_found")
    );
}

async fn restore_brings_a_deleted_record_back(s: &Server) {
    make(s, "a", "slug").await;
    assert_eq!(call(s, "GET", "/leaves/lost/slug").await.json(), Json::Null);
    assert_eq!(
        call(s, "POST", "/leaves/a/restore").await.code(),
        (404, "not_found")
    );
    assert_eq!(call(s, "DELETE", "/leaves/a").await.status, 204);
    let lost = call(s, "GET", "/leaves/lost/slug").await;
    assert_eq!((lost.status, &lost.json()["id"]), (200, &json!("a")));
    let back = call(s, "POST", "/leaves/a/restore").await;
    assert_eq!(
        (back.status, &back.json()["deletedAt"], &back.json()["slug"]),
        (200, &Json::Null, &json!("slug"))
    );
    assert_eq!(back.header("etag"), "\"3\"");
    assert!(back.headers.contains_key("x-event-id"));
    assert_eq!(call(s, "GET", "/leaves/a").await.status, 200);
    assert_eq!(call(s, "GET", "/leaves/lost/slug").await.json(), Json::Null);
    assert_eq!(
        call(s, "POST", "/leaves/a/restore").await.code(),
        (404, "not_found")
    );
    // Another record takes the slug in the meantime.
    call(s, "DELETE", "/leaves/a").await;
    make(s, "b", "slug").await;
    let taken = call(s, "POST", "/leaves/a/restore").await;
    assert_eq!(taken.code(), (409, "conflict"));
    assert_eq!(taken.problems(), [("slug".to_owned(), "unique".to_owned())]);
    assert_eq!(call(s, "GET", "/leaves/a").await.status, 404);
    assert_eq!(call(s, "GET", "/leaves/lost/slug").await.json()["id"], "a");
    call(s, "DELETE", "/leaves/b").await;
    // Two deleted records have this slug. The lookup returns the first one in the sort order.
    assert_eq!(call(s, "GET", "/leaves/lost/slug").await.json()["id"], "a");
    assert_eq!(call(s, "POST", "/leaves/a/restore").await.status, 200);
    // A purged record cannot be restored.
    let leaves = s.running().adapter::<Leaf>().unwrap();
    leaves
        .purge(&linchpin::Cx::system("test"), "b")
        .await
        .unwrap();
    assert_eq!(
        call(s, "POST", "/leaves/b/restore").await.code(),
        (404, "not_found")
    );
    // All three routes require the role `editor`.
    let token = s.token("e", &[]);
    for (method, path) in [
        ("POST", "/leaves/a/restore"),
        ("GET", "/leaves/trash"),
        ("GET", "/leaves/lost/slug"),
    ] {
        assert_eq!(
            s.raw(method, path, &[("authorization", &token)], "")
                .await
                .code(),
            (403, "forbidden")
        );
    }
}

async fn a_lookup_of_deleted_records_omits_live_records(s: &Server) {
    for id in ["a", "b", "c", "d", "e"] {
        make(s, id, id).await;
    }
    for id in ["a", "c", "d"] {
        call(s, "DELETE", &format!("/leaves/{id}")).await;
    }
    let first = call(s, "GET", "/leaves/trash?title=t").await.json();
    let ids = |page: &Json| {
        page["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["id"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (ids(&first), &first["hasMore"]),
        (vec!["a".to_owned(), "c".to_owned()], &json!(true))
    );
    let next = call(
        s,
        "GET",
        &format!(
            "/leaves/trash?title=t&cursor={}",
            first["nextCursor"].as_str().unwrap()
        ),
    )
    .await
    .json();
    assert_eq!(
        (ids(&next), &next["hasMore"]),
        (vec!["d".to_owned()], &json!(false))
    );
    assert_eq!(ids(&call(s, "GET", "/leaves").await.json()), ["b", "e"]);
    // Other operations do not see deleted records.
    assert_eq!(
        call(s, "POST", "/leaves/a/publish").await.code(),
        (404, "not_found")
    );
}

async fn restore_sets_a_deletion_enum_to_its_default(s: &Server) {
    assert_eq!(
        send(s, "POST", "/sheets", &json!({"id": "a", "stage": "live"}))
            .await
            .status,
        201
    );
    assert_eq!(call(s, "POST", "/sheets/a/recover").await.status, 404);
    assert_eq!(call(s, "DELETE", "/sheets/a").await.status, 204);
    let back = call(s, "POST", "/sheets/a/recover").await;
    assert_eq!(
        (back.status, back.json()),
        (200, json!({"id": "a", "stage": "draft"}))
    );
    assert_eq!(call(s, "GET", "/sheets/a").await.status, 200);
}

async fn restore_is_restricted_to_the_tenant(s: &Server) {
    let leaves = s.running().adapter::<Leaf>().unwrap();
    let cx_of_team = |team: &str| {
        linchpin::Cx::actor(linchpin::Actor {
            tenant_id: Some(team.to_owned()),
            ..linchpin::Actor::user("u")
        })
    };
    let leaf = LeafCreate {
        id: "a".to_owned(),
        slug: "s".to_owned(),
        title: None,
        stage: None,
    };
    leaves.create(&cx_of_team("red"), leaf).await.unwrap();
    leaves.delete(&cx_of_team("red"), "a", None).await.unwrap();
    let refused = leaves.restore(&cx_of_team("blue"), "a").await.unwrap_err();
    assert_eq!(refused.code(), linchpin::Code::NotFound);
    assert!(
        leaves
            .lost(&cx_of_team("blue"), "s")
            .await
            .unwrap()
            .is_none()
    );
    assert_eq!(
        leaves
            .lost(&cx_of_team("red"), "s")
            .await
            .unwrap()
            .unwrap()
            .id,
        "a"
    );
    assert_eq!(
        leaves.restore(&cx_of_team("red"), "a").await.unwrap().slug,
        "s"
    );
}

async fn restore_checks_the_version(s: &Server) {
    make(s, "a", "a").await;
    call(s, "DELETE", "/leaves/a").await;
    let token = s.token("e", &["editor"]);
    let restore = async |tag: &str| {
        s.raw(
            "POST",
            "/leaves/a/restore",
            &[("authorization", &token), ("if-match", tag)],
            "",
        )
        .await
    };
    assert_eq!(restore("\"1\"").await.code(), (412, "precondition_failed"));
    assert_eq!(restore("\"2\"").await.status, 200);
}

async fn one_of_several_concurrent_restores_succeeds(s: &Server) {
    make(s, "a", "a").await;
    for round in 0..10 {
        call(s, "DELETE", "/leaves/a").await;
        let replies = s
            .parallel(8, |_| call(s, "POST", "/leaves/a/restore"))
            .await;
        let (won, lost): (Vec<_>, Vec<_>) = replies.iter().partition(|reply| reply.status == 200);
        assert_eq!(
            (
                won.len(),
                lost.iter().filter(|reply| reply.status == 404).count()
            ),
            (1, 7),
            "{round}: {replies:?}"
        );
    }
}
