//! Valid gates, trees and conditions that are similar to the mistakes in `fail/entity/gate` and
//! `fail/entity/visible`.
#![allow(dead_code, missing_docs)]

use linchpin::prelude::*;

type Key = String;

#[derive(FieldEnum, Clone, Copy, Debug, PartialEq)]
pub enum Status {
    Draft,
    Published,
}

pub mod places {
    use linchpin::prelude::*;

    // Two entities that refer to each other, one of them without a gate. Private fields decide who
    // sees a record.
    #[entity(
        stores(memory, sqlite, postgres, mongo),
        has_many(notes: super::Note, key = room_id),
        action("read", is_private == false || owner_id == ctx(actor.id)),
        action("write", owner_id == ctx(actor.id)),
    )]
    pub struct Room {
        #[field(primary)]
        pub id: i64,
        pub is_private: bool,
        #[field(private)]
        pub owner_id: Option<String>,
    }
}

// A key of the other entity's type, with and without a relation; visibility depends on the caller,
// the time and the record.
#[entity(
    stores(memory, sqlite),
    index(room_id),
    belongs_to(room: places::Room, key = room_id, on_delete = "cascade"),
    gate(room_id -> places::Room, "read"),
    visible(
        (status == Status::Published && (deliver_at.is_none() || deliver_at <= now()))
            || author_id == ctx(actor.id)
            || team.one_of([ctx(actor.claims.team), "all"])
            || live
    ),
)]
pub struct Note {
    #[field(primary)]
    pub id: Key,
    pub room_id: i64,
    pub status: Status,
    pub author_id: Key,
    pub team: String,
    pub live: bool,
    pub deliver_at: Option<Timestamp>,
}

// A tree of the maximum depth; its key has an aliased type.
#[entity(gate(parent_id -> Self, depth = 7))]
pub struct Folder {
    #[field(primary)]
    pub id: String,
    #[field(immutable)]
    pub parent_id: Option<Key>,
}

// Eight links: one to the folder, and seven within the tree.
#[entity(gate(folder_id -> Folder))]
pub struct File {
    #[field(primary)]
    pub id: String,
    #[field(immutable)]
    pub folder_id: Key,
}

// Two gates at once; one of the keys is the primary key.
#[entity(gate(id -> Note), gate(file_id -> Other))]
pub struct Pin {
    #[field(primary)]
    pub id: String,
    pub file_id: String,
}

#[entity]
pub struct Other {
    #[field(primary)]
    pub id: String,
}

static PLACES: Package = package!(
    name = "places",
    entities = [
        entity(places::Room, []),
        entity(Note, []),
        entity(Folder, []),
        entity(File, []),
        entity(Pin, []),
        entity(Other, [])
    ],
);

#[test]
fn gates_are_in_the_descriptor() {
    assert_eq!(PLACES.entities.len(), 6);
    let note = PLACES.entities[1].desc;
    assert_eq!(
        (
            note.gates[0].target.name,
            note.gates[0].action,
            note.gates[0].depth
        ),
        ("Room", Some("read"), 0)
    );
    // The `Debug` output of a tree is finite, although its descriptor contains itself.
    assert!(format!("{:?}", PLACES.entities[2].desc).contains("depth: 7"));
}
