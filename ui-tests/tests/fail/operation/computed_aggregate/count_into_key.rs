use linchpin::prelude::*;

#[entity]
pub struct Room {
    #[field(primary)]
    pub number: i64,
}

#[entity(belongs_to(room: Room, key = room_number), scope(owner = ctx(actor.id)))]
pub struct Guest {
    #[field(primary)]
    pub id: i64,
    pub owner: String,
    pub room_number: i64,
}

#[operation(kind = "computed_aggregate", source = Room, source_filter = (number > 0), compute = count(), target_match(id = param(id)), materialize_to = room_number)]
pub const RELATION: Operation<Guest>;

#[operation(kind = "computed_aggregate", source = Room, source_filter = (number > 0), compute = sum(number), target_match(id = param(id)), materialize_to = id)]
pub const KEY: Operation<Guest>;

fn main() {}
