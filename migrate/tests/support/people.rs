//! An app with three migrations and nearly every kind of change. The fields of `users` change, and
//! the table becomes `people`. One table is dropped and one is created.

use linchpin_core::entity::{Kind, TransformDesc, TransformFn};
use linchpin_core::schema::Snapshot;
use serde_json::json;

use super::{BODY, Link, function, index, snapshot};

/// The transform of the third migration, with its reverse.
pub const fn to_text(run: TransformFn) -> TransformDesc {
    TransformDesc {
        reverse: Some(&TO_NUMBER),
        ..function("app::to_text", BODY, (Kind::Integer, Kind::String), run)
    }
}

static TO_NUMBER: TransformDesc = function(
    "app::to_number",
    "6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f",
    (Kind::String, Kind::Integer),
    |_| Err("no new binary serves".into()),
);

pub fn first() -> Snapshot {
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
                index("ix_users_email", &["email"]),
                index("ix_users_gone", &["gone"]),
                index("ix_users_name", &["name"]),
            ] }),
        ),
        ("notes", json!({ "text": { "type": "string" } }), json!({})),
    ])
}

pub fn second() -> Snapshot {
    snapshot(&[
        (
            "users",
            json!({
                // Changed: a renamed and optional field, a required field, a further enum value,
                // and another default.
                "title": { "type": "string", "optional": true, "formerNames": ["name"] },
                "email": { "type": "string", "default": { "literal": "none" } },
                "status": { "type": "enum", "values": ["active", "blocked", "left"] },
                "visits": { "type": "integer", "default": { "literal": 1 } },
                // New: optional, with a constant, and with generated values.
                "level": { "type": "enum", "values": ["high", "low"], "optional": true },
                "rank": { "type": "enum", "values": ["a", "b"], "default": { "literal": "b" } },
                "token": { "type": "string", "default": { "kind": "uuid" } },
                "tags": { "type": "string_array", "default": { "literal": [] } },
            }),
            json!({
                "indexes": [
                    index("ix_users_email", &["email"]),
                    index("ix_users_rank", &["rank"]),
                    index("ix_users_title", &["title"]),
                ],
                "uniques": [index("ux_users_token", &["token"])],
            }),
        ),
        (
            "tags",
            json!({ "label": { "type": "string" } }),
            json!({ "uniques": [index("ux_tags_label", &["label"])] }),
        ),
    ])
}

pub fn third() -> Snapshot {
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
                    index("ix_people_email", &["email"]),
                    index("ix_people_title", &["title"]),
                    index("ix_people_visits", &["visits"]),
                ],
                "uniques": [index("ux_people_token", &["token"])],
            }),
        ),
        (
            "tags",
            json!({ "label": { "type": "string" } }),
            json!({ "uniques": [index("ux_tags_label", &["label"])] }),
        ),
    ]);
    let people = third.entities.get_mut("people").expect("an entity");
    "users".clone_into(&mut people.name);
    third
}

/// The three migrations; the third one converts a field with this function.
pub fn links(function: &TransformDesc) -> [Link; 3] {
    [
        Link::plain(first()),
        Link::plain(second()),
        Link::converted(third(), ("people", "visits"), function),
    ]
}
