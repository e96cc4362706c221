use linchpin::prelude::*;

#[entity(prepare = check_spam)]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
}

fn main() {}
