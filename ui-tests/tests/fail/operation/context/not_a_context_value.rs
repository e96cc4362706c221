use linchpin::prelude::*;

linchpin::context! {
    pub locale: String;
    pub level: i64;
}

#[entity(routes(auth = none))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub locale: String,
    #[field(default = 0)]
    pub level: i64,
}

pub struct Tenant;

#[operation(kind = "lookup", returns = "many", fields(locale = ctx(Tenant)))]
pub const ACT: Operation<Post>;

fn main() {}
