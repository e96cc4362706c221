//! Lists: pages, filters, sorts, cursors.

use serde_json::{Value as Json, json};

use crate::cases;
use crate::server::Server;

cases!(
    a_page_has_the_default_limit,
    ties_are_broken_by_the_key,
    a_limit_above_the_maximum_counts_as_the_maximum,
    an_invalid_limit_is_refused,
    sort_dir_reverses_the_default_order,
    a_changed_cursor_is_refused,
    a_deleted_record_leaves_no_gap_in_later_pages,
    new_records_cause_no_duplicates_in_later_pages,
    filters_apply_before_the_page_is_cut,
    all_unknown_parameters_are_reported_at_once,
    a_filter_value_of_another_type_is_refused,
    contains_ignores_case_and_has_no_wildcards,
    in_and_nin_take_lists,
    ne_matches_missing_values,
    hidden_and_json_fields_are_refused_as_filters,
    an_empty_list_is_an_empty_page,
    null_is_the_smallest_value,
    a_cursor_with_other_filters_is_refused,
    refusals_suggest_similar_names
);

async fn seed(s: &Server, n: usize) {
    for i in 0..n {
        let category = if i % 3 == 0 {
            json!(null)
        } else {
            json!(format!("c{}", i % 3))
        };
        let title = format!("t{}", i / 2);
        let reply = s
            .post(
                "/posts",
                json!({"slug": format!("s{i}"), "title": title, "category": category}),
            )
            .await;
        assert_eq!(reply.status, 201);
    }
}

async fn a_page_has_the_default_limit(s: &Server) {
    seed(s, 5).await;
    let page = s.get("/posts").await.json();
    assert_eq!(page["items"].as_array().unwrap().len(), 2);
    assert_eq!(page["hasMore"], true);
    assert!(page["nextCursor"].is_string());
    assert_eq!(page.as_object().unwrap().len(), 3);
}

async fn ties_are_broken_by_the_key(s: &Server) {
    seed(s, 7).await;
    for dir in ["asc", "desc"] {
        let seen = s.walk(&format!("/posts?sort=title&sortDir={dir}")).await;
        assert_eq!(seen.len(), 7);
        let keys: Vec<_> = seen
            .iter()
            .map(|r| (r["title"].to_string(), r["id"].to_string()))
            .collect();
        let mut sorted = keys.clone();
        sorted.sort();
        if dir == "desc" {
            sorted.reverse();
        }
        assert_eq!(keys, sorted);
    }
}

async fn a_limit_above_the_maximum_counts_as_the_maximum(s: &Server) {
    seed(s, 7).await;
    let reply = s.get("/posts?limit=99").await;
    assert_eq!(
        (
            reply.status,
            reply.json()["items"].as_array().unwrap().len()
        ),
        (200, 3)
    );
}

async fn an_invalid_limit_is_refused(s: &Server) {
    for limit in ["0", "-1", "abc", "", "1.5"] {
        let reply = s.get(&format!("/posts?limit={limit}")).await;
        assert_eq!(reply.code(), (400, "validation_failed"), "{limit}");
        assert_eq!(reply.problems()[0].0, "query:limit");
    }
}

async fn sort_dir_reverses_the_default_order(s: &Server) {
    seed(s, 3).await;
    let asc = s.walk("/posts").await;
    let mut desc = s.walk("/posts?sortDir=desc").await;
    desc.reverse();
    assert_eq!(asc, desc);
    assert_eq!(s.get("/posts?sortDir=up").await.status, 400);
    assert_eq!(s.get("/posts?sort=meta").await.status, 400);
}

async fn a_changed_cursor_is_refused(s: &Server) {
    seed(s, 5).await;
    assert_eq!(
        s.get("/posts?cursor=@@@@").await.code(),
        (400, "invalid_cursor")
    );
    let cursor = s.get("/posts").await.json()["nextCursor"]
        .as_str()
        .unwrap()
        .to_owned();
    for at in [0, 5, cursor.len() / 2, cursor.len() - 1] {
        let mut forged = cursor.clone().into_bytes();
        forged[at] = if forged[at] == b'x' { b'y' } else { b'x' };
        let forged = String::from_utf8(forged).unwrap();
        assert_eq!(
            s.get(&format!("/posts?cursor={forged}")).await.code(),
            (400, "invalid_cursor")
        );
    }
}

