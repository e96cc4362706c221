//! Tests of backfills of columns of each type.

use linchpin_core::Value;
use linchpin_core::schema::{ColumnKind, Snapshot};
use linchpin_migrate::Phase;
use serde_json::{Value as Json, json};

use crate::support::{App, Db, snapshot};

crate::cases!(kinds: nulls_of_each_kind_are_filled);

/// The number of rows in the table.
const ROWS: i64 = 250;

/// Fields of each kind that get a default and become required.
fn things(required: bool) -> Snapshot {
    let field = |kind: &str, default: Json| {
        if required {
            json!({ "type": kind, "default": default })
        } else {
            json!({ "type": kind, "optional": true })
        }
    };
    let fields = json!({
        "label": field("string", json!({ "literal": "é'\"\\{}" })),
        "done": field("boolean", json!({ "literal": true })),
        "count": field("integer", json!({ "literal": -7 })),
        "ratio": field("number", json!({ "literal": 2 })),
        "at": field("date", json!({ "kind": "now" })),
        "tags": field("string_array", json!({ "literal": ["a", "b,c"] })),
        "extra": field("json", json!({ "literal": { "a": [1, null] } })),
    });
    snapshot(&[("things", fields, json!({}))])
}

/// Every second row already has values, which must stay.
pub(crate) async fn nulls_of_each_kind_are_filled(db: Db) {
    let before = App::new(&[things(false)]);
    db.apply(&before, Phase::Contract).await.expect("installed");
    let (tags, at) = if db.is_sqlite() {
        ("'[\"x\"]'", "0")
    } else {
        ("ARRAY['x']", "to_timestamp(0)")
    };
    for n in 0..ROWS {
        let values = if n % 2 == 0 {
            "NULL, NULL, NULL, NULL, NULL, NULL, NULL".to_owned()
        } else {
            let no = if db.is_sqlite() { "0" } else { "FALSE" };
            format!("'own', {no}, 1, 0.5, {at}, {tags}, '[]'")
        };
        let columns = "id, label, done, count, ratio, at, tags, extra";
        let sql = format!("INSERT INTO things ({columns}) VALUES ('{n:03}', {values})");
        db.execute(&[&sql]).await;
    }
    let app = App::new(&[things(false), things(true)]);
    let done = db.apply(&app, Phase::Contract).await;
    done.unwrap_or_else(|refusal| panic!("{refusal} {:?}", refusal.facts));
    db.assert_at_head(&app).await;
    let kinds = [
        ColumnKind::String,
        ColumnKind::Boolean,
        ColumnKind::Integer,
        ColumnKind::Number,
        ColumnKind::StringArray,
        ColumnKind::Json,
    ];
    let sql = "SELECT label, done, count, ratio, tags, extra FROM things ORDER BY id";
    let rows = db.query(sql, &kinds).await;
    assert_eq!(rows.len() as i64, ROWS);
    for (n, row) in rows.iter().enumerate() {
        let [label, done, count, ratio, tags, extra] = &row[..] else {
            panic!("{row:?}");
        };
        let Value::Json(extra) = extra else {
            panic!("{row:?}");
        };
        let extra: Json = serde_json::from_str(extra).expect("JSON");
        let found = (label, done, count, ratio, tags, extra);
        let text = |text: &str| Value::Text(text.to_owned());
        let list = |all: &[&str]| Value::Strings(all.iter().map(|s| (*s).to_owned()).collect());
        let filled = n % 2 == 0;
        let expected = if filled {
            (
                &text("é'\"\\{}"),
                &Value::Bool(true),
                &Value::Int(-7),
                &Value::Float(2.0),
                &list(&["a", "b,c"]),
                json!({ "a": [1, null] }),
            )
        } else {
            (
                &text("own"),
                &Value::Bool(false),
                &Value::Int(1),
                &Value::Float(0.5),
                &list(&["x"]),
                json!([]),
            )
        };
        assert_eq!(found, expected, "{n}");
    }
    let filled_dates = if db.is_sqlite() {
        "SELECT count(*) FROM things WHERE at > 1700000000000"
    } else {
        "SELECT count(*) FROM things WHERE at > to_timestamp(1700000000)"
    };
    assert_eq!(db.number(filled_dates).await, ROWS / 2);
}
