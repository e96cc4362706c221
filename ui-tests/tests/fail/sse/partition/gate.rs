use linchpin::prelude::*;
use linchpin_realtime::sse;

#[entity]
pub struct Note {
    #[field(primary, default = uuid)]
    pub id: String,
    pub user_id: String,
}

#[entity(gate(note_id -> Note))]
pub struct Remark {
    #[field(primary, default = uuid)]
    pub id: String,
    pub note_id: String,
}

sse! {
    pub const NOTES = "/__sse/notes";
    Remark: [created],
}

fn main() {}
