use std::time::Duration;

use linchpin::prelude::*;

#[transform]
fn text_error(old: String) -> Result<i64, String> {
    old.parse().map_err(|_| "not a year".to_owned())
}

#[transform]
fn seconds(old: Duration) -> Result<String, TransformError> {
    Ok(format!("{old:?}"))
}

#[transform]
fn duration(old: i64) -> Result<Duration, TransformError> {
    Ok(Duration::from_secs(old.unsigned_abs()))
}

fn main() {}
