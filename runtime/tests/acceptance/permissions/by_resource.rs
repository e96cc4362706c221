//! Permissions that the evaluator decides per resource.

use serde_json::{Value as Json, json};

use super::thread;
use crate::server::Server;
use crate::tenancy::{call, id, made, slugs};

pub(super) async fn a_grant_covers_its_resource_only(s: &Server) {
    let record = thread(s, "ann", "one", Some("c1")).await;
    let path = format!("/threads/{}", id(&record));
    let title = |token: String, title: &'static str| {
        let path = path.clone();
        async move { call(s, &token, "PATCH", &path, json!({"title": title})).await }
    };
    assert_eq!(
        title(s.token("bob", &["write@c2"]), "x").await.code(),
        (403, "forbidden")
    );
    assert_eq!(
        title(s.token("bob", &["write"]), "x").await.code(),
        (403, "forbidden"),
        "a grant for all containers does not cover this one"
    );
    let long = "x".repeat(300);
    let moved = call(
        s,
        &s.token("bob", &[]),
        "PATCH",
        &format!("{path}/move-to"),
        json!({"containerId": long}),
    )
    .await;
    moved.problem("max_length", "containerId");
    assert_eq!(
        title(s.token("bob", &["moderate@c1"]), "by grant")
            .await
            .json()["title"],
        "by grant"
    );
    assert_eq!(
        title(s.token("ann", &[]), "by author").await.json()["title"],
        "by author"
    );
    assert_eq!(
        call(
            s,
            &s.token("bob", &["write@c1"]),
            "PATCH",
            "/threads/none",
            json!({"title": "x"})
        )
        .await
        .code(),
        (404, "not_found")
    );
    assert_eq!(
        call(
            s,
            &s.token("bob", &["write@c1"]),
            "POST",
            &format!("{path}/post"),
            Json::Null
        )
        .await
        .json()["stage"],
        "out"
    );
    let again = call(
        s,
        &s.token("bob", &["write@c1"]),
        "POST",
        &format!("{path}/post"),
        Json::Null,
    )
    .await;
    assert_eq!(again.code(), (400, "invalid_transition"));
    // A thread without a container.
    let loose = thread(s, "ann", "two", None).await;
    let path = format!("/threads/{}", id(&loose));
    assert_eq!(
        call(
            s,
            &s.token("bob", &["write@c1"]),
            "DELETE",
            &path,
            Json::Null
        )
        .await
        .code(),
        (403, "forbidden")
    );
    assert_eq!(
        call(
            s,
            &s.token("bob", &["write@Null"]),
            "PATCH",
            &path,
            json!({"title": "n"})
        )
        .await
        .json()["title"],
        "n"
    );
    assert_eq!(
        call(s, &s.token("ann", &[]), "DELETE", &path, Json::Null)
            .await
            .status,
        204
    );
}

pub(super) async fn a_move_needs_a_grant_for_both_resources(s: &Server) {
    let record = thread(s, "ann", "one", Some("c1")).await;
    let path = format!("/threads/{}", id(&record));
    let to = |container: &str| json!({"containerId": container});
    for (method, path) in [
        ("PATCH", path.clone()),
        ("PATCH", format!("{path}/move-to")),
    ] {
        // The grant must cover the old and the new container.
        let one = s.token("bob", &["write@c1"]);
        assert_eq!(
            call(s, &one, method, &path, to("c2")).await.code(),
            (403, "forbidden"),
            "{path}"
        );
        let author = s.token("ann", &[]);
        assert_eq!(
            call(s, &author, method, &path, to("c2")).await.code(),
            (403, "forbidden"),
            "{path}"
        );
        assert_eq!(
            call(s, &one, method, &path, to("c1")).await.status,
            200,
            "the record stays in its container"
        );
        let both = s.token("bob", &["write@c1", "write@c2"]);
        assert_eq!(
            call(s, &both, method, &path, to("c2")).await.json()["containerId"],
            "c2"
        );
        assert_eq!(
            call(s, &both, method, &path, to("c1")).await.json()["containerId"],
            "c1"
        );
    }
    // The same applies to an operation on many records. Neither the author nor a caller with a
    // general grant may move them into a container for which the grant is missing or denied.
    let body = |to: &str| json!({"title": record["title"], "to": to});
    for (who, roles) in [("ann", &[][..]), ("bob", &["write", "-write@c2"])] {
        let moved = call(
            s,
            &s.token(who, roles),
            "POST",
            "/threads/move-all",
            body("c2"),
        )
        .await;
        assert_eq!(moved.code(), (403, "forbidden"), "{who}");
        call(
            s,
            &s.token(who, roles),
            "POST",
            "/threads/move-all",
            body(&"x".repeat(300)),
        )
        .await
        .problem("max_length", "to");
    }
    assert_eq!(
        call(s, &s.token("ann", &[]), "GET", &path, Json::Null)
            .await
            .json()["containerId"],
        "c1"
    );
    let author = s.token("ann", &["write@c2"]);
    assert_eq!(
        call(s, &author, "POST", "/threads/move-all", body("c2"))
            .await
            .json(),
        json!(1)
    );
    let stranger = s.token("bob", &["write@c1"]);
    assert_eq!(
        call(s, &stranger, "POST", "/threads/move-all", body("c1"))
            .await
            .json(),
        json!(0),
        "the caller owns none of them"
    );
}

