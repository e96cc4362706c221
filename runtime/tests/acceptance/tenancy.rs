//! Owners of records: tenants, scopes, parents in the path, context values.

use std::time::{Duration, Instant};

use linchpin::entity::ListQuery;
use linchpin::prelude::*;
use serde_json::{Value as Json, json};

use crate::cases;
use crate::policy::strangers_are_refused;
use crate::server::{Reply, Server};
use crate::visibility_fixture::{
    Account, AccountAdapter, AccountCreate, Article, ArticleCreate, Comment, SEEN, Visit,
    VisitCreate, account, comment,
};

cases!(&crate::visibility_fixture::SEEN =>
    every_closed_route_refuses_anonymous_callers, records_of_another_owner_are_not_found,
    the_owner_is_written_by_the_server, a_client_cannot_supply_context_values,
    tenants_never_see_each_other, a_context_default_is_written_by_the_server,
    records_without_a_tenant_are_public, writes_reach_no_record_of_another_tenant, uniques_are_per_tenant,
    cursors_belong_to_their_caller, records_without_a_tenant_have_their_own_uniques,
    unscoped_routes_return_all_records, apply_to_scopes_the_named_routes_only,
    tenants_may_be_numbers, parents_come_from_the_path, the_application_reads_all_tenants,
    the_document_marks_server_written_fields, a_transaction_has_one_tenant,
);

/// Sends a request as a caller.
pub async fn call(s: &Server, token: &str, method: &str, path: &str, body: Json) -> Reply {
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let mut headers = vec![("content-type", "application/json")];
    if !token.is_empty() {
        headers.push(("authorization", token));
    }
    s.raw(method, path, &headers, &body).await
}

pub async fn made(s: &Server, token: &str, path: &str, body: Json) -> Json {
    let reply = call(s, token, "POST", path, body).await;
    assert_eq!(reply.status, 201, "{reply:?}");
    reply.json()
}

pub fn id(record: &Json) -> &str {
    record["id"].as_str().unwrap()
}

pub fn slugs(reply: &Reply) -> Vec<String> {
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["slug"].as_str().unwrap().to_owned())
        .collect()
}

/// Routes of entities with an owner, a tenant or a gate refuse anonymous callers.
async fn every_closed_route_refuses_anonymous_callers(s: &Server) {
    for (below, least) in [("/tasks", 15), ("/accounts", 20), ("/slips", 15)] {
        let checked_routes = strangers_are_refused(s, &SEEN, below).await;
        assert!(checked_routes.len() >= least, "{checked_routes:?}");
    }
}

async fn records_of_another_owner_are_not_found(s: &Server) {
    let (a, b) = (s.token("a", &[]), s.token("b", &[]));
    let record = made(s, &b, "/tasks", json!({"slug": "s", "title": "T"})).await;
    let path = format!("/tasks/{}", id(&record));
    for (method, below, body) in [
        ("GET", "", Json::Null),
        ("PATCH", "", json!({"title": "mine"})),
        ("PATCH", "", json!({})),
        ("DELETE", "", Json::Null),
        ("POST", "/publish", Json::Null),
        ("POST", "/view", Json::Null),
        ("PATCH", "/retitle", json!({"title": "mine"})),
        ("POST", "/add-tag", json!({"tag": "mine"})),
    ] {
        let reply = call(s, &a, method, &format!("{path}{below}"), body).await;
        assert_eq!(reply.code(), (404, "not_found"), "{method} {below}");
    }
    assert_eq!(
        call(s, &a, "GET", "/tasks/task-by-slug/s", Json::Null)
            .await
            .json(),
        Json::Null
    );
    assert_eq!(
        call(s, &a, "POST", "/tasks/publish-all", json!({"title": "T"}))
            .await
            .json(),
        json!(0)
    );
    assert_eq!(
        call(s, &a, "POST", "/tasks/task-take", json!({"slug": "s"}))
            .await
            .json(),
        json!(false)
    );
    assert_eq!(
        call(
            s,
            &a,
            "POST",
            "/tasks/task-ensure",
            json!({"slug": "s", "title": "mine"})
        )
        .await
        .code(),
        (409, "conflict")
    );
    assert_eq!(
        call(s, &b, "GET", &path, Json::Null).await.json(),
        record,
        "unchanged"
    );
}

