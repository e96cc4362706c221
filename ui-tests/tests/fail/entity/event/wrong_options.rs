use linchpin::prelude::*;

#[entity(routes(
    auth = none,
    event(payload(id, hash)),
    create(event(name = "post.created", payload(id, titel), include(pin, id))),
    update(event(expose = "records")),
    delete(event(include(title), expose = "all", nmae = "x")),
))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
    #[field(private)]
    pub hash: Option<String>,
    #[field(write_only)]
    pub pin: Option<String>,
}

fn main() {}
