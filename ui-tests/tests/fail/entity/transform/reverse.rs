use linchpin::prelude::*;

#[transform(reverse = join)]
fn split(old: String) -> Result<Vec<String>, TransformError> {
    Ok(old.split(' ').map(str::to_owned).collect())
}

#[transform]
fn join(parts: Vec<String>) -> Result<Option<String>, TransformError> {
    Ok(Some(parts.join(" ")))
}

fn main() {}
