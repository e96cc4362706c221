use linchpin::prelude::*;

#[entity(routes(
    auth = none,
    output(id, hash),
    list(output(id, titel)),
    get(output(id, id)),
    delete(output(id)),
))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
    #[field(immutable)]
    pub slug: String,
    #[field(private)]
    pub hash: Option<String>,
    #[field(default = now)]
    pub created_at: Timestamp,
}

fn main() {}
