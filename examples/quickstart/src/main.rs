//! quickstart.
fn main() {}
