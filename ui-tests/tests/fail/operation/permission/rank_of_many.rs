use linchpin::prelude::*;

#[entity]
pub struct Ban {
    #[field(primary, default = uuid)]
    pub id: String,
    pub user_id: String,
    #[field(default = 0)]
    pub strikes: i64,
}

#[operation(kind = "batch", action = "delete", filter = (strikes == 0), route(permission(requires = "ban", rank = user_id)))]
pub const CLEAR: Operation<Ban>;

#[operation(kind = "lookup", fields(user_id = param(user_id)), returns = "one", route(permission(requires = "ban", rank = user_id)))]
pub const OF: Operation<Ban>;

fn main() {}
