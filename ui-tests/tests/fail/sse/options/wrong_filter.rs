use linchpin::prelude::*;
use linchpin_realtime::sse;

#[entity]
pub struct Note {
    #[field(primary, default = uuid)]
    pub id: String,
    pub user_id: String,
}

fn mine(actor: &Actor) -> bool {
    actor.id.is_some()
}

sse! {
    pub const NOTES = "/__sse/notes";
    Note: [created],
    filter = mine,
}

fn main() {}
