use linchpin::prelude::*;

mod asked {
    linchpin::context! {
        pub locale: String;
    }
}

#[entity(routes(auth = none))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub locale: String,
}

#[operation(kind = "lookup", returns = "many", fields(locale = ctx(asked::locle)))]
pub const ACT: Operation<Post>;

fn main() {}
