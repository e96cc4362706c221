//! The visibility of records: `soft_delete`, `ttl`, `tenant`, `scope` and `parent_path`, from their
//! syntax to the descriptor.

mod args;
mod check;
mod model;
mod tokens;

pub(crate) use args::{VisibilityArgs, VisibilityKeys, reason};
pub(crate) use check::{Route, check, public, reported};
pub(crate) use model::{From, MARK, Visibility};
pub(crate) use tokens::{assertions, descriptor, expiry, parent_path};
