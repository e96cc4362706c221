//! Every pair of options of an entity, under concurrent writes of one record: each call is
//! answered, and no write is lost.
//!
//! One entity has all options; each of the other entities has one or two of them.

#![allow(missing_docs)] // test entities

use std::sync::OnceLock;

use futures_util::future::join_all;
use linchpin::EntityEntry;
use linchpin::Value;
use linchpin::entity::{DefaultDesc, EntityDesc, FieldDesc};
use linchpin::operation::OpSpec;
use linchpin::prelude::*;
use serde_json::{Value as Json, json};

use crate::server::{Reply, Server};

#[derive(FieldEnum, Clone, Copy, Debug, PartialEq)]
pub enum Status {
    Draft,
    Live,
}

/// A parent with a counter.
#[entity(routes(auth = "userAuth"))]
#[derive(Clone, Debug)]
pub struct Shelf {
    #[field(primary)]
    pub id: String,
    #[field(read_only, default = 0)]
    pub things: i64,
}

fn sound(thing: &Thing) -> Result<(), Problem> {
    if thing.points >= 0 {
        Ok(())
    } else {
        Err(Problem::new("points", "check", "must not be negative"))
    }
}

fn label(thing: &Thing) -> String {
    format!("{}/{}", thing.title, thing.points)
}

#[entity(
    check = sound,
    version(required_on_write = false),
    soft_delete(deleted_at),
    ttl(until),
    tenant(team),
    scope(owner = ctx(actor.id)),
    visible(points >= 0),
    gate(shelf_id -> Shelf),
    belongs_to(shelf: Shelf, key = shelf_id, on_delete = "cascade"),
    counter(Shelf.things, by = shelf_id),
    unique(slug),
    routes(
        auth = "userAuth",
        create(idempotent, audit = "make", event(name = "thing.made")),
        update(idempotent, audit = "change", event(name = "thing.changed")),
    )
)]
#[derive(Clone, Debug)]
pub struct Thing {
    #[field(primary)]
    pub id: String,
    pub slug: Option<String>,
    #[field(default = "")]
    pub title: String,
    #[field(default = 0)]
    pub points: i64,
    pub shelf_id: String,
    #[field(default = Status::Draft, filterable)]
    pub status: Status,
    #[field(items = 1..)]
    pub tags: Vec<String>,
    #[field(private)]
    pub team: Option<String>,
    #[field(private)]
    pub owner: Option<String>,
    pub until: Option<Timestamp>,
    pub deleted_at: Option<Timestamp>,
    #[field(computed(label, from(title, points)))]
    pub label: String,
}

#[operation(kind = "increment", field = points, by = 1)]
pub const UP: Operation<Thing>;

#[operation(kind = "array_pull", field = tags, value = param(tag))]
pub const UNTAG: Operation<Thing>;

#[operation(kind = "array_push", field = tags, value = input(tag))]
pub const TAG: Operation<Thing>;

#[operation(kind = "field_update", set(title))]
pub const RENAME: Operation<Thing>;

#[operation(kind = "transition", field = status, from = Status::Draft, to = Status::Live, already = "ok")]
pub const PUBLISH: Operation<Thing>;

#[operation(kind = "batch", action = "update", filter = (status == Status::Live), set(title = param(title)))]
pub const RENAME_ALL: Operation<Thing>;

#[operation(kind = "upsert", match(id), set(title, tags, shelf_id))]
pub const PUT: Operation<Thing>;

static THINGS: Package = package!(
    name = "things",
    entities = [
        entity(Shelf, []),
        entity(Thing, [UP, UNTAG, TAG, RENAME, PUBLISH, RENAME_ALL, PUT])
    ]
);

/// Removes an option.
type Without = fn(EntityDesc) -> EntityDesc;

/// The options, each with a function that removes it from an entity.
const OPTIONS: [(&str, Without); 14] = [
    ("check", |desc| EntityDesc {
        check: None,
        ..desc
    }),
    ("computed", |desc| {
        let empty = DefaultDesc::Literal(|| Value::Text(String::new()));
        let fields = desc.fields.iter().map(|field| match field.computed {
            Some(_) => FieldDesc {
                computed: None,
                default: empty,
                ..*field
            },
            None => *field,
        });
        EntityDesc {
            fields: Vec::leak(fields.collect()),
            ..desc
        }
    }),
    ("version", |desc| EntityDesc {
        version: None,
        ..desc
    }),
    ("soft_delete", |desc| EntityDesc {
        soft_delete: None,
        ..desc
    }),
    ("ttl", |desc| EntityDesc { ttl: None, ..desc }),
    ("tenant", |desc| EntityDesc {
        tenant: None,
        ..desc
    }),
    ("scope", |desc| EntityDesc { scope: &[], ..desc }),
    ("visible", |desc| EntityDesc {
        visible: None,
        ..desc
    }),
    ("gate", |desc| EntityDesc { gates: &[], ..desc }),
    ("on_delete", |desc| EntityDesc {
        relations: &[],
        ..desc
    }),
    ("counter", |desc| EntityDesc {
        summaries: &[],
        ..desc
    }),
    ("unique", |desc| EntityDesc {
        uniques: &[],
        ..desc
    }),
    ("audit", |desc| EntityDesc {
        routes: desc.routes.map(|route| linchpin::http::PolicyDesc {
            audit: None,
            ..route
        }),
        ..desc
    }),
    ("event", |desc| EntityDesc {
        routes: desc.routes.map(|route| linchpin::http::PolicyDesc {
            event: None,
            ..route
        }),
        ..desc
    }),
];

/// A copy with all options.
fn copy(desc: &EntityDesc) -> EntityDesc {
    EntityDesc { ..*desc }
}

