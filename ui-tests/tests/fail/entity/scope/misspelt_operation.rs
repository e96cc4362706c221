use linchpin::prelude::*;

#[entity(scope(owner = ctx(actor.id)))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub owner_id: String,
    pub title: String,
}

// One mistake, one error: the missing scope is not reported, because it follows from the mistake.
#[operation(kind = "lookup", fields(title = param(title)), returns = "many", unscoped = "titles are public")]
pub const TITLED: Operation<Post>;

fn main() {}
