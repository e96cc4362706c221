//! Relations: `include` in responses, and relations in code.

#![allow(missing_docs)] // test entities

use linchpin::entity::Page;
use linchpin::prelude::*;
use linchpin::{Actor, Cx};
use serde_json::{Value as Json, json};

use crate::cases;
use crate::server::Server;

/// A writer with soft delete.
#[entity(soft_delete(deleted_at), routes(auth = none, get(output(id, name))))]
#[derive(Clone, Debug)]
pub struct Writer {
    #[field(primary)]
    pub id: String,
    pub name: String,
    pub city: Option<String>,
    #[field(private)]
    pub secret: Option<String>,
    #[field(write_only)]
    pub pin: Option<String>,
    pub deleted_at: Option<Timestamp>,
}

/// An editor: visible to admins only, with integers as ids.
#[entity(routes(auth = none, get(auth = "userAuth", roles = ["admin"]), list(auth = "userAuth")))]
#[derive(Clone, Debug)]
pub struct Editor {
    #[field(primary)]
    pub id: i64,
    pub name: String,
}

#[entity(
    version(required_on_write = false),
    belongs_to(writer: Writer, key = writer_id),
    belongs_to(editor: Editor, key = editor_id),
    has_many(remarks: Remark, key = essay_id, max = 2),
    has_many(pages: Leaf, key = essay_id, max = 1),
    routes(auth = none),
)]
#[derive(Clone, Debug)]
pub struct Essay {
    #[field(primary)]
    pub id: String,
    pub title: String,
    pub writer_id: Option<String>,
    pub editor_id: Option<i64>,
}

#[operation(kind = "lookup", fields(title = param(title)), returns = "one")]
pub const BY_TITLE: Operation<Essay>;

#[operation(kind = "lookup", fields(writer_id = param(writer_id)), returns = "many")]
pub const BY_WRITER: Operation<Essay>;

#[operation(kind = "search", fields(title))]
pub const FIND: Operation<Essay>;

#[operation(kind = "search", fields(title), paginate)]
pub const BROWSE: Operation<Essay>;

/// A remark on an essay or on another remark.
#[entity(
    belongs_to(essay: Essay, key = essay_id),
    belongs_to(writer: Writer, key = writer_id),
    belongs_to(parent: Remark, key = parent_id),
    has_many(answers: Remark, key = parent_id, max = 1),
    sort = desc(rank),
    routes(auth = none),
)]
#[derive(Clone, Debug)]
pub struct Remark {
    #[field(primary)]
    pub id: String,
    pub essay_id: String,
    pub writer_id: Option<String>,
    pub parent_id: Option<String>,
    #[field(default = 0)]
    pub rank: i64,
}

/// A record whose path contains the id of its essay.
#[entity(parent_path = "essays/{essay_id}", scope(essay_id = param(essay_id)), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Leaf {
    #[field(primary)]
    pub id: String,
    pub essay_id: String,
}

/// A client of one tenant.
#[entity(tenant(tenant_id), has_many(deals: Deal, key = client_id))]
#[derive(Clone, Debug)]
pub struct Client {
    #[field(primary, default = uuid, client_set)]
    pub id: String,
    pub tenant_id: String,
    pub name: String,
}

/// A deal with a client; only its owner sees the deal.
#[entity(tenant(tenant_id), scope(owner_id = ctx(actor.id)), belongs_to(client: Client, key = client_id))]
#[derive(Clone, Debug)]
pub struct Deal {
    #[field(primary, default = uuid, client_set)]
    pub id: String,
    pub tenant_id: String,
    pub owner_id: String,
    pub client_id: String,
}

pub static LETTERS: Package = package!(
    name = "letters",
    entities = [
        entity(Writer, []),
        entity(Editor, []),
        entity(Essay, [BY_TITLE, BY_WRITER, FIND, BROWSE]),
        entity(Remark, []),
        entity(Leaf, []),
        entity(Client, []),
        entity(Deal, []),
    ],
);

