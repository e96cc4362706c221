//! Rate limits.

#![allow(missing_docs)] // test entities

use linchpin::http::{RateKey, RateLimit, RateReply, RateStore, RateVerdict};
use linchpin::prelude::*;
use serde_json::json;

use crate::cases;
use crate::server::{Reply, Server};

/// A note whose routes differ in their input and output.
#[entity(
    version,
    unique(slug),
    sort = asc(title),
    routes(
        auth = none,
        create(rate_limit(max = 5, window = "1min"), input(slug, title), output(id, slug)),
        update(input(title), output(title)),
        list(output(id, slug), summary = "Notes, in short", tags("notes")),
        get(deprecated),
        delete(auth = "userAuth", rate_limit = "1/h")
    )
)]
#[derive(Clone, Debug)]
pub struct Note {
    #[field(primary, default = uuid)]
    pub id: String,
    pub slug: String,
    pub title: String,
    pub body: Option<String>,
}

#[operation(kind = "lookup", fields(slug = param(slug)), returns = "one", route(output(body)))]
pub const BODY_OF: Operation<Note>;

#[operation(kind = "lookup", fields(title = param(title)), returns = "many", paginate, route(output(slug)))]
pub const TITLED: Operation<Note>;

#[operation(kind = "upsert", match(slug), set(title), route(output(slug)))]
pub const PUT_NOTE: Operation<Note>;

/// At most two reads a minute.
#[entity(routes(auth = none, get(rate_limit = "2/min")))]
#[derive(Clone, Debug)]
pub struct Topic {
    #[field(primary)]
    pub id: String,
}

#[operation(kind = "lookup", fields(id = param(named)), returns = "one", route(rate_limit = "3/min"))]
pub const TOPIC_OF: Operation<Topic>;

/// At most two reads a minute per address, for all its callers together.
#[entity(routes(auth = none, list(rate_limit(max = 2, window = "1min", key = ip))))]
#[derive(Clone, Debug)]
pub struct Gate {
    #[field(primary)]
    pub id: String,
}

#[entity(belongs_to(topic: Topic, key = topic_id), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Thread {
    #[field(primary)]
    pub id: String,
    pub topic_id: Option<String>,
}

/// One entity whose limit always applies, and one whose calls are allowed while the counters are
/// unavailable.
#[entity(routes(auth = none, list(rate_limit = "2/min")))]
#[derive(Clone, Debug)]
pub struct Strict {
    #[field(primary)]
    pub id: String,
}

#[entity(routes(auth = none, list(rate_limit(max = 2, window = "1min", fail_open))))]
#[derive(Clone, Debug)]
pub struct Lenient {
    #[field(primary)]
    pub id: String,
}

static COUNTED: Package = package!(
    name = "counted",
    entities = [entity(Strict, []), entity(Lenient, [])]
);

static NOTES: Package = package!(
    name = "limits",
    entities = [
        entity(Note, [BODY_OF, TITLED, PUT_NOTE]),
        entity(Topic, [TOPIC_OF]),
        entity(Thread, []),
        entity(Gate, [])
    ]
);

cases!(&crate::limits::NOTES =>
    calls_beyond_the_rate_limit_are_refused, includes_count_for_rate_limits,
    both_forms_are_one_route, one_address_is_one_caller,
    windows_slide_and_callers_are_counted_separately, long_sort_values_are_paged_by_key,
    input_restricts_the_members_of_bodies, output_restricts_the_members_of_responses,
    the_document_lists_inputs_and_outputs,
);

async fn includes_count_for_rate_limits(s: &Server) {
    assert_eq!(s.post("/topics", json!({"id": "t"})).await.status, 201);
    assert_eq!(
        s.post("/threads", json!({"id": "h", "topicId": "t"}))
            .await
            .status,
        201
    );
    assert_eq!(s.get("/threads/h?include=topic").await.status, 200);
    assert_eq!(s.get("/topics/t").await.status, 200);
    assert_eq!(
        s.get("/threads/h?include=topic").await.code(),
        (429, "rate_limited")
    );
    assert_eq!(
        s.get("/threads?include=topic").await.code(),
        (429, "rate_limited")
    );
    assert_eq!(s.get("/topics/t").await.code(), (429, "rate_limited"));
    assert_eq!(s.get("/threads/h").await.status, 200);
}

async fn both_forms_are_one_route(s: &Server) {
    assert_eq!(s.get("/topics/topic-of/t").await.status, 200);
    assert_eq!(s.get("/topics/topic-of?named=t").await.status, 200);
    assert_eq!(s.get("/topics/topic-of/t").await.status, 200);
    assert_eq!(
        s.get("/topics/topic-of/t").await.code(),
        (429, "rate_limited")
    );
    assert_eq!(
        s.get("/topics/topic-of?named=t").await.code(),
        (429, "rate_limited")
    );
}

