use linchpin::prelude::*;

#[entity(routes(auth = none))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
    #[field(default = false)]
    pub live: bool,
    #[field(private)]
    pub hash: Option<String>,
    #[field(write_only)]
    pub pin: Option<String>,
}

#[operation(kind = "transition", field = live, from = false, to = true, route(event(payload(id, hash), include(pin))))]
pub const SHOW: Operation<Post>;

#[operation(kind = "field_update", set(title), route(event(payload(id), expose = "records")))]
pub const RETITLE: Operation<Post>;

#[operation(kind = "batch", action = "delete", filter = (live == true), route(event(name = "Posts Cleared", expose = "records")))]
pub const CLEAR: Operation<Post>;

fn main() {}
