//! Records that exist but are invisible: soft delete and expiry.

use linchpin::entity::ListQuery;
use linchpin::prelude::*;
use serde_json::{Value as Json, json};

use crate::cases;
use crate::server::Server;
use crate::tenancy::{call, id, made};
use crate::visibility_fixture::{
    Flagged, Note, NoteCreate, Parcel, Session, SessionCreate, Status,
};

cases!(&crate::visibility_fixture::SEEN =>
    a_soft_deleted_record_is_hidden, a_soft_deleted_record_frees_its_unique_values,
    a_record_expires_after_its_ttl, lookups_hide_deleted_records,
    deleted_records_are_missing_everywhere, a_soft_delete_checks_and_changes_the_version,
    clients_cannot_write_the_deletion_mark, a_deleted_record_keeps_its_key,
    only_the_application_reads_deleted_records, expired_records_are_missing_everywhere,
    expired_records_free_keys_and_uniques, expired_records_free_keys_within_a_transaction,
    every_change_extends_the_expiry, the_sweeper_removes_expired_records,
);

async fn note(s: &Server, slug: &str) -> String {
    let record = made(s, "", "/notes", json!({"slug": slug, "title": "T"})).await;
    format!("/notes/{}", id(&record))
}

async fn a_soft_deleted_record_is_hidden(s: &Server) {
    let path = note(s, "a").await;
    assert_eq!(s.delete(&path).await.status, 204);
    assert_eq!(s.get(&path).await.code(), (404, "not_found"));
    assert_eq!(
        s.get("/notes").await.json(),
        json!({"items": [], "nextCursor": null, "hasMore": false})
    );
    assert_eq!(s.patch(&path, json!({"title": "x"})).await.status, 404);
    assert_eq!(s.patch(&path, json!({})).await.status, 404);
    assert_eq!(s.delete(&path).await.status, 404);
    // The deleted record is still stored.
    let notes = s.running().adapter::<Note>().unwrap();
    let system = Cx::system("look").at(s.now());
    let all = notes
        .list(&system, ListQuery::new().include_deleted())
        .await
        .unwrap();
    assert_eq!(
        (all.items.len(), all.items[0].deleted_at),
        (1, Some(s.now()))
    );
}

async fn a_soft_deleted_record_frees_its_unique_values(s: &Server) {
    let path = note(s, "a").await;
    assert_eq!(
        s.post("/notes", json!({"slug": "a", "title": "T"}))
            .await
            .code(),
        (409, "conflict")
    );
    assert_eq!(s.delete(&path).await.status, 204);
    let again = note(s, "a").await;
    assert_ne!(path, again);
    assert_eq!(s.delete(&again).await.status, 204);
    note(s, "a").await;
    let refused = s.post("/notes", json!({"slug": "a", "title": "T"})).await;
    assert_eq!(
        refused.problems(),
        [("slug".to_owned(), "unique".to_owned())]
    );
}

async fn lookups_hide_deleted_records(s: &Server) {
    let path = note(s, "a").await;
    assert_eq!(s.get("/notes/by-slug?slug=a").await.json()["slug"], "a");
    s.delete(&path).await;
    for form in ["/notes/by-slug?slug=a", "/notes/by-slug/a"] {
        let reply = s.get(form).await;
        assert_eq!((reply.status, reply.json()), (200, Json::Null));
    }
    assert_eq!(
        s.get("/notes/by-title?title=T").await.json()["items"],
        json!([])
    );
    assert_eq!(
        s.get("/notes/slug-taken?slug=a").await.json(),
        json!({"exists": false})
    );
    assert_eq!(
        s.raw("HEAD", "/notes/slug-taken/a", &[], "").await.status,
        404
    );
}

