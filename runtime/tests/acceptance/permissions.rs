//! Permissions: evaluator, owner, resource, rank.

#![allow(missing_docs)] // test entities

use linchpin::prelude::*;
use linchpin::{AccessRequest, BoxFuture, Decision, Evaluator, Plugin, PostCx, Result};
use serde_json::{Value as Json, json};

use crate::cases;
use crate::server::{Reply, SECRET, Server};
use crate::tenancy::{call, id, made};

mod by_resource;
mod many;
mod role_evaluator;

use by_resource::{
    a_grant_covers_its_resource_only, a_move_needs_a_grant_for_both_resources,
    a_record_that_changes_during_the_decision_is_not_written, a_resource_may_be_in_the_path,
    lists_need_a_grant_for_their_resource,
};
use many::{
    a_create_needs_a_grant_or_its_owner, a_derive_applies_the_permissions_of_its_lists,
    an_upsert_of_another_owner_needs_a_grant, cursors_belong_to_a_grant,
    includes_apply_the_permissions_of_their_routes, lists_contain_own_records_without_a_grant,
    operations_on_many_records_skip_refused_ones,
};
use role_evaluator::BY_SLUG_IN_CODE;
pub use role_evaluator::{RoleEvaluator, with_role_evaluator};

#[derive(FieldEnum, Clone, Copy, Debug, PartialEq)]
pub enum Stage {
    Draft,
    Out,
}

#[derive(Clone, Debug, Embedded)]
pub struct Remark {
    pub id: String,
    pub text: String,
}

/// A paper. Its author needs no grant; other callers do.
#[entity(
    unique(slug),
    sort = asc(slug),
    pagination(default = 2, max = 50),
    routes(
        permission(requires = "paper.write", or = ["paper.moderate"], owner_field = author_id),
        get(permission(requires = "paper.read", owner_field = author_id, hide)),
        delete(permission(requires = "paper.delete"))
    )
)]
#[derive(Clone, Debug)]
pub struct Paper {
    #[field(primary, default = uuid)]
    pub id: String,
    pub slug: String,
    #[field(filterable)]
    pub title: String,
    pub author_id: String,
    #[field(default = Stage::Draft)]
    pub stage: Stage,
    #[field(default = 0)]
    pub views: i64,
    pub tags: Vec<String>,
    pub remarks: Vec<Remark>,
}

#[operation(kind = "transition", field = stage, from = Stage::Draft, to = Stage::Out)]
pub const SEND: Operation<Paper>;
#[operation(kind = "transition", field = stage, from = Stage::Draft, to = Stage::Out, returns = "boolean")]
pub const SENT: Operation<Paper>;
#[operation(kind = "transition", field = stage, from = Stage::Draft, to = Stage::Out)]
pub const REPLACED: Operation<Paper>;
#[operation(kind = "increment", field = views)]
pub const VIEW: Operation<Paper>;
#[operation(kind = "field_update", set(title))]
pub const RETITLE: Operation<Paper>;
#[operation(kind = "field_update", match(slug = param(slug)), set(title))]
pub const RENAME: Operation<Paper>;
#[operation(kind = "array_push", field = tags, value = input(tag))]
pub const TAG: Operation<Paper>;
#[operation(kind = "collection", field = remarks, operations(list, add, remove), identify_by = id)]
pub const REMARKS: Operation<Paper>;
#[operation(kind = "lookup", fields(slug = param(slug)), returns = "one")]
pub const BY_SLUG: Operation<Paper>;
#[operation(kind = "lookup", fields(title = param(title)), returns = "many")]
pub const TITLED: Operation<Paper>;
#[operation(kind = "exists", fields(slug = param(slug)))]
pub const TAKEN: Operation<Paper>;
#[operation(kind = "search", fields(title))]
pub const FIND: Operation<Paper>;
#[operation(kind = "aggregate", compute(n = count(), views = sum(views)))]
pub const STATS: Operation<Paper>;
#[operation(kind = "batch", action = "update", filter = (title == param(title)), set(stage = Stage::Out))]
pub const SEND_ALL: Operation<Paper>;
#[operation(kind = "upsert", match(slug), set(title, author_id))]
pub const ENSURE: Operation<Paper>;
#[operation(kind = "consume", filter = (title == param(title)), returns = "boolean")]
pub const TAKE: Operation<Paper>;
#[operation(kind = "derive", source(Paper, select = slug), merge = "union", route(permission(requires = "paper.derive")))]
pub const SLUGS: Operation<Paper>;

