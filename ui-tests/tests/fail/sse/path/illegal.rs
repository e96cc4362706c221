use linchpin::prelude::*;
use linchpin_realtime::sse;

#[entity]
pub struct Note {
    #[field(primary, default = uuid)]
    pub id: String,
    pub user_id: String,
}

sse! {
    pub const NOTES = "/__sse/a b//";
    Note: [created],
}

fn main() {}
