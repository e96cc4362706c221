use linchpin::prelude::*;
use linchpin_webhooks::{Catalogue, webhook_events};

#[entity]
pub struct Order {
    #[field(primary, default = uuid)]
    pub id: String,
    pub total: i64,
    #[field(default = false)]
    pub paid: bool,
}

#[operation(kind = "field_update", set(paid), partial)]
pub const PAY: Operation<Order>;

pub fn catalogue() -> Catalogue {
    webhook_events! { Order: [created], Order: [PAY] }
}

fn main() {}
