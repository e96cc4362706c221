//! An entity with every field type, for tests.

use crate::__private::item_field;
use crate::entity::{
    Bound, DefaultDesc, Embedded, EntityDesc, EnumDesc, FieldDesc, Flags, Json, Kind, Rules,
};
use crate::{Timestamp, Value};

pub(super) const NOW: Timestamp = Timestamp::from_millis(1_767_323_045_678);

static STATUS: EnumDesc = EnumDesc {
    name: "Status",
    variants: &["draft", "published"],
};

/// An item whose Rust type requires all of its members.
#[derive(serde::Serialize, serde::Deserialize)]
struct Note {
    text: String,
}

impl Embedded for Note {
    type Patch = crate::__private::NoPatch;
    const FIELDS: &'static [FieldDesc] = &NOTE;
}

static NOTE: [FieldDesc; 1] = [FieldDesc {
    rules: &Rules {
        length: (None, Some(3)),
        ..Rules::NONE
    },
    ..FieldDesc::new("text", "text", "text", Kind::String, false)
}];

/// A type of the app for a JSON field.
#[derive(serde::Serialize, serde::Deserialize)]
struct Limits {
    most: u8,
}

static MEMBER: [FieldDesc; 8] = [
    FieldDesc {
        default: DefaultDesc::Uuid,
        ..FieldDesc::new("id", "id", "id", Kind::String, false)
    },
    FieldDesc {
        rules: &Rules {
            format: Some("email"),
            ..Rules::NONE
        },
        ..FieldDesc::new("email", "email", "email", Kind::String, false)
    },
    FieldDesc {
        rules: &Rules {
            range: (Some(Bound::Int(0)), None),
            ..Rules::NONE
        },
        ..FieldDesc::new("age", "age", "age", Kind::Integer, true)
    },
    FieldDesc {
        default: DefaultDesc::Now,
        ..FieldDesc::new("joined_at", "joinedAt", "joined_at", Kind::Date, false)
    },
    item_field::<Vec<Note>>("notes", "notes", "notes"),
    FieldDesc {
        flags: Flags::PRIVATE,
        ..FieldDesc::new("hash", "hash", "hash", Kind::String, true)
    },
    FieldDesc {
        flags: Flags::READ_ONLY,
        ..FieldDesc::new("score", "score", "score", Kind::Number, true)
    },
    FieldDesc::new("tags", "tags", "tags", Kind::StringArray, false),
];

const fn rules(rules: &'static Rules, field: FieldDesc) -> FieldDesc {
    FieldDesc { rules, ..field }
}

const fn flags(flags: Flags, field: FieldDesc) -> FieldDesc {
    FieldDesc { flags, ..field }
}

static FIELDS: [FieldDesc; 21] = [
    FieldDesc {
        default: DefaultDesc::Uuid,
        ..flags(
            Flags::PRIMARY,
            FieldDesc::new("id", "id", "id", Kind::String, false),
        )
    },
    rules(
        &Rules {
            length: (Some(1), Some(5)),
            ..Rules::NONE
        },
        FieldDesc::new("title", "title", "title", Kind::String, false),
    ),
    rules(
        &Rules {
            pattern: Some("[a-z]+|\\d"),
            one_of: &["abc", "1", "A"],
            ..Rules::NONE
        },
        FieldDesc::new("code", "code", "code", Kind::String, true),
    ),
    rules(
        &Rules {
            format: Some("email"),
            ..Rules::NONE
        },
        FieldDesc::new("email", "email", "email", Kind::String, true),
    ),
    FieldDesc {
        default: DefaultDesc::Literal(|| Value::Text("draft".to_owned())),
        ..FieldDesc::new("status", "status", "status", Kind::Enum(&STATUS), false)
    },
    rules(
        &Rules {
            range: (Some(Bound::Int(-5)), Some(Bound::Int(5))),
            one_of_int: &[-5, 0, 5, 6],
            ..Rules::NONE
        },
        FieldDesc::new("rank", "rank", "rank", Kind::Integer, true),
    ),
    FieldDesc::new("views", "views", "views", Kind::Integer, true),
    rules(
        &Rules {
            range: (Some(Bound::Float(-0.5)), Some(Bound::Int(2))),
            ..Rules::NONE
        },
        FieldDesc::new("ratio", "ratio", "ratio", Kind::Number, true),
    ),
    FieldDesc::new("live", "live", "live", Kind::Boolean, true),
    rules(
        &Rules {
            range: (Some(Bound::Int(0)), None),
            ..Rules::NONE
        },
        FieldDesc::new("due_at", "dueAt", "due_at", Kind::Date, true),
    ),
    rules(
        &Rules {
            items: (Some(1), Some(3)),
            unique_items: true,
            each: Some(&Rules {
                length: (Some(1), Some(3)),
                ..Rules::NONE
            }),
            ..Rules::NONE
        },
        FieldDesc::new("tags", "tags", "tags", Kind::StringArray, true),
    ),
    FieldDesc::new("names", "names", "names", Kind::StringArray, false),
    FieldDesc::new("meta", "meta", "meta", Kind::Json, true),
    item_field::<Option<Json<Limits>>>("limits", "limits", "limits"),
    rules(
        &Rules {
            items: (None, Some(2)),
            unique_items: true,
            ..Rules::NONE
        },
        FieldDesc::new("members", "members", "members", Kind::Items(&MEMBER), true),
    ),
    flags(
        Flags::PRIVATE,
        FieldDesc::new("secret", "secret", "secret", Kind::String, true),
    ),
    flags(
        Flags::WRITE_ONLY,
        FieldDesc::new("pin", "pin", "pin", Kind::String, true),
    ),
    flags(
        Flags::IMMUTABLE,
        FieldDesc::new("origin", "origin", "origin", Kind::String, true),
    ),
    flags(
        Flags::READ_ONLY,
        FieldDesc::new("rating", "rating", "rating", Kind::Number, true),
    ),
    FieldDesc {
        default: DefaultDesc::Now,
        ..FieldDesc::new("created_at", "createdAt", "created_at", Kind::Date, false)
    },
    flags(
        Flags::ON_UPDATE,
        FieldDesc::new("updated_at", "updatedAt", "updated_at", Kind::Date, true),
    ),
];

static KEYED_FIELDS: [FieldDesc; 2] = [
    flags(
        Flags::PRIMARY,
        FieldDesc::new("id", "id", "id", Kind::Integer, false),
    ),
    FieldDesc::new("count", "count", "count", Kind::Integer, true),
];

const fn entity(name: &'static str, fields: &'static [FieldDesc]) -> EntityDesc {
    EntityDesc::new(name, name, name, fields)
}

/// A field of every type, with rules.
pub(super) static POST: EntityDesc = entity("post", &FIELDS);
/// An entity with an integer key that clients choose.
pub(super) static KEYED: EntityDesc = entity("keyed", &KEYED_FIELDS);

/// Returns the position of a field.
pub(super) fn at(wire: &str) -> usize {
    POST.field_by_wire(wire)
        .unwrap_or_else(|| panic!("no field {wire}"))
}
