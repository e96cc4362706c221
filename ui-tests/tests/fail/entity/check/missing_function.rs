use linchpin::prelude::*;

#[entity(check = dates_in_order)]
pub struct Post {
    #[field(primary)]
    pub id: String,
}

fn main() {}
