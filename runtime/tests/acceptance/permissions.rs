//! CAP-02, EXT-05 and the rest of permissions: what an evaluator grants, and what an owner may do all the same.

#![allow(missing_docs)] // a fixture; its fields are the contract's

use std::sync::OnceLock;

use linchpin::http::{Inputs, OverrideCall};
use linchpin::prelude::*;
use linchpin::resource::Outcome;
use linchpin::{AccessRequest, BoxFuture, Code, Decision, Evaluator, Plugin, PostCx, Result, Value};
use serde_json::{Value as Json, json};

use crate::cases;
use crate::server::{Reply, SECRET, Server};
use crate::tenancy::{call, id, made, slugs};

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

/// Whose author may do with it what else needs a grant.
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
    if rule.title.is_empty() { Err(Problem::new("title", "check", "must not be empty")) } else { Ok(()) }
}

#[operation(kind = "upsert", match(slug), set(title, author_id))]
pub const LAY_DOWN: Operation<Rule>;

/// Judged by its container.
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

/// Below a container that the path names.
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

/// Where papers lie: those that are titled as it is called, and one on top.
#[entity(has_many(papers: Paper, key = title), belongs_to(top: Paper, key = top_id))]
#[derive(Clone, Debug)]
pub struct Desk {
    #[field(primary)]
    pub id: String,
    pub top_id: Option<String>,
}

/// A function under the permission of its entity.
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
        entity(Thread, [POST, MOVE_TO, OF_CONTAINER, PUT_THREAD, MOVE_ALL, BY_SLUG_IN_CODE]),
        entity(Leaf, []),
        entity(Desk, []),
    ]
);

cases!(&crate::permissions::WORK, crate::permissions::judged =>
    cap_02, ext_05,
    a_record_of_somebody_else, hidden_records, lists_hold_what_is_ones_own, cursors_belong_to_a_grant, what_is_created, upserts,
    many_records, derived_lists, included_records, functions_need_a_grant, actions_alone, resources, moved_records, lists_of_a_resource, resources_in_the_path,
    a_record_that_moves_meanwhile, the_document,
);

pub fn judged(app: App) -> App {
    app.plugin(Judge).override_operation(REPLACED, replaced)
}

/// Does what it likes once it runs: that it may is checked before.
async fn replaced(call: OverrideCall) -> Result<Outcome> {
    let Inputs::Operation(args, ..) = call.inputs else { return Err(Error::internal("another operation")) };
    let Some(Some(Value::Text(id))) = args.into_iter().next() else { return Err(Error::internal("no id")) };
    let cx = Cx::system("the code of an app");
    let patch = PaperPatch { title: Some("replaced".to_owned()), ..Default::default() };
    call.adapters.get::<Paper>()?.update(&cx, id.clone(), patch, None).await?;
    call.table.get(&cx, Value::Text(id), &call.form).await.map(Outcome::Record)
}

/// Grants by the roles of the actor: `write` or `write@c1` allows, `-write@c1` denies, `banned` denies with a reason, `broken`
/// fails. `mover` moves the thread `moving` while it is looked at.
pub struct Judge;

struct Book(OnceLock<Adapters>);

impl Plugin for Judge {
    fn name(&self) -> &'static str {
        "judge"
    }

    fn setup_post<'a>(&'a self, cx: &'a mut PostCx) -> BoxFuture<'a, Result<()>> {
        let adapters = OnceLock::from(cx.adapters().clone());
        Box::pin(async { cx.registrar().set_evaluator(Book(adapters)) })
    }
}

impl Evaluator for Book {
    fn decide<'a>(&'a self, request: AccessRequest<'a>) -> BoxFuture<'a, Result<Decision>> {
        Box::pin(async move {
            let holds = |role: &str| request.actor.roles.iter().any(|r| r == role);
            let what = match request.resource {
                Some(Value::Text(resource)) => format!("{}@{resource}", request.action),
                Some(other) => format!("{}@{other:?}", request.action),
                None => request.action.to_owned(),
            };
            if holds("mover") {
                let threads = self.0.get().unwrap().get::<Thread>()?;
                let cx = Cx::system("moves while it is looked at");
                if let Some(thread) = threads.by_slug(&cx, "moving").await? {
                    let patch = ThreadPatch { container_id: Some(Some("c2".to_owned())), ..Default::default() };
                    threads.update(&cx, thread.id, patch, None).await?;
                }
            }
            if holds("broken") {
                return Err(Error::internal("the book is lost"));
            }
            Ok(if holds(&format!("-{what}")) {
                Decision::Deny
            } else if holds("banned") {
                Decision::DenyWith(Error::new(Code::Other(403, "banned"), "You are banned"))
            } else if holds(&what) {
                Decision::Allow
            } else {
                Decision::Abstain
            })
        })
    }