async fn one_address_is_one_caller(s: &Server) {
    for (who, expected) in [("ann", 200), ("bob", 200), ("cem", 429), ("ann", 429)] {
        let bearer = s.token(who, &[]);
        assert_eq!(
            s.raw("GET", "/gates", &[("authorization", bearer.as_str())], "")
                .await
                .status,
            expected,
            "{who}"
        );
    }
    assert_eq!(s.get("/gates").await.code(), (429, "rate_limited"));
}

async fn create(s: &Server, slug: &str) -> Reply {
    s.post("/notes", json!({"slug": slug, "title": "t"})).await
}

async fn calls_beyond_the_rate_limit_are_refused(s: &Server) {
    for slug in ["a", "b", "c", "d", "e"] {
        assert_eq!(create(s, slug).await.status, 201);
    }
    let sixth = create(s, "f").await;
    assert_eq!(sixth.code(), (429, "rate_limited"));
    assert_eq!(sixth.header("retry-after"), "60");
    // Invalid input counts like any other call. The input of a refused call is not validated.
    assert_eq!(
        s.raw("POST", "/notes?x=1", &[], "{").await.code(),
        (429, "rate_limited")
    );
    assert_eq!(s.get("/notes").await.status, 200);
    assert_eq!(
        s.get("/notes").await.json()["items"]
            .as_array()
            .unwrap()
            .len(),
        5,
        "the sixth call has changed nothing"
    );
}

/// A cursor that would be too long for a URL contains the key of the record instead.
async fn long_sort_values_are_paged_by_key(s: &Server) {
    for i in 0..5 {
        let note = json!({"slug": i.to_string(), "title": format!("{}{i}", "é".repeat(2000))});
        assert_eq!(s.post("/notes", note).await.status, 201);
    }
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = s.get(&format!("/notes?limit=2{cursor}")).await;
        assert_eq!(page.status, 200, "{cursor}");
        let page = page.json();
        seen.extend(
            page["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|note| note["slug"].as_str().unwrap().to_owned()),
        );
        let Some(next) = page["nextCursor"].as_str() else {
            break;
        };
        assert!(next.len() <= 2048, "{}", next.len());
        cursor = format!("&cursor={next}");
    }
    assert_eq!(seen, ["0", "1", "2", "3", "4"]);
    // If the record of the cursor is changed or removed, the position of the cursor is unknown. A
    // page that begins after the new title of the record would skip records.
    let bearer = s.token("alice", &[]);
    for method in ["PATCH", "DELETE"] {
        let page = s.get("/notes?limit=1").await.json();
        let id = page["items"][0]["id"].as_str().unwrap();
        let headers = [
            ("authorization", bearer.as_str()),
            ("if-match", "\"1\""),
            ("content-type", "application/json"),
        ];
        let body = if method == "PATCH" {
            json!({ "title": "ü".repeat(2000) }).to_string()
        } else {
            String::new()
        };
        let changed = s
            .raw(method, &format!("/notes/{id}"), &headers, &body)
            .await;
        assert!([200, 204].contains(&changed.status), "{changed:?}");
        let next = s
            .get(&format!(
                "/notes?limit=1&cursor={}",
                page["nextCursor"].as_str().unwrap()
            ))
            .await;
        assert_eq!(next.code(), (400, "invalid_cursor"), "{method}");
    }
}

async fn windows_slide_and_callers_are_counted_separately(s: &Server) {
    assert_eq!(create(s, "a").await.status, 201);
    s.advance(40_000);
    for slug in ["b", "c", "d", "e"] {
        assert_eq!(create(s, slug).await.status, 201);
    }
    assert_eq!(create(s, "f").await.header("retry-after"), "20");
    s.advance(20_000);
    assert_eq!(create(s, "f").await.status, 201);
    assert_eq!(create(s, "g").await.header("retry-after"), "40");

    let (alice, bob) = (s.token("alice", &[]), s.token("bob", &[]));
    let delete = |who: Option<String>| async move {
        let headers: Vec<(&str, &str)> = who
            .iter()
            .map(|who| ("authorization", who.as_str()))
            .collect();
        s.raw("DELETE", "/notes/none", &headers, "").await.status
    };
    // Counted before `auth`, so that guesses of credentials are counted too.
    assert_eq!([delete(None).await, delete(None).await], [401, 429]);
    assert_eq!(
        [
            delete(Some(alice.clone())).await,
            delete(Some(alice)).await,
            delete(Some(bob)).await
        ],
        [428, 429, 428]
    );
}

