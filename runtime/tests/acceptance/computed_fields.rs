//! Computed fields: their values follow every change of the record.

#![allow(missing_docs)] // test entities

use linchpin::prelude::*;
use serde_json::{Value as Json, json};

use crate::cases;
use crate::server::{Reply, Server};

#[derive(FieldEnum, Clone, Copy, Debug, PartialEq)]
pub enum Stage {
    Draft,
    Live,
}

#[derive(Clone, Debug, Embedded)]
pub struct Line {
    #[field(primary, default = uuid)]
    pub id: String,
    pub count: i64,
}

fn slug_key(page: &Leaf) -> String {
    format!(
        "{}/{}",
        page.team.as_deref().unwrap_or("-"),
        page.slug.to_lowercase()
    )
}

/// The title of a draft; `None` for other pages.
fn draft_key(page: &Leaf) -> Option<String> {
    (page.stage == Stage::Draft).then(|| page.title.clone())
}

fn rank(page: &Leaf) -> f64 {
    let up = page.ups as f64;
    if page.tags.iter().any(|tag| tag == "hot") {
        up * 10.0
    } else {
        up
    }
}

/// Depends on all fields. Computed fields are blank, even if they were computed before.
fn summary(page: &Leaf) -> String {
    let lines: i64 = page.lines.iter().map(|line| line.count).sum();
    format!(
        "{} v{} {lines} {:?}{:?}",
        page.title, page.version, page.draft_key, page.summary
    )
}

#[entity(
    tenant(team, optional),
    soft_delete(deleted_at),
    version(required_on_write = false),
    unique(slug),
    unique(slug_key, global),
    unique(draft_key),
    index(desc(rank)),
    sort = desc(rank),
    pagination(default = 20, max = 50),
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
    #[field(default = 0)]
    pub ups: i64,
    pub tags: Vec<String>,
    pub lines: Vec<Line>,
    #[field(private)]
    pub team: Option<String>,
    pub deleted_at: Option<Timestamp>,
    #[field(computed(slug_key, from(slug, team)))]
    pub slug_key: String,
    #[field(computed(draft_key, from(stage, title)), filterable)]
    pub draft_key: Option<String>,
    #[field(computed(rank, from(ups, tags)))]
    pub rank: f64,
    #[field(computed = summary)]
    pub summary: String,
}

#[operation(kind = "transition", field = stage, from = Stage::Draft, to = Stage::Live, set(slug = param(to)))]
pub const MOVE_TO: Operation<Leaf>;

#[operation(kind = "field_update", set(slug, title), partial)]
pub const RENAME: Operation<Leaf>;

#[operation(kind = "upsert", match(slug), set(title, ups), on_create(id = param(key)), returns = "created")]
pub const PUT: Operation<Leaf>;

#[operation(kind = "array_push", field = tags, value = input(tag))]
pub const TAG: Operation<Leaf>;

#[operation(kind = "array_pull", field = tags, value = input(tag))]
pub const UNTAG: Operation<Leaf>;

#[operation(kind = "increment", field = ups, by = 2)]
pub const UP: Operation<Leaf>;

#[operation(kind = "batch", action = "update", filter = (ups >= param(least)), set(stage = Stage::Live, tags = param(tags)))]
pub const RELEASE: Operation<Leaf>;

#[operation(kind = "batch", action = "update", filter = (ups >= param(least)), set(ups = 7), limit = 2, returns = "records")]
pub const CLAIM: Operation<Leaf>;

#[operation(kind = "collection", field = lines, operations(list, add, update, remove, set), max_items = 5)]
pub const LINES: Operation<Leaf>;

#[operation(kind = "consume", filter = (slug == param(slug)), returns = "entity")]
pub const TAKE: Operation<Leaf>;

#[operation(kind = "restore", route(roles = ["editor"]))]
pub const RESTORE: Operation<Leaf>;

#[operation(kind = "lookup", fields(slug_key = param(key)), returns = "one")]
pub const BY_KEY: Operation<Leaf>;

#[operation(
    kind = "computed_aggregate",
    source = Leaf,
    source_filter = (stage == Stage::Live),
    compute = count(),
    target_match(id = param(id)),
    materialize_to = ups,
)]
pub const COUNT_LIVE: Operation<Leaf>;

