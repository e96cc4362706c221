use linchpin::prelude::*;

linchpin::context! {
    pub locale: String;
    pub level: i64;
}

#[entity(scope(level = ctx(locale)))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(default = ctx(level))]
    pub locale: String,
    pub level: i64,
}

fn main() {}