async fn deleted_records_are_missing_everywhere(s: &Server) {
    let path = note(s, "a").await;
    s.delete(&path).await;
    assert_eq!(
        s.post(&format!("{path}/bump"), json!({})).await.code(),
        (404, "not_found")
    );
    assert_eq!(
        s.post("/notes/take", json!({"slug": "a"})).await.json(),
        Json::Null
    );
    assert_eq!(
        s.post("/notes/clear", json!({"title": "T"})).await.json(),
        json!(0)
    );
    // No query parameter finds deleted records.
    assert_eq!(
        s.get("/notes?includeDeleted=true").await.code(),
        (400, "unknown_parameter")
    );
    // A batch and a consume mark records as deleted, too.
    let cleared = note(s, "b").await;
    assert_eq!(
        s.post("/notes/clear", json!({"title": "T"})).await.json(),
        json!(1)
    );
    assert_eq!(s.get(&cleared).await.status, 404);
    let taken = note(s, "c").await;
    assert_eq!(
        s.post("/notes/take", json!({"slug": "c"})).await.json()["slug"],
        "c"
    );
    assert_eq!(
        s.post("/notes/take", json!({"slug": "c"})).await.json(),
        Json::Null
    );
    assert_eq!(s.get(&taken).await.status, 404);
    let notes = s.running().adapter::<Note>().unwrap();
    let all = ListQuery::new().include_deleted().limit(3);
    assert_eq!(
        notes
            .list(&Cx::system("count"), all)
            .await
            .unwrap()
            .items
            .len(),
        3
    );
    // An upsert creates a new record next to a deleted one, and changes a live one.
    let ensured = s
        .post("/notes/ensure", json!({"slug": "a", "title": "again"}))
        .await;
    assert_eq!(
        (ensured.status, &ensured.json()["created"]),
        (201, &json!(true))
    );
    let ensured = s
        .post("/notes/ensure", json!({"slug": "a", "title": "more"}))
        .await;
    assert_eq!(
        (ensured.status, &ensured.json()["created"]),
        (200, &json!(false))
    );
    assert_ne!(format!("/notes/{}", id(&ensured.json()["entity"])), path);
    // A page is full even if there are deleted records between its records.
    for slug in ["p", "q", "r", "t"] {
        let path = note(s, slug).await;
        s.delete(&note(s, &format!("{slug}-gone")).await).await;
        assert_eq!(s.get(&path).await.status, 200);
    }
    assert_eq!(s.walk("/notes?sort=title&limit=3").await.len(), 5);
}

async fn a_soft_delete_checks_and_changes_the_version(s: &Server) {
    let record = made(s, "", "/flaggeds", json!({"name": "n"})).await;
    let path = format!("/flaggeds/{}", id(&record));
    assert_eq!(s.delete(&path).await.code(), (428, "precondition_required"));
    assert_eq!(
        s.raw("DELETE", &path, &[("if-match", "\"2\"")], "")
            .await
            .code(),
        (412, "precondition_failed")
    );
    assert_eq!(
        s.raw("DELETE", &path, &[("if-match", "\"1\"")], "")
            .await
            .status,
        204
    );
    assert_eq!(
        s.raw("DELETE", &path, &[("if-match", "\"2\"")], "")
            .await
            .code(),
        (404, "not_found")
    );
    let records = s.running().adapter::<Flagged>().unwrap();
    let all = records
        .list(&Cx::system("look"), ListQuery::new().include_deleted())
        .await
        .unwrap();
    assert_eq!(
        (all.items[0].version, all.items[0].status),
        (2, Status::Gone)
    );
    let path = note(s, "a").await;
    s.advance(50);
    s.delete(&path).await;
    let notes = s.running().adapter::<Note>().unwrap();
    let all = notes
        .list(&Cx::system("look"), ListQuery::new().include_deleted())
        .await
        .unwrap();
    assert_eq!(all.items[0].updated_at, s.now());
}