pub static LEAVES: Package = package!(
    name = "leaves",
    entities = [entity(
        Leaf,
        [
            MOVE_TO, RENAME, PUT, TAG, UNTAG, UP, RELEASE, CLAIM, LINES, TAKE, RESTORE, BY_KEY,
            COUNT_LIVE
        ]
    )],
);

cases!(&crate::computed_fields::LEAVES =>
    a_computed_field_follows_every_change, every_kind_of_change_updates_computed_fields,
    batches_compute_each_record, upserts_compute_fields, computed_fields_cannot_be_written,
    concurrent_changes_keep_computed_fields_current,
    concurrent_upserts_keep_computed_fields_current, writes_with_computed_fields_check_the_version,
    transactions_roll_back_computed_fields, the_document_lists_filters_by_computed_fields,
);

async fn send(s: &Server, method: &str, path: &str, body: Json) -> Reply {
    let token = s.token_in("ann", "t1");
    if body.is_null() {
        return s.raw(method, path, &[("authorization", &token)], "").await;
    }
    s.raw(
        method,
        path,
        &[
            ("content-type", "application/json"),
            ("authorization", &token),
        ],
        &body.to_string(),
    )
    .await
}

async fn get(s: &Server, path: &str) -> Json {
    let token = s.token_in("ann", "t1");
    let reply = s.raw("GET", path, &[("authorization", &token)], "").await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()
}

async fn create_leaf(s: &Server, id: &str, slug: &str) -> Json {
    let reply = send(
        s,
        "POST",
        "/leaves",
        json!({"id": id, "slug": slug, "title": id}),
    )
    .await;
    assert_eq!(reply.status, 201, "{reply:?}");
    check_computed_fields(&reply.json());
    reply.json()
}

/// Checks that the value of every computed field matches the fields that it is computed from.
fn check_computed_fields(page: &Json) {
    let text = |key: &str| page[key].as_str().unwrap().to_owned();
    assert_eq!(
        text("slugKey"),
        format!("t1/{}", text("slug").to_lowercase()),
        "{page}"
    );
    let key = if page["stage"] == "draft" {
        page["title"].clone()
    } else {
        Json::Null
    };
    assert_eq!(page["draftKey"], key, "{page}");
    let ups = page["ups"].as_f64().unwrap();
    let hot = page["tags"].as_array().unwrap().contains(&json!("hot"));
    assert!(
        (page["rank"].as_f64().unwrap() - if hot { ups * 10.0 } else { ups }).abs() < f64::EPSILON,
        "{page}"
    );
    let lines: i64 = page["lines"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| line["count"].as_i64().unwrap())
        .sum();
    assert_eq!(
        text("summary"),
        format!("{} v{} {lines} None\"\"", text("title"), page["version"]),
        "{page}"
    );
}

