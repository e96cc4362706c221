//! An `include` checks the list permission of the included entity.
//!
//! With the permission, a caller sees all records. Without it, the caller sees its own records or
//! gets 403.

#![allow(missing_docs)] // a fixture

use linchpin::prelude::*;
use linchpin::{AccessRequest, BoxFuture, Decision, Evaluator, Plugin, PostCx};
use serde_json::{Value as Json, json};

use crate::server::Server;

#[entity(has_many(papers: Paper, key = folder_id), has_many(notes: Note, key = folder_id), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Folder {
    #[field(primary)]
    pub id: String,
}

/// Callers with the permission see all papers of a folder, others only their own.
#[entity(
    belongs_to(folder: Folder, key = folder_id),
    belongs_to(answer_to: Paper, key = answer_to_id),
    routes(create(auth = none), list(permission(requires = "read", owner_field = owner_id)), get(permission(requires = "read", owner_field = owner_id))),
)]
#[derive(Clone, Debug)]
pub struct Paper {
    #[field(primary)]
    pub id: String,
    pub folder_id: String,
    pub owner_id: String,
    pub answer_to_id: Option<String>,
    #[field(default = "")]
    pub text: String,
}

/// Only readers see notes.
#[entity(belongs_to(folder: Folder, key = folder_id), routes(create(auth = none), list(permission(requires = "read"))))]
#[derive(Clone, Debug)]
pub struct Note {
    #[field(primary)]
    pub id: String,
    pub folder_id: String,
}

pub static FOLDERS: Package = package!(
    name = "folders",
    entities = [entity(Folder, []), entity(Paper, []), entity(Note, [])]
);

/// Grants `read` to readers.
struct Readers;

impl Plugin for Readers {
    fn name(&self) -> &'static str {
        "readers"
    }

    fn setup_post<'a>(&'a self, cx: &'a mut PostCx) -> BoxFuture<'a, Result<()>> {
        Box::pin(async { cx.registrar().set_evaluator(Readers) })
    }
}

impl Evaluator for Readers {
    fn decide<'a>(&'a self, request: AccessRequest<'a>) -> BoxFuture<'a, Result<Decision>> {
        let reads = request.actor.roles.iter().any(|role| role == "reader");
        Box::pin(async move {
            Ok(if reads {
                Decision::Allow
            } else {
                Decision::Abstain
            })
        })
    }
}

crate::cases!(&crate::relation_permissions::FOLDERS, |app| app.plugin(crate::relation_permissions::Readers) =>
    includes_apply_permissions,
);

async fn includes_apply_permissions(s: &Server) {
    for (path, body) in [
        ("/folders", json!({"id": "f"})),
        (
            "/papers",
            json!({"id": "a", "folderId": "f", "ownerId": "ann"}),
        ),
        (
            "/papers",
            json!({"id": "b", "folderId": "f", "ownerId": "bob", "answerToId": "a"}),
        ),
        (
            "/papers",
            json!({"id": "c", "folderId": "f", "ownerId": "ann", "answerToId": "b"}),
        ),
        ("/notes", json!({"id": "n", "folderId": "f"})),
    ] {
        assert_eq!(s.post(path, body).await.status, 201, "{path}");
    }
    let get =
        async |token: &str, path: &str| s.raw("GET", path, &[("authorization", token)], "").await;
    let ids = |page: &Json| -> Vec<String> {
        page["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["id"].as_str().unwrap().to_owned())
            .collect()
    };
    let (reader, ann) = (s.token("eve", &["reader"]), s.token("ann", &[]));
    assert_eq!(
        ids(&get(&reader, "/folders/f?include=papers").await.json()["papers"]),
        ["a", "b", "c"]
    );
    assert_eq!(
        ids(&get(&ann, "/folders/f?include=papers").await.json()["papers"]),
        ["a", "c"]
    );
    assert_eq!(s.get("/folders/f?include=papers").await.status, 401);
    assert_eq!(get(&reader, "/folders/f?include=notes").await.status, 200);
    assert_eq!(
        get(&ann, "/folders/f?include=notes").await.code(),
        (403, "forbidden")
    );
    assert_eq!(
        get(&ann, "/folders?include=papers,notes").await.code(),
        (403, "forbidden")
    );
    // The listed papers and their related records are checked separately.
    let own = get(&ann, "/papers?include=answerTo,folder").await.json();
    assert_eq!(ids(&own), ["a", "c"]);
    assert_eq!(
        (
            &own["items"][1]["answerTo"],
            &own["items"][1]["folder"]["id"]
        ),
        (&Json::Null, &json!("f")),
        "`b` belongs to bob"
    );
    let all = get(&reader, "/papers?include=answerTo.folder").await.json();
    assert_eq!(
        (
            &all["items"][2]["answerTo"]["id"],
            &all["items"][2]["answerTo"]["folder"]["id"]
        ),
        (&json!("b"), &json!("f"))
    );
    assert_eq!(
        ids(&get(&ann, "/folders/f?include=papers.answerTo").await.json()["papers"]),
        ["a", "c"]
    );
}
