//! Tests of plans, states and verifications of a database.

use linchpin_core::schema::Snapshot;
use linchpin_migrate::{Exit, Phase};
use serde_json::{Value as Json, json};

use crate::server;
use crate::support::{App, Db, index, snapshot};

crate::cases!(reports:
    a_verification_lists_all_problems_at_once,
    a_verification_accepts_objects_of_other_programs,
    reading_creates_nothing_in_an_empty_database,
    a_status_shows_the_progress_of_an_open_migration,
);

fn first() -> Snapshot {
    snapshot(&[
        (
            "users",
            json!({
                "name": { "type": "string", "optional": true },
                "rank": { "type": "integer", "optional": true },
            }),
            json!({ "indexes": [index("ix_users_rank", &["rank"])] }),
        ),
        ("notes", json!({ "text": { "type": "string" } }), json!({})),
    ])
}

/// The second version of the schema: without `notes`, and with a level.
fn second() -> Snapshot {
    snapshot(&[(
        "users",
        json!({
            "name": { "type": "string", "optional": true },
            "rank": { "type": "integer", "optional": true },
            "level": { "type": "string", "optional": true },
        }),
        json!({ "indexes": [index("ix_users_rank", &["rank"])] }),
    )])
}

/// The codes of findings with the objects that they name.
fn codes(result: &Json) -> Vec<(String, String)> {
    let findings = result["findings"].as_array().expect("findings");
    let text = |json: &Json| json.as_str().unwrap_or_default().to_owned();
    findings
        .iter()
        .map(|finding| (text(&finding["code"]), text(&finding["object"])))
        .collect()
}

async fn a_verification_lists_all_problems_at_once(db: Db) {
    let app = App::new(&[first()]);
    db.apply(&app, Phase::Contract).await.expect("installed");
    let done = db.command(&app, "migrate verify").await.expect("verified");
    assert_eq!((done.exit, codes(&done.result)), (Exit::Done, Vec::new()));
    db.execute(&[
        "DROP INDEX ix_users_rank",
        "ALTER TABLE users DROP COLUMN name",
        "ALTER TABLE users ADD COLUMN name DOUBLE PRECISION"
            .replace(
                "DOUBLE PRECISION",
                if db.is_sqlite() {
                    "REAL"
                } else {
                    "DOUBLE PRECISION"
                },
            )
            .as_str(),
        "ALTER TABLE users ADD COLUMN extra TEXT",
        "UPDATE linchpin_schema SET snapshot = replace(snapshot, '\"rank\"', '\"rang\"')",
    ])
    .await;
    let done = db.command(&app, "migrate verify").await.expect("verified");
    assert_eq!(done.exit, Exit::Data);
    let found = codes(&done.result);
    for (code, object) in [
        ("history_altered", ""),
        ("missing_index", "ix_users_rank"),
        ("type_differs", "name"),
        ("extra_column", "extra"),
    ] {
        let wanted = (code.to_owned(), object.to_owned());
        assert!(found.contains(&wanted), "{code}: {}", done.text);
    }
    let findings = done.result["findings"].as_array().expect("findings");
    for finding in findings {
        assert!(finding["help"].is_string(), "{finding}");
        if finding["code"] == "type_differs" || finding["code"] == "history_altered" {
            assert!(finding["expected"].is_string() && finding["found"].is_string());
        }
    }
    // A damaged ledger is a state, so `migrate status` succeeds.
    let status = db.command(&app, "migrate status").await.expect("a state");
    assert_eq!(status.exit, Exit::Done);
    assert_eq!(status.result["state"], "damaged");
}

