//! Policies of routes, versions, and the API document of a running app.

use linchpin::http::endpoints;
use linchpin::prelude::*;
use serde_json::json;

use crate::cases;
use crate::document::{against_meta_schema, against_routes, within_itself};
use crate::server::Server;

cases!(
    every_closed_route_refuses_anonymous_callers,
    a_route_with_roles_refuses_other_users,
    a_static_route_wins_over_a_parameter,
    if_match_is_required_and_checked,
    concurrent_updates_of_one_version_succeed_once,
    the_openapi_document_is_complete_and_stable
);

/// Calls every route of a package below a path as an anonymous caller: the response is 401,
/// even if the request has other mistakes. Returns the routes.
pub async fn strangers_are_refused(
    s: &Server,
    package: &'static Package,
    below: &str,
) -> Vec<String> {
    let document = s.get("/openapi.json").await.json();
    let is_below = |path: &str| path == below || path.starts_with(&format!("{below}/"));
    let mut checked_routes = Vec::new();
    // The routes come from the API document, so that routes which are added later are included.
    for (path, methods) in document["paths"]
        .as_object()
        .unwrap()
        .iter()
        .filter(|(path, _)| is_below(path))
    {
        let at = path
            .split('/')
            .map(|segment| {
                if segment.starts_with('{') {
                    "x"
                } else {
                    segment
                }
            })
            .collect::<Vec<_>>()
            .join("/");
        for method in methods
            .as_object()
            .unwrap()
            .keys()
            .filter(|key| *key != "parameters")
        {
            let method = method.to_uppercase();
            // The request also has an unknown parameter and an invalid body. The response does not
            // report them.
            let reply = s.raw(&method, &format!("{at}?nonsense=1"), &[], "{").await;
            assert_eq!(reply.status, 401, "{method} {path}");
            if method != "HEAD" {
                assert_eq!(reply.code(), (401, "unauthorized"), "{method} {path}");
            }
            checked_routes.push(format!("{method} {path}"));
        }
    }
    for endpoint in endpoints(package, "/", s.running().adapters())
        .iter()
        .filter(|e| is_below(&e.path))
    {
        let route = format!("{} {}", endpoint.method.as_str(), endpoint.path);
        assert!(
            checked_routes.contains(&route),
            "{route} is not in {checked_routes:?}"
        );
    }
    checked_routes
}

async fn every_closed_route_refuses_anonymous_callers(s: &Server) {
    let checked_routes = strangers_are_refused(s, &crate::fixture::BLOG, "/secrets").await;
    for expected in [
        "GET /secrets",
        "POST /secrets",
        "GET /secrets/{id}",
        "PATCH /secrets/{id}",
        "DELETE /secrets/{id}",
        "GET /secrets/by-name",
        "GET /secrets/by-name/{name}",
        "GET /secrets/name-taken",
        "POST /secrets/{id}/reveal",
        "POST /secrets/{id}/peek",
        "GET /secrets/feed",
    ] {
        assert!(
            checked_routes.iter().any(|s| s == expected),
            "{expected} is not in {checked_routes:?}"
        );
    }
}

async fn a_route_with_roles_refuses_other_users(s: &Server) {
    let (user, admin) = (s.token("alice", &[]), s.token("root", &["admin"]));
    let created = s
        .raw(
            "POST",
            "/reports",
            &[
                ("authorization", &user),
                ("content-type", "application/json"),
            ],
            r#"{"name":"n"}"#,
        )
        .await;
    assert_eq!(created.status, 201);
    let path = format!("/reports/{}", created.json()["id"].as_str().unwrap());
    assert_eq!(
        s.raw("DELETE", &path, &[("authorization", &user)], "")
            .await
            .code(),
        (403, "forbidden")
    );
    assert_eq!(
        s.raw("DELETE", &path, &[("authorization", &admin)], "")
            .await
            .status,
        204
    );
}

async fn a_static_route_wins_over_a_parameter(s: &Server) {
    let reply = s.get("/posts/stats2").await;
    assert_eq!((reply.status, &reply.body[..]), (200, &b"extra"[..]));
}

