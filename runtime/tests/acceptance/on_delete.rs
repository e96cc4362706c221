//! `on_delete`: keys that must refer to records, and the effects of a deletion.

#![allow(missing_docs)] // test entities

use linchpin::prelude::*;
use linchpin::{Actor, Code, Cx};
use serde_json::{Value as Json, json};

use crate::cases;
use crate::server::Server;

mod emitted;
mod in_use;
mod keys;
mod many;
mod restored;

use in_use::{batches_keep_records_in_use, records_in_use_are_not_deleted};
use keys::{
    keys_must_refer_to_records, keys_of_deleted_records_are_refused,
    keys_of_other_tenants_look_missing, operations_check_keys, patches_check_keys,
};
use many::{
    concurrent_creates_and_deletions_leave_no_orphan,
    concurrent_creates_and_restricted_deletions_leave_no_orphan,
};

#[entity(routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Person {
    #[field(primary)]
    pub id: String,
    #[field(default = "x")]
    pub name: String,
}

#[operation(kind = "batch", action = "delete", filter = (name == param(name)))]
pub const DISMISS: Operation<Person>;

#[operation(kind = "consume", filter = (name == param(name)), returns = "boolean")]
pub const TAKE: Operation<Person>;

/// A person with a desk cannot be deleted.
#[entity(belongs_to(person: Person, key = person_id, on_delete = "restrict"), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Desk {
    #[field(primary)]
    pub id: String,
    pub person_id: String,
}

/// A memo is kept, but loses its author.
#[entity(version(required_on_write = false), belongs_to(author: Person, key = author_id, on_delete = "set_null"), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Memo {
    #[field(primary)]
    pub id: String,
    pub author_id: Option<String>,
    #[field(default = false)]
    pub done: bool,
    #[field(default = "")]
    pub text: String,
}

#[operation(kind = "field_update", set(author_id), nullable)]
pub const REASSIGN: Operation<Memo>;

#[operation(kind = "transition", field = done, from = false, to = true, set(author_id = param(by)))]
pub const FINISH: Operation<Memo>;

#[operation(kind = "upsert", match(id), set(author_id, text))]
pub const ENSURE: Operation<Memo>;

#[operation(kind = "batch", action = "update", filter = (done == param(done)), set(author_id = param(to)))]
pub const HAND_OVER: Operation<Memo>;

/// A project is marked as deleted.
#[entity(soft_delete(deleted_at), belongs_to(lead: Person, key = lead_id, on_delete = "cascade"), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Project {
    #[field(primary)]
    pub id: String,
    pub lead_id: Option<String>,
    #[field(default = "")]
    pub title: String,
    pub deleted_at: Option<Timestamp>,
}

#[entity(belongs_to(project: Project, key = project_id, on_delete = "cascade"), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Ticket {
    #[field(primary)]
    pub id: i64,
    pub project_id: String,
}

/// A tree; with `twin`, a cycle.
#[entity(
    belongs_to(parent: Node, key = parent_id, on_delete = "cascade"),
    belongs_to(twin: Node, key = twin_id, on_delete = "cascade"),
    routes(auth = none),
)]
#[derive(Clone, Debug)]
pub struct Node {
    #[field(primary)]
    pub id: String,
    pub parent_id: Option<String>,
    pub twin_id: Option<String>,
}

/// A record that only its tenant sees; records of other owners depend on it.
#[entity(tenant(tenant_id))]
#[derive(Clone, Debug)]
pub struct Case {
    #[field(primary)]
    pub id: String,
    pub tenant_id: String,
}

#[entity(tenant(tenant_id), scope(owner_id = ctx(actor.id)), belongs_to(case: Case, key = case_id, on_delete = "cascade"))]
#[derive(Clone, Debug)]
pub struct Finding {
    #[field(primary, default = uuid)]
    pub id: String,
    pub tenant_id: String,
    pub owner_id: String,
    pub case_id: String,
}