cases!(&super::LETTERS =>
    belongs_to_includes_one_record, belongs_to_is_included_on_every_read,
    a_missing_related_record_is_null, hidden_related_records_are_omitted,
    has_many_includes_the_first_records, has_many_pages_continue,
    includes_may_be_two_relations_deep, an_entity_may_relate_to_itself,
    has_many_continues_below_its_parent_path, unknown_include_names_are_refused,
    includes_apply_the_policy_of_their_target, includes_stay_within_the_tenant,
    includes_apply_scopes, pages_continue_with_other_includes, includes_do_not_change_the_etag,
    code_reads_related_records, the_document_describes_relations,
);

async fn post(s: &Server, path: &str, body: Json) {
    let reply = s.post(path, body).await;
    assert_eq!(reply.status, 201, "{reply:?}");
}

/// Creates two writers, two essays, and five remarks on the first essay.
async fn create_letters(s: &Server) {
    post(
        s,
        "/writers",
        json!({"id": "w1", "name": "Ada", "city": "London", "pin": "1234"}),
    )
    .await;
    post(s, "/writers", json!({"id": "w2", "name": "Bob \"B\""})).await;
    post(s, "/editors", json!({"id": "7", "name": "Eve"})).await;
    post(
        s,
        "/essays",
        json!({"id": "e1", "title": "On notes", "writerId": "w1", "editorId": 7}),
    )
    .await;
    post(
        s,
        "/essays",
        json!({"id": "e2", "title": "On engines", "writerId": null}),
    )
    .await;
    for n in 0..5 {
        let writer = if n % 2 == 0 { json!("w1") } else { json!("w2") };
        post(
            s,
            "/remarks",
            json!({"id": format!("r{n}"), "essayId": "e1", "writerId": writer, "rank": n / 2}),
        )
        .await;
    }
}

async fn get_json(s: &Server, path: &str) -> Json {
    let reply = s.get(path).await;
    assert_eq!(reply.status, 200, "{path} {reply:?}");
    reply.json()
}

async fn belongs_to_includes_one_record(s: &Server) {
    create_letters(s).await;
    let essay = get_json(s, "/essays/e1?include=writer").await;
    let expected = json!({
        "id": "e1", "title": "On notes", "writerId": "w1", "editorId": 7, "version": 1,
        "writer": {"id": "w1", "name": "Ada"},
    });
    assert_eq!(essay, expected);
    let head = s.raw("HEAD", "/essays/e1?include=writer", &[], "").await;
    assert_eq!(
        (head.status, head.header("content-length")),
        (200, essay.to_string().len().to_string())
    );
}

async fn belongs_to_is_included_on_every_read(s: &Server) {
    create_letters(s).await;
    let ada = json!({"id": "w1", "name": "Ada"});
    let page = get_json(s, "/essays?include=writer").await;
    assert_eq!(
        (&page["items"][0]["writer"], &page["items"][1]["writer"]),
        (&ada, &Json::Null)
    );
    assert_eq!(
        (&page["nextCursor"], &page["hasMore"]),
        (&Json::Null, &json!(false))
    );
    assert_eq!(
        get_json(s, "/essays/by-title?title=On%20notes&include=writer").await["writer"],
        ada
    );
    assert_eq!(
        get_json(s, "/essays/by-title/On%20notes?include=writer").await["writer"],
        ada
    );
    assert_eq!(
        get_json(s, "/essays/by-title?title=none&include=writer").await,
        Json::Null
    );
    assert_eq!(
        get_json(s, "/essays/by-writer?writerId=w1&include=writer").await["items"][0]["writer"],
        ada
    );
    assert_eq!(
        get_json(s, "/essays/find?q=notes&include=writer").await[0]["writer"],
        ada
    );
    assert_eq!(
        get_json(s, "/essays/find?q=nothing&include=writer").await,
        json!([])
    );
    assert_eq!(
        get_json(s, "/essays/browse?q=NOTES&include=writer").await["items"][0]["writer"],
        ada
    );
}

