use linchpin::prelude::*;

#[derive(Clone, Debug, Embedded)]
pub struct Line {
    #[field(primary)]
    pub id: String,
    #[field(computed = key)]
    pub key: String,
}

fn key(line: &Line) -> String {
    line.id.to_lowercase()
}

fn main() {}