    fn knows(&self, action: &str) -> bool {
        ["paper.", "rule."].iter().any(|known| action.starts_with(known)) || ["write", "moderate"].contains(&action)
    }
}

#[operation(kind = "lookup", fields(slug = param(slug)), returns = "one", route(disabled))]
pub const BY_SLUG_IN_CODE: Operation<Thread>;

impl ThreadAdapter {
    async fn by_slug(&self, cx: &Cx, slug: &str) -> Result<Option<Thread>> {
        self.by_slug_in_code(cx, slug).await
    }
}

async fn paper(s: &Server, author: &str, slug: &str) -> Json {
    let token = s.token(author, &[]);
    made(s, &token, "/papers", json!({"slug": slug, "title": "T", "authorId": author})).await
}

async fn thread(s: &Server, author: &str, slug: &str, container: Option<&str>) -> Json {
    let token = s.token(author, &[]);
    let body = json!({"slug": slug, "title": "T", "authorId": author, "containerId": container});
    made(s, &token, "/threads", body).await
}

/// The record as it is stored, whoever may read it.
async fn stored(s: &Server, record: &Json) -> Json {
    let token = s.token("root", &["paper.read"]);
    call(s, &token, "GET", &format!("/papers/{}", id(record)), Json::Null).await.json()
}

