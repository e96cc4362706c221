//! `gate`, `visible` and `action`: records that are visible through others or under conditions.

use linchpin::prelude::*;
use serde_json::{Value as Json, json};

use crate::cases;
use crate::gated_fixture::{Child, ChildCreate, Folder, Leaf, Parent};
use crate::server::{Reply, Server};

cases!(&crate::gated_fixture::SEEN =>
    a_gate_hides_records_everywhere, a_gated_record_looks_missing_on_every_path,
    a_new_record_names_a_visible_one, gates_form_chains, gates_form_trees,
    a_gate_may_require_an_action, a_visible_condition_hides_records,
    the_application_ignores_conditions_but_not_deletion,
);

async fn send(s: &Server, method: &str, path: &str, who: &str, body: Json) -> Reply {
    let token = s.token(who, &["admin"]);
    let mut headers = vec![("content-type", "application/json")];
    if !who.is_empty() {
        headers.push(("authorization", token.as_str()));
    }
    let body = if method == "GET" || body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    s.raw(
        method,
        path,
        &headers[usize::from(body.is_empty())..],
        &body,
    )
    .await
}

async fn create_ok(s: &Server, path: &str, body: Json) {
    let reply = send(s, "POST", path, "o", body).await;
    assert_eq!(reply.status, 201, "{path} {reply:?}");
}

/// The body without the request id.
fn without_request_id(reply: &Reply) -> (u16, Json) {
    let mut body: Json = serde_json::from_slice(&reply.body).unwrap_or_default();
    if let Some(object) = body.as_object_mut() {
        object.remove("requestId");
    }
    (reply.status, body)
}

fn ids(list: &Json) -> Vec<&str> {
    list.as_array()
        .unwrap()
        .iter()
        .map(|record| record["id"].as_str().unwrap())
        .collect()
}

/// Creates two parents that other callers cannot see (`gone`, and `own` of `o`), and one that every
/// caller sees (`open`). Every twenty-first child belongs to `open`.
async fn create_family(s: &Server) {
    for (id, body) in [
        ("open", json!({})),
        ("gone", json!({})),
        ("own", json!({"open": false, "ownerId": "o"})),
    ] {
        let mut body = body;
        body["id"] = json!(id);
        create_ok(s, "/parents", body).await;
    }
    for n in 0..105 {
        let parent = match n % 21 {
            10 => "open",
            n if n % 2 == 0 => "gone",
            _ => "own",
        };
        create_ok(
            s,
            "/children",
            json!({"id": format!("c{n:03}"), "parentId": parent, "slug": format!("s{n}")}),
        )
        .await;
    }
    assert_eq!(
        send(s, "DELETE", "/parents/gone", "o", Json::Null)
            .await
            .status,
        204
    );
}

const VISIBLE: [&str; 5] = ["c010", "c031", "c052", "c073", "c094"];

async fn a_gate_hides_records_everywhere(s: &Server) {
    create_family(s).await;
    for who in ["", "stranger"] {
        let page = send(s, "GET", "/children?limit=5", who, Json::Null)
            .await
            .json();
        assert_eq!(
            (ids(&page["items"]), &page["hasMore"], &page["nextCursor"]),
            (VISIBLE.to_vec(), &json!(false), &Json::Null)
        );
        let stats = send(s, "GET", "/children/stats", who, Json::Null)
            .await
            .json();
        assert_eq!(stats, json!({"n": 5, "views": 0}));
        assert_eq!(
            send(s, "POST", "/children/tally", who, Json::Null)
                .await
                .json(),
            "5"
        );
        for hidden in ["c000", "c001"] {
            let answers = [
                send(s, "GET", &format!("/children/{hidden}"), who, Json::Null).await,
                send(s, "GET", "/children/nobody", who, Json::Null).await,
            ];
            assert_eq!(
                without_request_id(&answers[0]),
                without_request_id(&answers[1]),
                "a hidden record looks like a missing one"
            );
            assert_eq!(answers[0].code(), (404, "not_found"));
        }
        assert_eq!(
            send(s, "GET", "/children/c010", who, Json::Null)
                .await
                .status,
            200
        );
    }
    // A page is filled with visible records, regardless of the number of hidden records between
    // them.
    let mut walked = Vec::new();
    for record in s.walk("/children?limit=2&sort=title&sortDir=desc").await {
        walked.push(record["id"].as_str().unwrap().to_owned());
    }
    walked.sort();
    assert_eq!(walked, VISIBLE);
    // The owner sees the children of a closed parent.
    let own = send(s, "GET", "/children/stats", "o", Json::Null)
        .await
        .json();
    assert_eq!(own["n"], 55);
    assert_eq!(
        send(s, "POST", "/children/tally", "o", Json::Null)
            .await
            .json(),
        "55"
    );
    // All children are visible again as soon as their parent is.
    assert_eq!(
        send(s, "POST", "/parents/gone/restore", "o", Json::Null)
            .await
            .status,
        200
    );
    assert_eq!(s.get("/children/stats").await.json()["n"], 55);
    assert_eq!(s.get("/children/c000").await.status, 200);
}