async fn the_owner_is_written_by_the_server(s: &Server) {
    let a = s.token("a", &[]);
    for owner in ["a", "b"] {
        let reply = call(
            s,
            &a,
            "POST",
            "/tasks",
            json!({"slug": "s", "title": "T", "ownerId": owner}),
        )
        .await;
        reply.problem("read_only", "ownerId");
    }
    let record = made(s, &a, "/tasks", json!({"slug": "s", "title": "T"})).await;
    assert_eq!(record["ownerId"], "a");
    let path = format!("/tasks/{}", id(&record));
    for owner in [json!("a"), json!("b"), Json::Null] {
        call(s, &a, "PATCH", &path, json!({"ownerId": owner}))
            .await
            .problem("read_only", "ownerId");
    }
    call(
        s,
        &a,
        "POST",
        "/tasks/task-ensure",
        json!({"slug": "s", "title": "T", "ownerId": "a"}),
    )
    .await
    .problem("unknown_field", "ownerId");
}

async fn a_client_cannot_supply_context_values(s: &Server) {
    let (a, b) = (s.token("a", &[]), s.token("victim", &[]));
    made(s, &b, "/tasks", json!({"slug": "s", "title": "T"})).await;
    let reply = call(s, &a, "GET", "/tasks/mine?actor.id=victim", Json::Null).await;
    assert_eq!(reply.code(), (400, "unknown_parameter"));
    assert_eq!(
        call(s, &a, "GET", "/tasks/mine", Json::Null).await.json()["items"],
        json!([])
    );
    assert_eq!(
        slugs(&call(s, &b, "GET", "/tasks/mine", Json::Null).await),
        ["s"]
    );
}

async fn tenants_never_see_each_other(s: &Server) {
    let (one, two, nobody) = (
        s.token_in("a", "t1"),
        s.token_in("b", "t2"),
        s.token("c", &[]),
    );
    for (token, slug) in [(&one, "x"), (&one, "y"), (&two, "x")] {
        made(s, token, "/accounts", json!({"slug": slug, "title": "T"})).await;
    }
    assert_eq!(
        slugs(&call(s, &one, "GET", "/accounts?sort=title", Json::Null).await),
        ["x", "y"]
    );
    assert_eq!(
        call(s, &one, "POST", "/accounts/open-all", json!({"title": "T"}))
            .await
            .json(),
        json!(2)
    );
    let theirs = call(s, &two, "GET", "/accounts", Json::Null).await.json()["items"][0].clone();
    assert_eq!(
        (&theirs["status"], &theirs["tenantId"]),
        (&json!("draft"), &json!("t2"))
    );
    assert_eq!(
        call(s, &one, "GET", "/accounts/stats", Json::Null)
            .await
            .json()["n"],
        2
    );
    assert_eq!(
        call(s, &one, "GET", "/accounts/search?q=T", Json::Null)
            .await
            .json()
            .as_array()
            .unwrap()
            .len(),
        2
    );
    // An authenticated caller without a tenant and an anonymous one, with valid and invalid
    // requests.
    for (method, path) in [
        ("GET", "/accounts"),
        ("POST", "/accounts"),
        ("GET", "/accounts/x"),
        ("POST", "/accounts/open-all"),
    ] {
        let known = s
            .raw(method, path, &[("authorization", &nobody)], "{")
            .await;
        assert_eq!(known.code(), (403, "forbidden"), "{method} {path}");
        assert_eq!(
            s.raw(method, path, &[], "{").await.code(),
            (401, "unauthorized"),
            "{method} {path}"
        );
    }
}

