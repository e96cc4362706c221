//! Tests the JSON form: examples, errors, and round trips.

mod generated;

use super::*;
use crate::Timestamp;
use crate::Value;
use crate::entity::EnumDesc;
use crate::entity::Kind;
use crate::filter::CtxPath;
use crate::operation::Place;

static STATUS: EnumDesc = EnumDesc {
    name: "Status",
    variants: &["draft", "published", "now"],
};

static FIELDS: [FieldDesc; 10] = [
    FieldDesc {
        flags: Flags::PRIMARY,
        ..FieldDesc::new("id", "id", "id", Kind::Integer, false)
    },
    FieldDesc::new("title", "title", "title", Kind::String, true),
    FieldDesc::new("score", "score", "score", Kind::Integer, true),
    FieldDesc::new("ratio", "ratio", "ratio", Kind::Number, true),
    FieldDesc::new("live", "live", "live", Kind::Boolean, true),
    FieldDesc::new("due_at", "dueAt", "due_at", Kind::Date, true),
    FieldDesc::new("status", "status", "status", Kind::Enum(&STATUS), true),
    FieldDesc::new("tags", "tags", "tags", Kind::StringArray, true),
    FieldDesc::new("meta", "meta", "meta", Kind::Json, true),
    FieldDesc {
        flags: Flags::PRIVATE,
        ..FieldDesc::new("secret", "secret", "secret", Kind::String, true)
    },
];

static POST: EntityDesc = EntityDesc::new("Post", "posts", "posts", &FIELDS);

const fn param(name: &'static str, field: usize, list: bool) -> ParamSpec {
    ParamSpec {
        name,
        field,
        entity: None,
        place: Place::Query,
        required: true,
        nullable: true,
        list,
        element: false,
        default: None,
    }
}

/// One parameter per scalar field, then one list parameter per scalar field except the boolean,
/// then a parameter for an element of `tags`.
static PARAMS: [ParamSpec; 14] = [
    param("id", 0, false),
    param("title", 1, false),
    param("score", 2, false),
    param("ratio", 3, false),
    param("live", 4, false),
    param("dueAt", 5, false),
    param("status", 6, false),
    param("ids", 0, true),
    param("titles", 1, true),
    param("scores", 2, true),
    param("ratios", 3, true),
    param("dates", 5, true),
    param("states", 6, true),
    param("tag", 7, false),
];

fn read(json: &Json) -> Result<Filter, String> {
    Filter::from_json(json, &POST, &PARAMS).map_err(|e| e.to_string())
}

fn one(field: usize, op: Op, source: Source) -> Filter {
    Filter::cond(field, op, Operand::One(source))
}

fn text(t: &str) -> Source {
    Source::Value(Value::Text(t.to_owned()))
}

