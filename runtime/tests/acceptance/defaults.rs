//! Defaults of parameters, and optional parameters of batches.

#![allow(missing_docs)] // test entities

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex};

use linchpin::axum::body::Body;
use linchpin::axum::response::Response;
use linchpin::http::{Next, RouteCall};
use linchpin::prelude::*;
use serde_json::{Value as Json, json};
use tokio::sync::Semaphore;

use crate::cases;
use crate::server::Server;

#[derive(Clone, Copy, Debug, PartialEq, FieldEnum)]
pub enum Kind {
    Mention,
    Reply,
}

/// A notice for a user.
#[entity(index(owner_id), sort = asc(title), scope(owner_id = ctx(actor.id)), pagination(default = 2, max = 10))]
#[derive(Clone, Debug)]
pub struct Notice {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(filterable)]
    pub owner_id: String,
    pub title: String,
    #[field(default = Kind::Mention)]
    pub kind: Kind,
    #[field(default = 0)]
    pub rank: i64,
    #[field(filterable, default = false)]
    pub seen: bool,
    #[field(default = now)]
    pub created_at: Timestamp,
}

/// Marks all notices as seen.
#[operation(
    kind = "batch",
    action = "update",
    filter = (created_at <= param(up_to, default = now()) && kind == param(kind) && rank >= param(least)),
    optional_params(kind, least),
    set(seen = param(seen, default = true)),
    route(middleware = [wait_for_release]),
)]
pub const MARK_ALL: Operation<Notice>;

/// Removes the seen notices.
#[operation(kind = "batch", action = "delete", filter = (seen && title == param(title)), optional_params(title), returns = "void")]
pub const TIDY: Operation<Notice>;

/// A page of notices.
#[operation(
    kind = "lookup",
    fields(kind = param(kind, default = Kind::Mention)),
    filter = (created_at <= param(up_to, default = now()) && rank >= param(least, default = -5)),
    returns = "many",
    paginate,
)]
pub const SHOWN: Operation<Notice>;

pub static NOTICES: Package = package!(
    name = "notices",
    entities = [entity(Notice, [MARK_ALL, TIDY, SHOWN])]
);

cases!(&crate::defaults::NOTICES =>
    a_parameter_defaults_to_the_instant_of_the_call, omitted_parameters_use_their_defaults,
    reads_use_defaults_of_parameters, the_document_lists_defaults,
);

/// Waiting calls by name: the first semaphore reports that a call has arrived, the second one
/// releases it.
type WaitingCalls = BTreeMap<String, (Arc<Semaphore>, Arc<Semaphore>)>;

static WAITING_CALLS: LazyLock<Mutex<WaitingCalls>> = LazyLock::new(Mutex::default);

