//! `lookup` and `exists`.

use serde_json::json;

use crate::cases;
use crate::server::Server;

cases!(
    a_lookup_takes_its_parameter_in_the_query_or_in_the_path,
    a_lookup_without_a_match_returns_null,
    a_lookup_without_pagination_returns_all,
    a_lookup_continues_at_its_cursor,
    a_lookup_limits_its_pages,
    an_omitted_parameter_drops_its_condition,
    a_lookup_finds_missing_values,
    a_fixed_value_is_no_parameter,
    parameters_may_have_other_names_than_their_fields,
    a_lookup_with_a_sort_returns_the_first,
    a_lookup_has_no_post,
    exists_answers_get_and_head,
    exists_checks_further_conditions
);

async fn a_lookup_takes_its_parameter_in_the_query_or_in_the_path(s: &Server) {
    let created = s.create("a").await;
    for path in ["/posts/by-slug?slug=a", "/posts/by-slug/a"] {
        let reply = s.get(path).await;
        assert_eq!(
            (reply.status, reply.json()),
            (200, created.clone()),
            "{path}"
        );
    }
}

async fn a_lookup_without_a_match_returns_null(s: &Server) {
    for path in ["/posts/by-slug?slug=z", "/posts/by-slug/z"] {
        let reply = s.get(path).await;
        assert_eq!((reply.status, &reply.body[..]), (200, &b"null"[..]));
    }
}

async fn seed(s: &Server, n: usize) {
    for i in 0..n {
        let reply = s
            .post(
                "/posts",
                json!({"slug": format!("s{i}"), "title": "t", "category": "c"}),
            )
            .await;
        assert_eq!(reply.status, 201);
    }
}

async fn a_lookup_without_pagination_returns_all(s: &Server) {
    seed(s, 25).await;
    let page = s.get("/posts/by-category?category=c").await.json();
    assert_eq!(page["items"].as_array().unwrap().len(), 25);
    assert_eq!(
        (&page["hasMore"], &page["nextCursor"]),
        (&json!(false), &json!(null))
    );
}

async fn a_lookup_continues_at_its_cursor(s: &Server) {
    seed(s, 5).await;
    let page = s.get("/posts/by-category?category=c&limit=2").await.json();
    assert_eq!(
        (page["items"].as_array().unwrap().len(), &page["hasMore"]),
        (2, &json!(true))
    );
    let cursor = page["nextCursor"].as_str().unwrap();
    let next = s
        .get(&format!("/posts/by-category/c?limit=2&cursor={cursor}"))
        .await;
    assert_eq!(next.status, 200);
    let next = next.json();
    assert_eq!(next["items"].as_array().unwrap().len(), 2);
    assert_ne!(next["items"][0]["id"], page["items"][1]["id"]);
}

async fn a_lookup_limits_its_pages(s: &Server) {
    seed(s, 5).await;
    assert_eq!(
        s.get("/posts/by-category?category=c&limit=9999")
            .await
            .json()["items"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
    for limit in ["0", "-1", "x"] {
        assert_eq!(
            s.get(&format!("/posts/by-category?category=c&limit={limit}"))
                .await
                .status,
            400
        );
    }
}

async fn an_omitted_parameter_drops_its_condition(s: &Server) {
    seed(s, 2).await;
    let first = s.get("/posts").await.json()["items"][0].clone();
    s.raw("POST", &format!("{}/publish", s.path(&first)), &[], "")
        .await;
    assert_eq!(
        s.get("/posts/by-category-status?category=c").await.json()["items"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    assert_eq!(
        s.get("/posts/by-category-status?category=c&status=published")
            .await
            .json()["items"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    assert_eq!(
        s.get("/posts/by-category-status").await.json()["items"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
}

async fn a_lookup_finds_missing_values(s: &Server) {
    seed(s, 2).await;
    s.post("/posts", json!({"slug": "n", "title": "N"})).await;
    let page = s.get("/posts/by-category?category[null]=true").await.json();
    assert_eq!(page["items"].as_array().unwrap().len(), 1);
    assert_eq!(page["items"][0]["slug"], "n");
}

async fn a_fixed_value_is_no_parameter(s: &Server) {
    seed(s, 2).await;
    assert_eq!(
        s.get("/posts/published-ones").await.json()["items"],
        json!([])
    );
    assert_eq!(
        s.get("/posts/published-ones?status=draft").await.code(),
        (400, "unknown_parameter")
    );
}

async fn parameters_may_have_other_names_than_their_fields(s: &Server) {
    for (slug, owner) in [("x", "t1"), ("y", "t1"), ("z", "t2")] {
        s.post(
            "/posts",
            json!({"slug": slug, "title": "t", "category": "post", "ownerId": owner}),
        )
        .await;
    }
    let all = s.get("/posts/by-target/t1/post").await.json();
    assert_eq!(all["items"].as_array().unwrap().len(), 2);
    let one = s.get("/posts/by-target/t1/post?value=x").await.json();
    assert_eq!(
        (
            one["items"].as_array().unwrap().len(),
            &one["items"][0]["slug"]
        ),
        (1, &json!("x"))
    );
}

async fn a_lookup_with_a_sort_returns_the_first(s: &Server) {
    seed(s, 1).await;
    s.advance(1000);
    s.post(
        "/posts",
        json!({"slug": "newest", "title": "t", "category": "c"}),
    )
    .await;
    assert_eq!(
        s.get("/posts/newest?category=c").await.json()["slug"],
        "newest"
    );
}

async fn a_lookup_has_no_post(s: &Server) {
    let reply = s.raw("POST", "/posts/by-slug", &[], "").await;
    assert_eq!(reply.code(), (405, "method_not_allowed"));
}

async fn exists_answers_get_and_head(s: &Server) {
    s.create("a").await;
    assert_eq!(
        s.get("/posts/slug-taken?slug=a").await.json(),
        json!({"exists": true})
    );
    assert_eq!(
        s.get("/posts/slug-taken/z").await.json(),
        json!({"exists": false})
    );
    let head = s.raw("HEAD", "/posts/slug-taken/a", &[], "").await;
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(
        s.raw("HEAD", "/posts/slug-taken/z", &[], "").await.status,
        404
    );
    s.get("/posts/slug-taken")
        .await
        .problem("required", "query:slug");
}

async fn exists_checks_further_conditions(s: &Server) {
    let created = s.create("a").await;
    assert_eq!(
        s.get("/posts/slug-live?slug=a").await.json(),
        json!({"exists": false})
    );
    s.raw("POST", &format!("{}/publish", s.path(&created)), &[], "")
        .await;
    assert_eq!(
        s.get("/posts/slug-live?slug=a").await.json(),
        json!({"exists": true})
    );
}