/// The same upsert with a rule over the whole record, so that it takes several statements.
#[entity(unique(slug), check = lawful, routes(permission(requires = "rule.write", owner_field = author_id, hide)))]
#[derive(Clone, Debug)]
pub struct Rule {
    #[field(primary, default = uuid)]
    pub id: String,
    pub slug: String,
    pub title: String,
    pub author_id: String,
}

fn lawful(rule: &Rule) -> std::result::Result<(), Problem> {
    if rule.title.is_empty() {
        Err(Problem::new("title", "check", "must not be empty"))
    } else {
        Ok(())
    }
}

#[operation(kind = "upsert", match(slug), set(title, author_id))]
pub const LAY_DOWN: Operation<Rule>;

/// Its permissions depend on its container.
#[entity(
    unique(slug),
    sort = asc(slug),
    routes(permission(requires = "write", or = ["moderate"], owner_field = author_id, resource = container_id))
)]
#[derive(Clone, Debug)]
pub struct Thread {
    #[field(primary, default = uuid)]
    pub id: String,
    pub slug: String,
    pub title: String,
    pub author_id: String,
    #[field(length = ..=200)]
    pub container_id: Option<String>,
    #[field(default = Stage::Draft)]
    pub stage: Stage,
}

#[operation(kind = "transition", field = stage, from = Stage::Draft, to = Stage::Out)]
pub const POST: Operation<Thread>;
#[operation(kind = "field_update", set(container_id))]
pub const MOVE_TO: Operation<Thread>;
#[operation(kind = "lookup", fields(container_id = param(container)), returns = "many")]
pub const OF_CONTAINER: Operation<Thread>;
#[operation(kind = "upsert", match(slug), set(title, author_id, container_id))]
pub const PUT_THREAD: Operation<Thread>;
#[operation(kind = "batch", action = "update", filter = (title == param(title)), set(container_id = param(to)))]
pub const MOVE_ALL: Operation<Thread>;

/// A leaf whose path contains its container.
#[entity(
    parent_path = "containers/{container_id}",
    scope(container_id = param(container_id)),
    routes(permission(requires = "write", owner_field = author_id, resource = container_id))
)]
#[derive(Clone, Debug)]
pub struct Leaf {
    #[field(primary, default = uuid)]
    pub id: String,
    pub container_id: String,
    pub author_id: String,
    pub text: String,
}

/// A desk with papers: those whose title is the name of the desk, and the one on top.
#[entity(has_many(papers: Paper, key = title), belongs_to(top: Paper, key = top_id))]
#[derive(Clone, Debug)]
pub struct Desk {
    #[field(primary)]
    pub id: String,
    pub top_id: Option<String>,
}

/// A function with the permission of its entity.
#[route(entity = Paper, method = "GET", path = "own-function")]
async fn own_function() -> &'static str {
    "ran"
}

pub static WORK: Package = package!(
    name = "permissions",
    entities = [
        entity(
            Paper,
            [
                SEND,
                SENT,
                REPLACED,
                VIEW,
                RETITLE,
                RENAME,
                TAG,
                REMARKS,
                BY_SLUG,
                TITLED,
                TAKEN,
                FIND,
                STATS,
                SEND_ALL,
                ENSURE,
                TAKE,
                SLUGS,
                own_function
            ]
        ),
        entity(Rule, [LAY_DOWN]),
        entity(
            Thread,
            [
                POST,
                MOVE_TO,
                OF_CONTAINER,
                PUT_THREAD,
                MOVE_ALL,
                BY_SLUG_IN_CODE
            ]
        ),
        entity(Leaf, []),
        entity(Desk, []),
    ]
);

