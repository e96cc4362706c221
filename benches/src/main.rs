//! linchpin-benches.
fn main() {}
