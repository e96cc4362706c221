//! FUPD-*, ARR-*, BAT-*, UPS-*, CONS-*: the other writes by operation.

#![allow(missing_docs)] // a fixture; its fields are the contract's

use linchpin::prelude::*;
use serde_json::{Value as Json, json};

use crate::cases;
use crate::fixture::Status;
use crate::server::{Reply, Server};

/// An article with whatever the writing kinds touch.
#[entity(unique(slug), index(category), sort = asc(slug), pagination(default = 50, max = 100), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Article {
    #[field(primary, default = uuid)]
    pub id: String,
    pub slug: String,
    #[field(length = 1..=20)]
    pub title: String,
    #[field(format = "email")]
    pub email: Option<String>,
    #[field(default = Status::Draft)]
    pub status: Status,
    pub category: Option<String>,
    #[field(default = 0, filterable)]
    pub score: i64,
    pub tags: Option<Vec<String>>,
    #[field(items = ..=2, each(length = 1..=5))]
    pub few: Vec<String>,
    #[field(items = 1.., default = ["a", "b"])]
    pub some: Vec<String>,
    #[field(default = now)]
    pub created_at: Timestamp,
    #[field(default = now, on_update = now)]
    pub updated_at: Timestamp,
}

#[operation(kind = "field_update", set(title))]
pub const RETITLE: Operation<Article>;

#[operation(kind = "fieldUpdate", set(title, category))]
pub const RENAME: Operation<Article>;

#[operation(kind = "field_update", set(title, category), partial)]
pub const REVISE: Operation<Article>;

#[operation(kind = "field_update", set(category, email), partial, nullable)]
pub const CLEAR: Operation<Article>;

#[operation(kind = "field_update", match(id = param(id), status = Status::Draft), set(status))]
pub const DECIDE: Operation<Article>;

#[operation(kind = "array_push", field = tags, value = input(tag))]
pub const ADD_TAG: Operation<Article>;

#[operation(kind = "array_push", field = tags, value = input(tag), dedupe = false)]
pub const APPEND_TAG: Operation<Article>;

#[operation(kind = "array_pull", field = tags, value = param(tag))]
pub const DROP_TAG: Operation<Article>;

#[operation(kind = "array_set", field = tags, value = input(tags))]
pub const SET_TAGS: Operation<Article>;

#[operation(kind = "array_push", field = tags, value = ctx(actor.id), route(auth = "userAuth"))]
pub const FOLLOW: Operation<Article>;

#[operation(kind = "array_push", field = few, value = input(tag))]
pub const ADD_FEW: Operation<Article>;

#[operation(kind = "array_pull", field = some, value = param(tag))]
pub const DROP_SOME: Operation<Article>;

#[operation(kind = "batch", action = "update", filter = (category == param(category)), set(status = Status::Published))]
pub const PUBLISH_ALL: Operation<Article>;

#[operation(kind = "batch", action = "delete", filter = (status == Status::Published))]
pub const SWEEP: Operation<Article>;

#[operation(kind = "batch", action = "delete", filter = (category == "none" || category == "never"))]
pub const SWEEP_EITHER: Operation<Article>;

#[operation(
    kind = "batch",
    action = "update",
    filter = (score > param(least) && category.one_of(["x", "y"]) && title.contains(param(part)) && created_at <= now()),
    set(status = Status::Archived),
)]
pub const ARCHIVE_SOME: Operation<Article>;

#[operation(kind = "batch", action = "update", filter = (category == param(category)), set(score = 0), returns = "void", atomic)]
pub const RESET: Operation<Article>;

#[operation(kind = "batch", action = "update", filter = (category == param(category)), set(slug = param(slug)))]
pub const RESLUG: Operation<Article>;

#[operation(kind = "upsert", match(slug), set(title, category), on_create(score = 7), returns = "created")]
pub const ENSURE: Operation<Article>;

#[operation(kind = "upsert", match(slug), set(title), on_create(id = uuid()))]
pub const PUT_TITLE: Operation<Article>;

