use linchpin::prelude::*;

fn year(old: String) -> Result<i64, TransformError> {
    old.parse().map_err(|_| "not a year".into())
}

#[transform(reverse = year)]
fn text(old: i64) -> Result<String, TransformError> {
    Ok(old.to_string())
}

#[entity]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(transform = year)]
    pub written: i64,
    #[field(transform = yaer)]
    pub month: i64,
}

fn main() {}