pub static OFFICE: Package = package!(
    name = "office",
    entities = [
        entity(Person, [DISMISS, TAKE]),
        entity(Desk, []),
        entity(Memo, [REASSIGN, FINISH, ENSURE, HAND_OVER]),
        entity(Project, []),
        entity(Ticket, []),
        entity(Node, []),
        entity(Case, []),
        entity(Finding, []),
    ],
);

cases!(&super::OFFICE =>
    keys_must_refer_to_records, patches_check_keys, operations_check_keys,
    keys_of_other_tenants_look_missing, keys_of_deleted_records_are_refused,
    a_referenced_record_is_not_deleted, a_deletion_sets_keys_to_null, a_deletion_cascades,
    a_deletion_cascades_to_more_records_than_one_statement_handles, cascades_in_trees_and_cycles,
    a_deletion_cascades_along_a_long_chain, batches_and_consumes_cascade,
    a_cascade_marks_records_with_soft_delete, a_purge_cascades,
    effects_of_a_deletion_ignore_visibility, a_refused_deletion_rolls_back_its_transaction,
    records_in_use_are_not_deleted, batches_keep_records_in_use,
    concurrent_creates_and_deletions_leave_no_orphan,
    concurrent_creates_and_restricted_deletions_leave_no_orphan,
);

async fn post(s: &Server, path: &str, body: Json) {
    let reply = s.post(path, body).await;
    assert_eq!(reply.status, 201, "{reply:?}");
}

async fn people(s: &Server, ids: &[&str]) {
    for id in ids {
        post(s, "/people", json!({"id": id})).await;
    }
}

async fn get(s: &Server, path: &str) -> Json {
    let reply = s.get(path).await;
    assert_eq!(reply.status, 200, "{path} {reply:?}");
    reply.json()
}

async fn count(s: &Server, path: &str) -> usize {
    s.walk(&format!("{path}?limit=200")).await.len()
}

async fn a_referenced_record_is_not_deleted(s: &Server) {
    people(s, &["ann", "bob"]).await;
    post(s, "/desks", json!({"id": "d", "personId": "ann"})).await;
    post(s, "/memos", json!({"id": "m", "authorId": "ann"})).await;
    let refused = s.delete("/people/ann").await;
    assert_eq!(refused.code(), (409, "conflict"), "{refused:?}");
    assert_eq!(
        refused.problems(),
        [("id".to_owned(), "referenced".to_owned())]
    );
    // Nothing else was deleted.
    assert_eq!(get(s, "/people/ann").await["id"], "ann");
    assert_eq!(
        (
            &get(s, "/memos/m").await["authorId"],
            &get(s, "/memos/m").await["version"]
        ),
        (&json!("ann"), &json!(1))
    );
    assert_eq!(s.delete("/people/bob").await.status, 204);
    assert_eq!(s.delete("/desks/d").await.status, 204);
    assert_eq!(s.delete("/people/ann").await.status, 204);
    assert_eq!(s.delete("/people/ann").await.status, 404);
}

