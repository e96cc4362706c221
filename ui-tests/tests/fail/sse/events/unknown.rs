use linchpin::prelude::*;
use linchpin_realtime::sse;

#[entity]
pub struct Note {
    #[field(primary, default = uuid)]
    pub id: String,
    pub user_id: String,
}

#[operation(kind = "field_update", match(id = param(id)), set(user_id))]
pub const GIVE: Operation<Note>;

sse! {
    pub const NOTES = "/__sse/notes";
    Note: [creatd, GIV],
}

fn main() {}
