use linchpin::prelude::*;

#[entity(routes(
    permission(requires = "moderate"),
    create(audit = "post"),
    update(audit = "edit", permission(requires = "write", or = ["pin"])),
    get(permission(requires = "lock")),
    list(permission(requires = "read")),
    delete(permission(requires = "write", or = ["lock"])),
))]
#[derive(Clone, Debug)]
pub struct Post {
    #[field(primary)]
    pub id: String,
    #[field(default = 0)]
    pub views: i64,
}

#[operation(kind = "increment", field = views)]
pub const VIEW: Operation<Post>;

#[operation(kind = "increment", field = views, by = 2, route(audit = "view"))]
pub const VIEW_TWICE: Operation<Post>;

#[route(entity = Post, method = "POST", path = "knock", permission(requires = "lock"))]
async fn knock() {}

#[route(entity = Post, method = "GET", path = "look", permission(requires = "lock"))]
async fn look() {}

pub static BLOG: Package =
    package!(name = "blog", entities = [entity(Post, [VIEW, VIEW_TWICE, knock, look])], audited = ["lock", "moderate"]);
pub static NONE: Package = package!(name = "none", entities = [], audited = []);
pub static WORDS: Package = package!(name = "words", entities = [], audited = [lock]);

fn main() {}
