use linchpin::prelude::*;

#[transform]
fn year(old: String) -> Result<i64, TransformError> {
    old.parse().map_err(|_| "not a year".into())
}

#[transform]
fn maybe(old: String) -> Result<Option<i64>, TransformError> {
    Ok(old.parse().ok())
}

#[entity]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(transform = year)]
    pub title: String,
    #[field(transform = maybe)]
    pub count: i64,
}

fn main() {}
