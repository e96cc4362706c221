//! Keys: for signatures of tokens, and for everything else.

pub(crate) mod claims;
pub(crate) mod derive;
pub(crate) mod signing;
pub(crate) mod uses;