async fn if_match_is_required_and_checked(s: &Server) {
    let created = s
        .post(
            "/documents",
            json!({"id": "d", "kind": "k", "title": "one"}),
        )
        .await;
    assert_eq!(created.header("etag"), "\"1\"");
    assert_eq!(created.json()["version"], 1);
    let patch = |tag: Option<&'static str>| {
        let mut headers = vec![("content-type", "application/json")];
        headers.extend(tag.map(|t| ("if-match", t)));
        async move {
            s.raw("PATCH", "/documents/d", &headers, r#"{"title":"two"}"#)
                .await
        }
    };
    assert_eq!(patch(None).await.code(), (428, "precondition_required"));
    assert_eq!(
        patch(Some("\"7\"")).await.code(),
        (412, "precondition_failed")
    );
    for bad in ["*", "W/\"1\"", "1", "\"1\", \"2\"", "\"01\"", "\"x\""] {
        patch(Some(bad)).await.problem("format", "header:If-Match");
    }
    let reply = patch(Some("\"1\"")).await;
    assert_eq!(
        (reply.status, reply.header("etag")),
        (200, "\"2\"".to_owned())
    );
    assert_eq!(
        s.raw("GET", "/documents/d", &[("if-none-match", "\"2\"")], "")
            .await
            .status,
        304
    );
    assert_eq!(s.raw("DELETE", "/documents/d", &[], "").await.status, 428);
    assert_eq!(
        s.raw("DELETE", "/documents/d", &[("if-match", "\"1\"")], "")
            .await
            .status,
        412
    );
    assert_eq!(
        s.raw("DELETE", "/documents/d", &[("if-match", "\"2\"")], "")
            .await
            .status,
        204
    );
    assert_eq!(
        s.raw("DELETE", "/documents/d", &[("if-match", "\"2\"")], "")
            .await
            .status,
        404
    );
}

async fn concurrent_updates_of_one_version_succeed_once(s: &Server) {
    s.post(
        "/documents",
        json!({"id": "d", "kind": "k", "title": "one"}),
    )
    .await;
    let headers = [("content-type", "application/json"), ("if-match", "\"1\"")];
    let replies = s
        .parallel(2, |_| {
            s.raw("PATCH", "/documents/d", &headers, r#"{"title":"two"}"#)
        })
        .await;
    let mut statuses: Vec<_> = replies.iter().map(|r| r.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 412]);
}

async fn the_openapi_document_is_complete_and_stable(s: &Server) {
    let (first, second) = (s.get("/openapi.json").await, s.get("/openapi.json").await);
    assert_eq!(first.status, 200);
    assert_eq!(first.body, second.body);
    let document = first.json();
    assert_eq!(document["openapi"], "3.1.0");
    let mounted = endpoints(&crate::fixture::BLOG, "/", s.running().adapters());
    let (within, schemas) = within_itself(&document);
    let faults = [
        against_meta_schema(&document),
        within,
        against_routes(&document, &mounted),
    ]
    .concat();
    assert!(faults.is_empty(), "{faults:#?}");
    assert!(
        mounted.len() > 50 && schemas > 50,
        "{} routes, {schemas} schemas",
        mounted.len()
    );
    // `against_routes` reports a path of the document that has no route.
    assert_eq!(against_routes(&document, &mounted[1..]).len(), 1);
    assert!(document["paths"]["/counters/{id}"]["delete"].is_null());
    assert!(
        !String::from_utf8_lossy(&first.body).contains("\"secret\""),
        "the document has no private field"
    );
}

/// The document has the same bytes for the same build, at every start and on every store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_document_is_the_same_on_every_start_and_store() {
    for package in [
        &crate::fixture::BLOG,
        &crate::permissions::WORK,
        &crate::extensions::CLUBS,
    ] {
        let with = |app: linchpin::App| app.plugin(crate::permissions::RoleEvaluator);
        let mut servers = vec![
            Server::memory_with(package, with).await,
            Server::memory_with(package, with).await,
        ];
        servers.push(Server::sqlite_with(package, with).await);
        #[cfg(feature = "postgres")]
        servers.push(Server::postgres_with(package, with).await);
        let mut documents = Vec::new();
        for server in servers {
            documents.push(server.get("/openapi.json").await.body);
            server.stop().await;
        }
        assert!(documents[0].len() > 10_000, "{}", documents[0].len());
        assert!(
            documents.windows(2).all(|two| two[0] == two[1]),
            "{}",
            package.name
        );
    }
}
