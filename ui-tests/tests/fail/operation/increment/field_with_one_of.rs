use linchpin::prelude::*;

#[entity]
pub struct Parcel {
    #[field(primary)]
    pub id: String,
    #[field(one_of(1, 2, 5))]
    pub size: i64,
}

#[operation(kind = "increment", field = size)]
pub const GROW: Operation<Parcel>;

fn main() {}