async fn cap_02(s: &Server) {
    // The store does not matter to it; a second app tells.
    let config = Config::new().signing_secret(SECRET).port(0).database("memory:");
    let app = App::new(config.clone()).plugin(JwtAuth::new()).package(&WORK);
    let text = app.start().await.err().unwrap().to_string();
    for part in [
        "route `create` of `Paper` (",
        ") needs permission `paper.write`, but no plugin installs a permission evaluator",
        "route `get` of `Paper` (",
        ") needs permission `paper.read`, but no plugin installs a permission evaluator",
        "route `own_function` of `Paper` (",
        "route `post` of `Thread` (",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    // Nor with one that does not know all of the actions.
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
    let app = App::new(config).plugin(JwtAuth::new()).plugin(Knows).package(&WORK);
    let text = app.start().await.err().unwrap().to_string();
    assert!(text.contains("needs permission `paper.moderate`, which the permission evaluator does not know"), "{text}");
    assert!(!text.contains("`paper.write`") && !text.contains("`Thread`"), "{text}");
    assert_eq!(s.get("/health/ready").await.status, 200);
}

async fn ext_05(s: &Server) {
    let record = thread(s, "ann", "one", Some("c1")).await;
    let path = format!("/threads/{}", id(&record));
    for (roles, code) in [
        (&["-write@c1"][..], (403, "forbidden")),
        (&["-moderate@c1", "write@c1"], (403, "forbidden")),
        (&["banned"], (403, "banned")),
        (&["broken"], (503, "unavailable")),
    ] {
        let owner = s.token("ann", roles);
        for (method, below, body) in
            [("PATCH", "", json!({"title": "mine"})), ("DELETE", "", Json::Null), ("POST", "/post", Json::Null), ("GET", "", Json::Null)]
        {
            let reply = call(s, &owner, method, &format!("{path}{below}"), body).await;
            assert_eq!(reply.code(), code, "{method} {below} as {roles:?}");
            assert_eq!(reply.header("retry-after"), if code.0 == 503 { "1" } else { "" });
        }
    }
    // Of another container it says nothing.
    let owner = s.token("ann", &["-write@c2"]);
    assert_eq!(call(s, &owner, "GET", &path, Json::Null).await.json(), record, "unchanged");
}

async fn a_record_of_somebody_else(s: &Server) {
    let record = paper(s, "ann", "one").await;
    let (ann, bob) = (s.token("ann", &[]), s.token("bob", &[]));
    let calls = |id: &str| {
        [
            ("PATCH", format!("/papers/{id}"), json!({"title": "mine"})),
            ("PATCH", format!("/papers/{id}"), json!({})),
            ("POST", format!("/papers/{id}/send"), Json::Null),
            ("POST", format!("/papers/{id}/replaced"), Json::Null),
            ("POST", format!("/papers/{id}/view"), Json::Null),
            ("PATCH", format!("/papers/{id}/retitle"), json!({"title": "mine"})),
            ("POST", format!("/papers/{id}/tag"), json!({"tag": "mine"})),
            ("GET", format!("/papers/{id}/remarks-list"), Json::Null),
            ("POST", format!("/papers/{id}/remarks-add"), json!({"id": "r", "text": "x"})),
            ("DELETE", format!("/papers/{id}/remarks-remove/r"), Json::Null),
        ]
    };
    for (method, path, body) in calls(id(&record)) {
        assert_eq!(call(s, &bob, method, &path, body).await.code(), (403, "forbidden"), "{method} {path}");
    }
    assert_eq!(call(s, &bob, "POST", &format!("/papers/{}/sent", id(&record)), Json::Null).await.code(), (403, "forbidden"));
    let renamed = call(s, &bob, "PATCH", "/papers/rename", json!({"slug": "one", "title": "mine"})).await;
    assert_eq!(renamed.code(), (403, "forbidden"), "matched by a unique");
    assert_eq!(stored(s, &record).await, record, "unchanged");
    // What is not there is not there for anybody, and bad input comes first.
    for (method, path, body) in calls("none") {
        assert_eq!(call(s, &bob, method, &path, body).await.code(), (404, "not_found"), "{method} {path}");
    }
    assert_eq!(call(s, &bob, "PATCH", "/papers/rename", json!({"slug": "none", "title": "x"})).await.code(), (404, "not_found"));
    call(s, &bob, "PATCH", "/papers/rename", json!({"title": "x"})).await.problem("required", "slug");
    call(s, &bob, "PATCH", &format!("/papers/{}", id(&record)), json!({"title": 1})).await.problem("type", "title");
    // The author and whoever holds either grant.
    let (writer, moderator) = (s.token("w", &["paper.write"]), s.token("m", &["paper.moderate"]));
    for (token, title) in [(&ann, "a"), (&writer, "w"), (&moderator, "m")] {
        let path = format!("/papers/{}", id(&record));
        let reply = call(s, token, "PATCH", &path, json!({"title": title})).await;
        assert_eq!((reply.status, &reply.json()["title"]), (200, &json!(title)));
        assert_eq!(call(s, token, "POST", &format!("{path}/replaced"), Json::Null).await.json()["title"], "replaced");
        assert_eq!(call(s, token, "PATCH", &format!("{path}/retitle"), json!({"title": "T"})).await.status, 200);
        assert_eq!(call(s, token, "PATCH", "/papers/rename", json!({"slug": "one", "title": "T"})).await.status, 200);
    }
    // An item that is not there is no reason to say that the record is somebody else's.
    let item = format!("/papers/{}/remarks-remove/none", id(&record));
    assert_eq!(call(s, &ann, "DELETE", &item, Json::Null).await.code(), (404, "not_found"));
    // Who gives a record away has it no more.
    let away = call(s, &ann, "PATCH", &format!("/papers/{}", id(&record)), json!({"authorId": "bob"})).await;
    assert_eq!(away.json()["authorId"], "bob");
    assert_eq!(call(s, &ann, "PATCH", &format!("/papers/{}", id(&record)), json!({"title": "x"})).await.code(), (403, "forbidden"));
}

async fn hidden_records(s: &Server) {
    let record = paper(s, "ann", "one").await;
    let bob = s.token("bob", &[]);
    let text = |reply: Reply| {
        let mut json = reply.json();
        json["requestId"].take();
        (reply.status, json)
    };
    let theirs = text(call(s, &bob, "GET", &format!("/papers/{}", id(&record)), Json::Null).await);
    let none = text(call(s, &bob, "GET", "/papers/none", Json::Null).await);
    assert_eq!(theirs, none);
    assert_eq!(theirs.0, 404);
    let denied = s.token("ann", &["-paper.read"]);
    assert_eq!(call(s, &denied, "GET", &format!("/papers/{}", id(&record)), Json::Null).await.code(), (404, "not_found"));
    let ann = s.token("ann", &[]);
    assert_eq!(call(s, &ann, "GET", &format!("/papers/{}", id(&record)), Json::Null).await.json(), record);
}

async fn lists_hold_what_is_ones_own(s: &Server) {
    for (author, slug) in [("ann", "a"), ("bob", "b"), ("ann", "c"), ("bob", "d"), ("ann", "e")] {
        paper(s, author, slug).await;
    }
    let (ann, all, nobody) = (s.token("ann", &[]), s.token("eve", &["paper.moderate"]), s.token("eve", &[]));
    let every = |token: String| async move { slugs(&call(s, &token, "GET", "/papers?limit=50", Json::Null).await) };
    assert_eq!(every(ann.clone()).await, ["a", "c", "e"]);
    assert_eq!(every(all.clone()).await, ["a", "b", "c", "d", "e"]);
    assert_eq!(every(nobody.clone()).await, [""; 0]);
    // Pages are cut behind the condition.
    let first = call(s, &ann, "GET", "/papers", Json::Null).await;
    assert_eq!(slugs(&first), ["a", "c"]);
    let next = first.json()["nextCursor"].as_str().unwrap().to_owned();
    assert_eq!(slugs(&call(s, &ann, "GET", &format!("/papers?cursor={next}"), Json::Null).await), ["e"]);
    assert_eq!(slugs(&call(s, &ann, "GET", "/papers/titled?title=T&limit=9", Json::Null).await), ["a", "c", "e"]);
    assert_eq!(call(s, &ann, "GET", "/papers/by-slug/b", Json::Null).await.json(), Json::Null);
    assert_eq!(call(s, &ann, "GET", "/papers/by-slug/a", Json::Null).await.json()["slug"], "a");
    assert_eq!(call(s, &ann, "GET", "/papers/taken?slug=b", Json::Null).await.json(), json!({"exists": false}));
    assert_eq!(call(s, &ann, "GET", "/papers/taken?slug=a", Json::Null).await.json(), json!({"exists": true}));
    assert_eq!(call(s, &ann, "GET", "/papers/find?q=t", Json::Null).await.json().as_array().unwrap().len(), 3);
    assert_eq!(call(s, &ann, "GET", "/papers/stats", Json::Null).await.json()["n"], 3);
    assert_eq!(call(s, &all, "GET", "/papers/stats", Json::Null).await.json()["n"], 5);
    let denied = s.token("ann", &["-paper.write"]);
    assert_eq!(call(s, &denied, "GET", "/papers", Json::Null).await.code(), (403, "forbidden"));
    let broken = s.token("ann", &["broken"]);
    assert_eq!(call(s, &broken, "GET", "/papers", Json::Null).await.code(), (503, "unavailable"));
}

async fn cursors_belong_to_a_grant(s: &Server) {
    for slug in ["a", "b", "c"] {
        paper(s, "ann", slug).await;
    }
    let (ann, all, bob) = (s.token("ann", &[]), s.token("ann", &["paper.write"]), s.token("bob", &[]));
    let first = call(s, &ann, "GET", "/papers", Json::Null).await.json();
    let path = format!("/papers?cursor={}", first["nextCursor"].as_str().unwrap());
    for token in [&all, &bob] {
        assert_eq!(call(s, token, "GET", &path, Json::Null).await.code(), (400, "invalid_cursor"));
    }
    assert_eq!(slugs(&call(s, &ann, "GET", &path, Json::Null).await), ["c"]);
}

async fn what_is_created(s: &Server) {
    let (ann, writer) = (s.token("ann", &[]), s.token("w", &["paper.write"]));
    let body = |author: &str| json!({"slug": "s", "title": "T", "authorId": author});
    assert_eq!(call(s, &ann, "POST", "/papers", body("bob")).await.code(), (403, "forbidden"));
    call(s, &ann, "POST", "/papers", json!({"slug": "s", "authorId": "bob"})).await.problem("required", "title");
    assert_eq!(call(s, &ann, "POST", "/papers", body("ann")).await.status, 201);
    let mut other = body("bob");
    other["slug"] = json!("t");
    assert_eq!(call(s, &writer, "POST", "/papers", other).await.status, 201);
    // Into a container, with what is stored in mind.
    let thread = |author: &str, container: &str| json!({"slug": "s", "title": "T", "authorId": author, "containerId": container});
    let locked = s.token("ann", &["-write@c1"]);
    assert_eq!(call(s, &locked, "POST", "/threads", thread("ann", "c1")).await.code(), (403, "forbidden"));
    assert_eq!(call(s, &locked, "POST", "/threads", thread("bob", "c2")).await.code(), (403, "forbidden"));
    assert_eq!(call(s, &locked, "POST", "/threads", thread("ann", "c2")).await.status, 201);
    let of_one = s.token("w", &["write@c1"]);
    assert_eq!(call(s, &of_one, "POST", "/threads", thread("bob", "c2")).await.code(), (403, "forbidden"));
    let mut other = thread("bob", "c1");
    other["slug"] = json!("t");
    assert_eq!(call(s, &of_one, "POST", "/threads", other).await.status, 201);
}

async fn upserts(s: &Server) {
    let record = paper(s, "ann", "one").await;
    let (ann, bob, writer) = (s.token("ann", &[]), s.token("bob", &[]), s.token("w", &["paper.write"]));
    let body = |slug: &str, author: &str| json!({"slug": slug, "title": "new", "authorId": author});
    // There, and somebody else's, whatever the call says of its author; or new, and to be somebody else's.
    for wanted in [body("one", "bob"), body("one", "ann"), body("two", "ann")] {
        assert_eq!(call(s, &bob, "POST", "/papers/ensure", wanted.clone()).await.code(), (403, "forbidden"), "{wanted}");
    }
    assert_eq!(stored(s, &record).await, record, "unchanged");
    assert_eq!(call(s, &ann, "POST", "/papers/ensure", body("one", "ann")).await.status, 200);
    assert_eq!(call(s, &bob, "POST", "/papers/ensure", body("two", "bob")).await.status, 201);
    assert_eq!(call(s, &writer, "POST", "/papers/ensure", body("one", "bob")).await.json()["authorId"], "bob");
    // With a rule over the record, and hidden.
    let lay = |slug: &str, author: &str| json!({"slug": slug, "title": "new", "authorId": author});
    assert_eq!(call(s, &ann, "POST", "/rules/lay-down", lay("r", "ann")).await.status, 201);
    assert_eq!(call(s, &ann, "POST", "/rules/lay-down", lay("r", "ann")).await.status, 200);
    assert_eq!(call(s, &bob, "POST", "/rules/lay-down", lay("r", "bob")).await.code(), (404, "not_found"));
    assert_eq!(call(s, &bob, "POST", "/rules/lay-down", lay("q", "ann")).await.code(), (404, "not_found"));
    // By container: it stays where it is.
    let put = |slug: &str, container: &str| json!({"slug": slug, "title": "new", "authorId": "w", "containerId": container});
    let of_one = s.token("w", &["write@c1"]);
    assert_eq!(call(s, &of_one, "POST", "/threads/put-thread", put("t", "c1")).await.status, 201);
    assert_eq!(call(s, &of_one, "POST", "/threads/put-thread", put("t", "c1")).await.status, 200);
    let both = s.token("w", &["write@c1", "write@c2"]);
    assert_eq!(call(s, &both, "POST", "/threads/put-thread", put("t", "c2")).await.code(), (403, "forbidden"));
    let locked = s.token("w", &["-write@c1"]);
    assert_eq!(call(s, &locked, "POST", "/threads/put-thread", put("t", "c1")).await.code(), (403, "forbidden"));
}

async fn many_records(s: &Server) {
    let (mine, theirs) = (paper(s, "ann", "a").await, paper(s, "bob", "b").await);
    let ann = s.token("ann", &[]);
    assert_eq!(call(s, &ann, "POST", "/papers/send-all", json!({"title": "T"})).await.json(), json!(1));
    assert_eq!(stored(s, &mine).await["stage"], "out");
    assert_eq!(stored(s, &theirs).await, theirs);
    let take = |token: String| async move { call(s, &token, "POST", "/papers/take", json!({"title": "T"})).await.json() };
    assert_eq!(take(ann.clone()).await, json!(true));
    assert_eq!(take(ann).await, json!(false), "the other is not hers");
    assert_eq!(take(s.token("w", &["paper.write"])).await, json!(true));
}

async fn derived_lists(s: &Server) {
    for (author, slug) in [("ann", "a"), ("bob", "b")] {
        paper(s, author, slug).await;
    }
    // Its own permission first, then that of the list that it reads from.
    let derived = |roles: &'static [&'static str]| async move { call(s, &s.token("ann", roles), "GET", "/papers/slugs", Json::Null).await };
    assert_eq!(derived(&[]).await.code(), (403, "forbidden"));
    assert_eq!(derived(&["paper.derive"]).await.json(), json!(["a"]));
    assert_eq!(derived(&["paper.derive", "paper.moderate"]).await.json(), json!(["a", "b"]));
    assert_eq!(derived(&["paper.derive", "-paper.moderate"]).await.code(), (403, "forbidden"));
}

