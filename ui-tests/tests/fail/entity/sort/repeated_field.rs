use linchpin::prelude::*;

#[entity(index(desc(pinned), desc(created_at)), sort(desc(pinned), asc(pinned)))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(default = false)]
    pub pinned: bool,
    pub title: String,
    #[field(default = now)]
    pub created_at: Timestamp,
}

fn main() {}
