//! `output` as a named projection, for routes of an entity, of operations, and for included
//! records.

#![allow(missing_docs)] // a fixture

use linchpin::Cx;
use linchpin::prelude::*;
use serde_json::{Value as Json, json};

use crate::cases;
use crate::server::Server;

/// The public fields of an author.
#[projection(Author)]
#[derive(Debug, PartialEq)]
pub struct AuthorCard {
    pub id: String,
    pub name: String,
}

#[entity(
    has_many(essays: Essay, key = author_id),
    sort = asc(email),
    routes(auth = none, output = AuthorCard, update(output(id, name, email))),
)]
#[derive(Clone, Debug)]
pub struct Author {
    #[field(primary)]
    pub id: String,
    #[field(filterable, sortable)]
    pub name: String,
    #[field(filterable, sortable)]
    pub email: String,
}

/// An essay in one line.
#[projection(Essay)]
pub struct Line {
    pub title: String,
    pub author_id: String,
}

#[entity(
    belongs_to(author: Author, key = author_id),
    version(required_on_write = false),
    unique(title),
    index(author_id),
    routes(auth = none, list(output = Line), get(output = Line)),
)]
#[derive(Clone, Debug)]
pub struct Essay {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
    pub author_id: String,
    #[field(default = "")]
    pub body: String,
}

#[operation(kind = "lookup", fields(author_id = param(author_id)), returns = "many", route(output = Line))]
pub const OF: Operation<Essay>;

#[operation(kind = "field_update", set(body), route(output = Line))]
pub const WRITE: Operation<Essay>;

#[operation(kind = "upsert", match(title), set(author_id), returns = "created", route(output = Line))]
pub const KEEP: Operation<Essay>;

pub static ESSAYS: Package = package!(
    name = "essays",
    entities = [entity(Author, []), entity(Essay, [OF, WRITE, KEEP])]
);

cases!(&super::ESSAYS =>
    responses_contain_the_projected_fields, included_records_are_projected,
    projected_responses_share_one_schema, a_projection_converts_from_a_record,
    omitted_fields_cannot_sort_or_filter,
);

async fn seed(s: &Server) -> String {
    let author = s
        .post(
            "/authors",
            json!({ "id": "a", "name": "Ann", "email": "ann@example.com" }),
        )
        .await;
    assert_eq!(
        (author.status, author.json()),
        (201, json!({ "id": "a", "name": "Ann" }))
    );
    let essay = s
        .post(
            "/essays",
            json!({ "title": "One", "authorId": "a", "body": "long" }),
        )
        .await;
    assert_eq!(essay.status, 201);
    essay.json()["id"].as_str().unwrap().to_owned()
}

fn line() -> Json {
    json!({ "title": "One", "authorId": "a" })
}

async fn responses_contain_the_projected_fields(s: &Server) {
    let id = seed(s).await;
    let read = s.get(&format!("/essays/{id}")).await;
    assert_eq!(
        (read.json(), read.header("etag")),
        (line(), "\"1\"".to_owned())
    );
    assert_eq!(s.get("/essays").await.json()["items"], json!([line()]));
    assert_eq!(s.get("/essays/of/a").await.json()["items"], json!([line()]));
    assert_eq!(
        s.patch(&format!("/essays/{id}/write"), json!({ "body": "longer" }))
            .await
            .json(),
        line()
    );
    let kept = s
        .post("/essays/keep", json!({ "title": "One", "authorId": "a" }))
        .await;
    assert_eq!(kept.json(), json!({ "entity": line(), "created": false }));
    // A list of fields on a route replaces the projection of the entity, for this route only.
    let named = s
        .patch("/authors/a", json!({ "name": "Anna" }))
        .await
        .json();
    assert_eq!(
        named,
        json!({ "id": "a", "name": "Anna", "email": "ann@example.com" })
    );
    assert_eq!(
        s.get("/authors/a").await.json(),
        json!({ "id": "a", "name": "Anna" })
    );
}

