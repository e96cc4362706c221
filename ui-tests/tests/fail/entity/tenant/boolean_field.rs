use linchpin::prelude::*;

#[entity(tenant(tenant_id))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub tenant_id: bool,
}

fn main() {}