cases!(&crate::permissions::WORK, crate::permissions::with_role_evaluator =>
    start_up_reports_permissions_without_an_evaluator, permissions_allow_deny_and_abstain,
    records_of_others_need_a_grant, hide_makes_a_refused_record_look_missing,
    lists_contain_own_records_without_a_grant, cursors_belong_to_a_grant,
    a_create_needs_a_grant_or_its_owner, an_upsert_of_another_owner_needs_a_grant,
    operations_on_many_records_skip_refused_ones, a_derive_applies_the_permissions_of_its_lists,
    includes_apply_the_permissions_of_their_routes, functions_need_a_grant,
    permissions_without_record_fields_are_checked_first, a_grant_covers_its_resource_only,
    a_move_needs_a_grant_for_both_resources, lists_need_a_grant_for_their_resource,
    a_resource_may_be_in_the_path, a_record_that_changes_during_the_decision_is_not_written,
    the_document_lists_permissions,
);

async fn paper(s: &Server, author: &str, slug: &str) -> Json {
    let token = s.token(author, &[]);
    made(
        s,
        &token,
        "/papers",
        json!({"slug": slug, "title": "T", "authorId": author}),
    )
    .await
}

async fn thread(s: &Server, author: &str, slug: &str, container: Option<&str>) -> Json {
    let token = s.token(author, &[]);
    let body = json!({"slug": slug, "title": "T", "authorId": author, "containerId": container});
    made(s, &token, "/threads", body).await
}

/// The stored record, read without restrictions.
async fn stored(s: &Server, record: &Json) -> Json {
    let token = s.token("root", &["paper.read"]);
    call(
        s,
        &token,
        "GET",
        &format!("/papers/{}", id(record)),
        Json::Null,
    )
    .await
    .json()
}

async fn start_up_reports_permissions_without_an_evaluator(s: &Server) {
    // The check does not depend on the store, so the test starts a separate app with the memory
    // store.
    let config = Config::new()
        .signing_secret(SECRET)
        .port(0)
        .database("memory:");
    let app = App::new(config.clone())
        .plugin(JwtAuth::new())
        .package(&WORK);
    let text = app.start().await.err().unwrap().to_string();
    for part in [
        "route `create` of `Paper` (",
        // Routes with the same missing action are reported in one line, with the first names.
        " and 14 more: needs permission `paper.write`, but no plugin installs a permission evaluator",
        "route `get` of `Paper` (",
        ") needs permission `paper.read`, but no plugin installs a permission evaluator",
        "route `post` of `Thread` (",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    // An evaluator that does not declare all of the actions is refused too.
    struct Knows;
    impl Plugin for Knows {
        fn name(&self) -> &'static str {
            "knows"
        }
        fn setup_post<'a>(&'a self, cx: &'a mut PostCx) -> BoxFuture<'a, Result<()>> {
            struct Few;
            impl Evaluator for Few {
                fn decide<'a>(&'a self, _: AccessRequest<'a>) -> BoxFuture<'a, Result<Decision>> {
                    Box::pin(async { Ok(Decision::Allow) })
                }
                fn knows(&self, action: &str) -> bool {
                    action != "paper.moderate"
                }
            }
            Box::pin(async { cx.registrar().set_evaluator(Few) })
        }
    }
    let app = App::new(config)
        .plugin(JwtAuth::new())
        .plugin(Knows)
        .package(&WORK);
    let text = app.start().await.err().unwrap().to_string();
    assert!(
        text.contains(
            "needs permission `paper.moderate`, which the permission evaluator does not know"
        ),
        "{text}"
    );
    assert!(
        !text.contains("`paper.write`") && !text.contains("`Thread`"),
        "{text}"
    );
    assert_eq!(s.get("/health/ready").await.status, 200);
}

async fn permissions_allow_deny_and_abstain(s: &Server) {
    let record = thread(s, "ann", "one", Some("c1")).await;
    let path = format!("/threads/{}", id(&record));
    for (roles, code) in [
        (&["-write@c1"][..], (403, "forbidden")),
        (&["-moderate@c1", "write@c1"], (403, "forbidden")),
        (&["banned"], (403, "banned")),
        (&["broken"], (503, "unavailable")),
    ] {
        let owner = s.token("ann", roles);
        for (method, below, body) in [
            ("PATCH", "", json!({"title": "mine"})),
            ("DELETE", "", Json::Null),
            ("POST", "/post", Json::Null),
            ("GET", "", Json::Null),
        ] {
            let reply = call(s, &owner, method, &format!("{path}{below}"), body).await;
            assert_eq!(reply.code(), code, "{method} {below} as {roles:?}");
            assert_eq!(
                reply.header("retry-after"),
                if code.0 == 503 { "1" } else { "" }
            );
        }
    }
    // A denial for another container does not apply.
    let owner = s.token("ann", &["-write@c2"]);
    assert_eq!(
        call(s, &owner, "GET", &path, Json::Null).await.json(),
        record,
        "unchanged"
    );
}

