use linchpin::prelude::*;

#[entity(routes(guard(require_mfa)))]
pub struct Post {
    #[field(primary)]
    pub id: String,
}

#[entity(routes(delete(guard(require_mfa))))]
pub struct Note {
    #[field(primary)]
    pub id: String,
}

#[entity(routes(role(["admin"]), publish(auth = none)))]
pub struct Room {
    #[field(primary)]
    pub id: String,
}

fn main() {}
