//! Keys: those that sign, and those that are derived for everything else.

pub(crate) mod claims;
pub(crate) mod data;
pub(crate) mod derive;
pub(crate) mod signing;
pub(crate) mod uses;
