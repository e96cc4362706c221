use linchpin::prelude::*;

#[entity]
pub struct Room {
    #[field(primary)]
    pub number: i64,
    #[field(read_only, default = 0)]
    pub beds: i64,
}

#[entity(
    tenant(hotel),
    belongs_to(room: Room, key = room_number),
    gate(floor -> Room),
    counter(Room.beds, by = counted_in),
    unique(place)
)]
pub struct Bed {
    #[field(primary)]
    pub id: i64,
    pub hotel: i64,
    pub room_number: i64,
    pub floor: i64,
    pub counted_in: i64,
    pub place: i64,
}

#[operation(kind = "increment", field = id)]
pub const KEY: Operation<Bed>;

#[operation(kind = "increment", field = hotel)]
pub const TENANT: Operation<Bed>;

#[operation(kind = "increment", field = room_number)]
pub const RELATION: Operation<Bed>;

#[operation(kind = "increment", field = floor)]
pub const GATE: Operation<Bed>;

#[operation(kind = "increment", field = counted_in, by = -1)]
pub const COUNTER: Operation<Bed>;

fn main() {}
