use linchpin::prelude::*;

#[derive(Embedded)]
pub struct Tuple(String);

#[derive(Embedded)]
pub enum Either {
    A,
}

#[derive(Embedded)]
pub struct Generic<T> {
    pub name: T,
}

#[derive(Embedded)]
pub struct Part {
    #[field(primary)]
    pub a: String,
    #[field(primary, column = "b")]
    pub b: String,
    pub c_d: String,
    pub cD: String,
    #[field(default = now, on_update = now)]
    pub at: Timestamp,
}

fn main() {}
