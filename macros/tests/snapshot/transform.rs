/// Splits a name.
#[transform(reverse = names::join)]
#[cfg(unix)]
pub(crate) fn split(full: String) -> Result<Vec<String>, TransformError> {
    Ok(full.split(' ').map(str::to_owned).collect())
}
