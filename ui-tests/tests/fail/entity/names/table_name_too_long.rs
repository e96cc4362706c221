use linchpin::prelude::*;

#[entity(namespace = "a_namespace_that_goes_on_and_on_until_no_table_could_carry_it")]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
}

fn main() {}