/// A code that can be used once.
#[entity(sort = asc(rank), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Voucher {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(filterable)]
    pub code: String,
    #[field(default = 0)]
    pub rank: i64,
    pub expires_at: Option<Timestamp>,
}

#[operation(kind = "consume", filter = (code == param(code)), returns = "entity", expiry = expires_at)]
pub const REDEEM: Operation<Voucher>;

#[operation(kind = "consume", filter = (code == param(code)), returns = "boolean", expiry = expires_at)]
pub const SPEND: Operation<Voucher>;

/// A setting under a key of the client's choice.
#[entity(check = small, version, routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Setting {
    #[field(primary)]
    pub id: String,
    pub low: i64,
    #[field(default = 100)]
    pub high: i64,
}

fn small(setting: &Setting) -> std::result::Result<(), Problem> {
    if setting.low <= setting.high { Ok(()) } else { Err(Problem::new("low", "check", "must not exceed high")) }
}

#[operation(kind = "upsert", match(id), set(low, high))]
pub const PUT_SETTING: Operation<Setting>;

pub static WRITES: Package = package!(
    name = "writes",
    entities = [
        entity(
            Article,
            [
                RETITLE,
                RENAME,
                REVISE,
                CLEAR,
                DECIDE,
                ADD_TAG,
                APPEND_TAG,
                DROP_TAG,
                SET_TAGS,
                FOLLOW,
                ADD_FEW,
                DROP_SOME,
                PUBLISH_ALL,
                SWEEP,
                SWEEP_EITHER,
                ARCHIVE_SOME,
                RESET,
                RESLUG,
                ENSURE,
                PUT_TITLE,
            ]
        ),
        entity(Voucher, [REDEEM, SPEND]),
        entity(Setting, [PUT_SETTING]),
    ],
);

cases!(&super::WRITES =>
    fupd_01, fupd_02, fupd_03, fupd_04, fupd_05, fupd_06,
    arr_01, arr_02, arr_03, arr_04, arr_05, arr_06, arr_07, arr_bounds,
    bat_01, bat_02, bat_03, bat_04, bat_05, bat_unique,
    ups_01, ups_02, ups_03, ups_by_key, ups_other_unique, ups_checked,
    cons_01, cons_02, cons_03, cons_04, cons_05, cons_many,
);

async fn article(s: &Server, body: Json) -> String {
    let mut whole = json!({"slug": "a", "title": "A title"});
    whole.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
    let reply = s.post("/articles", whole).await;
    assert_eq!(reply.status, 201, "{reply:?}");
    format!("/articles/{}", reply.json()["id"].as_str().unwrap())
}

async fn plain(s: &Server) -> String {
    article(s, json!({})).await
}

async fn fupd_01(s: &Server) {
    let path = plain(s).await;
    let before = s.get(&path).await.json();
    s.advance(5);
    let reply = s.patch(&format!("{path}/retitle"), json!({"title": "New"})).await;
    assert_eq!((reply.status, &reply.json()["title"]), (200, &json!("New")));
    let mut expected = before.clone();
    expected["title"] = json!("New");
    expected["updatedAt"] = reply.json()["updatedAt"].clone();
    assert_eq!(s.get(&path).await.json(), expected);
    assert!(expected["updatedAt"].as_str() > before["updatedAt"].as_str());
}

async fn fupd_02(s: &Server) {
    let path = plain(s).await;
    s.patch(&format!("{path}/retitle"), json!({"title": "New", "score": 1})).await.problem("unknown_field", "score");
    assert_eq!(s.get(&path).await.json()["title"], "A title");
}

async fn fupd_03(s: &Server) {
    let path = plain(s).await;
    assert_eq!(s.patch("/articles/nope/retitle", json!({"title": "New"})).await.code(), (404, "not_found"));
    s.patch(&format!("{path}/retitle"), json!({"title": 42})).await.problem("type", "title");
    s.patch(&format!("{path}/retitle"), json!({"title": ""})).await.problem("min_length", "title");
    s.patch(&format!("{path}/retitle"), json!({"title": null})).await.problem("null_not_allowed", "title");
}