#[test]
fn every_form_of_the_grammar_is_parsed() {
    let table = [
        (json!({ "title": "x" }), one(1, Op::Eq, text("x"))),
        (
            json!({ "title": null }),
            one(1, Op::Eq, Source::Value(Value::Null)),
        ),
        (
            json!({ "title": { "$ne": "x" } }),
            one(1, Op::Ne, text("x")),
        ),
        (
            json!({ "id": "42" }),
            one(0, Op::Eq, Source::Value(Value::Int(42))),
        ),
        (
            json!({ "ratio": 2 }),
            one(3, Op::Eq, Source::Value(Value::Float(2.0))),
        ),
        (
            json!({ "live": true }),
            one(4, Op::Eq, Source::Value(Value::Bool(true))),
        ),
        (
            json!({ "dueAt": { "$lte": "now" } }),
            one(5, Op::Lte, Source::Now),
        ),
        (
            json!({ "dueAt": { "$gt": "1970-01-01T00:00:01Z" } }),
            one(
                5,
                Op::Gt,
                Source::Value(Value::Date(Timestamp::from_millis(1000))),
            ),
        ),
        (
            json!({ "status": { "$literal": "now" } }),
            one(6, Op::Eq, text("now")),
        ),
        (
            json!({ "title": { "$literal": "param:x" } }),
            one(1, Op::Eq, text("param:x")),
        ),
        (
            json!({ "title": { "$contains": { "$literal": "ctx:y" } } }),
            one(1, Op::Contains, text("ctx:y")),
        ),
        (
            json!({ "title": "param:title" }),
            one(1, Op::Eq, Source::Param(1)),
        ),
        (
            json!({ "secret": "ctx:actor.id" }),
            one(9, Op::Eq, Source::Ctx(CtxPath::ActorId)),
        ),
        (
            json!({ "score": "ctx:actor.claims.level" }),
            one(2, Op::Eq, Source::Ctx(CtxPath::Claim("level"))),
        ),
        (
            json!({ "tags": { "$has": "param:tag" } }),
            one(7, Op::Has, Source::Param(13)),
        ),
        (
            json!({ "tags": { "$has": "param:title" } }),
            one(7, Op::Has, Source::Param(1)),
        ),
        (
            json!({ "tags": { "$ne": null } }),
            one(7, Op::Ne, Source::Value(Value::Null)),
        ),
        (
            json!({ "score": { "$in": "param:scores" } }),
            one(2, Op::In, Source::Param(9)),
        ),
        (
            json!({ "status": { "$nin": ["draft", null, "param:status"] } }),
            Filter::cond(
                6,
                Op::Nin,
                Operand::List(vec![
                    text("draft"),
                    Source::Value(Value::Null),
                    Source::Param(6),
                ]),
            ),
        ),
        (
            json!({ "score": { "$gt": 1, "$lt": 5 } }),
            Filter::All(vec![
                one(2, Op::Gt, Source::Value(Value::Int(1))),
                one(2, Op::Lt, Source::Value(Value::Int(5))),
            ]),
        ),
        (
            json!({ "live": true, "$or": [{ "title": "a" }, { "$and": [{ "title": "b" }] }] }),
            Filter::All(vec![
                Filter::Any(vec![
                    one(1, Op::Eq, text("a")),
                    Filter::All(vec![one(1, Op::Eq, text("b"))]),
                ]),
                one(4, Op::Eq, Source::Value(Value::Bool(true))),
            ]),
        ),
    ];
    for (json, filter) in table {
        assert_eq!(read(&json), Ok(filter), "{json}");
    }
}

