use linchpin::prelude::*;

#[entity()]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(default = ctx(actor.mail))]
    pub mail: String,
}

fn main() {}
