//! Filters: trees of conditions on a record.
//!
//! A declaration contains a [`FilterSpec`], static data from the macros. At start-up it becomes a
//! [`Filter`], the tree that stores evaluate or translate. [`eval`] defines the result of a filter;
//! all stores must return the same.

pub mod eval;
mod tree;

pub use tree::{Filter, Linked, Operand, Source};

pub use crate::descriptor::{FilterSpec, Op, OperandSpec, SourceSpec};
pub use crate::field::CtxPath;