fn semaphores(name: &str) -> (Arc<Semaphore>, Arc<Semaphore>) {
    let closed = || (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    WAITING_CALLS
        .lock()
        .unwrap()
        .entry(name.to_owned())
        .or_insert_with(closed)
        .clone()
}

/// Holds a call with the header `x-gate` until the test releases it.
async fn wait_for_release(call: RouteCall<'_>, next: Next<'_>) -> Result<Response<Body>> {
    if let Some(name) = call
        .parts
        .headers
        .get("x-gate")
        .and_then(|name| name.to_str().ok())
    {
        let (arrived, release) = semaphores(name);
        arrived.add_permits(1);
        release.acquire().await.unwrap().forget();
    }
    next.await
}

async fn call(
    s: &Server,
    method: &str,
    path: &str,
    body: Json,
    more: &[(&str, &str)],
) -> crate::server::Reply {
    let token = s.token("u", &[]);
    let headers = [
        &[
            ("authorization", token.as_str()),
            ("content-type", "application/json"),
        ][..],
        more,
    ]
    .concat();
    s.raw(
        method,
        path,
        &headers,
        &if body.is_null() {
            String::new()
        } else {
            body.to_string()
        },
    )
    .await
}

async fn create_notice(s: &Server, title: &str, more: Json) {
    let mut body = json!({"title": title});
    body.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    assert_eq!(call(s, "POST", "/notices", body, &[]).await.status, 201);
}

/// The titles of the seen notices.
async fn seen_titles(s: &Server) -> Vec<String> {
    let page = call(s, "GET", "/notices?seen=true&limit=10", Json::Null, &[])
        .await
        .json();
    page["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["title"].as_str().unwrap().to_owned())
        .collect()
}

async fn a_parameter_defaults_to_the_instant_of_the_call(s: &Server) {
    create_notice(s, "a", json!({})).await;
    s.advance(10);
    create_notice(s, "b", json!({})).await;
    s.advance(10);
    // A record that is created during the call is later than the call's instant.
    let name = format!("{s:p}");
    let (arrived, release) = semaphores(&name);
    let waits = [("x-gate", name.as_str())];
    let marking = call(s, "POST", "/notices/mark-all", Json::Null, &waits);
    let meanwhile = async {
        arrived.acquire().await.unwrap().forget();
        s.advance(1);
        create_notice(s, "c", json!({})).await;
        release.add_permits(1);
    };
    let (marked, ()) = tokio::join!(marking, meanwhile);
    assert_eq!((marked.status, marked.json()), (200, json!(2)));
    assert_eq!(seen_titles(s).await, ["a", "b"]);
    // A call that sets `upTo` changes only records up to this instant. It may also set the value to
    // write.
    let until = Timestamp::from_millis(s.now().millis() - 15).to_string();
    let unmarked = call(
        s,
        "POST",
        "/notices/mark-all",
        json!({"upTo": until, "seen": false}),
        &[],
    )
    .await;
    assert_eq!((unmarked.status, unmarked.json()), (200, json!(1)));
    assert_eq!(seen_titles(s).await, ["b"]);
    assert_eq!(
        call(
            s,
            "POST",
            "/notices/mark-all",
            json!({"upTo": s.now().to_string()}),
            &[]
        )
        .await
        .json(),
        json!(3)
    );
    assert_eq!(seen_titles(s).await, ["a", "b", "c"]);
    // Records of other users are unchanged.
    let token = s.token("v", &[]);
    assert_eq!(
        s.raw(
            "POST",
            "/notices/mark-all",
            &[("authorization", &token)],
            ""
        )
        .await
        .json(),
        json!(0)
    );
    // From code, the instant of the context applies.
    let (notices, early) = (
        s.running().adapter::<Notice>().unwrap(),
        Timestamp::from_millis(s.now().millis() - 21),
    );
    let cx = Cx::system("test").at(early);
    assert_eq!(
        notices
            .mark_all(&cx, Param::Omitted, Param::Omitted, Param::Omitted, false)
            .await
            .unwrap(),
        1
    );
    assert_eq!(seen_titles(s).await, ["b", "c"]);
}

async fn omitted_parameters_use_their_defaults(s: &Server) {
    for (title, kind, rank) in [
        ("a", "mention", 1),
        ("b", "mention", 2),
        ("c", "reply", 1),
        ("d", "reply", 2),
    ] {
        create_notice(s, title, json!({"kind": kind, "rank": rank})).await;
    }
    // An omitted parameter drops its condition, regardless of the order in which statements are
    // first prepared.
    for (body, expected) in [
        (json!({"kind": "reply", "least": 2}), vec!["d"]),
        (json!({"kind": "reply"}), vec!["c", "d"]),
        (json!({"least": 2}), vec!["b", "d"]),
        (json!({}), vec!["a", "b", "c", "d"]),
        (json!({"kind": "reply", "least": 2}), vec!["d"]),
    ] {
        assert_eq!(
            call(s, "POST", "/notices/mark-all", body.clone(), &[])
                .await
                .json(),
            json!(expected.len()),
            "{body}"
        );
        assert_eq!(seen_titles(s).await, expected, "{body}");
        call(s, "POST", "/notices/mark-all", json!({"seen": false}), &[]).await;
    }
    // An omitted parameter is not null, and a value without a match matches no record.
    call(s, "POST", "/notices/mark-all", json!({"kind": null}), &[])
        .await
        .problem("null_not_allowed", "kind");
    call(s, "POST", "/notices/mark-all", json!({"upTo": null}), &[])
        .await
        .problem("null_not_allowed", "upTo");
    call(s, "POST", "/notices/mark-all", json!({"upTo": "soon"}), &[])
        .await
        .problem("format", "upTo");
    call(
        s,
        "POST",
        "/notices/mark-all",
        json!({"kinds": "reply"}),
        &[],
    )
    .await
    .problem("unknown_field", "kinds");
    assert_eq!(
        call(s, "POST", "/notices/mark-all", json!({"least": 99}), &[])
            .await
            .json(),
        json!(0)
    );
    assert_eq!(seen_titles(s).await, [""; 0]);
    // The same for removals; the fixed condition always applies.
    call(s, "POST", "/notices/mark-all", json!({"least": 2}), &[]).await;
    create_notice(s, "e", json!({"seen": true})).await;
    let titles_after_tidy = async |body: Json| {
        assert_eq!(
            call(s, "POST", "/notices/tidy", body, &[]).await.status,
            204
        );
        let page = call(s, "GET", "/notices?limit=10", Json::Null, &[])
            .await
            .json();
        page["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["title"].as_str().unwrap().to_owned())
            .collect::<String>()
    };
    assert_eq!(titles_after_tidy(json!({"title": "a"})).await, "abcde");
    assert_eq!(titles_after_tidy(json!({"title": "b"})).await, "acde");
    assert_eq!(titles_after_tidy(Json::Null).await, "ac");
    assert_eq!(titles_after_tidy(json!({})).await, "ac");
}

async fn reads_use_defaults_of_parameters(s: &Server) {
    for (title, kind, rank) in [
        ("a", "mention", 1),
        ("b", "reply", 1),
        ("c", "mention", -9),
        ("d", "mention", -5),
        ("e", "mention", 0),
    ] {
        create_notice(s, title, json!({"kind": kind, "rank": rank})).await;
        s.advance(10);
    }
    let titles = |page: &Json| {
        page["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|i| i["title"].as_str().unwrap())
            .collect::<String>()
    };
    let shown = async |query: &str| {
        call(s, "GET", &format!("/notices/shown{query}"), Json::Null, &[]).await
    };
    let first = shown("").await.json();
    assert_eq!(titles(&first), "ad");
    // A cursor does not depend on the default instant. It depends on an instant in the request.
    s.advance(5);
    let cursor = first["nextCursor"].as_str().unwrap();
    assert_eq!(
        titles(&shown(&format!("?cursor={cursor}")).await.json()),
        "e"
    );
    let until = s.now().to_string();
    assert_eq!(
        shown(&format!("?cursor={cursor}&upTo={until}&least=-4"))
            .await
            .code(),
        (400, "invalid_cursor")
    );
    // Naming the default value does not change the call, so the cursor is valid.
    assert_eq!(
        titles(
            &shown(&format!("?cursor={cursor}&kind=mention&least=-5"))
                .await
                .json()
        ),
        "e"
    );
    assert_eq!(titles(&shown("?kind=reply").await.json()), "b");
    assert_eq!(titles(&shown("/reply").await.json()), "b");
    assert_eq!(titles(&shown("?least=-10&limit=9").await.json()), "acde");
    let early = Timestamp::from_millis(s.now().millis() - 40).to_string();
    assert_eq!(
        titles(&shown(&format!("?upTo={early}&limit=9")).await.json()),
        "a"
    );
    shown("?kind=").await.problem("enum", "query:kind");
    shown("?kind[null]=true")
        .await
        .problem("null_not_allowed", "query:kind[null]");
}

async fn the_document_lists_defaults(s: &Server) {
    let document = s.get("/openapi.json").await.json();
    let input = &document["components"]["schemas"]["NoticeMarkAllInput"];
    assert!(input.get("required").is_none(), "{input}");
    assert_eq!(input["properties"]["seen"]["default"], json!(true));
    assert_eq!(
        input["properties"]["upTo"]["description"],
        "Default: the time of the call."
    );
    assert!(input["properties"]["kind"].get("default").is_none());
    let parameters = document["paths"]["/notices/shown"]["get"]["parameters"]
        .as_array()
        .unwrap();
    let parameter = |name: &str| parameters.iter().find(|p| p["name"] == name).unwrap();
    assert_eq!(
        (
            &parameter("least")["schema"]["default"],
            parameter("least").get("required")
        ),
        (&json!(-5), None)
    );
    assert_eq!(parameter("kind")["schema"]["default"], "mention");
}