async fn included_records(s: &Server) {
    let mine = paper(s, "ann", "a").await;
    let theirs = paper(s, "bob", "b").await;
    let body = |top: &Json| json!({"id": "T", "topId": id(top)});
    made(s, &s.token("ann", &[]), "/desks", body(&theirs)).await;
    let desk = |roles: &'static [&'static str]| async move {
        let reply = call(s, &s.token("ann", roles), "GET", "/desks/T?include=papers,top", Json::Null).await;
        if reply.status != 200 {
            return Err(reply.code());
        }
        let json = reply.json();
        let slugs: Vec<_> = json["papers"]["items"].as_array().unwrap().iter().map(|p| p["slug"].clone()).collect();
        Ok((json!(slugs), json["top"]["slug"].clone()))
    };
    // As the list and the route by key of the other entity see them.
    assert_eq!(desk(&[]).await, Ok((json!(["a"]), Json::Null)));
    assert_eq!(desk(&["paper.write"]).await, Ok((json!(["a", "b"]), Json::Null)));
    assert_eq!(desk(&["paper.read"]).await, Ok((json!(["a"]), json!("b"))));
    assert_eq!(desk(&["-paper.write"]).await, Err((403, "forbidden")));
    assert_eq!(desk(&["broken"]).await, Err((503, "unavailable")));
    let moved = call(s, &s.token("ann", &[]), "PATCH", "/desks/T", json!({"topId": id(&mine)})).await;
    assert_eq!(moved.status, 200);
    assert_eq!(desk(&[]).await, Ok((json!(["a"]), json!("a"))));
}

