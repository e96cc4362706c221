use linchpin::prelude::*;

#[entity(tenant(tenant))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub tenant_id: String,
}

fn main() {}