/// Calls every route with a hidden record and with a missing one.
async fn a_gated_record_looks_missing_on_every_path(s: &Server) {
    create_family(s).await;
    let paths = |id: &str, slug: &str| {
        [
            ("GET", format!("/children/{id}"), Json::Null),
            ("PATCH", format!("/children/{id}"), json!({"title": "x"})),
            ("PATCH", format!("/children/{id}"), json!({})),
            ("DELETE", format!("/children/{id}"), Json::Null),
            ("POST", format!("/children/{id}/publish"), Json::Null),
            ("POST", format!("/children/{id}/bump"), Json::Null),
            (
                "PATCH",
                format!("/children/{id}/retitle"),
                json!({"title": "x"}),
            ),
            (
                "PATCH",
                format!("/children/{id}/move"),
                json!({"parentId": "open"}),
            ),
            ("POST", format!("/children/{id}/tag"), json!({"tag": "x"})),
            ("GET", format!("/children/{id}/members-list"), Json::Null),
            (
                "POST",
                format!("/children/{id}/members-add"),
                json!({"name": "x"}),
            ),
            ("PUT", format!("/children/{id}/members-set"), json!([])),
            (
                "PATCH",
                format!("/children/{id}/members-update/m"),
                json!({"name": "x"}),
            ),
            (
                "DELETE",
                format!("/children/{id}/members-remove/m"),
                Json::Null,
            ),
            ("GET", format!("/children/by-slug?slug={slug}"), Json::Null),
            (
                "GET",
                format!("/children/slug-taken?slug={slug}"),
                Json::Null,
            ),
            (
                "HEAD",
                format!("/children/slug-taken?slug={slug}"),
                Json::Null,
            ),
            ("GET", format!("/children/find?q={slug}x"), Json::Null),
            ("GET", format!("/children?slug={slug}"), Json::Null),
            ("GET", format!("/children?id[in]={id},nobody"), Json::Null),
            ("GET", format!("/children/feed?title={slug}"), Json::Null),
            ("GET", format!("/remarks?childId={id}"), Json::Null),
        ]
    };
    let before = send(s, "GET", "/children/c001", "o", Json::Null)
        .await
        .json();
    for ((method, path, body), (_, other, _)) in
        paths("c001", "s1").into_iter().zip(paths("c999", "s999"))
    {
        let (hidden, missing) = (
            send(s, method, &path, "", body.clone()).await,
            send(s, method, &other, "", body).await,
        );
        assert_eq!(
            without_request_id(&hidden),
            without_request_id(&missing),
            "{method} {path}"
        );
    }
    // The record is unchanged.
    assert_eq!(
        send(s, "GET", "/children/c001", "o", Json::Null)
            .await
            .json(),
        before
    );
    // Operations on many records reach the visible ones: 5 of 105.
    assert_eq!(
        ids(&s.get("/children/by-title?title=t&limit=10").await.json()["items"]),
        VISIBLE
    );
    assert_eq!(ids(&s.get("/children/feed?title=t").await.json()), VISIBLE);
    assert_eq!(ids(&s.get("/children/find?q=s").await.json()), VISIBLE);
    assert_eq!(
        s.post("/children/set-all", json!({"title": "t"}))
            .await
            .json(),
        5
    );
    let stats = send(s, "GET", "/children/stats", "o", Json::Null)
        .await
        .json();
    assert_eq!(stats, json!({"n": 55, "views": 45}));
    // An upsert that meets a hidden record is refused and does not change it.
    let ensure =
        |slug: &str| json!({"slug": slug, "title": "mine", "id": "new", "parentId": "open"});
    assert_eq!(
        s.post("/children/ensure", ensure("s1")).await.code(),
        (409, "conflict")
    );
    assert_eq!(
        s.post("/children/ensure", ensure("s10")).await.json()["created"],
        false
    );
    // Included records.
    let parent = send(s, "GET", "/parents/own?include=children", "", Json::Null).await;
    assert_eq!(parent.status, 404);
    let parents = s.get("/parents?include=children").await.json();
    assert_eq!(ids(&parents["items"]), ["open"]);
    assert_eq!(ids(&parents["items"][0]["children"]["items"]), VISIBLE[..3]);
    let taken = s.post("/children/take", json!({"title": "t"})).await.json();
    assert_eq!(taken["id"], "c031", "the first visible record");
    assert_eq!(
        s.post("/children/clear", json!({"title": "t"}))
            .await
            .json(),
        3
    );
    assert_eq!(
        s.post("/children/take", json!({"title": "t"})).await.json(),
        Json::Null
    );
    assert_eq!(
        send(s, "GET", "/children/stats", "o", Json::Null)
            .await
            .json()["n"],
        51
    );
}

