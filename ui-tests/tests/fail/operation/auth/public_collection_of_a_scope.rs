use linchpin::prelude::*;

#[derive(Embedded, Clone, Debug)]
pub struct Line {
    #[field(primary, default = uuid)]
    pub id: String,
}

#[entity(tenant(tenant_id, optional, anonymous_read))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub tenant_id: Option<String>,
    pub lines: Vec<Line>,
}

#[operation(kind = "collection", field = lines, operations(list, add), route(lines_list(auth = none), lines_add(auth = none)))]
pub const LINES: Operation<Post>;

fn main() {}