async fn records_of_others_need_a_grant(s: &Server) {
    let record = paper(s, "ann", "one").await;
    let (ann, bob) = (s.token("ann", &[]), s.token("bob", &[]));
    let calls = |id: &str| {
        [
            ("PATCH", format!("/papers/{id}"), json!({"title": "mine"})),
            ("PATCH", format!("/papers/{id}"), json!({})),
            ("POST", format!("/papers/{id}/send"), Json::Null),
            ("POST", format!("/papers/{id}/replaced"), Json::Null),
            ("POST", format!("/papers/{id}/view"), Json::Null),
            (
                "PATCH",
                format!("/papers/{id}/retitle"),
                json!({"title": "mine"}),
            ),
            ("POST", format!("/papers/{id}/tag"), json!({"tag": "mine"})),
            ("GET", format!("/papers/{id}/remarks-list"), Json::Null),
            (
                "POST",
                format!("/papers/{id}/remarks-add"),
                json!({"id": "r", "text": "x"}),
            ),
            (
                "DELETE",
                format!("/papers/{id}/remarks-remove/r"),
                Json::Null,
            ),
        ]
    };
    for (method, path, body) in calls(id(&record)) {
        assert_eq!(
            call(s, &bob, method, &path, body).await.code(),
            (403, "forbidden"),
            "{method} {path}"
        );
    }
    assert_eq!(
        call(
            s,
            &bob,
            "POST",
            &format!("/papers/{}/sent", id(&record)),
            Json::Null
        )
        .await
        .code(),
        (403, "forbidden")
    );
    let renamed = call(
        s,
        &bob,
        "PATCH",
        "/papers/rename",
        json!({"slug": "one", "title": "mine"}),
    )
    .await;
    assert_eq!(renamed.code(), (403, "forbidden"), "matched by a unique");
    assert_eq!(stored(s, &record).await, record, "unchanged");
    // A missing record is 404 for every caller, and invalid input is reported first.
    for (method, path, body) in calls("none") {
        assert_eq!(
            call(s, &bob, method, &path, body).await.code(),
            (404, "not_found"),
            "{method} {path}"
        );
    }
    assert_eq!(
        call(
            s,
            &bob,
            "PATCH",
            "/papers/rename",
            json!({"slug": "none", "title": "x"})
        )
        .await
        .code(),
        (404, "not_found")
    );
    call(s, &bob, "PATCH", "/papers/rename", json!({"title": "x"}))
        .await
        .problem("required", "slug");
    call(
        s,
        &bob,
        "PATCH",
        &format!("/papers/{}", id(&record)),
        json!({"title": 1}),
    )
    .await
    .problem("type", "title");
    // The author, and callers with either grant.
    let (writer, moderator) = (
        s.token("w", &["paper.write"]),
        s.token("m", &["paper.moderate"]),
    );
    for (token, title) in [(&ann, "a"), (&writer, "w"), (&moderator, "m")] {
        let path = format!("/papers/{}", id(&record));
        let reply = call(s, token, "PATCH", &path, json!({"title": title})).await;
        assert_eq!((reply.status, &reply.json()["title"]), (200, &json!(title)));
        assert_eq!(
            call(s, token, "POST", &format!("{path}/replaced"), Json::Null)
                .await
                .json()["title"],
            "replaced"
        );
        assert_eq!(
            call(
                s,
                token,
                "PATCH",
                &format!("{path}/retitle"),
                json!({"title": "T"})
            )
            .await
            .status,
            200
        );
        assert_eq!(
            call(
                s,
                token,
                "PATCH",
                "/papers/rename",
                json!({"slug": "one", "title": "T"})
            )
            .await
            .status,
            200
        );
    }
    // For the owner, a missing item is 404.
    let item = format!("/papers/{}/remarks-remove/none", id(&record));
    assert_eq!(
        call(s, &ann, "DELETE", &item, Json::Null).await.code(),
        (404, "not_found")
    );
    assert_eq!(
        call(s, &bob, "DELETE", &item, Json::Null).await.code(),
        (403, "forbidden")
    );
    // A caller who gives a record away no longer owns it.
    let away = call(
        s,
        &ann,
        "PATCH",
        &format!("/papers/{}", id(&record)),
        json!({"authorId": "bob"}),
    )
    .await;
    assert_eq!(away.json()["authorId"], "bob");
    assert_eq!(
        call(
            s,
            &ann,
            "PATCH",
            &format!("/papers/{}", id(&record)),
            json!({"title": "x"})
        )
        .await
        .code(),
        (403, "forbidden")
    );
}