async fn writes_reach_no_record_of_another_tenant(s: &Server) {
    let (one, two) = (s.token_in("a", "t1"), s.token_in("b", "t2"));
    let theirs = made(s, &two, "/accounts", json!({"slug": "x", "title": "T"})).await;
    let path = format!("/accounts/{}", id(&theirs));
    for tenant in ["t1", "t2"] {
        let reply = call(
            s,
            &one,
            "POST",
            "/accounts",
            json!({"slug": "s", "title": "T", "tenantId": tenant}),
        )
        .await;
        reply.problem("read_only", "tenantId");
    }
    assert_eq!(
        call(
            s,
            &one,
            "PATCH",
            "/accounts/x/rename",
            json!({"title": "mine"})
        )
        .await
        .status,
        404
    );
    assert_eq!(call(s, &one, "DELETE", &path, Json::Null).await.status, 404);
    let reply = call(
        s,
        &one,
        "PATCH",
        "/accounts/rename",
        json!({"slug": "x", "title": "mine"}),
    )
    .await;
    assert_eq!(
        reply.code(),
        (404, "not_found"),
        "matched by a unique of another tenant"
    );
    assert_eq!(
        call(s, &one, "POST", "/accounts/close-all", json!({"slug": "x"}))
            .await
            .json(),
        json!(0)
    );
    let enrolled = call(
        s,
        &one,
        "POST",
        "/accounts/enrol",
        json!({"slug": "x", "title": "mine"}),
    )
    .await
    .json();
    assert_eq!(
        (&enrolled["created"], &enrolled["entity"]["tenantId"]),
        (&json!(true), &json!("t1"))
    );
    let again = call(
        s,
        &one,
        "POST",
        "/accounts/enrol",
        json!({"slug": "x", "title": "more"}),
    )
    .await
    .json();
    assert_eq!(
        (&again["created"], &again["entity"]["id"]),
        (&json!(false), &enrolled["entity"]["id"])
    );
    assert_eq!(call(s, &two, "GET", &path, Json::Null).await.json(), theirs);
}

async fn uniques_are_per_tenant(s: &Server) {
    let (one, two) = (s.token_in("a", "t1"), s.token_in("b", "t2"));
    made(
        s,
        &one,
        "/accounts",
        json!({"slug": "x", "title": "T", "serial": "1"}),
    )
    .await;
    let refused = call(
        s,
        &one,
        "POST",
        "/accounts",
        json!({"slug": "x", "title": "T"}),
    )
    .await;
    assert_eq!(
        (refused.code(), refused.problems()),
        (
            (409, "conflict"),
            vec![("slug".to_owned(), "unique".to_owned())]
        )
    );
    made(s, &two, "/accounts", json!({"slug": "x", "title": "T"})).await;
    // A `unique` with `global` also compares with the records of other tenants.
    let refused = call(
        s,
        &two,
        "POST",
        "/accounts",
        json!({"slug": "y", "title": "T", "serial": "1"}),
    )
    .await;
    assert_eq!(
        (refused.code(), refused.problems()),
        (
            (409, "conflict"),
            vec![("serial".to_owned(), "unique".to_owned())]
        )
    );
    let replies = s
        .parallel(25, |_| {
            call(
                s,
                &one,
                "POST",
                "/accounts",
                json!({"slug": "race", "title": "T"}),
            )
        })
        .await;
    assert_eq!(replies.iter().filter(|r| r.status == 201).count(), 1);
    assert_eq!(replies.iter().filter(|r| r.status == 409).count(), 24);
}

