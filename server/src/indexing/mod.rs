//! The indexes of search providers: their start, and the changes of records that they follow.

mod feed;
mod index;
mod registry;
#[cfg(all(test, feature = "sqlite"))]
mod tests;

pub(crate) use registry::{Providers, Searches};
