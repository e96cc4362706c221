//! Keys that sign tokens, and derived keys for all other purposes.

pub(crate) mod claims;
pub(crate) mod derive;
pub(crate) mod signing;
pub(crate) mod uses;
