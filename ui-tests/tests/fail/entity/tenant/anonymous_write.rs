use linchpin::prelude::*;

#[entity(tenant(tenant_id, optional, anonymous_read), routes(list(auth = none), create(auth = none)))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub tenant_id: Option<String>,
}

fn main() {}
