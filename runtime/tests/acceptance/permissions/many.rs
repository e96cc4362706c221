//! Permissions of lists, new records, upserts, and related records.

use serde_json::{Value as Json, json};

use super::{paper, stored};
use crate::server::Server;
use crate::tenancy::{call, id, made, slugs};

pub(super) async fn lists_contain_own_records_without_a_grant(s: &Server) {
    for (author, slug) in [
        ("ann", "a"),
        ("bob", "b"),
        ("ann", "c"),
        ("bob", "d"),
        ("ann", "e"),
    ] {
        paper(s, author, slug).await;
    }
    let (ann, all, nobody) = (
        s.token("ann", &[]),
        s.token("eve", &["paper.moderate"]),
        s.token("eve", &[]),
    );
    let all_slugs = |token: String| async move {
        slugs(&call(s, &token, "GET", "/papers?limit=50", Json::Null).await)
    };
    assert_eq!(all_slugs(ann.clone()).await, ["a", "c", "e"]);
    assert_eq!(all_slugs(all.clone()).await, ["a", "b", "c", "d", "e"]);
    assert_eq!(all_slugs(nobody.clone()).await, [""; 0]);
    // Pages are filled with permitted records.
    let first = call(s, &ann, "GET", "/papers", Json::Null).await;
    assert_eq!(slugs(&first), ["a", "c"]);
    let next = first.json()["nextCursor"].as_str().unwrap().to_owned();
    assert_eq!(
        slugs(
            &call(
                s,
                &ann,
                "GET",
                &format!("/papers?cursor={next}"),
                Json::Null
            )
            .await
        ),
        ["e"]
    );
    assert_eq!(
        slugs(&call(s, &ann, "GET", "/papers/titled?title=T&limit=9", Json::Null).await),
        ["a", "c", "e"]
    );
    assert_eq!(
        call(s, &ann, "GET", "/papers/by-slug/b", Json::Null)
            .await
            .json(),
        Json::Null
    );
    assert_eq!(
        call(s, &ann, "GET", "/papers/by-slug/a", Json::Null)
            .await
            .json()["slug"],
        "a"
    );
    assert_eq!(
        call(s, &ann, "GET", "/papers/taken?slug=b", Json::Null)
            .await
            .json(),
        json!({"exists": false})
    );
    assert_eq!(
        call(s, &ann, "GET", "/papers/taken?slug=a", Json::Null)
            .await
            .json(),
        json!({"exists": true})
    );
    assert_eq!(
        call(s, &ann, "GET", "/papers/find?q=t", Json::Null)
            .await
            .json()
            .as_array()
            .unwrap()
            .len(),
        3
    );
    assert_eq!(
        call(s, &ann, "GET", "/papers/stats", Json::Null)
            .await
            .json()["n"],
        3
    );
    assert_eq!(
        call(s, &all, "GET", "/papers/stats", Json::Null)
            .await
            .json()["n"],
        5
    );
    let denied = s.token("ann", &["-paper.write"]);
    assert_eq!(
        call(s, &denied, "GET", "/papers", Json::Null).await.code(),
        (403, "forbidden")
    );
    let broken = s.token("ann", &["broken"]);
    assert_eq!(
        call(s, &broken, "GET", "/papers", Json::Null).await.code(),
        (503, "unavailable")
    );
}

pub(super) async fn cursors_belong_to_a_grant(s: &Server) {
    for slug in ["a", "b", "c"] {
        paper(s, "ann", slug).await;
    }
    let (ann, all, bob) = (
        s.token("ann", &[]),
        s.token("ann", &["paper.write"]),
        s.token("bob", &[]),
    );
    let first = call(s, &ann, "GET", "/papers", Json::Null).await.json();
    let path = format!("/papers?cursor={}", first["nextCursor"].as_str().unwrap());
    for token in [&all, &bob] {
        assert_eq!(
            call(s, token, "GET", &path, Json::Null).await.code(),
            (400, "invalid_cursor")
        );
    }
    assert_eq!(slugs(&call(s, &ann, "GET", &path, Json::Null).await), ["c"]);
}

