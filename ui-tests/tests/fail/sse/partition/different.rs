use linchpin::prelude::*;
use linchpin_realtime::sse;

#[entity(scope(user_id = ctx(actor.id)))]
pub struct Note {
    #[field(primary, default = uuid)]
    pub id: String,
    pub user_id: String,
}

#[entity(tenant(tenant_id))]
pub struct Board {
    #[field(primary, default = uuid)]
    pub id: String,
    pub tenant_id: String,
}

sse! {
    pub const NOTES = "/__sse/notes";
    Note: [created],
    Board: [created],
}

fn main() {}
