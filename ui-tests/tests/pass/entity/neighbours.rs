//! Each entity is valid and similar to a mistake in `fail/entity`; its comment names the folder.
#![allow(dead_code, missing_docs)]

use linchpin::prelude::*;

#[derive(FieldEnum, Clone, Copy, PartialEq, Debug)]
pub enum Status {
    Draft,
    // This is also the Rust name of another variant, but the wire name of that variant is `draft`.
    #[field(rename = "Draft")]
    Live,
}

type Key = i64;
type Text = String;
type Moment = Timestamp;
type Tags = Vec<String>;
const LIMIT: i64 = 3;
const MAX: u32 = 10_000;

// primary: one key with an aliased type, among fields that could be keys.
#[entity]
pub struct Keyed {
    #[field(primary)]
    pub key: Key,
    pub id: String,
}

// default: generated and literal defaults of aliased and optional types.
#[entity]
pub struct Defaults {
    #[field(primary, default = cuid)]
    pub id: Text,
    #[field(default = now)]
    pub at: Option<Moment>,
    #[field(default = now, on_update = now)]
    pub touched: Moment,
    // The text, not the keyword.
    #[field(default = "now")]
    pub word: String,
    #[field(default = LIMIT)]
    pub n: i64,
    #[field(default = -1)]
    pub below: i64,
    #[field(default = 1)]
    pub ratio: f64,
    #[field(default = Status::Live)]
    pub status: Option<Status>,
    #[field(default = "2020-01-01T00:00:00+01:00")]
    pub since: Timestamp,
}

// constraints: bounds that just fit.
#[entity]
pub struct Bounds {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(length = 3..=3, default = "abc", pattern = "[a-c]+")]
    pub exact: String,
    #[field(range = -9007199254740991..=9007199254740991, default = 9007199254740991)]
    pub wide: i64,
    #[field(range = 0..=1)]
    pub share: f64,
    #[field(range = "2020-01-01T00:00:00Z"..="2020-01-01T00:00:00Z")]
    pub day: Option<Timestamp>,
    #[field(items = 0..=0, each(format = "slug"))]
    pub none: Vec<String>,
    #[field(length = ..=5)]
    pub alias: Text,
    // A required list with an aliased type.
    #[field(items = 1.., unique_items, required)]
    pub aliases: Tags,
    #[field(required, each(length = 1..=5))]
    pub sent: Vec<String>,
    #[field(one_of("a"), default = "a")]
    pub only: String,
    #[field(length = 1..=5, default = "äöüéß")]
    pub counted_in_characters: String,
}

// names, rename_from: names that differ on the wire and in storage; former names that nothing uses
// any more.
#[entity(rename_from = ["namings", "labels"])]
pub struct Named {
    #[field(primary)]
    pub id: String,
    pub a_b: String,
    pub a_bc: String,
    #[field(column = "name")]
    pub title: String,
    #[field(column = "title_text", rename_from = ["old_title", "title_text_2"])]
    pub text: String,
    // The list route has a parameter with this name, but the field is not a filter.
    pub limit: i64,
}

// index, unique, private: the same fields in another order or direction, and hidden fields where
// they cannot leak.
#[entity(
    index(a, b),
    index(b, a),
    index(desc(a), b),
    index(a, rank),
    unique(rank),
    unique(a, b),
    sort = asc(b),
)]
pub struct Listed {
    #[field(primary)]
    pub id: String,
    pub a: String,
    pub b: Option<Status>,
    #[field(private, default = 0)]
    pub rank: i64,
    #[field(filterable)]
    pub tags: Vec<String>,
}

// version: a field called version is fine when the counter has another name.
#[entity(version(field = rev))]
pub struct Versioned {
    #[field(primary)]
    pub id: String,
    pub version: String,
}

// pagination: values that are exactly at the limits.
#[entity(pagination(default = MAX, max = 10_000))]
pub struct Paged {
    #[field(primary)]
    pub id: String,
}

// options, routes, middleware, guards, rate_limit, timeout: every key once, a trailing comma, and
// a policy for one route.
#[entity(routes(auth = none, timeout = "1ms", create(disabled,), list(auth = "userAuth", roles = ["none"])),)]
pub struct Routed {
    #[field(primary)]
    pub id: String,
}

// read_only: read-only fields that have a value: a default, or null.
#[entity]
pub struct Owned {
    #[field(primary)]
    pub id: String,
    #[field(read_only)]
    pub total: Option<i64>,
    #[field(read_only, default = 0)]
    pub count: i64,
    #[field(read_only)]
    pub tags: Vec<String>,
    #[field(default = uuid, client_set)]
    pub token: String,
}

// private: private fields that have a value: a default, null or an empty list.
type Texts = Vec<String>;

#[entity(scope(owner_id = ctx(actor.id)), tenant(team))]
pub struct Account {
    #[field(primary)]
    pub id: String,
    #[field(private)]
    pub owner_id: String,
    #[field(private)]
    pub team: String,
    #[field(private)]
    pub hint: Option<String>,
    #[field(private, default = "")]
    pub hash: String,
    #[field(private)]
    pub tags: Vec<String>,
    #[field(private)]
    pub marks: Texts,
    #[field(private, on_update = now)]
    pub touched_at: Timestamp,
    #[field(private, default = cuid)]
    pub token: String,
}

// private: private fields of an entity that only code creates.
#[entity(routes(create(disabled)))]
pub struct Secret {
    #[field(primary)]
    pub id: String,
    #[field(private)]
    pub hash: String,
    #[field(private)]
    pub status: Status,
}

// names: 63 bytes exactly.
#[entity(
    storage_name = "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffggg",
    path = "a/b-c.d_e~f"
)]
pub struct Long {
    #[field(primary)]
    pub id: String,
}

#[derive(Embedded, Clone)]
pub struct Part {
    #[field(primary, default = uuid)]
    pub id: String,
    pub status: Option<Status>,
    pub children: Vec<Leaf>,
}

#[derive(Embedded, Clone)]
pub struct Leaf {
    pub at: Timestamp,
    pub any: serde_json::Value,
}

#[entity]
pub struct Whole {
    #[field(primary)]
    pub id: String,
    pub parts: Vec<Part>,
    pub maybe: Option<Vec<Part>>,
}

#[test]
fn the_declarations_compile() {
    // An entity may be declared in a function body.
    #[entity]
    struct Local {
        #[field(primary)]
        id: String,
    }
    assert_eq!(Local::DESC.path, "locals");
    assert_eq!(Status::from_str("Draft"), Some(Status::Live));
    assert!(
        Listed::DESC.fields[4]
            .flags
            .has(linchpin::entity::Flags::FILTERABLE)
    );
}