/// An entity with some of the options, and its operations.
fn entry(number: usize, kept: &[usize], operations: &'static [&'static OpSpec]) -> EntityEntry {
    let removed = OPTIONS
        .iter()
        .enumerate()
        .filter(|(at, _)| !kept.contains(at));
    let desc = removed.fold(copy(Thing::DESC), |desc, (_, (_, without))| without(desc));
    let name = |text: String| &*String::leak(text);
    let desc = EntityDesc {
        name: name(format!("Thing{number}")),
        path: name(format!("things-{number}")),
        storage_name: name(format!("things_{number}")),
        ..desc
    };
    EntityEntry {
        desc: Box::leak(Box::new(desc)),
        operations,
        routes: &[],
    }
}

/// Each option, each pair of options, and all options.
fn option_sets() -> Vec<Vec<usize>> {
    let single = (0..OPTIONS.len()).map(|a| vec![a]);
    let pairs = (0..OPTIONS.len()).flat_map(|a| (a + 1..OPTIONS.len()).map(move |b| vec![a, b]));
    single
        .chain(pairs)
        .chain([(0..OPTIONS.len()).collect()])
        .collect()
}

fn package() -> &'static Package {
    static PACKAGE: OnceLock<Package> = OnceLock::new();
    PACKAGE.get_or_init(|| {
        let [shelf, thing] = THINGS.entities else {
            panic!("two entities")
        };
        let things = option_sets()
            .into_iter()
            .enumerate()
            .map(|(number, kept)| entry(number, &kept, thing.operations));
        Package {
            entities: Vec::leak(std::iter::once(*shelf).chain(things).collect()),
            ..THINGS
        }
    })
}

async fn send(s: &Server, key: Option<&str>, (method, path, body): (&str, String, Json)) -> Reply {
    let token = s.token_in("ann", "t1");
    let mut headers = vec![
        ("authorization", &*token),
        ("content-type", "application/json"),
    ];
    headers.extend(key.map(|key| ("idempotency-key", key)));
    let text = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    s.raw(method, &path, &headers, &text).await
}

/// Concurrent writes of three records of an entity.
async fn write_concurrently(s: &Server, number: usize, names: &str) {
    let at = |rest: &str| format!("/things-{number}{rest}");
    let shelf = format!("s{number}");
    let made = send(
        s,
        None,
        ("POST", "/shelves".to_owned(), json!({"id": shelf})),
    )
    .await;
    assert_eq!(made.status, 201, "{made:?}");
    for id in ["a", "b"] {
        let body = json!({"id": id, "slug": id, "shelfId": shelf, "tags": ["x", "y", "z", "w"]});
        let made = send(s, Some(&format!("{number}{id}")), ("POST", at(""), body)).await;
        assert_eq!(made.status, 201, "{names}: {made:?}");
    }
    let mut calls = Vec::new();
    for i in 0..3 {
        calls.extend([
            (
                false,
                ("PATCH", at("/a"), json!({"title": format!("t{i}")})),
            ),
            (true, ("PATCH", at("/a"), json!({"title": format!("k{i}")}))),
            (false, ("PATCH", at("/a"), json!({"slug": "b"}))),
            (false, ("PATCH", at("/b"), json!({"slug": "a"}))),
            (
                false,
                (
                    "PATCH",
                    at("/b"),
                    json!({"shelfId": shelf, "title": format!("s{i}")}),
                ),
            ),
            (false, ("POST", at("/a/up"), json!({}))),
            (
                false,
                (
                    "DELETE",
                    at(&format!("/a/untag?tag={}", ["x", "y", "z"][i])),
                    Json::Null,
                ),
            ),
            (
                false,
                ("POST", at("/b/tag"), json!({"tag": format!("n{i}")})),
            ),
            (
                false,
                ("PATCH", at("/b/rename"), json!({"title": format!("r{i}")})),
            ),
            (false, ("POST", at("/a/publish"), json!({}))),
            (
                false,
                ("POST", at("/rename-all"), json!({"title": format!("l{i}")})),
            ),
            (
                false,
                (
                    "POST",
                    at("/put"),
                    json!({"id": "c", "title": format!("p{i}"), "tags": ["x"], "shelfId": shelf}),
                ),
            ),
        ]);
    }
    let all = join_all(
        calls
            .into_iter()
            .enumerate()
            .map(async |(i, (keyed, call))| {
                let key = keyed.then(|| format!("{number}-{i}"));
                let description = format!("{} {} {}", call.0, call.1, call.2);
                (description, send(s, key.as_deref(), call).await)
            }),
    );
    for (description, reply) in all.await {
        // Two calls may conflict on a value, or on a record that changes too often.
        let is_expected = reply.status < 300 || reply.status == 409;
        assert!(is_expected, "{names}: {description}: {reply:?}");
    }
    let record = send(s, None, ("GET", at("/a"), Json::Null)).await.json();
    assert_eq!(
        (&record["points"], &record["tags"]),
        (&json!(3), &json!(["w"])),
        "{names}"
    );
    if names.contains("computed") {
        assert_eq!(
            record["label"],
            format!("{}/3", record["title"].as_str().unwrap()),
            "{names}"
        );
    }
    if names.contains("counter") {
        let shelf = send(s, None, ("GET", format!("/shelves/{shelf}"), Json::Null))
            .await
            .json();
        assert_eq!(shelf["things"], 3, "{names}");
    }
}

async fn every_pair_of_options_keeps_all_writes(s: &Server) {
    for (number, kept) in option_sets().into_iter().enumerate() {
        let names: Vec<&str> = kept.iter().map(|at| OPTIONS[*at].0).collect();
        write_concurrently(s, number, &names.join(" + ")).await;
    }
}

crate::cases!(crate::option_pairs::package() => every_pair_of_options_keeps_all_writes);