async fn a_computed_field_follows_every_change(s: &Server) {
    let page = create_leaf(s, "a", "Hello").await;
    assert_eq!(page["slugKey"], "t1/hello");
    let patched = send(s, "PATCH", "/leaves/a", json!({"slug": "World"})).await;
    assert_eq!(
        (patched.status, &patched.json()["slugKey"]),
        (200, &json!("t1/world"))
    );
    let moved = send(s, "POST", "/leaves/a/move-to", json!({"to": "Moved"})).await;
    assert_eq!(
        (moved.status, &moved.json()["slugKey"]),
        (200, &json!("t1/moved")),
        "{moved:?}"
    );
    check_computed_fields(&moved.json());
    assert_eq!(get(s, "/leaves/a").await["slugKey"], "t1/moved");
    // A second record with the same key is refused on every path.
    create_leaf(s, "b", "other").await;
    let check_conflict = |reply: Reply| {
        assert_eq!(
            (reply.code(), reply.problems()[0].0.as_str()),
            ((409, "conflict"), "slugKey"),
            "{reply:?}"
        );
    };
    check_conflict(send(s, "POST", "/leaves", json!({"id": "c", "slug": "MOVED"})).await);
    check_conflict(send(s, "PATCH", "/leaves/b", json!({"slug": "mOVED"})).await);
    check_conflict(send(s, "POST", "/leaves/b/move-to", json!({"to": "moveD"})).await);
    assert_eq!(get(s, "/leaves/b").await["slugKey"], "t1/other");
    for (method, path) in [("POST", "/leaves"), ("PATCH", "/leaves/a")] {
        let refused = send(
            s,
            method,
            path,
            json!({"id": "d", "slug": "x", "slugKey": "t1/x"}),
        )
        .await;
        refused.problem("read_only", "slugKey");
    }
    // Lookups, sorts and filters use a computed field like any other field.
    assert_eq!(get(s, "/leaves/by-key?key=t1/moved").await["id"], "a");
    assert_eq!(
        get(s, "/leaves?draftKey=b").await["items"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    assert_eq!(
        get(s, "/leaves?draftKey[null]=true").await["items"][0]["id"],
        "a"
    );
}

/// Every kind that changes one record.
async fn every_kind_of_change_updates_computed_fields(s: &Server) {
    create_leaf(s, "a", "A").await;
    for (method, path, body) in [
        ("PATCH", "/leaves/a", json!({"title": "new"})),
        ("PATCH", "/leaves/a", json!({"tags": ["hot"], "ups": 3})),
        ("POST", "/leaves/a/up", json!({})),
        ("POST", "/leaves/a/tag", json!({"tag": "cold"})),
        ("DELETE", "/leaves/a/untag", json!({"tag": "hot"})),
        ("PATCH", "/leaves/a/rename", json!({"slug": "Renamed"})),
        ("PATCH", "/leaves/a/rename", json!({"title": "again"})),
        ("POST", "/leaves/a/lines-add", json!({"count": 4})),
        ("POST", "/leaves/a/lines-add", json!({"count": 5})),
        (
            "PUT",
            "/leaves/a/lines-set",
            json!([{"id": "l1", "count": 9}]),
        ),
        ("PATCH", "/leaves/a/lines-update/l1", json!({"count": 11})),
        ("DELETE", "/leaves/a/lines-remove/l1", json!(null)),
        ("POST", "/leaves/count-live", json!({"id": "a"})),
        ("POST", "/leaves/a/move-to", json!({"to": "Live"})),
        ("POST", "/leaves/count-live", json!({"id": "a"})),
        ("PATCH", "/leaves/a", json!({})),
    ] {
        let reply = send(s, method, path, body.clone()).await;
        assert!(
            (200..300).contains(&reply.status),
            "{method} {path} {body}: {reply:?}"
        );
        let record = get(s, "/leaves/a").await;
        check_computed_fields(&record);
        if path.ends_with("/up") {
            assert_eq!(reply.json()["rank"], record["rank"]);
        }
    }
    assert_eq!(
        (
            &get(s, "/leaves/a").await["ups"],
            &get(s, "/leaves/a").await["version"]
        ),
        (&json!(1), &json!(16))
    );
    // Deleted and restored: `summary` also depends on the version.
    assert_eq!(
        send(s, "DELETE", "/leaves/a", json!(null)).await.status,
        204
    );
    s.running()
        .adapter::<Leaf>()
        .unwrap()
        .restore(&Cx::system("test"), "a")
        .await
        .unwrap();
    check_computed_fields(&get(s, "/leaves/a").await);
    let taken = send(s, "POST", "/leaves/take", json!({"slug": "Live"})).await;
    assert_eq!(taken.status, 200, "{taken:?}");
}

async fn batches_compute_each_record(s: &Server) {
    for n in 0..6 {
        create_leaf(s, &format!("p{n}"), &format!("S{n}")).await;
        assert_eq!(
            send(s, "PATCH", &format!("/leaves/p{n}"), json!({"ups": n}))
                .await
                .status,
            200
        );
    }
    // Each record gets its own value.
    let done = send(
        s,
        "POST",
        "/leaves/release",
        json!({"least": 2, "tags": ["hot"]}),
    )
    .await;
    assert_eq!((done.status, done.json()), (200, json!(4)), "{done:?}");
    let all = get(s, "/leaves").await["items"].as_array().unwrap().clone();
    all.iter().for_each(check_computed_fields);
    let order: Vec<&str> = all
        .iter()
        .map(|page| page["id"].as_str().unwrap())
        .collect();
    assert_eq!(order, ["p5", "p4", "p3", "p2", "p1", "p0"]);
    assert_eq!(all[0]["rank"], json!(50.0));
    // No record matches.
    assert_eq!(
        send(
            s,
            "POST",
            "/leaves/release",
            json!({"least": 200, "tags": []})
        )
        .await
        .json(),
        json!(0)
    );
    // A batch returns claimed records with their new values.
    let pages = s.running().adapter::<Leaf>().unwrap();
    let claimed = pages.claim(&Cx::system("test"), 4).await.unwrap();
    assert_eq!(
        claimed
            .iter()
            .map(|page| page.rank.to_string())
            .collect::<Vec<_>>(),
        ["70", "70"]
    );
    get(s, "/leaves").await["items"]
        .as_array()
        .unwrap()
        .iter()
        .for_each(check_computed_fields);
}

async fn upserts_compute_fields(s: &Server) {
    let put = |body: Json| send(s, "POST", "/leaves/put", body);
    let first = put(json!({"slug": "One", "title": "first", "key": "k1"})).await;
    assert_eq!(first.status, 201, "{first:?}");
    check_computed_fields(&first.json()["entity"]);
    let second = put(json!({"slug": "One", "title": "second", "ups": 8, "key": "k2"})).await;
    assert_eq!(
        (second.status, &second.json()["created"]),
        (200, &json!(false)),
        "{second:?}"
    );
    check_computed_fields(&second.json()["entity"]);
    assert_eq!(second.json()["entity"]["draftKey"], "second");
    // A conflict on another unique is reported as usual.
    let taken = put(json!({"slug": "ONE", "title": "third", "key": "k3"})).await;
    assert_eq!(
        (taken.code(), taken.problems()[0].0.as_str()),
        ((409, "conflict"), "slugKey"),
        "{taken:?}"
    );
    create_leaf(s, "other", "two").await;
    let taken = put(json!({"slug": "One", "title": "other", "key": "k4"})).await;
    assert_eq!(
        (taken.code(), taken.problems()[0].0.as_str()),
        ((409, "conflict"), "draftKey"),
        "{taken:?}"
    );
    // Another tenant can use the same keys.
    let token = s.token_in("bob", "t2");
    let body = json!({"slug": "One", "title": "first", "key": "k9"}).to_string();
    let of_other_tenant = s
        .raw(
            "POST",
            "/leaves/put",
            &[
                ("content-type", "application/json"),
                ("authorization", &token),
            ],
            &body,
        )
        .await;
    assert_eq!(
        (
            of_other_tenant.status,
            &of_other_tenant.json()["entity"]["slugKey"]
        ),
        (201, &json!("t2/one")),
        "{of_other_tenant:?}"
    );
    // A deleted record does not block the value.
    assert_eq!(
        send(s, "DELETE", "/leaves/k1", json!(null)).await.status,
        204
    );
    let anew = put(json!({"slug": "One", "title": "anew", "key": "k5"})).await;
    assert_eq!(anew.status, 201, "{anew:?}");
    check_computed_fields(&anew.json()["entity"]);
}

async fn computed_fields_cannot_be_written(s: &Server) {
    let pages = s.running().adapter::<Leaf>().unwrap();
    let cx = Cx::system("test");
    let page = |id: &str, slug: &str| LeafCreate {
        id: id.to_owned(),
        slug: slug.to_owned(),
        title: None,
        stage: None,
        ups: None,
        tags: None,
        lines: None,
    };
    let made = pages.create(&cx, page("sys", "Of-Nobody")).await.unwrap();
    assert_eq!(
        (made.slug_key.as_str(), made.draft_key.as_deref()),
        ("-/of-nobody", Some("t"))
    );
    let changed = pages
        .update(
            &cx,
            "sys",
            LeafPatch {
                ups: Some(4),
                ..LeafPatch::default()
            },
            None,
        )
        .await
        .unwrap();
    assert!((changed.rank - 4.0).abs() < f64::EPSILON);
    // The document has computed fields as output only.
    let document = s.get("/openapi.json").await.json();
    let create = &document["components"]["schemas"]["LeafCreate"]["properties"];
    assert!(
        create["slug"].is_object() && create["slugKey"].is_null(),
        "{create}"
    );
    assert_eq!(
        document["components"]["schemas"]["Leaf"]["properties"]["slugKey"]["readOnly"],
        true
    );
}

/// Concurrent changes lose nothing, and the computed value includes all of them.
async fn concurrent_changes_keep_computed_fields_current(s: &Server) {
    create_leaf(s, "a", "A").await;
    let replies = s
        .parallel(24, async |n| match n % 3 {
            0 => send(s, "POST", "/leaves/a/up", json!({})).await,
            1 => send(s, "POST", "/leaves/a/tag", json!({"tag": format!("g{n}")})).await,
            _ => send(s, "PATCH", "/leaves/a", json!({"title": format!("t{n}")})).await,
        })
        .await;
    assert!(
        replies.iter().all(|reply| reply.status == 200),
        "{replies:?}"
    );
    for reply in &replies {
        check_computed_fields(&reply.json());
    }
    let page = get(s, "/leaves/a").await;
    assert_eq!(
        (
            &page["ups"],
            page["tags"].as_array().unwrap().len(),
            &page["version"]
        ),
        (&json!(16), 8, &json!(25))
    );
    check_computed_fields(&page);
}

async fn concurrent_upserts_keep_computed_fields_current(s: &Server) {
    let replies = s
        .parallel(12, async |n| {
            send(
                s,
                "POST",
                "/leaves/put",
                json!({"slug": "Same", "title": "x", "ups": n, "key": format!("k{n}")}),
            )
            .await
        })
        .await;
    let created = replies.iter().filter(|reply| reply.status == 201).count();
    assert!(
        created == 1 && replies.iter().all(|reply| reply.status < 300),
        "{replies:?}"
    );
    for reply in &replies {
        check_computed_fields(&reply.json()["entity"]);
    }
    get(s, "/leaves").await["items"]
        .as_array()
        .unwrap()
        .iter()
        .for_each(check_computed_fields);
}

async fn writes_with_computed_fields_check_the_version(s: &Server) {
    create_leaf(s, "a", "A").await;
    let token = s.token_in("ann", "t1");
    let patch = |version: u32, body: Json| {
        let (token, tag) = (token.clone(), format!("\"{version}\""));
        async move {
            let headers = [
                ("content-type", "application/json"),
                ("authorization", &*token),
                ("if-match", &*tag),
            ];
            s.raw("PATCH", "/leaves/a", &headers, &body.to_string())
                .await
        }
    };
    assert_eq!(patch(1, json!({"slug": "B"})).await.status, 200);
    assert_eq!(
        patch(1, json!({"slug": "C"})).await.code(),
        (412, "precondition_failed")
    );
    let nobody = send(s, "PATCH", "/leaves/nobody", json!({"slug": "C"})).await;
    assert_eq!(nobody.code(), (404, "not_found"));
    let moved = send(s, "POST", "/leaves/a/move-to", json!({"to": "x"})).await;
    assert_eq!(moved.status, 200);
    let again = send(s, "POST", "/leaves/a/move-to", json!({"to": "y"})).await;
    assert_eq!(again.code(), (400, "invalid_transition"));
    check_computed_fields(&get(s, "/leaves/a").await);
}

async fn transactions_roll_back_computed_fields(s: &Server) {
    create_leaf(s, "a", "A").await;
    let pages = s.running().adapter::<Leaf>().unwrap();
    let cx = Cx::system("test");
    let failed = cx
        .transaction(async |cx| {
            pages.up(cx, "a").await?;
            pages.release(cx, 0, vec!["hot".to_owned()]).await?;
            let page = pages.get(cx, "a").await?.ok_or_else(Error::not_found)?;
            assert!((page.rank - 20.0).abs() < f64::EPSILON && page.draft_key.is_none());
            Err::<(), _>(Error::not_found())
        })
        .await;
    assert!(failed.is_err());
    let page = get(s, "/leaves/a").await;
    check_computed_fields(&page);
    assert_eq!((&page["ups"], &page["version"]), (&json!(0), &json!(1)));
    cx.transaction(async |cx| pages.up(cx, "a").await.map(drop))
        .await
        .unwrap();
    check_computed_fields(&get(s, "/leaves/a").await);
}

async fn the_document_lists_filters_by_computed_fields(s: &Server) {
    let document = s.get("/openapi.json").await.json();
    let list = document["paths"]["/leaves"]["get"]["parameters"]
        .as_array()
        .unwrap()
        .clone();
    assert!(list.iter().any(|p| p["name"] == "draftKey[null]"));
}
