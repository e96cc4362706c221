//! The visibility of records: `soft_delete`, `ttl`, `tenant`, `scope` and `parent_path`, from their
//! syntax to the descriptor.

mod args;
mod check;
mod model;
mod tokens;

pub(crate) use args::{VisibilityArgs, VisibilityKeys, unscoped_reason};
pub(crate) use check::{Route, check, reports_public_defaults, why_not_public};
pub(crate) use model::{MARK, ScopeSource, Visibility};
pub(crate) use tokens::{assertions, descriptor, expiry, parent_path};
