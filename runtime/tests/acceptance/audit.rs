//! The audit log: an entry for each effect, in its transaction, and none for calls without effect.

#![allow(missing_docs)] // test entities

use std::time::Duration;

use linchpin::audit::{AuditEntry, AuditEntryListQuery, AuditLog, AuditNote, audit_entry};
use linchpin::prelude::*;
use linchpin::{AccessRequest, BoxFuture, Decision, Evaluator, Plugin, PostCx, Result};
use serde_json::{Value as Json, json};

use crate::cases;
use crate::server::{SECRET, Server};
use crate::tenancy::{call, made};

#[derive(Clone, Copy, Debug, PartialEq, FieldEnum)]
pub enum State {
    Open,
    Locked,
}

#[entity(
    unique(slug),
    soft_delete(deleted_at),
    version(required_on_write = false),
    routes(
        create(audit = "post"),
        update(audit = "edit", permission(requires = "edit", owner_field = author_id, resource = room)),
        delete(audit = "remove", permission(requires = "remove", resource = room)),
    )
)]
#[derive(Clone, Debug)]
pub struct Topic {
    #[field(primary, default = uuid, client_set)]
    pub id: String,
    pub slug: String,
    #[field(filterable)]
    pub room: String,
    #[field(default = ctx(actor.id))]
    pub author_id: String,
    #[field(default = State::Open)]
    pub state: State,
    #[field(default = 0)]
    pub views: i64,
    #[field(private, default = "")]
    pub notes: String,
    #[field(sensitive, default = "")]
    pub phone: String,
    pub deleted_at: Option<Timestamp>,
    #[field(default = now, on_update = now, private)]
    pub touched_at: Timestamp,
}

#[operation(kind = "transition", field = state, from = State::Open, to = State::Locked, route(audit = "lock"))]
pub const LOCK: Operation<Topic>;

#[operation(kind = "increment", field = views, by = 1, route(audit = "view"))]
pub const VIEW: Operation<Topic>;

#[operation(kind = "batch", action = "update", filter = (room == param(room) && state == State::Open), set(state = State::Locked), route(audit = "lock-all"))]
pub const LOCK_ALL: Operation<Topic>;

#[operation(
    kind = "upsert",
    match(slug),
    set(room),
    returns = "created",
    route(audit = "ensure")
)]
pub const ENSURE: Operation<Topic>;

#[operation(kind = "consume", filter = (room == param(room)), returns = "entity", route(audit = "take"))]
pub const TAKE: Operation<Topic>;

/// Locks a topic and then fails.
#[route(entity = Topic, method = "POST", path = "undecided", audit = "undecided")]
async fn undecided(cx: Cx, topics: TopicAdapter) -> Result<()> {
    cx.transaction(async |cx| {
        topics.lock(cx, "a").await?;
        Err(Error::forbidden())
    })
    .await
}

/// A token of a tenant that is removed when it is used.
#[entity(
    tenant(tenant_id),
    routes(
        create(idempotent, audit = "issue"),
        delete(audit = "revoke"),
        list(auth = "userAuth")
    )
)]
#[derive(Clone, Debug)]
pub struct Pass {
    #[field(primary)]
    pub id: i64,
    pub tenant_id: String,
}

static FORUM: Package = package!(
    name = "forum",
    entities = [
        entity(Topic, [LOCK, VIEW, LOCK_ALL, ENSURE, TAKE, undecided]),
        entity(Pass, [])
    ]
);

cases!(&crate::audit::FORUM, crate::audit::with_rights =>
    every_audited_change_has_one_entry, calls_without_effect_have_no_entry,
    changes_by_owners_have_no_entry, operations_on_many_records_have_one_entry_for_each,
    concurrent_changes_record_their_previous_states, tenants_read_their_own_entries_only,
    entries_are_kept_for_the_configured_time, code_adds_audit_entries,
    an_idempotency_key_leaves_no_entry_of_its_own,
);

fn with_rights(app: App) -> App {
    app.plugin(Rights).keep_audit(Duration::from_hours(24))
}

struct Rights;

impl Evaluator for Rights {
    fn decide<'a>(&'a self, request: AccessRequest<'a>) -> BoxFuture<'a, Result<Decision>> {
        let decision = if request.actor.has_any_role(&["moderator"]) {
            Decision::Allow
        } else {
            Decision::Abstain
        };
        Box::pin(async { Ok(decision) })
    }
}

impl Plugin for Rights {
    fn name(&self) -> &'static str {
        "rights"
    }

    fn setup_post<'a>(&'a self, cx: &'a mut PostCx) -> BoxFuture<'a, Result<()>> {
        Box::pin(async { cx.registrar().set_evaluator(Rights) })
    }
}