async fn included_records_are_projected(s: &Server) {
    seed(s).await;
    let author = s.get("/authors/a?include=essays").await.json();
    assert_eq!(author["essays"]["items"], json!([line()]));
    let essays = s.get("/essays?include=author").await.json();
    assert_eq!(
        essays["items"][0]["author"],
        json!({ "id": "a", "name": "Ann" })
    );
}

async fn projected_responses_share_one_schema(s: &Server) {
    let document = s.get("/openapi.json").await.json();
    let schemas = &document["components"]["schemas"];
    let members = |name: &str| {
        schemas[name]["properties"]
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (members("EssayLineRecord"), members("AuthorCardRecord")),
        (
            vec!["authorId".to_owned(), "title".into()],
            vec!["id".into(), "name".into()]
        )
    );
    let schema = |path: &str, method: &str, status: &str| {
        document["paths"][path][method]["responses"][status]["content"]["application/json"]["schema"].to_string()
    };
    for (path, method, status, name) in [
        ("/authors", "post", "201", "AuthorCardRecord\""),
        ("/authors/{id}", "patch", "200", "AuthorUpdateRecord\""),
        ("/essays/of", "get", "200", "EssayLineRecordIncludedPage\""),
        ("/essays/{id}/write", "patch", "200", "EssayLineRecord\""),
    ] {
        assert!(
            schema(path, method, status).contains(name),
            "{method} {path}: {}",
            schema(path, method, status)
        );
    }
    assert!(schemas["EssayListRecord"].is_null() && schemas["EssayOfRecord"].is_null());
    assert!(
        schema("/authors/{id}", "get", "200").contains("AuthorCardRecord"),
        "{}",
        schema("/authors/{id}", "get", "200")
    );
}

async fn a_projection_converts_from_a_record(s: &Server) {
    seed(s).await;
    let authors = s.running().adapter::<Author>().unwrap();
    let author = authors
        .get(&Cx::system("test"), "a")
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        AuthorCard::from(author),
        AuthorCard {
            id: "a".to_owned(),
            name: "Ann".to_owned()
        }
    );
    assert_eq!(
        (
            <Line as linchpin::entity::Projection>::NAME,
            <Line as linchpin::entity::Projection>::FIELDS.len()
        ),
        ("Line", 2)
    );
}

/// A list that omits a field does not reveal it by filters, sorts or cursors.
async fn omitted_fields_cannot_sort_or_filter(s: &Server) {
    seed(s).await;
    assert_eq!(
        s.post(
            "/authors",
            json!({ "id": "b", "name": "Bob", "email": "bob@example.com" })
        )
        .await
        .status,
        201
    );
    for condition in [
        "email=ann@example.com",
        "email[gte]=b",
        "email[contains]=ann",
        "email[in]=a,b",
    ] {
        assert_eq!(
            s.get(&format!("/authors?{condition}")).await.code(),
            (400, "unknown_parameter"),
            "{condition}"
        );
    }
    s.get("/authors?sort=email")
        .await
        .problem("enum", "query:sort");
    assert_eq!(
        s.get("/authors?name=Bob&sort=name").await.json()["items"][0]["id"],
        "b"
    );
    let document = s.get("/openapi.json").await.json();
    let parameters = document["paths"]["/authors"]["get"]["parameters"]
        .as_array()
        .unwrap()
        .clone();
    assert!(
        !parameters
            .iter()
            .any(|p| p["name"].as_str().unwrap().starts_with("email")),
        "{parameters:?}"
    );
    let sort = parameters.iter().find(|p| p["name"] == "sort").unwrap();
    assert_eq!(sort["schema"]["enum"], json!(["id", "name"]));
    // The declared sort stays, and its cursor is encrypted.
    let page = s.get("/authors?limit=1").await.json();
    let cursor = page["nextCursor"].as_str().unwrap();
    let bytes =
        base64::Engine::decode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, cursor).unwrap();
    assert!(
        !String::from_utf8_lossy(&bytes).contains("ann"),
        "{bytes:?}"
    );
    let next = s
        .get(&format!("/authors?limit=1&cursor={cursor}"))
        .await
        .json();
    assert_eq!(
        (&next["items"][0]["id"], &next["hasMore"]),
        (&json!("b"), &json!(false))
    );
}
