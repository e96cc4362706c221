use linchpin::prelude::*;

#[entity(routes(permission(requires = "write", or = ["pin"]), create(audit = "post"), update(audit = "edit"), delete(audit = "remove")))]
#[derive(Clone, Debug)]
pub struct Post {
    #[field(primary)]
    pub id: String,
    #[field(default = 0)]
    pub views: i64,
}

#[operation(kind = "increment", field = views, route(audit = "view", permission(requires = "view")))]
pub const VIEW: Operation<Post>;

pub static BLOG: Package =
    package!(name = "blog", entities = [entity(Post, [VIEW])], audited = ["lokc", "write", "pin", "view", "Write"]);

fn main() {}