fn log(s: &Server) -> std::sync::Arc<AuditLog> {
    s.running().adapters().provided::<AuditLog>().unwrap()
}

/// All entries so far, the oldest first.
async fn audit_entries(s: &Server) -> Vec<AuditEntry> {
    let cx = Cx::system("read all").at(s.now());
    let mut items = log(s)
        .list(&cx, AuditEntryListQuery::new().limit(200))
        .await
        .unwrap()
        .items;
    items.sort_by(|a, b| a.id.cmp(&b.id));
    items
}

async fn topic(s: &Server, id: &str) {
    let body = json!({"id": id, "slug": id, "room": "r"});
    made(s, &s.token("ann", &[]), "/topics", body).await;
}

async fn every_audited_change_has_one_entry(s: &Server) {
    topic(s, "a").await;
    let token = s.token("mo", &["moderator"]);
    let patch = call(
        s,
        &token,
        "PATCH",
        "/topics/a",
        json!({"room": "q", "phone": "555"}),
    )
    .await;
    assert_eq!(patch.status, 200, "{patch:?}");
    assert_eq!(
        call(s, &token, "POST", "/topics/a/lock", json!({}))
            .await
            .status,
        200
    );
    assert_eq!(
        call(s, &token, "POST", "/topics/a/view", json!({}))
            .await
            .status,
        200
    );
    assert_eq!(
        call(s, &token, "DELETE", "/topics/a", Json::Null)
            .await
            .status,
        204
    );
    let entries = audit_entries(s).await;
    let actions: Vec<(&str, &str)> = entries.iter().map(|e| (&*e.action, &*e.route)).collect();
    assert_eq!(
        actions,
        [
            ("post", "create"),
            ("edit", "update"),
            ("lock", "lock"),
            ("view", "view"),
            ("remove", "delete")
        ]
    );
    for entry in &entries {
        assert_eq!(
            (
                &*entry.target_type,
                &*entry.target_id,
                entry.created_at,
                &*entry.actor_kind
            ),
            ("Topic", "a", s.now(), "user")
        );
        let text = serde_json::to_string(entry).unwrap();
        assert!(
            !text.contains("notes") && !text.contains("phone") && !text.contains("touched"),
            "{text}"
        );
    }
    let [post, edit, lock, view, remove] = &entries[..] else {
        panic!("{entries:?}")
    };
    assert_eq!(
        (post.actor_id.as_deref(), &post.before),
        (Some("ann"), &None)
    );
    let after = post.after.as_ref().unwrap();
    assert_eq!(
        (
            &after["slug"],
            &after["state"],
            &after["views"],
            &after["version"]
        ),
        (&json!("a"), &json!("open"), &json!(0), &json!(1))
    );
    assert_eq!(edit.before, Some(json!({"room": "r", "version": 1})));
    assert_eq!(edit.after, Some(json!({"room": "q", "version": 2})));
    assert_eq!(
        (edit.actor_id.as_deref(), edit.resource.as_deref()),
        (Some("mo"), Some("q"))
    );
    assert_eq!(edit.request_id, patch.header("x-request-id"));
    assert_eq!(
        (&lock.before, &lock.resource),
        (&Some(json!({"state": "open", "version": 2})), &None)
    );
    assert_eq!(lock.after, Some(json!({"state": "locked", "version": 3})));
    assert_eq!(view.after, Some(json!({"views": 1, "version": 4})));
    // Marking a record as deleted is a change.
    assert_eq!(remove.before.as_ref().unwrap()["deletedAt"], Json::Null);
    assert!(remove.after.as_ref().unwrap()["deletedAt"].is_string());
}

async fn calls_without_effect_have_no_entry(s: &Server) {
    topic(s, "a").await;
    let token = s.token("mo", &["moderator"]);
    assert_eq!(
        call(s, &token, "POST", "/topics/a/lock", json!({}))
            .await
            .status,
        200
    );
    let before = audit_entries(s).await.len();
    for (token, method, path, body, expected) in [
        (&token, "POST", "/topics/a/lock", json!({}), 400),
        (&token, "POST", "/topics/none/lock", json!({}), 404),
        (&token, "PATCH", "/topics/a", json!({}), 200),
        (&token, "PATCH", "/topics/a", json!({"views": "x"}), 400),
        (&token, "DELETE", "/topics/none", Json::Null, 404),
        (&s.token("eve", &[]), "DELETE", "/topics/a", Json::Null, 403),
        (
            &s.token("eve", &[]),
            "PATCH",
            "/topics/a",
            json!({"room": "x"}),
            403,
        ),
        (
            &token,
            "POST",
            "/topics",
            json!({"id": "a", "slug": "b", "room": "r"}),
            409,
        ),
        (
            &token,
            "POST",
            "/topics/lock-all",
            json!({"room": "none"}),
            200,
        ),
        (&token, "POST", "/topics/take", json!({"room": "none"}), 200),
        (&token, "GET", "/topics/a", Json::Null, 200),
    ] {
        let reply = call(s, token, method, path, body).await;
        assert_eq!(reply.status, expected, "{method} {path} {reply:?}");
    }
    assert_eq!(audit_entries(s).await.len(), before);
    // A rolled-back change has no entry.
    topic(s, "b").await;
    let cx = Cx::system("unlock").at(s.now());
    s.running()
        .adapter::<Topic>()
        .unwrap()
        .update(
            &cx,
            "a",
            TopicPatch {
                state: Some(State::Open),
                ..TopicPatch::default()
            },
            None,
        )
        .await
        .unwrap();
    assert_eq!(
        call(s, &token, "POST", "/topics/undecided", Json::Null)
            .await
            .status,
        403
    );
    assert_eq!(
        s.running()
            .adapter::<Topic>()
            .unwrap()
            .get(&cx, "a")
            .await
            .unwrap()
            .unwrap()
            .state,
        State::Open
    );
    assert_eq!(
        audit_entries(s).await.len(),
        before + 1,
        "calls from code are audited only if their context requests it"
    );
}

