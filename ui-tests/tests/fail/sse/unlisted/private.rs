#![deny(dead_code)]

use linchpin::prelude::*;
use linchpin_realtime::channel::Declared;
use linchpin_realtime::sse;

#[entity(scope(user_id = ctx(actor.id)))]
pub struct Note {
    #[field(primary, default = uuid)]
    pub id: String,
    pub user_id: String,
}

sse! {
    const NOTES = "/__sse/notes";
    Note: [created],
}

sse! {
    const LISTED = "/__sse/listed";
    Note: [created],
}

fn main() {
    let _ = Declared::default().sse(LISTED);
}
