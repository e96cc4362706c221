use linchpin::prelude::*;

#[entity(tenant(tenant_id, anonymous_read), routes(list(auth = none)))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub tenant_id: String,
}

fn main() {}
