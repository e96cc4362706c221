//! What benchmarks measure. No promise to users: anything here may change in a patch release.

pub use crate::crypto::{Receiver, encrypt};
