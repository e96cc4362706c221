use linchpin::prelude::*;

#[derive(FieldEnum, Clone, Copy, PartialEq, Debug)]
pub enum State {
    Open,
    Done,
}

type Hash = String;

#[entity]
pub struct User {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(private)]
    pub hash: String,
    #[field(private, immutable)]
    pub logins: i64,
    #[field(private)]
    pub meta: serde_json::Value,
}

// Types that only rustc knows.
#[entity]
pub struct Ticket {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(private)]
    pub state: State,
    #[field(private, length = 1..)]
    pub hash: Hash,
}

fn main() {}