async fn hide_makes_a_refused_record_look_missing(s: &Server) {
    let record = paper(s, "ann", "one").await;
    let bob = s.token("bob", &[]);
    let without_request_id = |reply: Reply| {
        let mut json = reply.json();
        json["requestId"].take();
        (reply.status, json)
    };
    let theirs = without_request_id(
        call(
            s,
            &bob,
            "GET",
            &format!("/papers/{}", id(&record)),
            Json::Null,
        )
        .await,
    );
    let none = without_request_id(call(s, &bob, "GET", "/papers/none", Json::Null).await);
    assert_eq!(theirs, none);
    assert_eq!(theirs.0, 404);
    let denied = s.token("ann", &["-paper.read"]);
    assert_eq!(
        call(
            s,
            &denied,
            "GET",
            &format!("/papers/{}", id(&record)),
            Json::Null
        )
        .await
        .code(),
        (404, "not_found")
    );
    let ann = s.token("ann", &[]);
    assert_eq!(
        call(
            s,
            &ann,
            "GET",
            &format!("/papers/{}", id(&record)),
            Json::Null
        )
        .await
        .json(),
        record
    );
}

async fn functions_need_a_grant(s: &Server) {
    let run = |roles: &'static [&'static str]| async move {
        call(
            s,
            &s.token("ann", roles),
            "GET",
            "/papers/own-function",
            Json::Null,
        )
        .await
    };
    assert_eq!(run(&[]).await.code(), (403, "forbidden"));
    assert_eq!(&run(&["paper.moderate"]).await.body[..], b"ran");
}

async fn permissions_without_record_fields_are_checked_first(s: &Server) {
    let record = paper(s, "ann", "a").await;
    let path = format!("/papers/{}", id(&record));
    // The permission does not depend on the record, so the response does not reveal whether the
    // record exists.
    for path in [&path, "/papers/none"] {
        assert_eq!(
            call(s, &s.token("ann", &[]), "DELETE", path, Json::Null)
                .await
                .code(),
            (403, "forbidden"),
            "{path}"
        );
        let garbage = s
            .raw(
                "DELETE",
                &format!("{path}?x=1"),
                &[("authorization", &s.token("ann", &[]))],
                "{",
            )
            .await;
        assert_eq!(
            garbage.code(),
            (403, "forbidden"),
            "the check runs before the record is read"
        );
    }
    let admin = s.token("x", &["paper.delete"]);
    assert_eq!(
        call(s, &admin, "DELETE", "/papers/none", Json::Null)
            .await
            .code(),
        (404, "not_found")
    );
    assert_eq!(
        call(s, &admin, "DELETE", &path, Json::Null).await.status,
        204
    );
    assert_eq!(
        s.raw("DELETE", &path, &[], "").await.code(),
        (401, "unauthorized")
    );
}

async fn the_document_lists_permissions(s: &Server) {
    let document = s.get("/openapi.json").await.json();
    let route = |path: &str, method: &str| document["paths"][path][method].clone();
    let update = route("/papers/{id}", "patch");
    assert_eq!(
        update["x-linchpin-permission"],
        json!({"requires": "paper.write", "or": ["paper.moderate"], "ownerField": "authorId"})
    );
    assert!(update["responses"]["403"].is_object() && update["responses"]["503"].is_object());
    let get = route("/papers/{id}", "get");
    assert_eq!(
        get["x-linchpin-permission"],
        json!({"requires": "paper.read", "ownerField": "authorId", "hide": true})
    );
    assert!(
        get["responses"]["404"].is_object() && get["responses"]["403"].is_null(),
        "{get}"
    );
    assert!(route("/papers/rename", "patch")["responses"]["404"].is_object());
    assert_eq!(
        route("/threads", "post")["x-linchpin-permission"]["resource"],
        "containerId"
    );
}