async fn changes_by_owners_have_no_entry(s: &Server) {
    topic(s, "a").await;
    // Owners need no grant, and changes of their own records need no entry.
    assert_eq!(
        call(
            s,
            &s.token("ann", &[]),
            "PATCH",
            "/topics/a",
            json!({"views": 7})
        )
        .await
        .status,
        200
    );
    assert_eq!(audit_entries(s).await.len(), 1);
    assert_eq!(
        call(
            s,
            &s.token("mo", &["moderator"]),
            "PATCH",
            "/topics/a",
            json!({"room": "p"})
        )
        .await
        .status,
        200
    );
    assert_eq!(audit_entries(s).await.len(), 2);
}

async fn operations_on_many_records_have_one_entry_for_each(s: &Server) {
    for id in ["a", "b", "c"] {
        topic(s, id).await;
    }
    let token = s.token("mo", &["moderator"]);
    assert_eq!(
        call(s, &token, "POST", "/topics/c/lock", json!({}))
            .await
            .status,
        200
    );
    assert_eq!(
        call(s, &token, "POST", "/topics/lock-all", json!({"room": "r"}))
            .await
            .json(),
        json!(2)
    );
    let ensured = call(
        s,
        &token,
        "POST",
        "/topics/ensure",
        json!({"slug": "d", "room": "new"}),
    )
    .await;
    assert_eq!(ensured.status, 201, "{ensured:?}");
    assert_eq!(
        call(
            s,
            &token,
            "POST",
            "/topics/ensure",
            json!({"slug": "d", "room": "old"})
        )
        .await
        .status,
        200
    );
    let taken = call(s, &token, "POST", "/topics/take", json!({"room": "r"}))
        .await
        .json();
    let entries = audit_entries(s).await;
    let entries_of = |action: &str| {
        entries
            .iter()
            .filter(|e| e.action == action)
            .collect::<Vec<_>>()
    };
    let mut locked: Vec<&str> = entries_of("lock-all")
        .iter()
        .map(|e| &*e.target_id)
        .collect();
    locked.sort_unstable();
    assert_eq!(locked, ["a", "b"], "an entry for each record");
    assert!(
        entries_of("lock-all")
            .iter()
            .all(|e| e.before == Some(json!({"state": "open", "version": 1}))),
        "{entries:?}"
    );
    let [new, old] = &entries_of("ensure")[..] else {
        panic!("{entries:?}")
    };
    assert_eq!(
        (&new.before, &new.after.as_ref().unwrap()["room"]),
        (&None, &json!("new"))
    );
    assert_eq!(old.before, Some(json!({"room": "new", "version": 1})));
    assert_eq!(old.after, Some(json!({"room": "old", "version": 2})));
    let [take] = &entries_of("take")[..] else {
        panic!("{entries:?}")
    };
    assert_eq!(json!(take.target_id), taken["id"]);
}

/// Each of several concurrent changes is recorded with the previous state that it found.
async fn concurrent_changes_record_their_previous_states(s: &Server) {
    const CALLS: usize = 25;
    topic(s, "a").await;
    let token = s.token("mo", &["moderator"]);
    let replies = s
        .parallel(CALLS, |_| {
            call(s, &token, "POST", "/topics/a/view", json!({}))
        })
        .await;
    assert!(
        replies.iter().all(|reply| reply.status == 200),
        "{replies:?}"
    );
    let mut found: Vec<(i64, i64)> = audit_entries(s)
        .await
        .iter()
        .filter(|e| e.action == "view")
        .map(|e| {
            (
                e.before.as_ref().unwrap()["views"].as_i64().unwrap(),
                e.after.as_ref().unwrap()["views"].as_i64().unwrap(),
            )
        })
        .collect();
    found.sort_unstable();
    assert_eq!(
        found,
        (0..CALLS as i64).map(|n| (n, n + 1)).collect::<Vec<_>>()
    );
}

