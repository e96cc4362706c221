//! The apps whose migrations are interrupted.

use linchpin_core::entity::{
    Kind, SourceLine, TransformDesc, TransformError, TransformFrom, TransformInput, TransformType,
};
use linchpin_core::schema::Snapshot;
use linchpin_core::{Value, ValueRef};
use linchpin_migrate::{Change, TransformRecord};
use serde_json::json;

use crate::backfill;
use crate::support::{App, Link, index, snapshot};

pub(crate) static TO_TEXT: TransformDesc = TransformDesc {
    name: "app::to_text",
    from: TransformFrom::Value(TransformType {
        kind: Kind::Integer,
        optional: false,
    }),
    to: TransformType {
        kind: Kind::String,
        optional: false,
    },
    body: "5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f",
    reverse: Some(&TO_NUMBER),
    run: to_text,
    at: SourceLine {
        file: "src/users.rs",
        line: 1,
    },
};

static TO_NUMBER: TransformDesc = TransformDesc {
    name: "app::to_number",
    from: TransformFrom::Value(TransformType {
        kind: Kind::String,
        optional: false,
    }),
    to: TransformType {
        kind: Kind::Integer,
        optional: false,
    },
    body: "6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f",
    reverse: None,
    run: |_| Err("no new binary serves".into()),
    at: SourceLine {
        file: "src/users.rs",
        line: 9,
    },
};

fn to_text(input: TransformInput<'_>) -> Result<Value, TransformError> {
    backfill::visited();
    match input {
        TransformInput::Value(ValueRef::Int(n)) => Ok(Value::Text(format!("{n} visits"))),
        _ => Err("no number".into()),
    }
}

pub(crate) fn first() -> Snapshot {
    snapshot(&[
        (
            "users",
            json!({
                "name": { "type": "string" },
                "email": { "type": "string", "optional": true },
                "status": { "type": "enum", "values": ["active", "left"] },
                "visits": { "type": "integer", "default": { "literal": 0 } },
                "gone": { "type": "string", "optional": true },
            }),
            json!({ "indexes": [
                index("ix_users_gone", &["gone"]),
                index("ix_users_name", &["name"]),
            ] }),
        ),
        ("notes", json!({ "text": { "type": "string" } }), json!({})),
    ])
}

pub(crate) fn second() -> Snapshot {
    snapshot(&[
        (
            "users",
            json!({
                "title": { "type": "string", "optional": true, "formerNames": ["name"] },
                "email": { "type": "string", "default": { "literal": "none" } },
                "status": { "type": "enum", "values": ["active", "blocked", "left"] },
                "visits": { "type": "integer", "default": { "literal": 1 } },
                "level": { "type": "enum", "values": ["high", "low"], "optional": true },
                "rank": { "type": "enum", "values": ["a", "b"], "default": { "literal": "b" } },
                "token": { "type": "string", "default": { "kind": "uuid" } },
            }),
            json!({
                "indexes": [
                    index("ix_users_rank", &["rank"]),
                    index("ix_users_title", &["title"]),
                ],
                "uniques": [index("ux_users_token", &["token"])],
            }),
        ),
        (
            "tags",
            json!({ "label": { "type": "string" } }),
            json!({
                "uniques": [index("ux_tags_label", &["label"])],
            }),
        ),
    ])
}

fn third() -> Snapshot {
    let mut third = snapshot(&[
        (
            "people",
            json!({
                "title": { "type": "string", "optional": true, "formerNames": ["name"] },
                "email": { "type": "string", "default": { "literal": "none" } },
                "status": { "type": "enum", "values": ["active", "left"] },
                "visits": { "type": "string" },
                "rank": { "type": "enum", "values": ["a", "b"], "default": { "literal": "b" } },
                "token": { "type": "string", "default": { "kind": "uuid" } },
            }),
            json!({
                "formerNames": ["users"],
                "indexes": [
                    index("ix_people_title", &["title"]),
                    index("ix_people_visits", &["visits"]),
                ],
                "uniques": [index("ux_people_token", &["token"])],
            }),
        ),
        (
            "tags",
            json!({ "label": { "type": "string" } }),
            json!({
                "uniques": [index("ux_tags_label", &["label"])],
            }),
        ),
    ]);
    let people = third.entities.get_mut("people").expect("an entity");
    "users".clone_into(&mut people.name);
    third
}

fn plain(snapshot: Snapshot) -> Link {
    Link {
        snapshot,
        changes: Vec::new(),
        transforms: Vec::new(),
    }
}

/// The app of a scenario.
pub(crate) fn app(scenario: &str) -> App {
    let converted = |entity: &str, snapshot: Snapshot| Link {
        snapshot,
        changes: vec![Change::ChangeType {
            entity: entity.to_owned(),
            field: "visits".to_owned(),
            transform: TO_TEXT.name.to_owned(),
            reverse: Some(TO_NUMBER.name.to_owned()),
        }],
        transforms: vec![
            TransformRecord {
                name: TO_TEXT.name.to_owned(),
                from: "integer".to_owned(),
                to: "string".to_owned(),
                body: TO_TEXT.body.to_owned(),
            },
            TransformRecord {
                name: TO_NUMBER.name.to_owned(),
                from: "string".to_owned(),
                to: "integer".to_owned(),
                body: TO_NUMBER.body.to_owned(),
            },
        ],
    };
    let links = match scenario {
        "all" => vec![
            plain(first()),
            plain(second()),
            converted("people", third()),
        ],
        "rows" => {
            let of = |kind: &str| {
                snapshot(&[("users", json!({ "visits": { "type": kind } }), json!({}))])
            };
            vec![plain(of("integer")), converted("users", of("string"))]
        }
        _ => vec![plain(first())],
    };
    let mut app = App::of_links(links);
    app.declared.transforms = vec![&TO_TEXT];
    app
}
