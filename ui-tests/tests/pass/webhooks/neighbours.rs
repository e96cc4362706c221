//! Valid catalogues of webhooks that are similar to the mistakes in `fail/webhooks`.

use std::collections::BTreeMap;

use linchpin::Json;
use linchpin::prelude::*;
use linchpin_webhooks::{Catalogue, webhook_events};

mod orders {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq, Eq, FieldEnum)]
    pub enum Status {
        Open,
        Paid,
    }

    #[entity(routes(update(event(payload(id, status)))))]
    #[derive(Clone, Debug)]
    pub struct Order {
        #[field(primary, default = uuid)]
        pub id: String,
        pub total: i64,
        pub status: Status,
        pub meta: Json<BTreeMap<String, String>>,
        #[field(private)]
        pub notes: Option<serde_json::Value>,
    }

    #[operation(kind = "transition", field = status, from = Status::Open, to = Status::Paid)]
    pub const PAY: Operation<Order>;
}

use orders::Status;

#[entity(routes(update(event(payload(id)))))]
#[derive(Clone, Debug)]
pub struct Refund {
    #[field(primary, default = uuid)]
    pub id: String,
    pub total: i64,
    pub raw: Option<serde_json::Value>,
}

const LARGE: i64 = 100;

// events: operations in the module of their entity; a payload without the untyped field.
fn events() -> Catalogue {
    webhook_events! {
        orders::Order: [created, updated, deleted, PAY],
        Refund: [updated],
    }
}

// when: several entities, consts, variants, private fields.
fn when() -> Catalogue {
    webhook_events! {
        orders::Order: [
            created when(total > LARGE && status == Status::Open),
            PAY when(total >= 1 || notes.is_none()),
        ],
        Refund: [updated when(total > LARGE)],
    }
}

#[test]
fn names_are_those_of_the_events() {
    let all = events();
    let names: Vec<&str> = all.names().collect();
    let expected = [
        "orders.created",
        "orders.updated",
        "orders.deleted",
        "orders.pay",
        "refunds.updated",
    ];
    assert_eq!(names, expected);
    assert_eq!(when().names().count(), 3);
    assert_eq!(webhook_events! {}.names().count(), 0);
}
