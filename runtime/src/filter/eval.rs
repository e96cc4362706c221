//! The meaning of filters, in memory: the reference every store must agree with.