async fn functions_need_a_grant(s: &Server) {
    let run =
        |roles: &'static [&'static str]| async move { call(s, &s.token("ann", roles), "GET", "/papers/own-function", Json::Null).await };
    assert_eq!(run(&[]).await.code(), (403, "forbidden"));
    assert_eq!(&run(&["paper.moderate"]).await.body[..], b"ran");
}

async fn actions_alone(s: &Server) {
    let record = paper(s, "ann", "a").await;
    let path = format!("/papers/{}", id(&record));
    // Nothing of the record matters, so nothing of it is told: not even whether there is one.
    for path in [&path, "/papers/none"] {
        assert_eq!(call(s, &s.token("ann", &[]), "DELETE", path, Json::Null).await.code(), (403, "forbidden"), "{path}");
        let garbage = s.raw("DELETE", &format!("{path}?x=1"), &[("authorization", &s.token("ann", &[]))], "{").await;
        assert_eq!(garbage.code(), (403, "forbidden"), "before anything is read");
    }
    let admin = s.token("x", &["paper.delete"]);
    assert_eq!(call(s, &admin, "DELETE", "/papers/none", Json::Null).await.code(), (404, "not_found"));
    assert_eq!(call(s, &admin, "DELETE", &path, Json::Null).await.status, 204);
    assert_eq!(s.raw("DELETE", &path, &[], "").await.code(), (401, "unauthorized"));
}

