use linchpin::prelude::*;

#[transform]
fn generic<T>(_: T) -> Result<String, TransformError> {
    Ok(String::new())
}

#[transform]
async fn later(old: String) -> Result<String, TransformError> {
    Ok(old)
}

#[transform]
fn pair(old: String, other: String) -> Result<String, TransformError> {
    Ok(old + &other)
}

#[transform]
fn borrowed(old: &str) -> Result<String, TransformError> {
    Ok(old.to_owned())
}

#[transform]
fn silent(_: String) {}

#[transform(reverse = generic)]
fn filled(record: &OldRecord<'_>) -> Result<String, TransformError> {
    record.get("title")
}

#[transform(revers = generic)]
fn misspelt(old: String) -> Result<String, TransformError> {
    Ok(old)
}

#[transform]
struct Nothing;

// No further error: the functions above are reported already.
#[entity]
pub struct Post {
    #[field(primary)]
    pub id: String,
    #[field(transform = generic)]
    pub title: String,
    #[field(transform = silent)]
    pub count: Option<i64>,
}

fn main() {}