async fn input_restricts_the_members_of_bodies(s: &Server) {
    let reply = s
        .post(
            "/notes",
            json!({"slug": "a", "title": "t", "body": 7, "id": "x", "nonsense": 1}),
        )
        .await;
    let found = reply.json();
    let found: Vec<_> = found["details"]
        .as_array()
        .unwrap()
        .iter()
        .map(|d| (d["path"].as_str(), d["code"].as_str()))
        .collect();
    let unknown = |path| (Some(path), Some("unknown_field"));
    assert_eq!(found, [unknown("body"), unknown("id"), unknown("nonsense")]);
    let id = create(s, "a").await.json()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let patch = |body: &'static str| {
        let path = format!("/notes/{id}");
        async move {
            s.raw(
                "PATCH",
                &path,
                &[("content-type", "application/json"), ("if-match", "\"1\"")],
                body,
            )
            .await
        }
    };
    patch(r#"{"body":"b"}"#)
        .await
        .problem("unknown_field", "body");
    patch(r#"{"slug":"b"}"#)
        .await
        .problem("unknown_field", "slug");
    let changed = patch(r#"{"title":"new"}"#).await;
    assert_eq!(
        (changed.status, changed.header("etag")),
        (200, "\"2\"".to_owned())
    );
    assert_eq!(changed.json(), json!({"title": "new"}));
}

async fn output_restricts_the_members_of_responses(s: &Server) {
    let created = create(s, "a").await;
    let id = created.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(created.json(), json!({"id": id, "slug": "a"}));
    assert_eq!(
        (created.header("etag"), created.header("location")),
        ("\"1\"".to_owned(), format!("/notes/{id}"))
    );
    assert_eq!(create(s, "b").await.status, 201);
    // Paging works even if the response lacks the sort key or the primary key.
    let first = s.get("/notes?limit=1").await.json();
    assert_eq!(first["items"], json!([{"id": id, "slug": "a"}]));
    assert_eq!(s.walk("/notes?limit=1").await.len(), 2);
    assert_eq!(
        s.walk("/notes/titled?title=t&limit=1").await,
        [json!({"slug": "a"}), json!({"slug": "b"})]
    );
    assert_eq!(
        s.get("/notes/body-of?slug=a").await.json(),
        json!({"body": null})
    );
    let put = s
        .post("/notes/put-note", json!({"slug": "c", "title": "t"}))
        .await;
    assert_eq!((put.status, put.json()), (201, json!({"slug": "c"})));
    assert!(put.header("location").starts_with("/notes/"));
    // A route without `output` returns all fields.
    let all = s.get(&format!("/notes/{id}")).await;
    assert_eq!(
        all.json(),
        json!({"id": id, "slug": "a", "title": "t", "body": null, "version": 1})
    );
    assert_eq!(all.header("deprecation"), "true");
    assert_eq!(s.get("/notes/none").await.header("deprecation"), "true");
    assert!(!s.get("/notes").await.headers.contains_key("deprecation"));
}

async fn the_document_lists_inputs_and_outputs(s: &Server) {
    let document = s.get("/openapi.json").await.json();
    let (list, create) = (
        &document["paths"]["/notes"]["get"],
        &document["paths"]["/notes"]["post"],
    );
    assert_eq!(
        (&list["summary"], &list["tags"]),
        (&json!("Notes, in short"), &json!(["notes"]))
    );
    assert_eq!(
        list["responses"]["200"]["content"]["application/json"]["schema"]["$ref"],
        "#/components/schemas/NoteListRecordPage"
    );
    assert_eq!(
        create["requestBody"]["content"]["application/json"]["schema"]["$ref"],
        "#/components/schemas/NoteCreateInput"
    );
    assert!(create["responses"]["429"].is_object() && list["responses"]["429"].is_null());
    let schemas = &document["components"]["schemas"];
    let members = |name: &str| {
        schemas[name]["properties"]
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(members("NoteListRecord"), ["id", "slug"]);
    assert_eq!(members("NoteCreateInput"), ["slug", "title"]);
    assert_eq!(members("NoteBodyOfRecord"), ["body"]);
    assert_eq!(document["paths"]["/notes/{id}"]["get"]["deprecated"], true);
}

/// A rate store that is unavailable for every second call, beginning with the first.
#[derive(Default)]
struct Unsteady(std::sync::atomic::AtomicUsize);

impl RateStore for Unsteady {
    fn count(&self, _: &RateKey<'_>, _: RateLimit, _: Timestamp) -> RateReply {
        let fails = self
            .0
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed)
            .is_multiple_of(2);
        let verdict = if fails {
            Err(linchpin::Error::unavailable("the counters do not answer"))
        } else {
            Ok(RateVerdict::Admitted)
        };
        RateReply::Later(Box::pin(std::future::ready(verdict)))
    }
}

/// The rate store of the app replaces the counters of the process. If it is unavailable, the call
/// is refused, unless the route has `fail_open`.
#[tokio::test]
async fn an_unavailable_rate_store_refuses_or_admits_as_declared() {
    let s = Server::memory_with(&COUNTED, |app| app.rate_store(Unsteady::default())).await;
    let lost = s.get("/stricts").await;
    assert_eq!(
        (lost.code(), lost.header("retry-after").is_empty()),
        ((503, "unavailable"), false)
    );
    assert_eq!(s.get("/stricts").await.status, 200);
    for _ in 0..4 {
        assert_eq!(s.get("/lenients").await.status, 200);
    }
}
