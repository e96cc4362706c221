use linchpin::prelude::*;
use linchpin_realtime::sse;

#[entity]
pub struct Note {
    #[field(primary, default = uuid)]
    pub id: String,
    pub user_id: String,
}

sse! {
    pub const NOTES = "/__sse/notes";
    Note: [created],
    heartbeat = "2min",
    history(size = 10001),
    max_connections = 0,
}

fn main() {}
