mod errors;
mod facts;
pub(crate) mod fixture;
mod kinds;
mod renames;
