use linchpin::prelude::*;

#[entity(pagination(default = 20usize))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(default = 5u8)]
    pub views: i64,
    #[field(default = -3i32)]
    pub left: i64,
    #[field(default = 0.5f32)]
    pub score: f64,
    #[field(default = 5u8, range = 1u16..=9)]
    pub stars: i64,
}

#[operation(kind = "increment", field = views, by = 2u8)]
pub const VIEW: Operation<Post>;

#[operation(kind = "lookup", fields(), filter = (views > 5u8 && score > 0.5f32), returns = "many")]
pub const SEEN: Operation<Post>;

fn main() {}