async fn resources(s: &Server) {
    let record = thread(s, "ann", "one", Some("c1")).await;
    let path = format!("/threads/{}", id(&record));
    let title = |token: String, title: &'static str| {
        let path = path.clone();
        async move { call(s, &token, "PATCH", &path, json!({"title": title})).await }
    };
    assert_eq!(title(s.token("bob", &["write@c2"]), "x").await.code(), (403, "forbidden"));
    assert_eq!(title(s.token("bob", &["write"]), "x").await.code(), (403, "forbidden"), "of all containers is not of this one");
    let long = "x".repeat(300);
    let moved = call(s, &s.token("bob", &[]), "PATCH", &format!("{path}/move-to"), json!({"containerId": long})).await;
    moved.problem("max_length", "containerId");
    assert_eq!(title(s.token("bob", &["moderate@c1"]), "by grant").await.json()["title"], "by grant");
    assert_eq!(title(s.token("ann", &[]), "by author").await.json()["title"], "by author");
    assert_eq!(call(s, &s.token("bob", &["write@c1"]), "PATCH", "/threads/none", json!({"title": "x"})).await.code(), (404, "not_found"));
    assert_eq!(call(s, &s.token("bob", &["write@c1"]), "POST", &format!("{path}/post"), Json::Null).await.json()["stage"], "out");
    let again = call(s, &s.token("bob", &["write@c1"]), "POST", &format!("{path}/post"), Json::Null).await;
    assert_eq!(again.code(), (400, "invalid_transition"));
    // A thread of no container.
    let loose = thread(s, "ann", "two", None).await;
    let path = format!("/threads/{}", id(&loose));
    assert_eq!(call(s, &s.token("bob", &["write@c1"]), "DELETE", &path, Json::Null).await.code(), (403, "forbidden"));
    assert_eq!(call(s, &s.token("bob", &["write@Null"]), "PATCH", &path, json!({"title": "n"})).await.json()["title"], "n");
    assert_eq!(call(s, &s.token("ann", &[]), "DELETE", &path, Json::Null).await.status, 204);
}