async fn clients_cannot_write_the_deletion_mark(s: &Server) {
    s.post("/flaggeds", json!({"name": "n", "status": "gone"}))
        .await
        .problem("not_allowed", "status");
    let record = made(s, "", "/flaggeds", json!({"name": "n"})).await;
    let path = format!("/flaggeds/{}", id(&record));
    let tag = [("content-type", "application/json"), ("if-match", "\"1\"")];
    s.raw("PATCH", &path, &tag, r#"{"status":"gone"}"#)
        .await
        .problem("not_allowed", "status");
    s.raw_json(
        "PATCH",
        &format!("{path}/restate"),
        json!({"status": "gone"}),
    )
    .await
    .problem("not_allowed", "status");
    s.post(
        "/flaggeds/restate-all",
        json!({"name": "n", "status": "gone"}),
    )
    .await
    .problem("not_allowed", "status");
    s.post("/flaggeds/declare", json!({"name": "n", "status": "gone"}))
        .await
        .problem("not_allowed", "status");
    s.post(
        "/flaggeds/declare",
        json!({"name": "new", "status": "gone"}),
    )
    .await
    .problem("not_allowed", "status");
    assert_eq!(s.get(&path).await.json()["status"], "draft");
    assert_eq!(
        s.raw("PATCH", &path, &tag, r#"{"status":"live"}"#)
            .await
            .status,
        200
    );
    // Only the server sets the date of the deletion.
    let note = note(s, "a").await;
    s.post(
        "/notes",
        json!({"slug": "b", "title": "T", "deletedAt": null}),
    )
    .await
    .problem("read_only", "deletedAt");
    s.patch(&note, json!({"deletedAt": "2026-01-01T00:00:00Z"}))
        .await
        .problem("read_only", "deletedAt");
}

async fn a_deleted_record_keeps_its_key(s: &Server) {
    let parcels = s.running().adapter::<Parcel>().unwrap();
    made(s, "", "/parcels", json!({"id": "x"})).await;
    assert_eq!(s.delete("/parcels/x").await.status, 204);
    assert_eq!(s.get("/parcels/x").await.status, 404);
    assert_eq!(
        s.post("/parcels", json!({"id": "x"})).await.problems(),
        [("id".to_owned(), "unique".to_owned())]
    );
    parcels.purge(&Cx::system("test"), "x").await.unwrap();
    made(s, "", "/parcels", json!({"id": "x"})).await;
    // A purge removes a deleted record from the store. Only the application may purge.
    let notes = s.running().adapter::<Note>().unwrap();
    let system = Cx::system("test").at(s.now());
    let made = notes
        .create(
            &system,
            NoteCreate {
                slug: "a".into(),
                title: "T".into(),
                views: None,
            },
        )
        .await
        .unwrap();
    notes.delete(&system, &*made.id, None).await.unwrap();
    notes.purge(&system, &*made.id).await.unwrap();
    assert_eq!(
        notes.purge(&system, &*made.id).await.unwrap_err().code(),
        linchpin::Code::NotFound
    );
    let actor = Cx::actor(Actor::user("u"));
    assert_eq!(
        notes.purge(&actor, &*made.id).await.unwrap_err().code(),
        linchpin::Code::Forbidden
    );
}

async fn only_the_application_reads_deleted_records(s: &Server) {
    s.delete(&note(s, "a").await).await;
    note(s, "b").await;
    let notes = s.running().adapter::<Note>().unwrap();
    let query = || ListQuery::new();
    let system = Cx::system("test");
    assert_eq!(
        notes.list(&system, query()).await.unwrap().items.len(),
        1,
        "the application does not see deleted records by default"
    );
    let first = notes
        .list(&system, query().include_deleted().limit(1))
        .await
        .unwrap();
    let cursor = first.next_cursor.unwrap();
    assert_eq!(
        notes
            .list(&system, query().include_deleted().limit(1).cursor(&cursor))
            .await
            .unwrap()
            .items
            .len(),
        1
    );
    // A cursor of a list with deleted records is refused in a list without them.
    assert_eq!(
        notes
            .list(&system, query().limit(1).cursor(&cursor))
            .await
            .unwrap_err()
            .code(),
        linchpin::Code::InvalidCursor
    );
    let actor = Cx::actor(Actor::user("u"));
    assert_eq!(
        notes
            .list(&actor, query().include_deleted())
            .await
            .unwrap_err()
            .code(),
        linchpin::Code::Forbidden
    );
}

async fn a_record_expires_after_its_ttl(s: &Server) {
    made(s, "", "/sessions", json!({"id": "x", "code": "1"})).await;
    s.advance(500);
    assert_eq!(
        s.patch("/sessions/x", json!({"note": "n"})).await.status,
        200
    );
    s.advance(999);
    assert_eq!(
        s.get("/sessions/x").await.status,
        200,
        "visible for one more second"
    );
    s.advance(1);
    assert_eq!(
        s.get("/sessions/x").await.code(),
        (404, "not_found"),
        "expiry <= now"
    );
    s.advance(2000);
    assert_eq!(s.get("/sessions/x").await.status, 404);
}

async fn expired_records_are_missing_everywhere(s: &Server) {
    made(s, "", "/sessions", json!({"id": "x", "code": "1"})).await;
    made(s, "", "/invites", json!({"code": "never"})).await;
    made(
        s,
        "",
        "/invites",
        json!({"code": "soon", "expiresAt": s.now().to_string()}),
    )
    .await;
    // The record expires exactly at this instant.
    assert_eq!(
        s.get("/invites").await.json()["items"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    assert_eq!(
        s.get("/invites/code-taken?code=soon").await.json(),
        json!({"exists": false})
    );
    assert_eq!(
        s.get("/invites/code-taken?code=never").await.json(),
        json!({"exists": true})
    );
    s.advance(1000);
    for (method, path, body) in [
        ("GET", "/sessions/x", Json::Null),
        ("PATCH", "/sessions/x", json!({"note": "n"})),
        ("PATCH", "/sessions/x", json!({})),
        ("DELETE", "/sessions/x", Json::Null),
        ("POST", "/sessions/x/hit", Json::Null),
    ] {
        assert_eq!(
            call(s, "", method, path, body).await.code(),
            (404, "not_found"),
            "{method} {path}"
        );
    }
    assert_eq!(s.get("/sessions").await.json()["items"], json!([]));
    // No response contains the hidden expiry field.
    let live = s.post("/sessions", json!({"id": "y", "code": "2"})).await;
    assert!(!String::from_utf8_lossy(&live.body).contains("xpiry"));
    s.post(
        "/sessions",
        json!({"id": "z", "code": "3", "linchpin_expiry": null}),
    )
    .await
    .problem("unknown_field", "linchpin_expiry");
    assert_eq!(
        s.get("/sessions?linchpin_expiry=1").await.code(),
        (400, "unknown_parameter")
    );
}

async fn expired_records_free_keys_and_uniques(s: &Server) {
    made(s, "", "/sessions", json!({"id": "x", "code": "1"})).await;
    made(s, "", "/sessions", json!({"id": "y", "code": "2"})).await;
    s.advance(1000);
    // The new records have the keys and unique values of expired records. The first new record has
    // the key of one expired record and the unique value of the other.
    made(s, "", "/sessions", json!({"id": "x", "code": "2"})).await;
    made(s, "", "/sessions", json!({"id": "y", "code": "3"})).await;
    assert_eq!(
        s.post("/sessions", json!({"id": "z", "code": "2"}))
            .await
            .code(),
        (409, "conflict"),
        "a live record blocks the value"
    );
    made(s, "", "/sessions", json!({"id": "old", "code": "4"})).await;
    s.advance(900);
    assert_eq!(
        s.patch("/sessions/x", json!({"note": "kept"})).await.status,
        200
    );
    s.advance(200);
    // An update and an upsert also get the values of expired records.
    assert_eq!(
        s.patch("/sessions/x", json!({"code": "4"})).await.status,
        200
    );
    let login = s
        .post(
            "/sessions/login",
            json!({"code": "3", "note": "n", "id": "y"}),
        )
        .await;
    assert_eq!((login.status, &login.json()["hits"]), (201, &json!(0)));
    let login = s
        .post(
            "/sessions/login",
            json!({"code": "3", "note": "m", "id": "other"}),
        )
        .await;
    assert_eq!((login.status, &login.json()["id"]), (200, &json!("y")));
}

async fn expired_records_free_keys_within_a_transaction(s: &Server) {
    made(s, "", "/sessions", json!({"id": "x", "code": "1"})).await;
    s.advance(1000);
    let sessions = s.running().adapter::<Session>().unwrap();
    let input = |id: &str, code: &str| SessionCreate {
        id: id.into(),
        code: code.into(),
        hits: None,
        note: None,
    };
    let cx = Cx::system("test").at(s.now());
    cx.transaction(async |cx| {
        sessions.create(cx, input("y", "1")).await?;
        sessions.create(cx, input("x", "2")).await
    })
    .await
    .unwrap();
    // A failed transaction is rolled back: later reads find only the two records of the first
    // transaction.
    s.advance(500);
    let later = cx.clone().at(s.now());
    let undone = later.transaction(async |cx| {
        sessions.create(cx, input("z", "3")).await?;
        sessions.create(cx, input("x", "4")).await
    });
    assert_eq!(undone.await.unwrap_err().code(), linchpin::Code::Conflict);
    assert_eq!(s.get("/sessions/z").await.status, 404);
    assert_eq!(
        s.get("/sessions").await.json()["items"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
}

async fn every_change_extends_the_expiry(s: &Server) {
    made(s, "", "/sessions", json!({"id": "x", "code": "1"})).await;
    for _ in 0..3 {
        s.advance(900);
        assert_eq!(s.post("/sessions/x/hit", json!({})).await.status, 200);
        s.advance(900);
        assert_eq!(
            s.post(
                "/sessions/login",
                json!({"code": "1", "note": "n", "id": "q"})
            )
            .await
            .status,
            200
        );
    }
    // A call that changes nothing does not extend the expiry.
    s.advance(900);
    assert_eq!(s.patch("/sessions/x", json!({})).await.status, 200);
    s.advance(100);
    assert_eq!(s.get("/sessions/x").await.status, 404);
}

async fn the_sweeper_removes_expired_records(s: &Server) {
    let sweep_once = |s: &Server| {
        let table = std::sync::Arc::clone(s.running().adapters().table("sessions").unwrap());
        let now = s.now();
        async move { table.sweep(now).await.unwrap() }
    };
    for n in 0..1203 {
        let body = json!({"id": format!("s{n}"), "code": format!("c{n}")});
        assert_eq!(s.post("/sessions", body).await.status, 201);
        if n == 600 {
            assert_eq!(sweep_once(s).await, 0, "nothing has expired yet");
        }
    }
    s.advance(1000);
    made(s, "", "/sessions", json!({"id": "live", "code": "live"})).await;
    // The sweeper of the app runs at the start, when no record has expired, and then once per
    // minute. So it removes none of these records.
    assert_eq!(sweep_once(s).await, 1203);
    assert_eq!(sweep_once(s).await, 0);
    assert_eq!(s.get("/sessions/live").await.status, 200);
}

/// The app sweeps by itself, with its own clock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_app_runs_the_sweeper() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sweep.db");
    let clock = Arc::new(AtomicI64::new(1_000_000));
    let clock_of_app = Arc::clone(&clock);
    let config = Config::new()
        .signing_secret(crate::server::SECRET)
        .port(0)
        .database(format!("sqlite:{}", file.display()));
    let running = App::new(config)
        .plugin(JwtAuth::new())
        .package(&crate::visibility_fixture::SEEN)
        .clock(move || Timestamp::from_millis(clock_of_app.load(Ordering::SeqCst)))
        .sweep_every(std::time::Duration::from_millis(20))
        .start()
        .await
        .unwrap();
    let sessions = running.adapter::<Session>().unwrap();
    let cx = |at: i64| Cx::system("test").at(Timestamp::from_millis(at));
    let input = |id: &str| SessionCreate {
        id: id.into(),
        code: id.into(),
        hits: None,
        note: None,
    };
    sessions.create(&cx(1_000_000), input("old")).await.unwrap();
    sessions
        .create(&cx(1_000_900), input("young"))
        .await
        .unwrap();
    sessions
        .create(&cx(999_000), input("expired"))
        .await
        .unwrap();
    let stored = || -> Vec<String> {
        let connection = rusqlite::Connection::open(&file).unwrap();
        let mut all = connection
            .prepare("SELECT id FROM sessions ORDER BY id")
            .unwrap();
        all.query_map([], |row| row.get(0))
            .unwrap()
            .map(Result::unwrap)
            .collect()
    };
    let wait_for_removal = async |removed: &str| {
        for _ in 0..3_000 {
            if stored().iter().all(|id| id != removed) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        panic!("still stored: {:?}", stored());
    };
    wait_for_removal("expired").await;
    assert_eq!(stored(), ["old", "young"], "nothing else has expired yet");
    clock.store(1_001_000, Ordering::SeqCst);
    wait_for_removal("old").await;
    assert_eq!(stored(), ["young"]);
    running.stop().await.unwrap();
}
