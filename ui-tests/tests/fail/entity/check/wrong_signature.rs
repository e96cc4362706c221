use linchpin::prelude::*;

fn rule(_: &str) -> std::result::Result<(), Problem> {
    Ok(())
}

#[entity(check = rule)]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
}

fn main() {}