async fn a_missing_related_record_is_null(s: &Server) {
    create_letters(s).await;
    post(
        s,
        "/essays",
        json!({"id": "e3", "title": "Of nobody", "writerId": "nobody"}),
    )
    .await;
    assert_eq!(
        get_json(s, "/essays/e3?include=writer").await["writer"],
        Json::Null
    );
    assert_eq!(s.delete("/writers/w1").await.status, 204);
    let essay = get_json(s, "/essays/e1?include=writer,remarks.writer").await;
    assert_eq!(
        (&essay["writer"], &essay["writerId"]),
        (&Json::Null, &json!("w1"))
    );
    let writers: Vec<&Json> = essay["remarks"]["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| &r["writer"])
        .collect();
    assert_eq!(
        writers,
        [&Json::Null, &json!({"id": "w2", "name": "Bob \"B\""})]
    );
}

async fn hidden_related_records_are_omitted(s: &Server) {
    create_letters(s).await;
    for path in [
        "/essays/e1?include=writer,remarks.writer",
        "/essays?include=remarks.writer,writer",
        "/remarks?include=essay.writer",
    ] {
        let text = get_json(s, path).await.to_string();
        for hidden in ["secret", "pin", "1234", "city", "London", "deletedAt"] {
            assert!(!text.contains(hidden), "{hidden} in {text}");
        }
        assert!(text.contains("Ada"), "{text}");
    }
}

async fn has_many_includes_the_first_records(s: &Server) {
    create_letters(s).await;
    let essay = get_json(s, "/essays/e1?include=remarks").await;
    let remarks = &essay["remarks"];
    let ids: Vec<&str> = remarks["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["id"].as_str().unwrap())
        .collect();
    // In the order of the list route of remarks: greatest rank first, then greatest id.
    assert_eq!(ids, ["r4", "r3"]);
    assert_eq!(remarks["hasMore"], json!(true));
    assert!(remarks["nextCursor"].is_string());
    assert_eq!(remarks.as_object().unwrap().len(), 3);
    let empty = json!({"items": [], "nextCursor": null, "hasMore": false});
    assert_eq!(
        get_json(s, "/essays/e2?include=remarks").await["remarks"],
        empty
    );
    let all = get_json(s, "/essays?include=remarks").await;
    assert_eq!(all["items"][0]["remarks"]["items"], remarks["items"]);
    assert_eq!(all["items"][1]["remarks"], empty);
}

async fn has_many_pages_continue(s: &Server) {
    create_letters(s).await;
    post(
        s,
        "/remarks",
        json!({"id": "other", "essayId": "e2", "rank": 1}),
    )
    .await;
    let included = get_json(s, "/essays/e1?include=remarks").await["remarks"].clone();
    let mut seen: Vec<Json> = included["items"].as_array().unwrap().clone();
    let cursor = included["nextCursor"].as_str().unwrap();
    let rest = s
        .walk(&format!("/remarks?essayId=e1&limit=2&cursor={cursor}"))
        .await;
    assert_eq!(rest.len(), 3);
    seen.extend(rest);
    assert_eq!(seen, s.walk("/remarks?essayId=e1").await);
    // The cursor is valid for that list only.
    for path in [
        "/remarks?essayId=e2",
        "/remarks",
        "/remarks?essayId=e1&sort=id",
        "/essays",
    ] {
        let join = if path.contains('?') { '&' } else { '?' };
        assert_eq!(
            s.get(&format!("{path}{join}cursor={cursor}")).await.code(),
            (400, "invalid_cursor"),
            "{path}"
        );
    }
}

async fn includes_may_be_two_relations_deep(s: &Server) {
    create_letters(s).await;
    let essay = get_json(s, "/essays/e1?include=remarks.writer,remarks.essay,writer").await;
    let first = &essay["remarks"]["items"][0];
    assert_eq!(first["writer"], json!({"id": "w1", "name": "Ada"}));
    assert_eq!(first["essay"]["title"], "On notes");
    assert_eq!(first["essay"].get("remarks"), None);
    // `remarks.writer` alone also includes `remarks`. The order of the paths does not matter.
    let named = get_json(
        s,
        "/essays/e1?include=remarks,writer,remarks.essay,remarks.writer",
    )
    .await;
    assert_eq!(named["remarks"]["items"][0]["writer"], first["writer"]);
    assert_eq!(
        get_json(s, "/remarks/r0?include=essay.remarks").await["essay"]["remarks"]["items"][0]["id"],
        "r4"
    );
}

async fn an_entity_may_relate_to_itself(s: &Server) {
    create_letters(s).await;
    post(
        s,
        "/remarks",
        json!({"id": "a1", "essayId": "e1", "parentId": "r0"}),
    )
    .await;
    post(
        s,
        "/remarks",
        json!({"id": "a2", "essayId": "e1", "parentId": "r0"}),
    )
    .await;
    let remark = get_json(s, "/remarks/r0?include=answers.parent,parent").await;
    assert_eq!(remark["parent"], Json::Null);
    assert_eq!(
        (
            &remark["answers"]["items"][0]["id"],
            &remark["answers"]["hasMore"]
        ),
        (&json!("a2"), &json!(true))
    );
    assert_eq!(remark["answers"]["items"][0]["parent"]["id"], "r0");
}

async fn has_many_continues_below_its_parent_path(s: &Server) {
    create_letters(s).await;
    for n in 0..3 {
        post(s, "/essays/e1/leaves", json!({"id": format!("p{n}")})).await;
        post(s, "/essays/e2/leaves", json!({"id": format!("q{n}")})).await;
    }
    let included = get_json(s, "/essays/e1?include=pages").await["pages"].clone();
    assert_eq!(included["items"], json!([{"id": "p0", "essayId": "e1"}]));
    let cursor = included["nextCursor"].as_str().unwrap();
    let rest = s.walk(&format!("/essays/e1/leaves?cursor={cursor}")).await;
    assert_eq!(
        rest.iter()
            .map(|r| r["id"].as_str().unwrap())
            .collect::<Vec<_>>(),
        ["p1", "p2"]
    );
    assert_eq!(
        s.get(&format!("/essays/e2/leaves?cursor={cursor}"))
            .await
            .code(),
        (400, "invalid_cursor")
    );
}

async fn unknown_include_names_are_refused(s: &Server) {
    create_letters(s).await;
    let unknown = [
        "nobody",
        "writer,nobody",
        "writer.nobody",
        "remarks.nobody",
        "Writer",
        "writer_id",
        "writer ,remarks",
    ];
    for route in [
        "/essays/e1",
        "/essays",
        "/essays/by-title?title=x",
        "/essays/find?q=x",
    ] {
        let join = if route.contains('?') { '&' } else { '?' };
        for path in unknown {
            let reply = s
                .get(&format!("{route}{join}include={}", path.replace(' ', "+")))
                .await;
            assert_eq!(reply.code(), (400, "unknown_parameter"), "{route} {path}");
            assert_eq!(
                reply.problems(),
                [("query:include".to_owned(), "unknown_parameter".to_owned())],
                "{route} {path}"
            );
        }
        for (text, code) in [
            ("", "empty"),
            ("writer,", "empty"),
            (",writer", "empty"),
            ("writer,writer", "duplicate"),
            ("remarks.writer,remarks.writer", "duplicate"),
            ("remarks.writer.x", "too_many"),
            ("remarks.parent.parent", "too_many"),
            ("%ff", "format"),
        ] {
            s.get(&format!("{route}{join}include={text}"))
                .await
                .problem(code, "query:include");
        }
        s.get(&format!("{route}{join}include=writer&include=remarks"))
            .await
            .problem("duplicate", "query:include");
        let eight = "writer,editor,remarks,pages,remarks.essay,remarks.writer,remarks.parent,remarks.answers";
        s.get(&format!("{route}{join}include={eight},writer"))
            .await
            .problem("duplicate", "query:include");
        let nine = format!("{eight},editor.x");
        assert_eq!(
            s.get(&format!("{route}{join}include={nine}")).await.code(),
            (400, "unknown_parameter")
        );
    }
    let nine = "essay,writer,parent,answers,essay.writer,essay.editor,essay.remarks,essay.pages,parent.essay";
    s.get(&format!("/remarks?include={nine}"))
        .await
        .problem("too_many", "query:include");
    // All unknown names are reported together.
    let reply = s.get("/essays?nonsense=1&include=nobody").await;
    let paths: Vec<String> = reply.problems().into_iter().map(|(path, _)| path).collect();
    assert_eq!(paths, ["query:include", "query:nonsense"]);
    // Entities without relations, and routes that write, refuse `include`.
    for (method, path) in [
        ("GET", "/writers?include=essays"),
        ("DELETE", "/essays/e1?include=writer"),
    ] {
        assert_eq!(
            s.raw(method, path, &[], "").await.code(),
            (400, "unknown_parameter"),
            "{path}"
        );
    }
    assert_eq!(
        s.post("/essays?include=writer", json!({"id": "x", "title": "x"}))
            .await
            .code(),
        (400, "unknown_parameter")
    );
    assert_eq!(
        s.patch("/essays/e1?include=writer", json!({"title": "x"}))
            .await
            .code(),
        (400, "unknown_parameter")
    );
}

async fn includes_apply_the_policy_of_their_target(s: &Server) {
    create_letters(s).await;
    let admin = s.token("root", &["admin"]);
    let user = s.token("joe", &["user"]);
    for path in [
        "/essays/e1?include=editor",
        "/essays?include=writer,editor",
        "/remarks?include=essay.editor",
    ] {
        assert_eq!(s.get(path).await.code(), (401, "unauthorized"), "{path}");
        assert_eq!(
            s.raw("GET", path, &[("authorization", &user)], "")
                .await
                .code(),
            (403, "forbidden"),
            "{path}"
        );
        assert_eq!(
            s.raw("GET", path, &[("authorization", &admin)], "")
                .await
                .status,
            200,
            "{path}"
        );
    }
    // The check also runs if there is no record to include.
    assert_eq!(s.get("/essays/e2?include=editor").await.status, 401);
    let essay = s
        .raw(
            "GET",
            "/essays/e1?include=editor",
            &[("authorization", &admin)],
            "",
        )
        .await
        .json();
    assert_eq!(
        (&essay["editor"], &essay["editorId"]),
        (&json!({"id": "7", "name": "Eve"}), &json!(7))
    );
}

async fn includes_stay_within_the_tenant(s: &Server) {
    let (ann, bob) = (s.token_in("ann", "t1"), s.token_in("bob", "t2"));
    let call = async |token: &str, method: &str, path: &str, body: Json| {
        let text = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let headers = [
            ("authorization", token),
            ("content-type", "application/json"),
        ];
        s.raw(
            method,
            path,
            &headers[..if text.is_empty() { 1 } else { 2 }],
            &text,
        )
        .await
    };
    assert_eq!(
        call(
            &bob,
            "POST",
            "/clients",
            json!({"id": "theirs", "name": "B"})
        )
        .await
        .status,
        201
    );
    assert_eq!(
        call(&ann, "POST", "/clients", json!({"id": "own", "name": "A"}))
            .await
            .status,
        201
    );
    for (id, client) in [("d1", "theirs"), ("d2", "absent"), ("d3", "own")] {
        assert_eq!(
            call(
                &ann,
                "POST",
                "/deals",
                json!({"id": id, "clientId": client})
            )
            .await
            .status,
            201
        );
    }
    let deal = async |id: &str| {
        call(
            &ann,
            "GET",
            &format!("/deals/{id}?include=client"),
            Json::Null,
        )
        .await
        .json()
    };
    let (theirs, absent, own) = (deal("d1").await, deal("d2").await, deal("d3").await);
    assert_eq!(theirs["client"], Json::Null);
    let without_ids = |deal: &Json| {
        deal.to_string()
            .replace("theirs", "X")
            .replace("absent", "X")
            .replace("d1", "D")
            .replace("d2", "D")
    };
    assert_eq!(
        without_ids(&theirs),
        without_ids(&absent),
        "a client of another tenant looks like a missing one"
    );
    assert_eq!(own["client"]["name"], "A");
    // Deals of other owners are not included in a client either.
    assert_eq!(
        call(
            &bob,
            "POST",
            "/deals",
            json!({"id": "d4", "clientId": "own"})
        )
        .await
        .status,
        201
    );
    let client = call(&ann, "GET", "/clients/own?include=deals", Json::Null)
        .await
        .json();
    assert_eq!(client["deals"]["items"].as_array().unwrap().len(), 1);
    assert_eq!(client["deals"]["items"][0]["id"], "d3");
}

async fn includes_apply_scopes(s: &Server) {
    let (ann, cid) = (s.token_in("ann", "t1"), s.token_in("cid", "t1"));
    let json_type = ("content-type", "application/json");
    let send = async |token: &str, path: &str, body: Json| {
        s.raw(
            "POST",
            path,
            &[("authorization", token), json_type],
            &body.to_string(),
        )
        .await
    };
    assert_eq!(
        send(&ann, "/clients", json!({"id": "c", "name": "C"}))
            .await
            .status,
        201
    );
    assert_eq!(
        send(&ann, "/deals", json!({"id": "a1", "clientId": "c"}))
            .await
            .status,
        201
    );
    assert_eq!(
        send(&cid, "/deals", json!({"id": "c1", "clientId": "c"}))
            .await
            .status,
        201
    );
    for (token, own) in [(&ann, "a1"), (&cid, "c1")] {
        let page = s
            .raw(
                "GET",
                "/clients?include=deals",
                &[("authorization", token)],
                "",
            )
            .await
            .json();
        let deals: Vec<&str> = page["items"][0]["deals"]["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|d| d["id"].as_str().unwrap())
            .collect();
        assert_eq!(deals, [own]);
    }
    // Callers without a tenant, and anonymous callers.
    let nobody = s.token("zoe", &[]);
    assert_eq!(
        s.raw(
            "GET",
            "/clients?include=deals",
            &[("authorization", &nobody)],
            ""
        )
        .await
        .status,
        403
    );
    assert_eq!(s.get("/clients?include=deals").await.status, 401);
}

async fn pages_continue_with_other_includes(s: &Server) {
    create_letters(s).await;
    let first = get_json(s, "/essays?limit=1&include=writer").await;
    let cursor = first["nextCursor"].as_str().unwrap();
    let with = get_json(
        s,
        &format!("/essays?limit=1&include=remarks&cursor={cursor}"),
    )
    .await;
    let without = get_json(s, &format!("/essays?cursor={cursor}")).await;
    assert_eq!(
        (&with["items"][0]["id"], &without["items"][0]["id"]),
        (&json!("e2"), &json!("e2"))
    );
    assert_eq!(with["items"][0]["remarks"]["hasMore"], json!(false));
    assert_eq!(
        s.walk("/essays?limit=1&include=writer,remarks.writer")
            .await
            .len(),
        2
    );
}

async fn includes_do_not_change_the_etag(s: &Server) {
    create_letters(s).await;
    let tag = s.get("/essays/e1").await.header("etag");
    let same = [("if-none-match", tag.as_str())];
    assert_eq!(s.raw("GET", "/essays/e1", &same, "").await.status, 304);
    let with = s.raw("GET", "/essays/e1?include=writer", &same, "").await;
    assert_eq!((with.status, with.header("etag")), (200, tag.clone()));
    assert_eq!(
        s.patch("/writers/w1", json!({"name": "Ada L."}))
            .await
            .status,
        200
    );
    assert_eq!(
        s.raw("GET", "/essays/e1?include=writer", &same, "")
            .await
            .json()["writer"]["name"],
        "Ada L."
    );
}

async fn code_reads_related_records(s: &Server) {
    create_letters(s).await;
    let (essays, remarks) = (
        s.running().adapter::<Essay>().unwrap(),
        s.running().adapter::<Remark>().unwrap(),
    );
    let cx = Cx::actor(Actor::user("clerk"));
    let writers = essays
        .related(
            &cx,
            Essay::WRITER,
            [
                Some("w2".to_owned()),
                None,
                Some("w1".to_owned()),
                Some("x".to_owned()),
            ],
        )
        .await
        .unwrap();
    let names: Vec<Option<&str>> = writers
        .iter()
        .map(|w| w.as_ref().map(|w| w.name.as_str()))
        .collect();
    assert_eq!(names, [Some("Bob \"B\""), None, Some("Ada"), None]);
    let pages: Vec<Page<Remark>> = essays
        .related_pages(&cx, Essay::REMARKS, ["e2", "e1", "e1"])
        .await
        .unwrap();
    assert_eq!(
        pages.iter().map(|p| p.items.len()).collect::<Vec<_>>(),
        [0, 2, 2]
    );
    assert_eq!(pages[1].next_cursor, pages[2].next_cursor);
    assert!(pages[1].has_more && !pages[0].has_more);
    let editors = essays.related(&cx, Essay::EDITOR, [7, 8]).await.unwrap();
    assert_eq!(
        editors
            .iter()
            .map(|e| e.as_ref().map(|e| e.id))
            .collect::<Vec<_>>(),
        [Some(7), None]
    );
    let parents = remarks
        .related(&cx, Remark::PARENT, [None::<String>])
        .await
        .unwrap();
    assert!(parents[0].is_none());
}

/// The document describes the relations, and the responses match it.
async fn the_document_describes_relations(s: &Server) {
    create_letters(s).await;
    let document = get_json(s, "/openapi.json").await;
    let parameter = |path: &str| {
        let all = document["paths"][path]["get"]["parameters"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        all.into_iter().find(|p| p["name"] == "include")
    };
    for path in [
        "/essays",
        "/essays/{id}",
        "/essays/by-title",
        "/essays/by-writer/{writerId}",
        "/essays/find",
    ] {
        let paths =
            parameter(path).unwrap_or_else(|| panic!("{path}"))["schema"]["items"]["enum"].clone();
        assert!(
            ["writer", "editor", "remarks", "remarks.writer"]
                .iter()
                .all(|p| paths.as_array().unwrap().contains(&json!(p))),
            "{paths}"
        );
    }
    assert!(
        parameter("/writers").is_none()
            && document["paths"]["/essays"]["post"]["parameters"].is_null()
    );
    assert!(
        document["paths"]["/essays"]["get"]["responses"]
            .get("401")
            .is_some(),
        "an included editor requires authentication"
    );
    let schema = |name: &str| {
        let mut schema = json!({"$ref": format!("#/components/schemas/{name}"), "components": document["components"]});
        schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
        jsonschema::validator_for(&schema).unwrap()
    };
    let essay =
        document["paths"]["/essays/{id}"]["get"]["responses"]["200"]["content"]["application/json"]
            ["schema"]["$ref"]
            .clone();
    let essay = schema(essay.as_str().unwrap().rsplit('/').next().unwrap());
    let mut answer = get_json(s, "/essays/e1?include=writer,remarks.writer").await;
    assert!(essay.is_valid(&answer), "{answer}");
    assert!(essay.is_valid(&get_json(s, "/essays/e1").await));
    answer["remarks"]["items"][0]["writer"] = json!(5);
    assert!(!essay.is_valid(&answer));
}
