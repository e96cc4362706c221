//! Limits for values from all sources.

/// The maximum integer; its negative is the minimum. 2^53 − 1 is exact in every JSON reader.
pub const MAX_INTEGER: i64 = 9_007_199_254_740_991;