/// A new or a moved record may refer only to a record that the caller sees.
async fn a_new_record_names_a_visible_one(s: &Server) {
    create_family(s).await;
    let child = |parent: &str| json!({"id": "n", "parentId": parent, "slug": "n"});
    let mut answers = Vec::new();
    for parent in ["nobody", "own", "gone"] {
        let reply = s.post("/children", child(parent)).await;
        reply.problem("reference", "parentId");
        answers.push(without_request_id(&reply));
        let upsert = json!({"slug": "n", "title": "n", "id": "n", "parentId": parent});
        s.post("/children/ensure", upsert)
            .await
            .problem("reference", "parentId");
        s.patch("/children/c010", json!({"parentId": parent}))
            .await
            .problem("reference", "parentId");
        s.raw_json("PATCH", "/children/c010/move", json!({"parentId": parent}))
            .await
            .problem("reference", "parentId");
    }
    assert!(answers.windows(2).all(|w| w[0] == w[1]), "{answers:?}");
    assert_eq!(
        send(s, "GET", "/children/slug-taken?slug=n", "o", Json::Null)
            .await
            .json(),
        json!({"exists": false})
    );
    assert_eq!(
        send(s, "POST", "/children", "o", child("own")).await.status,
        201
    );
    // A caller who sees both parents moves the record: the response contains it, and then others no
    // longer see it.
    assert_eq!(
        send(
            s,
            "PATCH",
            "/children/c010/move",
            "o",
            json!({"parentId": "own"})
        )
        .await
        .status,
        200
    );
    assert_eq!(s.get("/children/c010").await.status, 404);
}

async fn gates_form_chains(s: &Server) {
    create_family(s).await;
    for child in ["c001", "c010"] {
        create_ok(
            s,
            "/remarks",
            json!({"id": format!("r-{child}"), "childId": child}),
        )
        .await;
    }
    assert_eq!(ids(&s.get("/remarks").await.json()["items"]), ["r-c010"]);
    assert_eq!(s.get("/remarks/r-c001").await.status, 404);
    s.post("/remarks", json!({"id": "r", "childId": "c001"}))
        .await
        .problem("reference", "childId");
    let all = send(s, "GET", "/remarks?include=child.parent", "o", Json::Null)
        .await
        .json();
    assert_eq!(ids(&all["items"]), ["r-c001", "r-c010"]);
    assert_eq!(all["items"][0]["child"]["parent"]["id"], "own");
    // The parent is two gates away.
    assert_eq!(
        send(s, "DELETE", "/parents/open", "o", Json::Null)
            .await
            .status,
        204
    );
    assert_eq!(s.get("/remarks").await.json()["items"], json!([]));
    assert_eq!(s.get("/remarks/r-c010").await.status, 404);
    assert_eq!(
        s.raw("DELETE", "/remarks/r-c010", &[], "").await.status,
        404
    );
}

async fn gates_form_trees(s: &Server) {
    for (id, parent, open) in [
        ("a", None, true),
        ("b", Some("a"), false),
        ("c", Some("b"), true),
        ("x", Some("a"), true),
    ] {
        create_ok(
            s,
            "/folders",
            json!({"id": id, "parentId": parent, "open": open, "ownerId": "o"}),
        )
        .await;
        create_ok(
            s,
            "/leaves",
            json!({"id": format!("in-{id}"), "folderId": id}),
        )
        .await;
    }
    // `b` is closed, and `c` is below it.
    assert_eq!(ids(&s.get("/folders").await.json()["items"]), ["a", "x"]);
    assert_eq!(
        ids(&s.get("/leaves").await.json()["items"]),
        ["in-a", "in-x"]
    );
    assert_eq!(s.get("/folders/c").await.status, 404);
    assert_eq!(
        ids(&send(s, "GET", "/folders", "o", Json::Null).await.json()["items"]),
        ["a", "b", "c", "x"]
    );
    // This is the maximum number of ancestors.
    send(
        s,
        "POST",
        "/folders",
        "o",
        json!({"id": "d", "parentId": "c"}),
    )
    .await
    .problem("reference", "parentId");
    s.post("/folders", json!({"id": "d", "parentId": "c"}))
        .await
        .problem("reference", "parentId");
    s.post("/folders", json!({"id": "d", "parentId": "d"}))
        .await
        .problem("reference", "parentId");
    s.patch("/folders/x", json!({"parentId": "x"}))
        .await
        .problem("immutable", "parentId");
    // The application itself sees the closed folder, and all records below it.
    let folders = s.running().adapter::<Folder>().unwrap();
    assert!(
        folders
            .get(&Cx::system("test"), "c")
            .await
            .unwrap()
            .is_some()
    );
    let leaves = s.running().adapter::<Leaf>().unwrap();
    assert_eq!(
        leaves
            .list(&Cx::system("test"), linchpin::entity::ListQuery::default())
            .await
            .unwrap()
            .items
            .len(),
        4
    );
}