async fn a_verification_accepts_objects_of_other_programs(db: Db) {
    let app = App::new(&[first()]);
    db.apply(&app, Phase::Contract).await.expect("installed");
    db.execute(&[
        "CREATE TABLE others (id INTEGER)",
        "CREATE INDEX fast ON users (rank, name)",
        "ALTER TABLE users ADD COLUMN extra TEXT",
    ])
    .await;
    let done = db.command(&app, "migrate verify").await.expect("verified");
    let found = codes(&done.result);
    let wanted = [
        ("extra_column", "extra"),
        ("extra_index", "fast"),
        ("extra_table", "others"),
    ];
    assert_eq!(found, wanted.map(|(a, b)| (a.to_owned(), b.to_owned())));
    assert_eq!(done.exit, Exit::Done);
    let strict = db.command(&app, "migrate verify --strict").await;
    assert_eq!(strict.expect("verified").exit, Exit::Data);
}

async fn reading_creates_nothing_in_an_empty_database(db: Db) {
    let app = App::new(&[first()]);
    for (line, exit) in [
        ("migrate plan", Exit::Done),
        ("migrate plan --check", Exit::Pending),
        ("migrate status", Exit::Done),
        ("migrate verify", Exit::Done),
        ("migrate apply --dry-run", Exit::Done),
    ] {
        let done = db.command(&app, line).await.expect(line);
        assert_eq!(done.exit, exit, "{line}: {}", done.text);
    }
    assert_eq!(db.tables().await, [] as [&str; 0]);
    if db.is_sqlite() {
        assert!(!db.file().exists());
    }
    db.apply(&app, Phase::Contract).await.expect("installed");
    // A role that may only read gets the same plans, states and verifications.
    let app = App::new(&[first(), second()]);
    let lines = ["migrate plan", "migrate status", "migrate verify"];
    let reader = if db.is_sqlite() {
        let mut permissions = std::fs::metadata(db.file()).expect("a file").permissions();
        permissions.set_readonly(true);
        std::fs::set_permissions(db.file(), permissions).expect("read-only");
        Db::of(&db.url)
    } else {
        let name = db
            .url
            .rsplit('/')
            .next()
            .and_then(|rest| rest.split('?').next());
        let role = format!("reader_{}", name.expect("a database"));
        for sql in [
            format!("CREATE ROLE {role} LOGIN"),
            format!("GRANT USAGE ON SCHEMA public TO {role}"),
            format!("GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}"),
        ] {
            server::execute(&db.url, &sql).expect("granted");
        }
        Db::of(&db.url.replace("test@", &format!("{role}@")))
    };
    for line in lines {
        let own = db.command(&app, line).await.expect(line);
        let read = reader.command(&app, line).await.expect(line);
        if line == "migrate plan" {
            // The identity of the cluster is not readable for every role.
            assert_eq!(own.result["migrations"], read.result["migrations"]);
        } else {
            assert_eq!(own.result, read.result, "{line}");
        }
        assert_eq!(own.exit, read.exit);
    }
}

async fn a_status_shows_the_progress_of_an_open_migration(db: Db) {
    let before = App::new(&[first()]);
    db.apply(&before, Phase::Contract).await.expect("installed");
    let app = App::new(&[first(), second()]);
    db.execute(&["INSERT INTO users (id, rank) VALUES ('a', 1), ('b', 2)"])
        .await;
    let plan = db.command(&app, "migrate plan").await.expect("a plan");
    assert!(plan.text.contains(" 2 rows"), "{}", plan.text);
    assert_eq!(plan.result["state"]["rows"]["users"], 2);
    db.apply(&app, Phase::Expand).await.expect("expanded");
    let done = db.command(&app, "migrate status").await.expect("a state");
    assert_eq!(done.result["seq"], 1);
    assert_eq!(done.result["window"], json!({ "min": 1, "max": 2 }));
    assert_eq!(done.result["rollbackOpen"], true);
    let migration = &done.result["migrations"][1];
    assert_eq!(
        (&migration["seq"], &migration["name"]),
        (&json!(2), &json!("change_2"))
    );
    assert!(done.text.contains("rollback open"), "{}", done.text);
    db.apply(&app, Phase::Contract).await.expect("applied");
    let done = db.command(&app, "migrate status").await.expect("a state");
    assert_eq!(done.result["migrations"][1]["state"], "done");
    assert_eq!(done.result["rollbackOpen"], false);
    assert!(done.text.contains("rollback closed"), "{}", done.text);
}
