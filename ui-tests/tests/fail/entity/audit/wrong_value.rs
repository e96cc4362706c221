use linchpin::prelude::*;

#[entity(routes(
    audit = "any",
    get(audit = "look"),
    list(audit = "look"),
    create(audit = ""),
    update(audit),
    delete(audit = remove),
))]
#[derive(Clone, Debug)]
pub struct Post {
    #[field(primary)]
    pub id: String,
}

fn main() {}
