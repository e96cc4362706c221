//! Tests of refused commands, which must not change the database, and of a rebuild of a table with
//! objects that the app does not declare.

use linchpin_core::entity::{Kind, SourceLine, TransformDesc, TransformError, TransformInput};
use linchpin_core::schema::{ColumnKind, Snapshot};
use linchpin_core::{Value, ValueRef};
use linchpin_migrate::{Exit, Phase, Refusal};
use serde_json::json;

use crate::support::{App, BODY, Db, Link, function, snapshot};

crate::cases!(commands:
    an_edited_function_refuses_plan_and_apply,
    a_column_added_by_hand_is_not_lost,
);

fn parse(input: TransformInput<'_>) -> Result<Value, TransformError> {
    match input {
        TransformInput::Value(ValueRef::Text(text)) => Ok(Value::Int(
            text.parse()
                .map_err(|_| TransformError::from("not a number"))?,
        )),
        _ => Err("no text".into()),
    }
}

const fn parsing(body: &'static str) -> TransformDesc {
    TransformDesc {
        at: SourceLine {
            file: "src/files.rs",
            line: 7,
        },
        ..function("app::parse", body, (Kind::String, Kind::Integer), parse)
    }
}

static AS_RECORDED: TransformDesc = parsing(BODY);
static EDITED: TransformDesc =
    parsing("6060606060606060606060606060606060606060606060606060606060606060");

fn files(kind: &str) -> Snapshot {
    let size = json!({ "size": { "type": kind } });
    snapshot(&[("files", size, json!({}))])
}

/// The app whose second migration converts the text `size` to a number, with this version of the
/// function.
fn converting(function: &'static TransformDesc) -> App {
    let second = Link::converted(files("integer"), ("files", "size"), &AS_RECORDED);
    App::of_links([Link::plain(files("string")), second], &[function])
}

async fn refused(db: &Db, app: &App, line: &str) -> Refusal {
    match db.command(app, line).await {
        Ok(done) => panic!("{line}: {}", done.text),
        Err(refusal) => refusal,
    }
}

async fn an_edited_function_refuses_plan_and_apply(db: Db) {
    let first = App::new(&[files("string")]);
    db.apply(&first, Phase::Contract).await.expect("installed");
    db.execute(&["INSERT INTO files (id, size) VALUES ('a', '7')"])
        .await;
    let (recorded, edited) = (converting(&AS_RECORDED), converting(&EDITED));
    let digest = db.digest(&recorded).await.expect("a digest");
    let approved = format!("migrate apply --no-backup --approve {digest}");
    for line in ["migrate plan", "migrate apply --phase expand", &approved] {
        let refusal = refused(&db, &edited, line).await;
        assert_eq!(
            (refusal.code, refusal.exit),
            ("transform_changed", Exit::Planning),
            "{line}"
        );
        let text = refusal.text();
        assert!(
            text.contains("app::parse") && text.contains("src/files.rs:7"),
            "{text}"
        );
    }
    let ledger = db.ledger().await.expect("a ledger");
    assert!(!ledger.migrations.contains_key(&2));
    db.command(&recorded, &approved).await.expect("applied");
    assert_eq!(db.number("SELECT size FROM files").await, 7);
}

/// A field that is optional or required. If it becomes required, SQLite rebuilds the table.
fn notes(optional: bool) -> Snapshot {
    let mut size = json!({ "type": "integer", "optional": optional });
    if !optional {
        size["default"] = json!({ "literal": 0 });
    }
    snapshot(&[("notes", json!({ "size": size }), json!({}))])
}

async fn a_column_added_by_hand_is_not_lost(db: Db) {
    let first = App::new(&[notes(true)]);
    db.apply(&first, Phase::Contract).await.expect("installed");
    db.execute(&[
        "ALTER TABLE notes ADD COLUMN remark TEXT",
        "INSERT INTO notes (id, size, remark) VALUES ('a', 1, 'by hand')",
    ])
    .await;
    let app = App::new(&[notes(true), notes(false)]);
    let digest = db.digest(&app).await.expect("a digest");
    let line = format!("migrate apply --no-backup --approve {digest}");
    let outcome = db.command(&app, &line).await;
    if db.is_sqlite() {
        let refusal = outcome.expect_err("a rebuild would lose the column");
        assert_eq!((refusal.code, refusal.exit), ("drift", Exit::Data));
        assert!(refusal.text().contains("remark"), "{}", refusal.text());
    } else {
        outcome.expect("the table is not rebuilt");
    }
    let rows = db
        .query("SELECT remark FROM notes", &[ColumnKind::String])
        .await;
    assert_eq!(rows, [[Value::Text("by hand".to_owned())]]);
}

/// The backup copy that a run makes before a rebuild is a complete database.
#[tokio::test(flavor = "multi_thread")]
async fn a_rebuild_keeps_foreign_objects_and_a_backup_copy() {
    let db = Db::sqlite();
    let first = App::new(&[notes(true)]);
    db.apply(&first, Phase::Contract).await.expect("installed");
    db.execute(&[
        "CREATE TABLE others (id TEXT PRIMARY KEY, note TEXT REFERENCES notes (id))",
        "CREATE TABLE seen (id TEXT)",
        "CREATE INDEX theirs ON notes (size)",
        "CREATE VIEW large AS SELECT id FROM notes WHERE size > 10",
        "CREATE TRIGGER watch AFTER INSERT ON notes BEGIN INSERT INTO seen VALUES (new.id); END",
        "INSERT INTO notes (id, size) VALUES ('a', 1), ('b', NULL), ('c', 30)",
        "INSERT INTO others VALUES ('o', 'a')",
    ])
    .await;
    let app = App::new(&[notes(true), notes(false)]);
    let digest = db.digest(&app).await.expect("a digest");
    let line = format!("migrate apply --approve {digest}");
    db.command(&app, &line).await.expect("applied");
    assert_eq!(db.ledger().await.expect("a ledger").seq, 2);
    let names =
        "SELECT name FROM sqlite_schema WHERE name IN ('theirs', 'large', 'watch') ORDER BY name";
    let names = db.query(names, &[ColumnKind::String]).await;
    let expected = ["large", "theirs", "watch"].map(|name| vec![Value::Text(name.to_owned())]);
    assert_eq!(names, expected);
    let rows = "SELECT id, size FROM notes ORDER BY id";
    let rows = db
        .query(rows, &[ColumnKind::String, ColumnKind::Integer])
        .await;
    let row = |id: &str, size| vec![Value::Text(id.to_owned()), Value::Int(size)];
    assert_eq!(rows, [row("a", 1), row("b", 0), row("c", 30)]);
    assert_eq!(
        db.number("SELECT count(*) FROM pragma_foreign_key_check")
            .await,
        0
    );
    db.execute(&["INSERT INTO notes (id, size) VALUES ('d', 5)"])
        .await;
    assert_eq!(
        db.number("SELECT count(*) FROM seen WHERE id = 'd'").await,
        1
    );
    assert_eq!(db.number("SELECT count(*) FROM large").await, 1);

    let copy = Db::of(&format!("sqlite:{}.before-2", db.file().display()));
    let check = copy
        .query("PRAGMA integrity_check", &[ColumnKind::String])
        .await;
    assert_eq!(check, [[Value::Text("ok".to_owned())]]);
    assert_eq!(copy.number("SELECT count(*) FROM notes").await, 3);
}