async fn moved_records(s: &Server) {
    let record = thread(s, "ann", "one", Some("c1")).await;
    let path = format!("/threads/{}", id(&record));
    let to = |container: &str| json!({"containerId": container});
    for (method, path) in [("PATCH", path.clone()), ("PATCH", format!("{path}/move-to"))] {
        // Both the container it leaves and the one it comes to.
        let one = s.token("bob", &["write@c1"]);
        assert_eq!(call(s, &one, method, &path, to("c2")).await.code(), (403, "forbidden"), "{path}");
        let author = s.token("ann", &[]);
        assert_eq!(call(s, &author, method, &path, to("c2")).await.code(), (403, "forbidden"), "{path}");
        assert_eq!(call(s, &one, method, &path, to("c1")).await.status, 200, "it stays");
        let both = s.token("bob", &["write@c1", "write@c2"]);
        assert_eq!(call(s, &both, method, &path, to("c2")).await.json()["containerId"], "c2");
        assert_eq!(call(s, &both, method, &path, to("c1")).await.json()["containerId"], "c1");
    }
    // Many at once, as one: neither the author nor whoever may write to all of them may write to where they come to.
    let body = |to: &str| json!({"title": record["title"], "to": to});
    for (who, roles) in [("ann", &[][..]), ("bob", &["write", "-write@c2"])] {
        let moved = call(s, &s.token(who, roles), "POST", "/threads/move-all", body("c2")).await;
        assert_eq!(moved.code(), (403, "forbidden"), "{who}");
        call(s, &s.token(who, roles), "POST", "/threads/move-all", body(&"x".repeat(300))).await.problem("max_length", "to");
    }
    assert_eq!(call(s, &s.token("ann", &[]), "GET", &path, Json::Null).await.json()["containerId"], "c1");
    let author = s.token("ann", &["write@c2"]);
    assert_eq!(call(s, &author, "POST", "/threads/move-all", body("c2")).await.json(), json!(1));
    let stranger = s.token("bob", &["write@c1"]);
    assert_eq!(call(s, &stranger, "POST", "/threads/move-all", body("c1")).await.json(), json!(0), "none of them is the stranger's");
}