#[test]
fn errors_name_the_position_and_the_reason() {
    let table = [
        (json!([]), "filter: a filter is an object"),
        (json!({}), "filter: a filter has at least one entry"),
        (
            json!({ "titel": 1 }),
            "titel: unknown field `titel` on Post",
        ),
        (
            json!({ "$not": {} }),
            "$not: unknown operator in this place `$not` on Post",
        ),
        (
            json!({ "meta": 1 }),
            "meta: `meta` (json) cannot be matched",
        ),
        (
            json!({ "$and": [] }),
            "$and: needs a list of at least one filter",
        ),
        (
            json!({ "$or": {} }),
            "$or: needs a list of at least one filter",
        ),
        (
            json!({ "$or": [{ "title": "a" }, {}] }),
            "$or[1]: a filter has at least one entry",
        ),
        (
            json!({ "title": {} }),
            "title: a condition has at least one operator",
        ),
        (
            json!({ "title": { "$regex": "a" } }),
            "title.$regex: unknown operator; supported: $eq, $ne, $gt, $gte, $lt, $lte, $in, $nin, $contains, $has",
        ),
        (json!({ "title": 5 }), "title: must be a string"),
        (json!({ "score": "5" }), "score: must be a whole number"),
        (json!({ "score": 5.0 }), "score: must be a whole number"),
        (
            json!({ "score": 9_007_199_254_740_993_i64 }),
            "score: must be within ±9007199254740991",
        ),
        (json!({ "id": 42 }), "id: must be a string"),
        (
            json!({ "id": "042" }),
            "id: must be a whole number in its shortest decimal form, as a string",
        ),
        (json!({ "live": "true" }), "live: must be true or false"),
        (
            json!({ "dueAt": "2026-01-02" }),
            "dueAt: must be an RFC 3339 date-time such as 2026-01-02T03:04:05Z",
        ),
        (
            json!({ "status": "zzz" }),
            "status: must be one of draft, published, now",
        ),
        (
            json!({ "title": "a\0" }),
            "title: must not contain the character U+0000",
        ),
        (
            json!({ "title": "now" }),
            "title: `now` is only for dates; write the text as { \"$literal\": \"now\" }",
        ),
        (
            json!({ "title": { "$literal": "x", "$eq": "y" } }),
            "title: a value is a literal, a reference or { \"$literal\": value }",
        ),
        (
            json!({ "title": ["a"] }),
            "title: only `$in` and `$nin` take a list; to compare with a whole list, write { \"$literal\": [..] }",
        ),
        (
            json!({ "title": { "$in": [] } }),
            "title.$in: the list is empty",
        ),
        (
            json!({ "title": { "$in": "a" } }),
            "title.$in: needs a list or a list parameter",
        ),
        (
            json!({ "title": { "$in": "param:title" } }),
            "title.$in: needs a list or a list parameter",
        ),
        (
            json!({ "title": { "$in": ["a", 1] } }),
            "title.$in[1]: must be a string",
        ),
        (
            json!({ "title": { "$in": ["param:titles"] } }),
            "title.$in[0]: a list parameter cannot be an element",
        ),
        (
            json!({ "title": { "$gt": "param:titles" } }),
            "title.$gt: only `$in` and `$nin` take a list parameter",
        ),
        (
            json!({ "title": { "$gt": null } }),
            "title.$gt: `$gt` is never true for null",
        ),
        (
            json!({ "title": { "$contains": "" } }),
            "title.$contains: `$contains` needs a text that is not empty",
        ),
        (
            json!({ "title": { "$contains": null } }),
            "title.$contains: `$contains` is never true for null",
        ),
        (
            json!({ "score": { "$contains": "5" } }),
            "score.$contains: `$contains` does not fit `score` (integer)",
        ),
        (
            json!({ "title": { "$has": "a" } }),
            "title.$has: `$has` does not fit `title` (string)",
        ),
        (
            json!({ "tags": { "$in": ["a"] } }),
            "tags.$in: `$in` does not fit `tags` (string_array)",
        ),
        (
            json!({ "live": { "$gt": false } }),
            "live.$gt: `$gt` does not fit `live` (boolean)",
        ),
        (
            json!({ "status": { "$gt": "draft" } }),
            "status.$gt: `$gt` does not fit `status` (enum)",
        ),
        (
            json!({ "tags": { "$has": 1 } }),
            "tags.$has: must be a string",
        ),
        (json!({ "tags": "a" }), "tags: must be a list of strings"),
        (
            json!({ "title": "param:nope" }),
            "title: unknown parameter `nope`",
        ),
        (
            json!({ "title": "param:actor.id" }),
            "title: the name of a parameter must not contain dots; for a context value, write `ctx:actor.id`",
        ),
        (
            json!({ "title": "param:score" }),
            "title: parameter `score` is integer, `title` is string",
        ),
        (
            json!({ "title": "ctx:actor.mail" }),
            "title: `ctx:actor.mail` is unknown",
        ),
        (
            json!({ "title": "ctx:actor.claims." }),
            "title: `ctx:actor.claims.` is unknown",
        ),
        (
            json!({ "live": "ctx:actor.id" }),
            "live: `ctx:actor.id` is a string, `live` is boolean",
        ),
    ];
    for (json, message) in table {
        assert_eq!(read(&json), Err(message.to_owned()), "{json}");
    }
}

#[test]
fn filters_without_a_json_form_are_rejected() {
    let arg = one(
        1,
        Op::Eq,
        Source::Arg {
            index: 3,
            nullable: false,
        },
    );
    assert_eq!(
        arg.to_json(&POST, &PARAMS),
        json!({ "title": { "$arg": 3 } })
    );
    assert!(read(&arg.to_json(&POST, &PARAMS)).is_err());
    assert_eq!(Filter::TRUE.to_json(&POST, &PARAMS), json!({}));
}
