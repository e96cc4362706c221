//! A key must refer to a record, on every path that writes it.

use serde_json::{Value as Json, json};

use super::{get, people, post};
use crate::server::Server;

pub(super) async fn keys_must_refer_to_records(s: &Server) {
    people(s, &["ann"]).await;
    post(s, "/desks", json!({"id": "d", "personId": "ann"})).await;
    s.post("/desks", json!({"id": "e", "personId": "bob"}))
        .await
        .problem("reference", "personId");
    // Rules on the value are checked first, and nothing is written.
    s.post("/desks", json!({"id": "e", "personId": null}))
        .await
        .problem("null_not_allowed", "personId");
    assert_eq!(s.get("/desks/e").await.status, 404);
    // Null is not a key.
    post(s, "/memos", json!({"id": "m", "authorId": null})).await;
    post(s, "/memos", json!({"id": "n"})).await;
    s.post("/tickets", json!({"id": "7", "projectId": "p"}))
        .await
        .problem("reference", "projectId");
    let both = s
        .post(
            "/nodes",
            json!({"id": "n", "parentId": "no", "twinId": "nor"}),
        )
        .await;
    let problems: Vec<String> = both
        .problems()
        .into_iter()
        .map(|(path, code)| format!("{path} {code}"))
        .collect();
    assert_eq!(problems, ["parentId reference", "twinId reference"]);
    // A record cannot refer to itself before it exists.
    s.post("/nodes", json!({"id": "self", "parentId": "self"}))
        .await
        .problem("reference", "parentId");
}

pub(super) async fn patches_check_keys(s: &Server) {
    people(s, &["ann", "bob"]).await;
    post(s, "/memos", json!({"id": "m", "authorId": "ann"})).await;
    s.patch("/memos/m", json!({"authorId": "nobody", "text": "new"}))
        .await
        .problem("reference", "authorId");
    assert_eq!(
        get(s, "/memos/m").await,
        json!({"id": "m", "authorId": "ann", "done": false, "text": "", "version": 1})
    );
    assert_eq!(
        s.patch("/memos/m", json!({"authorId": "bob"})).await.json()["authorId"],
        "bob"
    );
    assert_eq!(
        s.patch("/memos/m", json!({"text": "new"})).await.json()["version"],
        3
    );
    assert_eq!(
        s.patch("/memos/m", json!({"authorId": null})).await.json()["authorId"],
        Json::Null
    );
    assert_eq!(
        s.patch("/memos/none", json!({"authorId": "ann"}))
            .await
            .status,
        404
    );
    let stale = [("if-match", "\"1\""), ("content-type", "application/json")];
    assert_eq!(
        s.raw("PATCH", "/memos/m", &stale, r#"{"authorId":"ann"}"#)
            .await
            .status,
        412
    );
    // A node may become its own parent: the key names a record.
    post(s, "/nodes", json!({"id": "n"})).await;
    assert_eq!(
        s.patch("/nodes/n", json!({"parentId": "n"})).await.status,
        200
    );
}

pub(super) async fn operations_check_keys(s: &Server) {
    people(s, &["ann", "bob"]).await;
    post(s, "/memos", json!({"id": "m", "authorId": "ann"})).await;
    s.patch("/memos/m/reassign", json!({"authorId": "nobody"}))
        .await
        .problem("reference", "authorId");
    assert_eq!(
        s.patch("/memos/m/reassign", json!({"authorId": "bob"}))
            .await
            .json()["authorId"],
        "bob"
    );
    // The problem names the parameter of the key.
    s.post("/memos/m/finish", json!({"by": "nobody"}))
        .await
        .problem("reference", "by");
    assert_eq!(get(s, "/memos/m").await["done"], json!(false));
    s.post("/memos/ensure", json!({"id": "m", "authorId": "nobody"}))
        .await
        .problem("reference", "authorId");
    s.post("/memos/ensure", json!({"id": "new", "authorId": "nobody"}))
        .await
        .problem("reference", "authorId");
    assert_eq!(
        s.post("/memos/ensure", json!({"id": "new", "authorId": "ann"}))
            .await
            .status,
        201
    );
    assert_eq!(
        s.post("/memos/ensure", json!({"id": "new", "text": "kept"}))
            .await
            .json()["authorId"],
        "ann"
    );
    s.post("/memos/hand-over", json!({"done": false, "to": "nobody"}))
        .await
        .problem("reference", "to");
    assert_eq!(
        s.post("/memos/hand-over", json!({"done": false, "to": "bob"}))
            .await
            .json(),
        json!(2)
    );
    assert_eq!(
        s.post("/memos/m/finish", json!({"by": "ann"})).await.json()["authorId"],
        "ann"
    );
}

pub(super) async fn keys_of_other_tenants_look_missing(s: &Server) {
    let (ann, bob) = (s.token_in("ann", "t1"), s.token_in("bob", "t2"));
    let send = async |token: &str, path: &str, body: Json| {
        let headers = [
            ("authorization", token),
            ("content-type", "application/json"),
        ];
        s.raw("POST", path, &headers, &body.to_string()).await
    };
    assert_eq!(
        send(&bob, "/cases", json!({"id": "theirs"})).await.status,
        201
    );
    let (theirs, missing) = (
        send(&ann, "/findings", json!({"caseId": "theirs"})).await,
        send(&ann, "/findings", json!({"caseId": "nobody"})).await,
    );
    let without_request_id = |reply: &crate::server::Reply| {
        let text =
            String::from_utf8_lossy(&reply.body).replace(&reply.header("x-request-id"), "ID");
        (reply.status, text)
    };
    assert_eq!(
        without_request_id(&theirs),
        without_request_id(&missing),
        "a record of another tenant looks like a missing one"
    );
    theirs.problem("reference", "caseId");
    assert_eq!(
        send(&bob, "/findings", json!({"caseId": "theirs"}))
            .await
            .status,
        201
    );
}

pub(super) async fn keys_of_deleted_records_are_refused(s: &Server) {
    post(s, "/projects", json!({"id": "p"})).await;
    post(s, "/tickets", json!({"id": "1", "projectId": "p"})).await;
    assert_eq!(s.delete("/projects/p").await.status, 204);
    s.post("/tickets", json!({"id": "2", "projectId": "p"}))
        .await
        .problem("reference", "projectId");
}