pub(super) async fn a_create_needs_a_grant_or_its_owner(s: &Server) {
    let (ann, writer) = (s.token("ann", &[]), s.token("w", &["paper.write"]));
    let body = |author: &str| json!({"slug": "s", "title": "T", "authorId": author});
    assert_eq!(
        call(s, &ann, "POST", "/papers", body("bob")).await.code(),
        (403, "forbidden")
    );
    call(
        s,
        &ann,
        "POST",
        "/papers",
        json!({"slug": "s", "authorId": "bob"}),
    )
    .await
    .problem("required", "title");
    assert_eq!(
        call(s, &ann, "POST", "/papers", body("ann")).await.status,
        201
    );
    let mut other = body("bob");
    other["slug"] = json!("t");
    assert_eq!(call(s, &writer, "POST", "/papers", other).await.status, 201);
    // A create in a container: the permission depends on the container and on the author.
    let thread = |author: &str, container: &str| json!({"slug": "s", "title": "T", "authorId": author, "containerId": container});
    let locked = s.token("ann", &["-write@c1"]);
    assert_eq!(
        call(s, &locked, "POST", "/threads", thread("ann", "c1"))
            .await
            .code(),
        (403, "forbidden")
    );
    assert_eq!(
        call(s, &locked, "POST", "/threads", thread("bob", "c2"))
            .await
            .code(),
        (403, "forbidden")
    );
    assert_eq!(
        call(s, &locked, "POST", "/threads", thread("ann", "c2"))
            .await
            .status,
        201
    );
    let with_c1_grant = s.token("w", &["write@c1"]);
    assert_eq!(
        call(s, &with_c1_grant, "POST", "/threads", thread("bob", "c2"))
            .await
            .code(),
        (403, "forbidden")
    );
    let mut other = thread("bob", "c1");
    other["slug"] = json!("t");
    assert_eq!(
        call(s, &with_c1_grant, "POST", "/threads", other)
            .await
            .status,
        201
    );
}

pub(super) async fn an_upsert_of_another_owner_needs_a_grant(s: &Server) {
    let record = paper(s, "ann", "one").await;
    let (ann, bob, writer) = (
        s.token("ann", &[]),
        s.token("bob", &[]),
        s.token("w", &["paper.write"]),
    );
    let body = |slug: &str, author: &str| json!({"slug": slug, "title": "new", "authorId": author});
    // The first two calls find an existing record of another author, so the author in the body does
    // not matter. The third call would create a record for another author.
    for wanted in [body("one", "bob"), body("one", "ann"), body("two", "ann")] {
        assert_eq!(
            call(s, &bob, "POST", "/papers/ensure", wanted.clone())
                .await
                .code(),
            (403, "forbidden"),
            "{wanted}"
        );
    }
    assert_eq!(stored(s, &record).await, record, "unchanged");
    assert_eq!(
        call(s, &ann, "POST", "/papers/ensure", body("one", "ann"))
            .await
            .status,
        200
    );
    assert_eq!(
        call(s, &bob, "POST", "/papers/ensure", body("two", "bob"))
            .await
            .status,
        201
    );
    assert_eq!(
        call(s, &writer, "POST", "/papers/ensure", body("one", "bob"))
            .await
            .json()["authorId"],
        "bob"
    );
    // The same for an entity with a `check`, and with `hide`.
    let lay = |slug: &str, author: &str| json!({"slug": slug, "title": "new", "authorId": author});
    assert_eq!(
        call(s, &ann, "POST", "/rules/lay-down", lay("r", "ann"))
            .await
            .status,
        201
    );
    assert_eq!(
        call(s, &ann, "POST", "/rules/lay-down", lay("r", "ann"))
            .await
            .status,
        200
    );
    assert_eq!(
        call(s, &bob, "POST", "/rules/lay-down", lay("r", "bob"))
            .await
            .code(),
        (404, "not_found")
    );
    assert_eq!(
        call(s, &bob, "POST", "/rules/lay-down", lay("q", "ann"))
            .await
            .code(),
        (404, "not_found")
    );
    // By container: the record stays in its container.
    let put = |slug: &str, container: &str| json!({"slug": slug, "title": "new", "authorId": "w", "containerId": container});
    let with_c1_grant = s.token("w", &["write@c1"]);
    assert_eq!(
        call(
            s,
            &with_c1_grant,
            "POST",
            "/threads/put-thread",
            put("t", "c1")
        )
        .await
        .status,
        201
    );
    assert_eq!(
        call(
            s,
            &with_c1_grant,
            "POST",
            "/threads/put-thread",
            put("t", "c1")
        )
        .await
        .status,
        200
    );
    let both = s.token("w", &["write@c1", "write@c2"]);
    assert_eq!(
        call(s, &both, "POST", "/threads/put-thread", put("t", "c2"))
            .await
            .code(),
        (403, "forbidden")
    );
    let locked = s.token("w", &["-write@c1"]);
    assert_eq!(
        call(s, &locked, "POST", "/threads/put-thread", put("t", "c1"))
            .await
            .code(),
        (403, "forbidden")
    );
}

