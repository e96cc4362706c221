//! Start-up errors about counters that are visible only in several declarations together.

#![allow(missing_docs, dead_code)] // fixtures

use linchpin::prelude::*;

use crate::fixture::{config, refused};

/// A list with mistakes in its counters: an operation writes `items`, the counter `Shelf.lists`
/// depends on `items`, and `odd` does not start at 0.
#[entity(counter(Shelf.lists, by = shelf_id, when(items > 3)), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Checklist {
    #[field(primary)]
    pub id: String,
    pub shelf_id: Option<String>,
    #[field(read_only, default = 0)]
    pub items: i64,
    #[field(read_only, default = 7)]
    pub odd: i64,
}

#[operation(kind = "increment", field = items)]
pub const ADD_ONE: Operation<Checklist>;

#[entity(counter(Checklist.items, by = list_id), counter(Checklist.odd, by = list_id), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Entry {
    #[field(primary)]
    pub id: String,
    pub list_id: String,
}

#[entity(counter(Checklist.items, by = list_id), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Draft {
    #[field(primary)]
    pub id: String,
    pub list_id: String,
}

#[entity(routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Shelf {
    #[field(primary)]
    pub id: String,
    #[field(read_only, default = 0)]
    pub lists: i64,
}

static LISTS: Package = package!(
    name = "lists",
    entities = [
        entity(Checklist, [ADD_ONE]),
        entity(Entry, []),
        entity(Draft, [])
    ]
);

#[tokio::test]
async fn operations_cannot_write_counters_of_other_entities() {
    let text = refused(App::new(config()).package(&LISTS).start().await);
    for part in [
        "`Shelf.lists`, which counts records of `Checklist`",
        "`Shelf` is in no package of this app",
        "a counter that counts records of `Checklist` must not depend on this field",
        "operation `add_one` writes it",
        "`Checklist.odd`, which counts records of `Entry`",
        "it does not begin at 0; give it `default = 0`",
        "`Checklist.items`, which counts records of `Draft`",
        "another counter uses this field already",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    assert_eq!(text.lines().count(), 7, "{text}");
}
