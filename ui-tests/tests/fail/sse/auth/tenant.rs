use linchpin::prelude::*;
use linchpin_realtime::sse;

#[entity(tenant(user_id))]
pub struct Note {
    #[field(primary, default = uuid)]
    pub id: String,
    pub user_id: String,
}

sse! {
    pub const NOTES = "/__sse/notes";
    Note: [created],
    auth = none,
}

fn main() {}
