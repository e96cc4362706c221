use linchpin::prelude::*;

#[entity(ttl("1h"))]
pub struct Session {
    #[field(primary, default = uuid)]
    pub id: String,
}

#[entity(belongs_to(session: Session, key = session_id, on_delete = "cascade"))]
pub struct Note {
    #[field(primary, default = uuid)]
    pub id: String,
    pub session_id: String,
}

fn main() {}