pub(super) async fn lists_need_a_grant_for_their_resource(s: &Server) {
    for (author, slug, container) in [
        ("ann", "a", "c1"),
        ("bob", "b", "c1"),
        ("ann", "c", "c2"),
        ("bob", "d", "c2"),
    ] {
        thread(s, author, slug, Some(container)).await;
    }
    let threads_of = |container: &'static str, roles: &'static [&'static str]| async move {
        let path = format!("/threads/of-container?container={container}");
        call(s, &s.token("ann", roles), "GET", &path, Json::Null).await
    };
    assert_eq!(slugs(&threads_of("c1", &[]).await), ["a"]);
    assert_eq!(slugs(&threads_of("c1", &["write@c1"]).await), ["a", "b"]);
    assert_eq!(slugs(&threads_of("c2", &["write@c1"]).await), ["c"]);
    assert_eq!(
        threads_of("c2", &["-write@c2"]).await.code(),
        (403, "forbidden")
    );
    // The list names no container: only a grant for all containers applies.
    let list = |roles: &'static [&'static str]| async move {
        slugs(&call(s, &s.token("ann", roles), "GET", "/threads", Json::Null).await)
    };
    assert_eq!(list(&["write@c1", "write@c2"]).await, ["a", "c"]);
    assert_eq!(list(&["write"]).await, ["a", "b", "c", "d"]);
}

pub(super) async fn a_resource_may_be_in_the_path(s: &Server) {
    let (ann, with_c1_grant) = (s.token("ann", &[]), s.token("bob", &["write@c1"]));
    let body = json!({"text": "x", "authorId": "ann"});
    let record = made(s, &ann, "/containers/c1/leaves", body.clone()).await;
    let path = format!("/containers/c1/leaves/{}", id(&record));
    assert_eq!(
        call(s, &with_c1_grant, "PATCH", &path, json!({"text": "y"}))
            .await
            .json()["text"],
        "y"
    );
    assert_eq!(
        call(
            s,
            &with_c1_grant,
            "POST",
            "/containers/c2/leaves",
            body.clone()
        )
        .await
        .code(),
        (403, "forbidden")
    );
    let elsewhere = path.replace("c1", "c2");
    assert_eq!(
        call(
            s,
            &s.token("bob", &["write@c2"]),
            "PATCH",
            &elsewhere,
            json!({"text": "z"})
        )
        .await
        .code(),
        (404, "not_found")
    );
    assert_eq!(
        call(
            s,
            &s.token("bob", &["write@c2"]),
            "PATCH",
            &path,
            json!({"text": "z"})
        )
        .await
        .code(),
        (403, "forbidden")
    );
    let list = |token: String| async move {
        call(s, &token, "GET", "/containers/c1/leaves", Json::Null)
            .await
            .json()["items"]
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!(
        (
            list(with_c1_grant).await,
            list(s.token("bob", &[])).await,
            list(ann).await
        ),
        (1, 0, 1)
    );
    assert_eq!(
        call(s, &s.token("ann", &["-write@c1"]), "GET", &path, Json::Null)
            .await
            .code(),
        (403, "forbidden")
    );
}

/// The thread moves to another container between the decision and the write. The statement of the
/// write detects this.
pub(super) async fn a_record_that_changes_during_the_decision_is_not_written(s: &Server) {
    for (method, below, body) in [
        ("PATCH", "", json!({"title": "mine"})),
        ("DELETE", "", Json::Null),
        ("POST", "/post", Json::Null),
    ] {
        let record = thread(s, "ann", "moving", Some("c1")).await;
        let path = format!("/threads/{}", id(&record));
        let reply = call(
            s,
            &s.token("bob", &["write@c1", "mover"]),
            method,
            &format!("{path}{below}"),
            body,
        )
        .await;
        assert_eq!(reply.code(), (409, "conflict"), "{method} {below}");
        let now = call(s, &s.token("bob", &["write@c2"]), "GET", &path, Json::Null)
            .await
            .json();
        assert_eq!(
            (&now["title"], &now["stage"], &now["containerId"]),
            (&json!("T"), &json!("draft"), &json!("c2"))
        );
        assert_eq!(
            call(s, &s.token("ann", &[]), "DELETE", &path, Json::Null)
                .await
                .status,
            204
        );
    }
}