async fn fupd_04(s: &Server) {
    let path = article(s, json!({"category": "c"})).await;
    s.patch(&format!("{path}/rename"), json!({"title": "New"})).await.problem("required", "category");
    let reply = s.patch(&format!("{path}/revise"), json!({"title": "New"})).await;
    assert_eq!((&reply.json()["title"], &reply.json()["category"]), (&json!("New"), &json!("c")));
    let before = s.get(&path).await.json();
    s.advance(5);
    let nothing = s.patch(&format!("{path}/revise"), json!({})).await;
    assert_eq!((nothing.status, nothing.json()), (200, before), "an empty change is none");
}

async fn fupd_05(s: &Server) {
    let path = article(s, json!({"category": "c", "email": "a@b.example"})).await;
    let reply = s.patch(&format!("{path}/clear"), json!({"category": null})).await;
    assert_eq!((&reply.json()["category"], &reply.json()["email"]), (&Json::Null, &json!("a@b.example")));
    s.patch(&format!("{path}/rename"), json!({"title": "t", "category": null})).await.problem("null_not_allowed", "category");
}

async fn fupd_06(s: &Server) {
    let path = format!("{}/decide", plain(s).await);
    let reply = s.patch(&path, json!({"status": "published"})).await;
    assert_eq!((reply.status, &reply.json()["status"]), (200, &json!("published")));
    assert_eq!(s.patch(&path, json!({"status": "draft"})).await.code(), (404, "not_found"));
}

async fn arr_01(s: &Server) {
    let path = format!("{}/add-tag", plain(s).await);
    for _ in 0..2 {
        let reply = s.post(&path, json!({"tag": "x"})).await;
        assert_eq!((reply.status, &reply.json()["tags"]), (200, &json!(["x"])));
    }
    s.post(&path, json!({"tag": ["x"]})).await.problem("type", "tag");
    s.post(&path, json!({"tag": null})).await.problem("null_not_allowed", "tag");
    s.post(&path, json!({})).await.problem("required", "tag");
}

async fn arr_02(s: &Server) {
    let path = format!("{}/append-tag", plain(s).await);
    s.post(&path, json!({"tag": "x"})).await;
    assert_eq!(s.post(&path, json!({"tag": "x"})).await.json()["tags"], json!(["x", "x"]));
}

async fn arr_03(s: &Server) {
    let path = article(s, json!({"tags": ["a", "x", "x"]})).await;
    for _ in 0..2 {
        let reply = s.delete(&format!("{path}/drop-tag?tag=x")).await;
        assert_eq!((reply.status, &reply.json()["tags"]), (200, &json!(["a"])));
    }
    s.delete(&format!("{path}/drop-tag")).await.problem("required", "query:tag");
}

async fn arr_04(s: &Server) {
    let path = format!("{}/set-tags", plain(s).await);
    let put = |body: Json| s.raw_json("PUT", &path, body);
    assert_eq!(put(json!({"tags": ["a", "a", "b"]})).await.json()["tags"], json!(["a", "b"]));
    put(json!({"tags": "a"})).await.problem("type", "tags");
    put(json!({"tags": ["a", 1]})).await.problem("type", "tags[1]");
}

async fn arr_05(s: &Server) {
    let path = plain(s).await;
    assert_eq!(s.get(&path).await.json()["tags"], Json::Null);
    assert_eq!(s.post(&format!("{path}/add-tag"), json!({"tag": "x"})).await.json()["tags"], json!(["x"]));
    assert_eq!(s.post("/articles/nope/add-tag", json!({"tag": "x"})).await.code(), (404, "not_found"));
}

