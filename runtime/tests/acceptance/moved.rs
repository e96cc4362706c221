//! `method` and `path` of generated routes and of the operations of a collection. The default
//! routes that they replace are not mounted.

#![allow(missing_docs)] // a fixture

use linchpin::event::Batch;
use linchpin::prelude::*;
use linchpin::{BoxFuture, EventSink};
use serde_json::json;

use crate::cases;
use crate::server::Server;

/// A page of a book.
#[derive(Clone, Debug, Embedded)]
pub struct Leaf {
    #[field(primary, default = uuid)]
    pub id: String,
    pub text: String,
}

/// A book; none of its routes has the default path.
#[entity(
    version(required_on_write = false),
    unique(title),
    index(year),
    sort = asc(title),
    pagination(default = 2, max = 50),
    routes(
        auth = none,
        create(method = "PUT", path = "new", description = "Takes a book in.\n\nIts title is its own."),
        list(path = "all/of-them"),
        get(path = "{id}/card"),
        update(method = "PUT", path = "{id}/card"),
        delete(method = "POST", path = "gone/:id"),
    )
)]
#[derive(Clone, Debug)]
pub struct Book {
    #[field(primary, default = uuid, client_set)]
    pub id: String,
    pub title: String,
    #[field(default = 2000)]
    pub year: i64,
    pub leaves: Vec<Leaf>,
}

/// The leaves of a book.
#[operation(
    kind = "collection",
    field = leaves,
    operations(list, add, remove, update, set),
    route(
        leaves_list(path = "leaves/of/{id}"),
        leaves_add(method = "PUT", path = "leaves/of/{id}", description = "Binds a leaf in."),
        leaves_remove(method = "POST", path = "leaves/{item_id}/torn/out/of/{id}"),
        leaves_update(path = "{id}/leaves/{item_id}"),
    )
)]
pub const LEAVES: Operation<Book>;

/// A book by its title; created if it is missing.
#[operation(kind = "upsert", match(title), set(year), returns = "created")]
pub const KEEP: Operation<Book>;

/// A line of a document. Its moved routes stay below the parent path.
#[entity(
    path = "lines",
    parent_path = "sheets/{sheet_id}",
    scope(sheet_id = param(sheet_id)),
    routes(auth = none, create(path = "added"), get(path = "one/{id}"), list(disabled)),
)]
#[derive(Clone, Debug)]
pub struct Line {
    #[field(primary, default = uuid)]
    pub id: String,
    pub sheet_id: String,
    pub text: String,
}

/// A card without a `get` route; `Location` still names its default path.
#[entity(routes(auth = none, create(path = "in/the/box"), get(disabled)))]
#[derive(Clone, Debug)]
pub struct Slip {
    #[field(primary, default = uuid)]
    pub id: String,
}

pub static MOVED: Package = package!(
    name = "moved",
    mount = "/shop",
    entities = [
        entity(Book, [LEAVES, KEEP]),
        entity(Line, []),
        entity(Slip, [])
    ],
);

/// An event sink that discards its events. With a sink, the app records events.
struct DiscardEvents;

impl EventSink for DiscardEvents {
    fn publish<'a>(&'a self, _: &'a Batch) -> BoxFuture<'a, Result<()>> {
        Box::pin(async { Ok(()) })
    }
}

fn with_event_sink(app: App) -> App {
    app.event_sink("hears", DiscardEvents)
}

cases!(&super::MOVED, super::with_event_sink =>
    moved_routes_are_served_at_their_paths, the_location_follows_get,
    pages_and_heads_follow_the_path, ids_that_are_segments_are_refused,
    moved_collection_routes_are_served_at_their_paths, parents_stay_before_the_path,
    the_document_lists_moved_paths,
);

const JSON: (&str, &str) = ("content-type", "application/json");

async fn create_book(s: &Server, id: &str) {
    let reply = s
        .raw(
            "PUT",
            "/shop/books/new",
            &[JSON],
            &json!({ "id": id, "title": format!("title {id}") }).to_string(),
        )
        .await;
    assert_eq!(reply.status, 201, "{:?}", reply.body);
}

