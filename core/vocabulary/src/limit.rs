//! Limits that hold wherever a value comes from.

/// The greatest whole number, and without its sign the least: 2^53 − 1, which every JSON reader
/// keeps exact.
pub const MAX_INTEGER: i64 = 9_007_199_254_740_991;