async fn an_idempotency_key_leaves_no_entry_of_its_own(s: &Server) {
    let token = s.token_in("u", "t1");
    let headers = [
        ("authorization", &*token),
        ("content-type", "application/json"),
        ("idempotency-key", "k1"),
    ];
    for _ in 0..2 {
        let reply = s.raw("POST", "/passes", &headers, r#"{"id": "1"}"#).await;
        assert_eq!(reply.status, 201, "{reply:?}");
    }
    let entries = audit_entries(s).await;
    let targets: Vec<(&str, &str)> = entries
        .iter()
        .map(|entry| (&*entry.action, &*entry.target_type))
        .collect();
    assert_eq!(targets, [("issue", "Pass")]);
}

async fn tenants_read_their_own_entries_only(s: &Server) {
    for (tenant, id) in [("t1", "1"), ("t2", "2")] {
        made(s, &s.token_in("u", tenant), "/passes", json!({"id": id})).await;
    }
    assert_eq!(
        call(s, &s.token_in("u", "t2"), "DELETE", "/passes/2", Json::Null)
            .await
            .status,
        204
    );
    let actor = |tenant: &str| Actor {
        tenant_id: Some(tenant.to_owned()),
        ..Actor::user("u")
    };
    let read = async |cx: Cx| {
        log(s)
            .list(&cx.at(s.now()), AuditEntryListQuery::new())
            .await
            .unwrap()
            .items
    };
    let one = read(Cx::actor(actor("t1"))).await;
    assert_eq!(
        one.iter()
            .map(|e| (&*e.action, &*e.target_id))
            .collect::<Vec<_>>(),
        [("issue", "1")]
    );
    assert_eq!(one[0].after, Some(json!({"id": "1", "tenantId": "t1"})));
    let two = read(Cx::actor(actor("t2"))).await;
    assert_eq!(two.len(), 2);
    let revoked = two.iter().find(|e| e.action == "revoke").unwrap();
    assert_eq!(
        (&revoked.before, &revoked.after),
        (&Some(json!({"id": "2", "tenantId": "t2"})), &None)
    );
    assert!(
        log(s)
            .get(&Cx::actor(actor("t1")).at(s.now()), revoked.id.clone())
            .await
            .unwrap()
            .is_none()
    );
    assert!(
        log(s)
            .get(&Cx::actor(actor("t2")).at(s.now()), revoked.id.clone())
            .await
            .unwrap()
            .is_some()
    );
    assert_eq!(read(Cx::actor(Actor::user("nobody's"))).await.len(), 0);
}

async fn entries_are_kept_for_the_configured_time(s: &Server) {
    topic(s, "a").await;
    s.advance(Duration::from_hours(24).as_millis() as i64 - 1);
    topic(s, "b").await;
    assert_eq!(audit_entries(s).await.len(), 2);
    s.advance(1);
    assert_eq!(
        audit_entries(s)
            .await
            .iter()
            .map(|e| &*e.target_id)
            .collect::<Vec<_>>(),
        ["b"]
    );
}

async fn code_adds_audit_entries(s: &Server) {
    let cx = Cx::actor(Actor::user("ann")).at(s.now());
    let note = |action: &str| AuditNote {
        action: action.to_owned(),
        target_type: "Account".to_owned(),
        ..AuditNote::default()
    };
    log(s).add(&cx, note("login")).await.unwrap();
    let undone: Result<()> = cx
        .transaction(async |cx| {
            log(s).add(cx, note("logout")).await?;
            Err(Error::forbidden())
        })
        .await;
    assert!(undone.is_err());
    let query = AuditEntryListQuery::new().filter(audit_entry::actor_id.eq(Some("ann".to_owned())));
    let found = log(s)
        .list(&Cx::system("read").at(s.now()), query)
        .await
        .unwrap();
    assert_eq!(
        found.items.iter().map(|e| &*e.action).collect::<Vec<_>>(),
        ["login"]
    );
    // An app cannot mount the log in its own package.
    static SHAM: Package = package!(name = "sham", entities = [entity(AuditEntry, [])]);
    let app = App::new(
        Config::new()
            .signing_secret(SECRET)
            .port(0)
            .database("memory:"),
    )
    .package(&SHAM);
    let text = app.start().await.err().unwrap().to_string();
    assert!(
        text.contains("package `sham` lists `AuditEntry`, an entity of the framework"),
        "{text}"
    );
    assert!(s.running().adapter::<AuditEntry>().is_err());
}