async fn arr_06(s: &Server) {
    let path = format!("{}/follow", plain(s).await);
    let token = s.token("alice", &[]);
    let json = ("content-type", "application/json");
    let refused = s.raw("POST", &path, &[("authorization", &token), json], r#"{"actorId":"bob"}"#).await;
    refused.problem("unknown_field", "actorId");
    let reply = s.raw("POST", &path, &[("authorization", &token)], "").await;
    assert_eq!((reply.status, &reply.json()["tags"]), (200, &json!(["alice"])));
    assert_eq!(s.raw("POST", &path, &[], "").await.status, 401);
}

async fn arr_07(s: &Server) {
    let path = plain(s).await;
    let push = |tag: String| {
        let path = format!("{path}/add-tag");
        async move { s.post(&path, json!({"tag": tag})).await }
    };
    let replies = s.parallel(25, |i| push(format!("t{i}"))).await;
    assert!(replies.iter().all(|r| r.status == 200));
    assert_eq!(s.get(&path).await.json()["tags"].as_array().unwrap().len(), 25);
    s.parallel(25, |_| push("same".to_owned())).await;
    assert_eq!(s.get(&path).await.json()["tags"].as_array().unwrap().len(), 26);
}

// No ids in the list, but rules of 7.5 and 2.4: bounds and elements.
async fn arr_bounds(s: &Server) {
    let path = plain(s).await;
    let add = |tag: &str| {
        let (path, body) = (format!("{path}/add-few"), json!({ "tag": tag }));
        async move { s.post(&path, body).await }
    };
    add("toolong").await.problem("max_length", "tag");
    assert_eq!(add("a").await.status, 200);
    assert_eq!(add("b").await.status, 200);
    add("c").await.problem("max_items", "few");
    assert_eq!(add("a").await.json()["few"], json!(["a", "b"]), "what is there takes no room");
    let drop = |tag: &str| {
        let path = format!("{path}/drop-some?tag={tag}");
        async move { s.delete(&path).await }
    };
    assert_eq!(drop("a").await.json()["some"], json!(["b"]));
    drop("b").await.problem("min_items", "some");
    assert_eq!(drop("zzz").await.json()["some"], json!(["b"]));
}

async fn three(s: &Server) {
    for (slug, category, score) in [("a", "x", 1), ("b", "x", 2), ("c", "y", 3)] {
        article(s, json!({"slug": slug, "category": category, "score": score})).await;
    }
}

async fn statuses(s: &Server) -> Vec<String> {
    s.walk("/articles").await.iter().map(|r| r["status"].as_str().unwrap().to_owned()).collect()
}

async fn bat_01(s: &Server) {
    three(s).await;
    let reply = s.post("/articles/publish-all", json!({"category": "x"})).await;
    assert_eq!((reply.status, &reply.body[..]), (200, &b"2"[..]));
    assert_eq!(statuses(s).await, ["published", "published", "draft"]);
    s.post("/articles/publish-all", json!({})).await.problem("required", "category");
    s.post("/articles/publish-all", json!({"category": "x", "more": 1})).await.problem("unknown_field", "more");
}

async fn bat_02(s: &Server) {
    three(s).await;
    s.post("/articles/publish-all", json!({"category": "x"})).await;
    assert_eq!(&s.raw("POST", "/articles/sweep", &[], "").await.body[..], b"2");
    assert_eq!(&s.raw("POST", "/articles/sweep", &[], "").await.body[..], b"0");
    assert_eq!(s.walk("/articles").await.len(), 1);
}

async fn bat_03(s: &Server) {
    three(s).await;
    assert_eq!(&s.raw("POST", "/articles/sweep-either", &[], "").await.body[..], b"0");
    assert_eq!(s.walk("/articles").await.len(), 3);
}

async fn bat_04(s: &Server) {
    three(s).await;
    let listed = s.walk("/articles?score[gt]=1&category[in]=x,y").await.len();
    let reply = s.post("/articles/archive-some", json!({"least": 1, "part": "TITLE"})).await;
    assert_eq!(reply.json(), json!(listed));
    assert_eq!(statuses(s).await, ["draft", "archived", "archived"]);
    s.post("/articles/archive-some", json!({"least": 1, "part": ""})).await.problem("empty", "part");
}

async fn bat_05(s: &Server) {
    three(s).await;
    let reply = s.post("/articles/reset", json!({"category": "x"})).await;
    assert_eq!((reply.status, reply.body.len()), (204, 0));
    let scores: Vec<_> = s.walk("/articles").await.iter().map(|r| r["score"].as_i64().unwrap()).collect();
    assert_eq!(scores, [0, 0, 3]);
}

// No id, but 7.8: a violated unique leaves everything as it was.
async fn bat_unique(s: &Server) {
    three(s).await;
    let reply = s.post("/articles/reslug", json!({"category": "x", "slug": "same"})).await;
    assert_eq!(reply.code(), (409, "conflict"));
    let slugs: Vec<_> = s.walk("/articles").await.iter().map(|r| r["slug"].as_str().unwrap().to_owned()).collect();
    assert_eq!(slugs, ["a", "b", "c"]);
}

async fn ups_01(s: &Server) {
    let first = s.post("/articles/ensure", json!({"slug": "u", "title": "One"})).await;
    assert_eq!((first.status, &first.json()["created"]), (201, &json!(true)));
    let entity = first.json()["entity"].clone();
    assert_eq!(first.header("location"), format!("/articles/{}", entity["id"].as_str().unwrap()));
    assert_eq!((&entity["title"], &entity["score"]), (&json!("One"), &json!(7)));
    let second = s.post("/articles/ensure", json!({"slug": "u", "title": "Two"})).await;
    assert_eq!((second.status, &second.json()["created"]), (200, &json!(false)));
    assert_eq!(second.header("location"), "");
    let again = second.json()["entity"].clone();
    assert_eq!((&again["id"], &again["title"], &again["score"]), (&entity["id"], &json!("Two"), &json!(7)));
    let bare = s.post("/articles/put-title", json!({"slug": "u", "title": "Three"})).await;
    assert_eq!((bare.status, &bare.json()["title"]), (200, &json!("Three")));
    s.post("/articles/ensure", json!({"slug": null, "title": "x"})).await.problem("null_not_allowed", "slug");
    s.post("/articles/ensure", json!({"slug": "v"})).await.problem("required", "title");
    s.post("/articles/ensure", json!({"slug": "v", "title": ""})).await.problem("min_length", "title");
    s.post("/articles/ensure", json!({"slug": "v", "title": "x", "score": 1})).await.problem("unknown_field", "score");
}

async fn ups_02(s: &Server) {
    s.post("/articles/ensure", json!({"slug": "u", "title": "One", "category": "c"})).await;
    let second = s.post("/articles/ensure", json!({"slug": "u", "title": "Two"})).await;
    assert_eq!(second.json()["entity"]["category"], "c");
    let third = s.post("/articles/ensure", json!({"slug": "u", "title": "Two", "category": null})).await;
    assert_eq!(third.json()["entity"]["category"], Json::Null);
}

async fn ups_03(s: &Server) {
    let replies: Vec<Reply> = s.parallel(25, |i| s.post("/articles/ensure", json!({"slug": "u", "title": format!("t{i}")}))).await;
    assert_eq!(replies.iter().filter(|r| r.status == 201 && r.json()["created"] == true).count(), 1);
    assert_eq!(replies.iter().filter(|r| r.status == 200 && r.json()["created"] == false).count(), 24);
    assert_eq!(s.walk("/articles").await.len(), 1);
}

// 7.9: by the key itself, where the answer tells created apart as well.
async fn ups_by_key(s: &Server) {
    let first = s.post("/settings/put-setting", json!({"id": "a b", "low": 1})).await;
    assert_eq!((first.status, first.header("location").as_str()), (201, "/settings/a%20b"));
    assert_eq!((first.header("etag").as_str(), &first.json()["high"]), ("\"1\"", &json!(100)));
    let second = s.post("/settings/put-setting", json!({"id": "a b", "low": 2})).await;
    assert_eq!((second.status, second.header("etag").as_str()), (200, "\"2\""));
    s.post("/settings/put-setting", json!({"id": "..", "low": 2})).await.problem("format", "id");
    let replies: Vec<Reply> = s.parallel(25, |i| s.post("/settings/put-setting", json!({"id": "p", "low": i}))).await;
    assert_eq!(replies.iter().filter(|r| r.status == 201).count(), 1, "{replies:?}");
    assert!(replies.iter().all(|r| [200, 201].contains(&r.status)));
}

// 7.9: violating another unique.
async fn ups_other_unique(s: &Server) {
    let path = plain(s).await;
    let id = path.rsplit('/').next().unwrap();
    assert_eq!(s.post("/articles/ensure", json!({"id": id, "slug": "b", "title": "x"})).await.status, 400, "the key is the server's");
    assert_eq!(s.get(&path).await.json()["slug"], "a");
}

// 2.4: the rule over the whole record holds for what an upsert leaves behind.
async fn ups_checked(s: &Server) {
    s.post("/settings/put-setting", json!({"id": "a", "low": 200})).await.problem("check", "low");
    assert_eq!(s.post("/settings/put-setting", json!({"id": "a", "low": 5, "high": 10})).await.status, 201);
    s.post("/settings/put-setting", json!({"id": "a", "low": 50})).await.problem("check", "low");
    assert_eq!(s.get("/settings/a").await.json()["low"], 5);
}

async fn code(s: &Server, body: Json) -> String {
    let reply = s.post("/vouchers", body).await;
    assert_eq!(reply.status, 201, "{reply:?}");
    reply.json()["id"].as_str().unwrap().to_owned()
}

async fn cons_01(s: &Server) {
    let id = code(s, json!({"code": "k"})).await;
    let first = s.post("/vouchers/redeem", json!({"code": "k"})).await;
    assert_eq!((first.status, &first.json()["id"]), (200, &json!(id)));
    let second = s.post("/vouchers/redeem", json!({"code": "k"})).await;
    assert_eq!((second.status, second.json()), (200, Json::Null));
    assert_eq!(s.get(&format!("/vouchers/{id}")).await.status, 404);
}

async fn cons_02(s: &Server) {
    code(s, json!({"code": "k"})).await;
    assert_eq!(&s.post("/vouchers/spend", json!({"code": "k"})).await.body[..], b"true");
    assert_eq!(&s.post("/vouchers/spend", json!({"code": "k"})).await.body[..], b"false");
}

async fn cons_03(s: &Server) {
    let id = code(s, json!({"code": "k", "expiresAt": "2026-03-04T05:06:07.008Z"})).await;
    assert_eq!(s.post("/vouchers/redeem", json!({"code": "k"})).await.json(), Json::Null);
    assert_eq!(s.get(&format!("/vouchers/{id}")).await.status, 200);
    let valid = code(s, json!({"code": "k", "rank": 9, "expiresAt": "2026-03-04T05:06:07.009Z"})).await;
    assert_eq!(s.post("/vouchers/redeem", json!({"code": "k"})).await.json()["id"], json!(valid), "an expired one hides none");
}

async fn cons_04(s: &Server) {
    code(s, json!({"code": "k", "rank": 2})).await;
    let first = code(s, json!({"code": "k", "rank": 1})).await;
    assert_eq!(s.post("/vouchers/redeem", json!({"code": "k"})).await.json()["id"], json!(first));
    assert_eq!(s.walk("/vouchers").await.len(), 1);
}

async fn cons_05(s: &Server) {
    code(s, json!({"code": "k"})).await;
    let replies = s.parallel(25, |_| s.post("/vouchers/redeem", json!({"code": "k"}))).await;
    assert_eq!(replies.iter().filter(|r| r.json() != Json::Null).count(), 1);
}

// 7.12: N callers, M records.
async fn cons_many(s: &Server) {
    for rank in 0..10 {
        code(s, json!({"code": "k", "rank": rank})).await;
    }
    let replies = s.parallel(25, |_| s.post("/vouchers/redeem", json!({"code": "k"}))).await;
    let mut taken: Vec<String> = replies.iter().filter_map(|r| r.json()["id"].as_str().map(str::to_owned)).collect();
    taken.sort();
    taken.dedup();
    assert_eq!(taken.len(), 10);
}