async fn a_deletion_sets_keys_to_null(s: &Server) {
    people(s, &["ann", "bob"]).await;
    for (id, author) in [("a", "ann"), ("b", "bob"), ("c", "ann")] {
        post(s, "/memos", json!({"id": id, "authorId": author})).await;
    }
    assert_eq!(s.delete("/people/ann").await.status, 204);
    let memos = get(s, "/memos").await;
    let authors_and_versions: Vec<(&Json, &Json)> = memos["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| (&m["authorId"], &m["version"]))
        .collect();
    assert_eq!(
        authors_and_versions,
        [
            (&Json::Null, &json!(2)),
            (&json!("bob"), &json!(1)),
            (&Json::Null, &json!(2))
        ],
        "the update counts as a change"
    );
}

async fn a_deletion_cascades(s: &Server) {
    people(s, &["ann", "bob"]).await;
    for (project, lead) in [("p1", "ann"), ("p2", "ann"), ("p3", "bob")] {
        post(s, "/projects", json!({"id": project, "leadId": lead})).await;
    }
    for n in 0..6 {
        post(
            s,
            "/tickets",
            json!({"id": n.to_string(), "projectId": format!("p{}", n % 3 + 1)}),
        )
        .await;
    }
    assert_eq!(s.delete("/people/ann").await.status, 204);
    let left: Vec<Json> = s
        .walk("/projects")
        .await
        .into_iter()
        .map(|p| p["id"].clone())
        .collect();
    assert_eq!(left, [json!("p3")]);
    let left: Vec<Json> = s
        .walk("/tickets")
        .await
        .into_iter()
        .map(|p| p["id"].clone())
        .collect();
    assert_eq!(left, [json!("2"), json!("5")]);
}

/// More records than one statement handles.
async fn a_deletion_cascades_to_more_records_than_one_statement_handles(s: &Server) {
    people(s, &["ann"]).await;
    let nodes = s.running().adapter::<Node>().unwrap();
    let memos = s.running().adapter::<Memo>().unwrap();
    let cx = Cx::actor(Actor::user("clerk"));
    cx.transaction(async |cx| {
        nodes
            .create(
                cx,
                NodeCreate {
                    id: "root".to_owned(),
                    parent_id: None,
                    twin_id: None,
                },
            )
            .await?;
        for n in 0..1205 {
            nodes
                .create(
                    cx,
                    NodeCreate {
                        id: format!("n{n:04}"),
                        parent_id: Some("root".to_owned()),
                        twin_id: None,
                    },
                )
                .await?;
            if n < 1000 {
                memos
                    .create(
                        cx,
                        MemoCreate {
                            id: format!("m{n:04}"),
                            author_id: Some("ann".to_owned()),
                            done: None,
                            text: None,
                        },
                    )
                    .await?;
            }
        }
        Ok(())
    })
    .await
    .unwrap();
    assert_eq!(s.delete("/nodes/root").await.status, 204);
    assert_eq!(count(s, "/nodes").await, 0);
    assert_eq!(s.delete("/people/ann").await.status, 204);
    assert!(
        s.walk("/memos?limit=200")
            .await
            .iter()
            .all(|memo| memo["authorId"].is_null() && memo["version"] == 2)
    );
}

async fn cascades_in_trees_and_cycles(s: &Server) {
    for (id, parent, twin) in [
        ("a", None, None),
        ("b", Some("a"), None),
        ("c", Some("b"), Some("a")),
        ("d", None, Some("c")),
        ("e", None, None),
    ] {
        post(
            s,
            "/nodes",
            json!({"id": id, "parentId": parent, "twinId": twin}),
        )
        .await;
    }
    // The cycle: a → d → c → a, and e is its own twin.
    assert_eq!(
        s.patch("/nodes/a", json!({"twinId": "d"})).await.status,
        200
    );
    assert_eq!(
        s.patch("/nodes/e", json!({"twinId": "e"})).await.status,
        200
    );
    assert_eq!(s.delete("/nodes/e").await.status, 204);
    assert_eq!(count(s, "/nodes").await, 4);
    assert_eq!(s.delete("/nodes/b").await.status, 204);
    assert_eq!(count(s, "/nodes").await, 0);
}

async fn a_deletion_cascades_along_a_long_chain(s: &Server) {
    let nodes = s.running().adapter::<Node>().unwrap();
    Cx::system("seed")
        .transaction(async |cx| {
            for n in 0..300_usize {
                let parent_id = n.checked_sub(1).map(|n| format!("n{n}"));
                nodes
                    .create(
                        cx,
                        NodeCreate {
                            id: format!("n{n}"),
                            parent_id,
                            twin_id: None,
                        },
                    )
                    .await?;
            }
            Ok(())
        })
        .await
        .unwrap();
    assert_eq!(s.delete("/nodes/n1").await.status, 204);
    assert_eq!(s.walk("/nodes").await.len(), 1);
}

async fn batches_and_consumes_cascade(s: &Server) {
    for (id, name) in [("a", "x"), ("b", "x"), ("c", "y"), ("d", "z"), ("e", "z")] {
        post(s, "/people", json!({"id": id, "name": name})).await;
        post(
            s,
            "/projects",
            json!({"id": format!("p{id}"), "leadId": id}),
        )
        .await;
        post(s, "/memos", json!({"id": format!("m{id}"), "authorId": id})).await;
    }
    post(s, "/desks", json!({"id": "d", "personId": "e"})).await;
    assert_eq!(
        s.post("/people/dismiss", json!({"name": "x"})).await.json(),
        json!(2)
    );
    assert_eq!(count(s, "/projects").await, 3);
    assert!(
        get(s, "/memos/ma").await["authorId"].is_null()
            && get(s, "/memos/mc").await["authorId"] == "c"
    );
    assert_eq!(
        s.post("/people/take", json!({"name": "y"})).await.json(),
        json!(true)
    );
    assert_eq!(
        (
            s.get("/projects/pc").await.status,
            s.get("/projects/pd").await.status
        ),
        (404, 200)
    );
    // One restricted record prevents the whole deletion.
    assert_eq!(
        s.post("/people/dismiss", json!({"name": "z"}))
            .await
            .problems(),
        [("id".to_owned(), "referenced".to_owned())]
    );
    assert_eq!(
        (
            s.get("/people/d").await.status,
            s.get("/projects/pd").await.status
        ),
        (200, 200)
    );
    assert_eq!(
        s.post("/people/dismiss", json!({"name": "nobody"}))
            .await
            .json(),
        json!(0)
    );
    assert_eq!(
        s.post("/people/take", json!({"name": "nobody"}))
            .await
            .json(),
        json!(false)
    );
}

async fn a_cascade_marks_records_with_soft_delete(s: &Server) {
    people(s, &["ann"]).await;
    post(s, "/projects", json!({"id": "p", "leadId": "ann"})).await;
    post(s, "/tickets", json!({"id": "1", "projectId": "p"})).await;
    assert_eq!(s.delete("/people/ann").await.status, 204);
    // The project is marked as deleted and its key stays taken; the ticket is removed.
    assert_eq!(
        s.post("/projects", json!({"id": "p"})).await.code(),
        (409, "conflict")
    );
    let projects = s.running().adapter::<Project>().unwrap();
    let all = projects
        .list(
            &Cx::system("look").at(s.now()),
            ProjectListQuery::new().include_deleted(),
        )
        .await
        .unwrap();
    assert!(all.items.len() == 1 && all.items[0].deleted_at.is_some());
    assert_eq!(s.get("/tickets/1").await.status, 404);
    // A deleted project does not refer to a lead, so a new person with the old id can be deleted.
    people(s, &["ann"]).await;
    assert_eq!(s.delete("/people/ann").await.status, 204);
}

async fn a_purge_cascades(s: &Server) {
    post(s, "/projects", json!({"id": "p"})).await;
    post(s, "/tickets", json!({"id": "1", "projectId": "p"})).await;
    let projects = s.running().adapter::<Project>().unwrap();
    projects.purge(&Cx::system("clean"), "p").await.unwrap();
    assert_eq!(s.get("/tickets/1").await.status, 404);
}

/// Effects of a deletion reach records that the caller cannot see.
async fn effects_of_a_deletion_ignore_visibility(s: &Server) {
    let (ann, bob) = (s.token_in("ann", "t1"), s.token_in("bob", "t1"));
    let send = async |token: &str, method: &str, path: &str, body: &str| {
        let headers = [
            ("authorization", token),
            ("content-type", "application/json"),
        ];
        s.raw(
            method,
            path,
            &headers[..if body.is_empty() { 1 } else { 2 }],
            body,
        )
        .await
        .status
    };
    assert_eq!(send(&ann, "POST", "/cases", r#"{"id":"c"}"#).await, 201);
    assert_eq!(
        send(&ann, "POST", "/findings", r#"{"caseId":"c"}"#).await,
        201
    );
    assert_eq!(
        send(&bob, "POST", "/findings", r#"{"caseId":"c"}"#).await,
        201
    );
    assert_eq!(send(&ann, "DELETE", "/cases/c", "").await, 204);
    let findings = s.running().adapter::<Finding>().unwrap();
    assert_eq!(
        findings
            .list(&Cx::system("look"), FindingListQuery::new())
            .await
            .unwrap()
            .items
            .len(),
        0
    );
}

/// A refused deletion was partly done: the transaction is rolled back, even if the caller ignores
/// the error.
async fn a_refused_deletion_rolls_back_its_transaction(s: &Server) {
    people(s, &["ann", "bob"]).await;
    post(s, "/desks", json!({"id": "d", "personId": "ann"})).await;
    let people = s.running().adapter::<Person>().unwrap();
    let cx = Cx::actor(Actor::user("clerk"));
    let outcome = cx
        .transaction(async |cx| {
            people.delete(cx, "bob", None).await?;
            let refused = people.delete(cx, "ann", None).await.map_err(|e| e.code());
            assert_eq!(refused, Err(Code::Conflict));
            Ok(())
        })
        .await;
    assert_eq!(outcome.map_err(|e| e.code()), Err(Code::Conflict));
    assert_eq!(
        (
            s.get("/people/ann").await.status,
            s.get("/people/bob").await.status
        ),
        (200, 200)
    );
    // A create with a key of a missing record changes nothing: the transaction continues.
    let desks = s.running().adapter::<Desk>().unwrap();
    let desk = |id: &str, person: &str| DeskCreate {
        id: id.to_owned(),
        person_id: person.to_owned(),
    };
    cx.transaction(async |cx| {
        assert_eq!(
            desks
                .create(cx, desk("e", "zoe"))
                .await
                .map(|_| ())
                .map_err(|e| e.code()),
            Err(Code::ValidationFailed)
        );
        people
            .create(
                cx,
                PersonCreate {
                    id: "zoe".to_owned(),
                    name: None,
                },
            )
            .await?;
        desks.create(cx, desk("e", "zoe")).await
    })
    .await
    .unwrap();
}

/// One process runs several transactions concurrently. Only the database server isolates them.
#[cfg(feature = "postgres")]
mod many_transactions {
    use std::sync::Arc;

    use linchpin::store::postgres::{PostgresOptions, PostgresStore};

    use crate::server::{Server, postgres_server};

    async fn server() -> Server {
        let options = PostgresOptions {
            transactions: 12,
            ..PostgresOptions::new(postgres_server::fresh_url())
        };
        let store = Arc::new(PostgresStore::open(options).unwrap());
        Server::memory_with(&super::OFFICE, |app| app.store(store)).await
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn concurrent_creates_and_deletions_leave_no_orphan() {
        super::concurrent_creates_and_deletions_leave_no_orphan(&server().await).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn concurrent_creates_and_restricted_deletions_leave_no_orphan() {
        super::concurrent_creates_and_restricted_deletions_leave_no_orphan(&server().await).await;
    }
}

/// Concurrent transactions: records that another transaction has locked are found too.
#[cfg(feature = "postgres")]
mod at_once {
    use crate::server::Server;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn records_in_use_are_not_deleted() {
        super::records_in_use_are_not_deleted(&Server::postgres_at_once(&super::OFFICE).await)
            .await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn batches_keep_records_in_use() {
        super::batches_keep_records_in_use(&Server::postgres_at_once(&super::OFFICE).await).await;
    }
}
