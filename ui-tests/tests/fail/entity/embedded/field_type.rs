use linchpin::prelude::*;

#[derive(Embedded)]
pub struct Part {
    pub id: String,
    pub took: std::time::Duration,
}

fn main() {}