async fn a_deleted_record_leaves_no_gap_in_later_pages(s: &Server) {
    seed(s, 5).await;
    let page = s.get("/posts").await.json();
    let first: Vec<String> = page["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(s.delete(&format!("/posts/{}", first[1])).await.status, 204);
    let rest = s
        .walk(&format!(
            "/posts?cursor={}",
            page["nextCursor"].as_str().unwrap()
        ))
        .await;
    assert_eq!(rest.len(), 3);
    assert!(
        rest.iter()
            .all(|r| !first.contains(&r["id"].as_str().unwrap().to_owned()))
    );
}

async fn new_records_cause_no_duplicates_in_later_pages(s: &Server) {
    for slug in ["d", "f", "h", "j", "l"] {
        s.post("/posts", json!({"slug": slug, "title": slug})).await;
    }
    let page = s.get("/posts?sort=title").await.json();
    for slug in ["a", "e", "i", "z"] {
        s.post("/posts", json!({"slug": slug, "title": slug})).await;
    }
    let mut seen: Vec<String> = page["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["slug"].as_str().unwrap().to_owned())
        .collect();
    let rest = s
        .walk(&format!(
            "/posts?sort=title&cursor={}",
            page["nextCursor"].as_str().unwrap()
        ))
        .await;
    seen.extend(rest.iter().map(|r| r["slug"].as_str().unwrap().to_owned()));
    for slug in ["d", "f", "h", "j", "l"] {
        assert_eq!(
            seen.iter().filter(|s| *s == slug).count(),
            1,
            "{slug} in {seen:?}"
        );
    }
}

async fn filters_apply_before_the_page_is_cut(s: &Server) {
    seed(s, 3).await;
    let first = s.get("/posts").await.json()["items"][0].clone();
    s.raw("POST", &format!("{}/publish", s.path(&first)), &[], "")
        .await;
    let page = s.get("/posts?status=published&limit=1").await.json();
    assert_eq!(page["items"].as_array().unwrap().len(), 1);
    assert_eq!(
        (&page["items"][0]["status"], &page["hasMore"]),
        (&json!("published"), &json!(false))
    );
    // Two of the three records are published now, so the first page has a next page and the second
    // page is the last.
    let second = s.get("/posts").await.json()["items"][1].clone();
    s.raw("POST", &format!("{}/publish", s.path(&second)), &[], "")
        .await;
    let page = s.get("/posts?status=published&limit=1").await.json();
    assert_eq!(
        (page["items"].as_array().unwrap().len(), &page["hasMore"]),
        (1, &json!(true))
    );
    let rest = s
        .get(&format!(
            "/posts?status=published&limit=1&cursor={}",
            page["nextCursor"].as_str().unwrap()
        ))
        .await
        .json();
    assert_eq!(
        (&rest["items"][0]["id"], &rest["items"][0]["status"]),
        (&second["id"], &json!("published"))
    );
    assert_eq!(
        (&rest["hasMore"], &rest["nextCursor"]),
        (&json!(false), &Json::Null)
    );
}

async fn all_unknown_parameters_are_reported_at_once(s: &Server) {
    let reply = s.get("/posts?unknown=1&other=2&limit=0").await;
    assert_eq!(reply.code(), (400, "unknown_parameter"));
    let expected =
        ["query:other", "query:unknown"].map(|p| (p.to_owned(), "unknown_parameter".to_owned()));
    assert_eq!(reply.problems(), expected);
}

async fn a_filter_value_of_another_type_is_refused(s: &Server) {
    s.get("/posts?status=zzz")
        .await
        .problem("enum", "query:status");
    assert_eq!(
        s.get("/posts?live=yes").await.code(),
        (400, "validation_failed")
    );
}

async fn contains_ignores_case_and_has_no_wildcards(s: &Server) {
    s.post("/posts", json!({"slug": "a", "title": "Alpha"}))
        .await;
    s.post("/posts", json!({"slug": "b", "title": "Beta"}))
        .await;
    let page = s.get("/posts?title[contains]=ALP").await.json();
    assert_eq!(page["items"].as_array().unwrap().len(), 1);
    assert_eq!(page["items"][0]["slug"], "a");
    assert_eq!(s.get("/posts?title[contains]=").await.status, 400);
    assert_eq!(
        s.get("/posts?title[contains]=%25").await.json()["items"],
        json!([])
    );
}

async fn in_and_nin_take_lists(s: &Server) {
    for slug in ["a", "b", "c", "d,e"] {
        s.create(slug).await;
    }
    let slugs = |records: Vec<serde_json::Value>| {
        let mut list: Vec<String> = records
            .iter()
            .map(|r| r["slug"].as_str().unwrap().to_owned())
            .collect();
        list.sort();
        list
    };
    assert_eq!(slugs(s.walk("/posts?slug[in]=a,b").await), ["a", "b"]);
    assert_eq!(slugs(s.walk("/posts?slug[nin]=a").await), ["b", "c", "d,e"]);
    assert_eq!(slugs(s.walk("/posts?slug[in]=d%5C,e").await), ["d,e"]);
    assert_eq!(
        slugs(s.walk("/posts?slug[in]=a&slug[in]=c").await),
        ["a", "c"]
    );
    let many = vec!["x"; 101].join(",");
    s.get(&format!("/posts?slug[in]={many}"))
        .await
        .problem("too_many", "query:slug[in]");
}

async fn ne_matches_missing_values(s: &Server) {
    s.post("/posts", json!({"slug": "n", "title": "N"})).await;
    s.post(
        "/posts",
        json!({"slug": "x", "title": "X", "category": "x"}),
    )
    .await;
    s.post(
        "/posts",
        json!({"slug": "y", "title": "Y", "category": "y"}),
    )
    .await;
    let mut slugs: Vec<String> = s
        .walk("/posts?category[ne]=x")
        .await
        .iter()
        .map(|r| r["slug"].as_str().unwrap().to_owned())
        .collect();
    slugs.sort();
    assert_eq!(slugs, ["n", "y"]);
    let only = s.walk("/posts?category[null]=true").await;
    assert_eq!((only.len(), &only[0]["slug"]), (1, &json!("n")));
    assert_eq!(s.walk("/posts?category[null]=false").await.len(), 2);
}

async fn hidden_and_json_fields_are_refused_as_filters(s: &Server) {
    for name in ["secret", "pin", "secret[ne]", "meta"] {
        assert_eq!(
            s.get(&format!("/posts?{name}=s")).await.code(),
            (400, "unknown_parameter"),
            "{name}"
        );
    }
}

async fn an_empty_list_is_an_empty_page(s: &Server) {
    assert_eq!(
        s.get("/posts").await.json(),
        json!({"items": [], "nextCursor": null, "hasMore": false})
    );
}

async fn null_is_the_smallest_value(s: &Server) {
    seed(s, 7).await;
    let asc = s.walk("/posts?sort=category").await;
    assert_eq!(asc.len(), 7);
    assert!(asc[..3].iter().all(|r| r["category"].is_null()));
    assert!(asc[3..].iter().all(|r| r["category"].is_string()));
    let mut desc = s.walk("/posts?sort=category&sortDir=desc").await;
    desc.reverse();
    assert_eq!(asc, desc);
}

async fn a_cursor_with_other_filters_is_refused(s: &Server) {
    seed(s, 5).await;
    let cursor = s.get("/posts?status=draft").await.json()["nextCursor"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(
        s.get(&format!("/posts?status=published&cursor={cursor}"))
            .await
            .code(),
        (400, "invalid_cursor")
    );
    assert_eq!(
        s.get(&format!("/posts?cursor={cursor}")).await.code(),
        (400, "invalid_cursor")
    );
    assert_eq!(
        s.get(&format!("/posts?status=draft&limit=1&cursor={cursor}"))
            .await
            .status,
        200
    );
}

/// The error for an unknown name suggests a similar name. It suggests no private field. For a body,
/// it suggests no field that only the server writes. For a long name, it suggests nothing.
async fn refusals_suggest_similar_names(s: &Server) {
    let message = |reply: crate::server::Reply| {
        reply.json()["details"][0]["message"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    for (path, hint) in [
        ("/posts?catgory=x", "; did you mean `category`?"),
        ("/posts?titel[contains]=x", "; did you mean `title`?"),
        ("/posts?limt=1", "; did you mean `limit`?"),
        ("/posts/by-slug?slg=a", "; did you mean `slug`?"),
        ("/posts?secret=a", ""),
        ("/posts?somethingelse=a", ""),
    ] {
        let reply = s.get(path).await;
        assert_eq!(reply.code(), (400, "unknown_parameter"), "{path}");
        assert_eq!(
            message(reply),
            format!("is not a parameter of this route{hint}"),
            "{path}"
        );
    }
    for (member, hint) in [
        ("titel", "; did you mean `title`?"),
        ("secret", ""),
        ("creatdAt", ""),
    ] {
        let reply = s
            .post("/posts", json!({"slug": "a", "title": "T", member: "x"}))
            .await;
        assert_eq!(
            (reply.code(), message(reply)),
            ((400, "validation_failed"), format!("is not a field{hint}")),
            "{member}"
        );
    }
    // The error for a long name has no suggestion. If a request has many unknown names, at most 8
    // errors have one.
    let long = format!("/posts?{}=1", "titlf".repeat(40));
    assert_eq!(
        message(s.get(&long).await),
        "is not a parameter of this route"
    );
    let many: Vec<String> = (0..200).map(|n| format!("titl{n:03}=1")).collect();
    let reply = s.get(&format!("/posts?{}", many.join("&"))).await.json();
    let hinted = reply["details"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|d| d["message"].as_str().unwrap().contains("did you mean"))
        .count();
    assert!(hinted <= 8, "{hinted}");
}
