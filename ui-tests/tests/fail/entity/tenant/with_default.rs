use linchpin::prelude::*;

#[entity(tenant(tenant_id))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(default = "t")]
    pub tenant_id: String,
}

fn main() {}