pub(super) async fn operations_on_many_records_skip_refused_ones(s: &Server) {
    let (mine, theirs) = (paper(s, "ann", "a").await, paper(s, "bob", "b").await);
    let ann = s.token("ann", &[]);
    assert_eq!(
        call(s, &ann, "POST", "/papers/send-all", json!({"title": "T"}))
            .await
            .json(),
        json!(1)
    );
    assert_eq!(stored(s, &mine).await["stage"], "out");
    assert_eq!(stored(s, &theirs).await, theirs);
    let take = |token: String| async move {
        call(s, &token, "POST", "/papers/take", json!({"title": "T"}))
            .await
            .json()
    };
    assert_eq!(take(ann.clone()).await, json!(true));
    assert_eq!(
        take(ann).await,
        json!(false),
        "the other paper has another author"
    );
    assert_eq!(take(s.token("w", &["paper.write"])).await, json!(true));
}

pub(super) async fn a_derive_applies_the_permissions_of_its_lists(s: &Server) {
    for (author, slug) in [("ann", "a"), ("bob", "b")] {
        paper(s, author, slug).await;
    }
    // The permission of the derive is checked first, then that of the list that it reads from.
    let derived = |roles: &'static [&'static str]| async move {
        call(
            s,
            &s.token("ann", roles),
            "GET",
            "/papers/slugs",
            Json::Null,
        )
        .await
    };
    assert_eq!(derived(&[]).await.code(), (403, "forbidden"));
    assert_eq!(derived(&["paper.derive"]).await.json(), json!(["a"]));
    assert_eq!(
        derived(&["paper.derive", "paper.moderate"]).await.json(),
        json!(["a", "b"])
    );
    assert_eq!(
        derived(&["paper.derive", "-paper.moderate"]).await.code(),
        (403, "forbidden")
    );
}

pub(super) async fn includes_apply_the_permissions_of_their_routes(s: &Server) {
    let mine = paper(s, "ann", "a").await;
    let theirs = paper(s, "bob", "b").await;
    let body = |top: &Json| json!({"id": "T", "topId": id(top)});
    made(s, &s.token("ann", &[]), "/desks", body(&theirs)).await;
    let desk = |roles: &'static [&'static str]| async move {
        let reply = call(
            s,
            &s.token("ann", roles),
            "GET",
            "/desks/T?include=papers,top",
            Json::Null,
        )
        .await;
        if reply.status != 200 {
            return Err(reply.code());
        }
        let json = reply.json();
        let slugs: Vec<_> = json["papers"]["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|p| p["slug"].clone())
            .collect();
        Ok((json!(slugs), json["top"]["slug"].clone()))
    };
    // Included papers follow the permission of the list route, and the top paper follows that of
    // the `get` route.
    assert_eq!(desk(&[]).await, Ok((json!(["a"]), Json::Null)));
    assert_eq!(
        desk(&["paper.write"]).await,
        Ok((json!(["a", "b"]), Json::Null))
    );
    assert_eq!(desk(&["paper.read"]).await, Ok((json!(["a"]), json!("b"))));
    assert_eq!(desk(&["-paper.write"]).await, Err((403, "forbidden")));
    assert_eq!(desk(&["broken"]).await, Err((503, "unavailable")));
    let moved = call(
        s,
        &s.token("ann", &[]),
        "PATCH",
        "/desks/T",
        json!({"topId": id(&mine)}),
    )
    .await;
    assert_eq!(moved.status, 200);
    assert_eq!(desk(&[]).await, Ok((json!(["a"]), json!("a"))));
}