async fn moved_routes_are_served_at_their_paths(s: &Server) {
    create_book(s, "a").await;
    assert_eq!(s.get("/shop/books/a/card").await.json()["title"], "title a");
    let changed = s
        .raw(
            "PUT",
            "/shop/books/a/card",
            &[JSON, ("if-match", "\"1\"")],
            r#"{"title":"other"}"#,
        )
        .await;
    assert_eq!(
        (changed.status, changed.header("etag")),
        (200, "\"2\"".to_owned())
    );
    assert!(
        !changed.header("x-event-id").is_empty(),
        "a change emits its event, whatever its method is"
    );
    assert_eq!(
        s.raw(
            "PUT",
            "/shop/books/a/card",
            &[JSON, ("if-match", "\"1\"")],
            "{\"year\":1}"
        )
        .await
        .status,
        412
    );
    assert_eq!(
        s.raw(
            "GET",
            "/shop/books/a/card",
            &[("if-none-match", "\"2\"")],
            ""
        )
        .await
        .status,
        304
    );
    // A removal has an empty response, also with POST.
    let taken = s
        .raw("POST", "/shop/books/gone/a", &[JSON], r#"{"title":"x"}"#)
        .await;
    assert_eq!(taken.code(), (400, "validation_failed"));
    let gone = s.raw("POST", "/shop/books/gone/a", &[], "").await;
    assert_eq!(gone.status, 204);
    assert!(!gone.header("x-event-id").is_empty());
    assert_eq!(
        s.raw("POST", "/shop/books/gone/a", &[], "").await.status,
        404
    );
    // Neither the default routes nor other methods at the new paths are mounted.
    for (method, path) in [
        ("GET", "/shop/books"),
        ("POST", "/shop/books"),
        ("GET", "/shop/books/a"),
        ("DELETE", "/shop/books/a"),
    ] {
        assert_eq!(
            s.raw(method, path, &[], "").await.status,
            404,
            "{method} {path}"
        );
    }
    let refused = s.raw("PATCH", "/shop/books/a/card", &[JSON], "{}").await;
    assert_eq!(
        (refused.status, refused.header("allow")),
        (405, "GET, HEAD, PUT, OPTIONS".to_owned())
    );
}

async fn the_location_follows_get(s: &Server) {
    let created = s
        .raw(
            "PUT",
            "/shop/books/new",
            &[JSON],
            r#"{"id":"a b","title":"t"}"#,
        )
        .await;
    assert_eq!(
        (created.status, created.header("location")),
        (201, "/shop/books/a%20b/card".to_owned())
    );
    assert_eq!(s.get(&created.header("location")).await.json()["id"], "a b");
    let kept = s
        .raw(
            "POST",
            "/shop/books/keep",
            &[JSON],
            r#"{"title":"u","year":7}"#,
        )
        .await;
    assert_eq!(kept.status, 201, "{:?}", kept.body);
    assert_eq!(s.get(&kept.header("location")).await.json()["year"], 7);
    let boxed = s.raw("POST", "/shop/slips/in/the/box", &[JSON], "{}").await;
    assert_eq!(
        boxed.header("location"),
        format!("/shop/slips/{}", boxed.json()["id"].as_str().unwrap())
    );
}

async fn pages_and_heads_follow_the_path(s: &Server) {
    for id in ["a", "b", "c"] {
        create_book(s, id).await;
    }
    let first = s.get("/shop/books/all/of-them").await.json();
    let cursor = first["nextCursor"].as_str().unwrap();
    let second = s
        .get(&format!("/shop/books/all/of-them?cursor={cursor}"))
        .await
        .json();
    assert_eq!(
        (&second["items"][0]["id"], &second["hasMore"]),
        (&json!("c"), &json!(false))
    );
    assert_eq!(
        s.get("/shop/books/all/of-them?year[gt]=2000").await.json()["items"],
        json!([])
    );
    for path in ["/shop/books/all/of-them", "/shop/books/a/card"] {
        let head = s.raw("HEAD", path, &[], "").await;
        assert_eq!((head.status, head.body.len()), (200, 0), "{path}");
    }
}

async fn ids_that_are_segments_are_refused(s: &Server) {
    // `POST /books/gone/{id}` and `GET /books/{id}/card`: a static segment at the position of an id
    // in any route cannot be an id.
    for id in ["new", "all", "gone", "leaves", "keep"] {
        let reply = s
            .raw(
                "PUT",
                "/shop/books/new",
                &[JSON],
                &json!({ "id": id, "title": id }).to_string(),
            )
            .await;
        reply.problem("reserved", "id");
    }
    create_book(s, "of").await;
    assert_eq!(s.get("/shop/books/of/card").await.status, 200);
}

async fn moved_collection_routes_are_served_at_their_paths(s: &Server) {
    create_book(s, "a").await;
    let added = s
        .raw(
            "PUT",
            "/shop/books/leaves/of/a",
            &[JSON],
            r#"{"text":"one"}"#,
        )
        .await;
    assert_eq!(added.status, 201, "{:?}", added.body);
    let leaf = added.json()["id"].as_str().unwrap().to_owned();
    let changed = s
        .raw(
            "PATCH",
            &format!("/shop/books/a/leaves/{leaf}"),
            &[JSON],
            r#"{"text":"two"}"#,
        )
        .await;
    assert_eq!(
        (changed.status, &changed.json()["text"]),
        (200, &json!("two"))
    );
    assert_eq!(
        s.get("/shop/books/leaves/of/a").await.json(),
        json!([{ "id": leaf, "text": "two" }])
    );
    let torn = s
        .raw(
            "POST",
            &format!("/shop/books/leaves/{leaf}/torn/out/of/a"),
            &[],
            "",
        )
        .await;
    assert_eq!(torn.status, 204, "{:?}", torn.body);
    assert!(!torn.header("x-event-id").is_empty());
    // Routes without `path` keep their defaults; the defaults of the others are not mounted.
    assert_eq!(
        s.raw("PUT", "/shop/books/a/leaves-set", &[JSON], "[]")
            .await
            .status,
        200
    );
    assert_eq!(s.get("/shop/books/a/leaves-list").await.status, 404);
    assert_eq!(
        s.raw(
            "DELETE",
            &format!("/shop/books/a/leaves-remove/{leaf}"),
            &[],
            ""
        )
        .await
        .status,
        404
    );
}

async fn parents_stay_before_the_path(s: &Server) {
    let created = s
        .raw(
            "POST",
            "/shop/sheets/s%201/lines/added",
            &[JSON],
            r#"{"text":"x"}"#,
        )
        .await;
    assert_eq!(created.status, 201, "{:?}", created.body);
    let (id, at) = (created.json()["id"].clone(), created.header("location"));
    assert_eq!(
        at,
        format!("/shop/sheets/s%201/lines/one/{}", id.as_str().unwrap())
    );
    assert_eq!(s.get(&at).await.json()["id"], id);
    assert_eq!(s.get(&at.replace("s%201", "s2")).await.status, 404);
}

async fn the_document_lists_moved_paths(s: &Server) {
    let document = s.get("/openapi.json").await.json();
    let paths = &document["paths"];
    let id = |path: &str, method: &str| paths[path][method]["operationId"].clone();
    for (path, method, name) in [
        ("/shop/books/new", "put", "book_create"),
        ("/shop/books/all/of-them", "get", "book_list"),
        ("/shop/books/{id}/card", "get", "book_get"),
        ("/shop/books/{id}/card", "put", "book_update"),
        ("/shop/books/gone/{id}", "post", "book_delete"),
        ("/shop/books/leaves/of/{id}", "put", "book_leavesAdd"),
        (
            "/shop/books/leaves/{itemId}/torn/out/of/{id}",
            "post",
            "book_leavesRemove_byPath",
        ),
    ] {
        assert_eq!(id(path, method), name, "{method} {path}");
    }
    assert!(paths["/shop/books"].is_null() && paths["/shop/books/{id}"].is_null());
    let create = &paths["/shop/books/new"]["put"];
    assert_eq!(
        (&create["summary"], &create["description"]),
        (
            &json!("Creates a record of Book."),
            &json!("Takes a book in.\n\nIts title is its own.")
        )
    );
    assert_eq!(
        paths["/shop/books/leaves/of/{id}"]["put"]["description"],
        "Binds a leaf in."
    );
    assert_eq!(
        paths["/shop/books/leaves/of/{id}"]["get"]["description"],
        serde_json::Value::Null
    );
    assert_eq!(
        paths["/shop/books/gone/{id}"]["post"]["parameters"][0]["name"],
        "id"
    );
}