async fn lists_of_a_resource(s: &Server) {
    for (author, slug, container) in [("ann", "a", "c1"), ("bob", "b", "c1"), ("ann", "c", "c2"), ("bob", "d", "c2")] {
        thread(s, author, slug, Some(container)).await;
    }
    let of = |container: &'static str, roles: &'static [&'static str]| async move {
        let path = format!("/threads/of-container?container={container}");
        call(s, &s.token("ann", roles), "GET", &path, Json::Null).await
    };
    assert_eq!(slugs(&of("c1", &[]).await), ["a"]);
    assert_eq!(slugs(&of("c1", &["write@c1"]).await), ["a", "b"]);
    assert_eq!(slugs(&of("c2", &["write@c1"]).await), ["c"]);
    assert_eq!(of("c2", &["-write@c2"]).await.code(), (403, "forbidden"));
    // The list says of no container: only a grant over all of them counts.
    let list = |roles: &'static [&'static str]| async move { slugs(&call(s, &s.token("ann", roles), "GET", "/threads", Json::Null).await) };
    assert_eq!(list(&["write@c1", "write@c2"]).await, ["a", "c"]);
    assert_eq!(list(&["write"]).await, ["a", "b", "c", "d"]);
}

async fn resources_in_the_path(s: &Server) {
    let (ann, of_one) = (s.token("ann", &[]), s.token("bob", &["write@c1"]));
    let body = json!({"text": "x", "authorId": "ann"});
    let record = made(s, &ann, "/containers/c1/leaves", body.clone()).await;
    let path = format!("/containers/c1/leaves/{}", id(&record));
    assert_eq!(call(s, &of_one, "PATCH", &path, json!({"text": "y"})).await.json()["text"], "y");
    assert_eq!(call(s, &of_one, "POST", "/containers/c2/leaves", body.clone()).await.code(), (403, "forbidden"));
    let elsewhere = path.replace("c1", "c2");
    assert_eq!(call(s, &s.token("bob", &["write@c2"]), "PATCH", &elsewhere, json!({"text": "z"})).await.code(), (404, "not_found"));
    assert_eq!(call(s, &s.token("bob", &["write@c2"]), "PATCH", &path, json!({"text": "z"})).await.code(), (403, "forbidden"));
    let list = |token: String| async move {
        call(s, &token, "GET", "/containers/c1/leaves", Json::Null).await.json()["items"].as_array().unwrap().len()
    };
    assert_eq!((list(of_one).await, list(s.token("bob", &[])).await, list(ann).await), (1, 0, 1));
    assert_eq!(call(s, &s.token("ann", &["-write@c1"]), "GET", &path, Json::Null).await.code(), (403, "forbidden"));
}

/// What was allowed and what is done cannot come apart: the thread leaves its container between the two.
async fn a_record_that_moves_meanwhile(s: &Server) {
    for (method, below, body) in [("PATCH", "", json!({"title": "mine"})), ("DELETE", "", Json::Null), ("POST", "/post", Json::Null)] {
        let record = thread(s, "ann", "moving", Some("c1")).await;
        let path = format!("/threads/{}", id(&record));
        let reply = call(s, &s.token("bob", &["write@c1", "mover"]), method, &format!("{path}{below}"), body).await;
        assert_eq!(reply.code(), (409, "conflict"), "{method} {below}");
        let now = call(s, &s.token("bob", &["write@c2"]), "GET", &path, Json::Null).await.json();
        assert_eq!((&now["title"], &now["stage"], &now["containerId"]), (&json!("T"), &json!("draft"), &json!("c2")));
        assert_eq!(call(s, &s.token("ann", &[]), "DELETE", &path, Json::Null).await.status, 204);
    }
}

async fn the_document(s: &Server) {
    let document = s.get("/openapi.json").await.json();
    let route = |path: &str, method: &str| document["paths"][path][method].clone();
    let update = route("/papers/{id}", "patch");
    assert_eq!(update["x-linchpin-permission"], json!({"requires": "paper.write", "or": ["paper.moderate"], "ownerField": "authorId"}));
    assert!(update["responses"]["403"].is_object() && update["responses"]["503"].is_object());
    let get = route("/papers/{id}", "get");
    assert_eq!(get["x-linchpin-permission"], json!({"requires": "paper.read", "ownerField": "authorId", "hide": true}));
    assert!(get["responses"]["404"].is_object() && get["responses"]["403"].is_null(), "{get}");
    assert!(route("/papers/rename", "patch")["responses"]["404"].is_object());
    assert_eq!(route("/threads", "post")["x-linchpin-permission"]["resource"], "containerId");
}
