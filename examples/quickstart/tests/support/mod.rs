//! What the tests of the documents share.

pub(crate) mod markdown;
pub(crate) mod session;
