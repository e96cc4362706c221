#[transform(revers = join)]
fn split(full: &str) -> Result<String, TransformError> {
    Ok(full.to_owned())
}
