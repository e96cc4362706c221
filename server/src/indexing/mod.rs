//! The indexes of search providers: opening them at start-up, and updating them when records
//! change.

mod feed;
mod index;
mod registry;
#[cfg(all(test, feature = "sqlite"))]
mod tests;

pub(crate) use registry::{Providers, Searches};