/// A caller who sees a parent may still be unable to write below it.
async fn a_gate_may_require_an_action(s: &Server) {
    for (id, closed) in [("p", false), ("q", true)] {
        create_ok(
            s,
            "/parents",
            json!({"id": id, "closed": closed, "ownerId": "o"}),
        )
        .await;
        create_ok(
            s,
            "/entries",
            json!({"id": format!("in-{id}"), "parentId": id}),
        )
        .await;
    }
    assert_eq!(ids(&s.get("/parents").await.json()["items"]), ["p", "q"]);
    assert_eq!(ids(&s.get("/entries").await.json()["items"]), ["in-p"]);
    assert_eq!(
        ids(&send(s, "GET", "/entries", "o", Json::Null).await.json()["items"]),
        ["in-p", "in-q"]
    );
    assert_eq!(s.get("/entries/in-q").await.status, 404);
    s.post("/entries", json!({"id": "n", "parentId": "q"}))
        .await
        .problem("reference", "parentId");
    assert_eq!(
        s.post("/entries", json!({"id": "n", "parentId": "p"}))
            .await
            .status,
        201
    );
    assert_eq!(
        send(
            s,
            "POST",
            "/entries",
            "o",
            json!({"id": "m", "parentId": "q"})
        )
        .await
        .status,
        201
    );
}

async fn a_visible_condition_hides_records(s: &Server) {
    let at = "2026-03-04T05:06:08.000Z";
    for (id, status, deliver, author) in [
        ("a", "live", None, Some("o")),
        ("b", "draft", None, Some("o")),
        ("c", "draft", None, None),
        ("d", "live", Some(at), None),
    ] {
        create_ok(
            s,
            "/timeds",
            json!({"id": id, "status": status, "deliverAt": deliver, "author": author}),
        )
        .await;
    }
    let visible_ids = async |who: &str| {
        let page = send(s, "GET", "/timeds", who, Json::Null).await;
        assert_eq!(page.status, 200, "{page:?}");
        ids(&page.json()["items"])
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    // Without an actor, a comparison with the actor is false.
    assert_eq!(visible_ids("").await, ["a"]);
    assert_eq!(visible_ids("o").await, ["a", "c"]);
    assert_eq!(visible_ids("p").await, ["a", "b", "c"]);
    assert_eq!(s.get("/timeds/b").await.status, 404);
    assert_eq!(
        s.patch("/timeds/c", json!({"status": "live"})).await.status,
        404
    );
    // A cursor is valid for one caller.
    let page = send(s, "GET", "/timeds?limit=1", "p", Json::Null)
        .await
        .json();
    let cursor = page["nextCursor"].as_str().unwrap();
    assert_eq!(
        send(
            s,
            "GET",
            &format!("/timeds?limit=1&cursor={cursor}"),
            "o",
            Json::Null
        )
        .await
        .code(),
        (400, "invalid_cursor")
    );
    s.advance(1000);
    assert_eq!(visible_ids("").await, ["a", "d"]);
}

/// The application sees children of closed parents. It does not see children of deleted parents,
/// unless it includes deleted records.
async fn the_application_ignores_conditions_but_not_deletion(s: &Server) {
    create_family(s).await;
    let (children, parents) = (
        s.running().adapter::<Child>().unwrap(),
        s.running().adapter::<Parent>().unwrap(),
    );
    let cx = Cx::system("test").at(s.now());
    assert!(children.get(&cx, "c001").await.unwrap().is_some());
    assert!(children.get(&cx, "c000").await.unwrap().is_none());
    let new = |parent: &str| ChildCreate {
        id: format!("by-{parent}"),
        parent_id: parent.to_owned(),
        slug: parent.to_owned(),
        title: None,
        status: None,
        views: None,
        tags: None,
        members: None,
    };
    assert!(children.create(&cx, new("own")).await.is_ok());
    let refused = children.create(&cx, new("gone")).await.unwrap_err();
    assert_eq!(refused.details()[0].code, "reference");
    let stranger = Cx::actor(Actor::user("stranger")).at(s.now());
    assert!(children.get(&stranger, "c001").await.unwrap().is_none());
    assert!(
        children.purge(&cx, "c000").await.is_ok(),
        "a retention job removes a child of a deleted parent"
    );
    assert!(parents.get(&stranger, "own").await.unwrap().is_none());
}
