//! Filters: one tree, one meaning.
//!
//! A declaration holds a [`FilterSpec`] (static data written by the macros). At start-up it becomes a [`Filter`], the
//! tree that evaluators and renderers work on. [`eval`] is the meaning; every store must agree with it.

pub mod eval;
mod json;
mod tree;

pub use json::FilterError;
pub use tree::{CtxPath, Filter, FilterSpec, Linked, Op, Operand, OperandSpec, Source, SourceSpec};
