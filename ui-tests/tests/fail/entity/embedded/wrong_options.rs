use linchpin::prelude::*;

#[derive(Embedded)]
pub struct Part {
    #[field(filterable)]
    pub id: String,
    #[field(range = 1..)]
    pub name: String,
}

fn main() {}