async fn cursors_belong_to_their_caller(s: &Server) {
    let (one, two) = (s.token_in("a", "t1"), s.token_in("b", "t2"));
    for token in [&one, &two] {
        for slug in ["x", "y", "z"] {
            made(s, token, "/accounts", json!({"slug": slug, "title": "T"})).await;
        }
    }
    for path in [
        "/accounts?limit=1",
        "/accounts/accounts-by-title?title=T&limit=1",
    ] {
        let cursor = call(s, &two, "GET", path, Json::Null).await.json()["nextCursor"]
            .as_str()
            .unwrap()
            .to_owned();
        let path = format!("{path}&cursor={cursor}");
        assert_eq!(call(s, &two, "GET", &path, Json::Null).await.status, 200);
        assert_eq!(
            call(s, &one, "GET", &path, Json::Null).await.code(),
            (400, "invalid_cursor")
        );
    }
    let (a, b) = (s.token("a", &[]), s.token("b", &[]));
    for (token, slug) in [(&a, "1"), (&a, "2"), (&b, "3"), (&b, "4")] {
        made(s, token, "/tasks", json!({"slug": slug, "title": "T"})).await;
    }
    let cursor = call(s, &b, "GET", "/tasks?limit=1", Json::Null)
        .await
        .json()["nextCursor"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(
        call(
            s,
            &a,
            "GET",
            &format!("/tasks?limit=1&cursor={cursor}"),
            Json::Null
        )
        .await
        .code(),
        (400, "invalid_cursor")
    );
}

async fn records_without_a_tenant_are_public(s: &Server) {
    let (one, nobody) = (s.token_in("a", "t1"), s.token("c", &[]));
    let theirs = made(s, &one, "/sheets", json!({"slug": "theirs"})).await;
    let open = made(s, &nobody, "/sheets", json!({"slug": "open"})).await;
    assert_eq!(
        (&theirs["tenantId"], &open["tenantId"]),
        (&json!("t1"), &Json::Null)
    );
    // Anonymous callers read the records without a tenant.
    assert_eq!(slugs(&s.get("/sheets").await), ["open"]);
    assert_eq!(s.get(&format!("/sheets/{}", id(&open))).await.status, 200);
    assert_eq!(
        s.get(&format!("/sheets/{}", id(&theirs))).await.code(),
        (404, "not_found")
    );
    assert_eq!(
        s.get("/sheets/sheet-taken?slug=theirs").await.json(),
        json!({"exists": false})
    );
    assert_eq!(
        s.get("/sheets/sheet-taken?slug=open").await.json(),
        json!({"exists": true})
    );
    // Anonymous callers write nothing.
    let path = format!("/sheets/{}", id(&open));
    for (method, path) in [
        ("POST", "/sheets"),
        ("PATCH", &path),
        ("DELETE", &path),
        ("POST", &format!("{path}/sheet-view")),
    ] {
        assert_eq!(
            s.raw(method, path, &[], "{").await.code(),
            (401, "unauthorized"),
            "{method} {path}"
        );
    }
}

async fn records_without_a_tenant_have_their_own_uniques(s: &Server) {
    let (one, nobody) = (s.token_in("a", "t1"), s.token("c", &[]));
    let theirs = made(s, &one, "/sheets", json!({"slug": "x"})).await;
    let open = made(s, &nobody, "/sheets", json!({"slug": "x"})).await;
    assert_eq!(
        call(s, &nobody, "POST", "/sheets", json!({"slug": "x"}))
            .await
            .problems(),
        [("slug".to_owned(), "unique".to_owned())]
    );
    assert_eq!(
        slugs(&call(s, &nobody, "GET", "/sheets", Json::Null).await),
        ["x"]
    );
    assert_eq!(
        call(
            s,
            &nobody,
            "GET",
            &format!("/sheets/{}", id(&theirs)),
            Json::Null
        )
        .await
        .status,
        404
    );
    assert_eq!(
        call(
            s,
            &one,
            "GET",
            &format!("/sheets/{}", id(&open)),
            Json::Null
        )
        .await
        .status,
        404
    );
    for (token, record) in [(&nobody, &open), (&one, &theirs)] {
        let ensured = call(
            s,
            token,
            "POST",
            "/sheets/sheet-ensure",
            json!({"slug": "x", "views": 7}),
        )
        .await
        .json();
        assert_eq!(
            (&ensured["created"], &ensured["entity"]["id"]),
            (&json!(false), &record["id"])
        );
    }
}

async fn unscoped_routes_return_all_records(s: &Server) {
    let (a, b) = (s.token("a", &[]), s.token("b", &[]));
    for (token, slug) in [(&a, "1"), (&b, "2")] {
        made(s, token, "/tasks", json!({"slug": slug, "title": "T"})).await;
    }
    assert_eq!(
        slugs(&call(s, &a, "GET", "/tasks/anybodys?title=T", Json::Null).await),
        ["1", "2"]
    );
    assert_eq!(
        slugs(&call(s, &a, "GET", "/tasks?title=T", Json::Null).await),
        ["1"],
        "all other routes are scoped"
    );
}

async fn apply_to_scopes_the_named_routes_only(s: &Server) {
    let (a, b) = (s.token("a", &[]), s.token("b", &[]));
    let record = made(s, &a, "/boards", json!({"slug": "x"})).await;
    assert_eq!(record["ownerId"], "a");
    let path = format!("/boards/{}", id(&record));
    // Every caller reads, and only the owner writes.
    assert_eq!(slugs(&s.get("/boards").await), ["x"]);
    assert_eq!(s.get(&path).await.json(), record);
    for (method, below) in [("PATCH", ""), ("DELETE", ""), ("POST", "/board-view")] {
        let body = if method == "PATCH" {
            json!({"slug": "y"})
        } else {
            Json::Null
        };
        let at = format!("{path}{below}");
        assert_eq!(
            call(s, &b, method, &at, body.clone()).await.code(),
            (404, "not_found"),
            "{method}"
        );
        assert_eq!(
            call(s, "", method, &at, body).await.code(),
            (401, "unauthorized"),
            "{method}"
        );
    }
    assert_eq!(
        call(s, &a, "POST", &format!("{path}/board-view"), Json::Null)
            .await
            .json()["views"],
        1
    );
    // A cursor of a list without scope is valid for every caller.
    made(s, &b, "/boards", json!({"slug": "y"})).await;
    let cursor = call(s, &a, "GET", "/boards?limit=1", Json::Null)
        .await
        .json()["nextCursor"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(
        call(
            s,
            &b,
            "GET",
            &format!("/boards?limit=1&cursor={cursor}"),
            Json::Null
        )
        .await
        .status,
        200
    );
}

async fn tenants_may_be_numbers(s: &Server) {
    let (one, two, none) = (
        s.token_in("a", "17"),
        s.token_in("b", "18"),
        s.token_in("c", "acme"),
    );
    let record = made(s, &one, "/ledgers", json!({"slug": "x"})).await;
    assert!(
        record.get("tenant").is_none(),
        "the tenant is hidden: {record}"
    );
    made(s, &two, "/ledgers", json!({"slug": "x"})).await;
    assert_eq!(
        call(s, &one, "GET", "/ledgers", Json::Null).await.json()["items"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    assert_eq!(
        call(
            s,
            &two,
            "GET",
            &format!("/ledgers/{}", id(&record)),
            Json::Null
        )
        .await
        .status,
        404
    );
    // A tenant that is not a number, or a number in another spelling, has no records here.
    assert_eq!(
        call(s, &none, "GET", "/ledgers", Json::Null).await.code(),
        (403, "forbidden")
    );
    assert_eq!(
        call(s, &s.token_in("a", "017"), "GET", "/ledgers", Json::Null)
            .await
            .code(),
        (403, "forbidden")
    );
    call(
        s,
        &one,
        "POST",
        "/ledgers",
        json!({"slug": "y", "tenant": 17}),
    )
    .await
    .problem("unknown_field", "tenant");
    assert_eq!(
        call(s, &one, "GET", "/ledgers?tenant=17", Json::Null)
            .await
            .code(),
        (400, "unknown_parameter")
    );
}

async fn parents_come_from_the_path(s: &Server) {
    let here = "/teams/7/documents/d%201/comments";
    let created = s.post(here, json!({"text": "hello"})).await;
    assert_eq!(created.status, 201, "{created:?}");
    let record = created.json();
    assert_eq!(
        (&record["teamId"], &record["docId"]),
        (&json!(7), &json!("d 1"))
    );
    let path = format!("{here}/{}", id(&record));
    assert_eq!(created.header("location"), path);
    assert_eq!(s.get(&path).await.json(), record);
    assert_eq!(
        s.post(&format!("{path}/like"), json!({})).await.json()["likes"],
        1
    );
    assert_eq!(
        s.get(&format!("{here}/saying?text=hello")).await.json()["items"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    s.post(here, json!({"text": "t", "docId": "d 1"}))
        .await
        .problem("read_only", "docId");
    for elsewhere in [
        "/teams/8/documents/d%201",
        "/teams/7/documents/d2",
        "/teams/07/documents/d%201",
        "/teams/x/documents/d%201",
    ] {
        let at = format!("{elsewhere}/comments/{}", id(&record));
        for (method, below) in [
            ("GET", ""),
            ("PATCH", ""),
            ("DELETE", ""),
            ("POST", "/like"),
        ] {
            assert_eq!(
                call(s, "", method, &format!("{at}{below}"), Json::Null)
                    .await
                    .code(),
                (404, "not_found"),
                "{method} {at}"
            );
        }
    }
    assert_eq!(
        s.get("/teams/8/documents/d%201/comments").await.json()["items"],
        json!([])
    );
    assert_eq!(
        s.get("/teams/x/documents/d%201/comments").await.code(),
        (404, "not_found"),
        "no team can have this id"
    );
    assert_eq!(s.get("/comments").await.status, 404);
    // A call from code sets the parent.
    let comments = s.running().adapter::<Comment>().unwrap();
    let actor = Cx::actor(Actor::user("u"));
    let inside = actor
        .clone()
        .within(comment::team_id, 7)
        .within(comment::doc_id, "d 1");
    assert_eq!(
        comments
            .get(&inside, id(&record))
            .await
            .unwrap()
            .unwrap()
            .likes,
        1
    );
    assert!(
        comments
            .get(&inside.within(comment::doc_id, "other"), id(&record))
            .await
            .unwrap()
            .is_none()
    );
    assert_eq!(
        comments.get(&actor, id(&record)).await.unwrap_err().code(),
        linchpin::Code::Internal
    );
    assert!(
        comments
            .get(&Cx::system("any"), id(&record))
            .await
            .unwrap()
            .is_some()
    );
}

async fn a_context_default_is_written_by_the_server(s: &Server) {
    let a = s.token("a", &[]);
    call(
        s,
        &a,
        "POST",
        "/articles",
        json!({"title": "T", "authorId": "a"}),
    )
    .await
    .problem("read_only", "authorId");
    let record = made(s, &a, "/articles", json!({"title": "T"})).await;
    assert_eq!(record["authorId"], "a");
    let path = format!("/articles/{}", id(&record));
    call(s, &a, "PATCH", &path, json!({"authorId": "b"}))
        .await
        .problem("read_only", "authorId");
    // Every caller may read the record: the field has a default, not a scope.
    assert_eq!(
        call(s, &s.token("b", &[]), "GET", &path, Json::Null)
            .await
            .status,
        200
    );
    // A context value is never null, not even for an optional field: authenticated callers without
    // the value are refused before their body is read.
    assert_eq!(
        s.raw("POST", "/visits", &[("authorization", &a)], "{")
            .await
            .code(),
        (403, "forbidden")
    );
    let visits = s.running().adapter::<Visit>().unwrap();
    let input = || VisitCreate {};
    let with_session = Actor {
        session_id: Some("s1".into()),
        ..Actor::user("a")
    };
    assert_eq!(
        visits
            .create(&Cx::actor(with_session), input())
            .await
            .unwrap()
            .session_id
            .as_deref(),
        Some("s1")
    );
    assert_eq!(
        visits
            .create(&Cx::actor(Actor::anonymous()), input())
            .await
            .unwrap_err()
            .code(),
        linchpin::Code::Unauthorized
    );
    // The application itself has no context: the default is null if the field is optional.
    assert_eq!(
        visits
            .create(&Cx::system("seed"), input())
            .await
            .unwrap()
            .session_id,
        None
    );
    let articles = s.running().adapter::<Article>().unwrap();
    let input = ArticleCreate { title: "T".into() };
    assert_eq!(
        articles
            .create(&Cx::system("seed"), input)
            .await
            .unwrap_err()
            .code(),
        linchpin::Code::Forbidden
    );
}

async fn the_application_reads_all_tenants(s: &Server) {
    let (one, two) = (s.token_in("a", "t1"), s.token_in("b", "t2"));
    let theirs = made(s, &one, "/accounts", json!({"slug": "x", "title": "T"})).await;
    made(s, &two, "/accounts", json!({"slug": "x", "title": "T"})).await;
    let accounts = s.running().adapter::<Account>().unwrap();
    let system = Cx::system("test").at(s.now());
    assert_eq!(
        accounts
            .list(&system, ListQuery::new())
            .await
            .unwrap()
            .items
            .len(),
        2
    );
    assert_eq!(
        accounts
            .get(&system, id(&theirs))
            .await
            .unwrap()
            .unwrap()
            .tenant_id,
        "t1"
    );
    // Without a tenant, a write by a value that is unique per tenant is refused, so no record of a
    // wrong tenant is changed. A write by id and a lookup are allowed.
    let error = accounts.rename(&system, "x", "new").await.unwrap_err();
    assert_eq!(error.code(), linchpin::Code::Internal, "{error}");
    assert_eq!(accounts.count(&system, id(&theirs)).await.unwrap().views, 1);
    assert!(
        accounts
            .account_by_slug(&system, "x")
            .await
            .unwrap()
            .is_some()
    );
    // The application has no tenant for a new record, unless it acts on behalf of an actor or names
    // a tenant.
    let input = || AccountCreate {
        slug: "y".into(),
        title: "T".into(),
        ..nothing()
    };
    assert_eq!(
        accounts.create(&system, input()).await.unwrap_err().code(),
        linchpin::Code::Forbidden
    );
    let actor = Actor {
        tenant_id: Some("t1".into()),
        ..Actor::user("job")
    };
    assert_eq!(
        accounts
            .create(&Cx::actor(actor), input())
            .await
            .unwrap()
            .tenant_id,
        "t1"
    );
    let inside = system.clone().within(account::tenant_id, "t9");
    let seeded = accounts
        .create(
            &inside,
            AccountCreate {
                slug: "z".into(),
                title: "T".into(),
                ..nothing()
            },
        )
        .await
        .unwrap();
    assert_eq!(
        seeded.tenant_id, "t9",
        "the application can name the tenant of a new record"
    );
    the_application_acts_within_a_named_tenant(&accounts, &system, &seeded, id(&theirs)).await;
    // Deleted records are hidden from the application, too.
    accounts.delete(&system, id(&theirs), None).await.unwrap();
    assert!(accounts.get(&system, id(&theirs)).await.unwrap().is_none());
}

/// The application acts in the tenant that it names, and in no other one.
async fn the_application_acts_within_a_named_tenant(
    accounts: &AccountAdapter,
    system: &Cx,
    seeded: &Account,
    theirs: &str,
) {
    let inside = system.clone().within(account::tenant_id, "t9");
    let seen = accounts
        .list(&inside, ListQuery::new())
        .await
        .unwrap()
        .items;
    assert_eq!(
        seen.iter().map(|account| &account.id).collect::<Vec<_>>(),
        [&seeded.id]
    );
    assert!(accounts.get(&inside, theirs).await.unwrap().is_none());
    assert_eq!(
        accounts
            .delete(&inside, theirs, None)
            .await
            .unwrap_err()
            .code(),
        linchpin::Code::NotFound
    );
    // Within a tenant, a value that is unique per tenant names one record.
    assert_eq!(
        accounts.rename(&inside, "z", "new").await.unwrap().id,
        seeded.id
    );
    let second = || AccountCreate {
        slug: "second".into(),
        title: "T".into(),
        ..nothing()
    };
    accounts
        .create(&system.clone().within(account::tenant_id, "t8"), second())
        .await
        .unwrap();
    assert_eq!(
        accounts
            .list(&inside, ListQuery::new())
            .await
            .unwrap()
            .items
            .len(),
        1
    );

    // An actor acts in its own tenant.
    let actor = Cx::actor(Actor {
        tenant_id: Some("t9".into()),
        ..Actor::user("job")
    });
    assert_eq!(
        accounts
            .list(
                &actor.clone().within(account::tenant_id, "t9"),
                ListQuery::new()
            )
            .await
            .unwrap()
            .items
            .len(),
        1
    );
    let other = actor.clone().within(account::tenant_id, "t8");
    for refused in [
        accounts.list(&other, ListQuery::new()).await.map(drop),
        accounts.create(&other, second()).await.map(drop),
    ] {
        assert!(
            format!("{:?}", refused.unwrap_err()).contains("an actor can use only its own tenant")
        );
    }
}

/// A transaction of an actor has one tenant. A call that would wait for the end of the transaction
/// is refused at once, with the reason.
async fn a_transaction_has_one_tenant(s: &Server) {
    let accounts = s.running().adapter::<Account>().unwrap();
    let cx_of_tenant = |tenant: &str| {
        Cx::actor(Actor {
            tenant_id: Some(tenant.into()),
            ..Actor::user("job")
        })
    };
    let input = |slug: &str| AccountCreate {
        slug: slug.into(),
        title: "T".into(),
        ..nothing()
    };
    let begun = Instant::now();
    for (other, text) in [
        (cx_of_tenant("t2"), "used another tenant"),
        (cx_of_tenant("t1"), "used another context"),
    ] {
        let refused = cx_of_tenant("t1")
            .transaction(async |cx| {
                accounts.create(cx, input("x")).await?;
                accounts.create(&other, input("y")).await
            })
            .await;
        assert!(
            format!("{:?}", refused.unwrap_err()).contains(text),
            "{text}"
        );
        let nested = cx_of_tenant("t1")
            .transaction(async |cx| {
                accounts.create(cx, input("x")).await?;
                other
                    .transaction(async |cx| accounts.create(cx, input("y")).await)
                    .await
            })
            .await;
        assert!(
            format!("{:?}", nested.unwrap_err()).contains(text),
            "{text}"
        );
    }
    assert!(
        begun.elapsed() < Duration::from_secs(4),
        "{:?}",
        begun.elapsed()
    );
    assert!(
        accounts
            .list(&Cx::system("look"), ListQuery::new())
            .await
            .unwrap()
            .items
            .is_empty()
    );

    // The application writes in several tenants in one transaction.
    let both = Cx::system("move")
        .transaction(async |cx| {
            let within = |tenant: &str| cx.clone().within(account::tenant_id, tenant);
            accounts.create(&within("t1"), input("x")).await?;
            accounts.create(&within("t2"), input("x")).await
        })
        .await;
    assert_eq!(both.unwrap().tenant_id, "t2");
    assert_eq!(
        accounts
            .list(&cx_of_tenant("t1"), ListQuery::new())
            .await
            .unwrap()
            .items
            .len(),
        1
    );
}

fn nothing() -> AccountCreate {
    AccountCreate {
        parent_id: None,
        slug: String::new(),
        serial: None,
        title: String::new(),
        status: None,
        views: None,
        tags: None,
        lines: None,
    }
}

async fn the_document_marks_server_written_fields(s: &Server) {
    let document = s.get("/openapi.json").await.json();
    let schemas = &document["components"]["schemas"];
    assert_eq!(
        schemas["Account"]["properties"]["tenantId"]["readOnly"],
        true
    );
    assert_eq!(schemas["Task"]["properties"]["ownerId"]["readOnly"], true);
    assert_eq!(schemas["Note"]["properties"]["deletedAt"]["readOnly"], true);
    assert_eq!(
        schemas["Article"]["properties"]["authorId"]["readOnly"],
        true
    );
    for (name, field) in [
        ("AccountCreate", "tenantId"),
        ("TaskUpdate", "ownerId"),
        ("NoteUpdate", "deletedAt"),
        ("ArticleCreate", "authorId"),
    ] {
        assert!(
            schemas[name]["properties"][field].is_null(),
            "{name}.{field}"
        );
    }
    assert!(!document.to_string().contains("linchpin_expiry"));
    let create = &document["paths"]["/teams/{teamId}/documents/{docId}/comments"]["post"];
    let names: Vec<_> = create["parameters"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| (&p["name"], &p["schema"]["type"]))
        .collect();
    assert_eq!(
        names,
        [
            (&json!("teamId"), &json!("integer")),
            (&json!("docId"), &json!("string"))
        ]
    );
    for status in ["401", "403"] {
        assert!(
            document["paths"]["/accounts"]["get"]["responses"][status].is_object(),
            "{status}"
        );
    }
}
