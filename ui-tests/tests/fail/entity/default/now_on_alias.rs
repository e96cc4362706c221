use linchpin::prelude::*;

type Text = String;

#[entity]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(default = now)]
    pub at: Text,
}

fn main() {}
