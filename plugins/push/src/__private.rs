//! Functions for the benchmarks. They are not part of the public API and may change in a patch
//! release.

pub use crate::crypto::{Receiver, encrypt};
