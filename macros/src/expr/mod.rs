//! The expressions of declarations: filters, `set(..)`, `match(..)` and bindings.
//!
//! They are Rust expressions that syn parses; this module defines their meaning. Three steps:
//! [`Source`] and [`Filter`] are the expressions as written; [`Scope`] resolves them against the
//! entity and reports errors; `lower` writes the descriptors.

mod cells;
mod contradiction;
mod decide;
mod filter;
mod literal;
mod lower;
mod params;
mod record;
mod rules;
mod scope;
mod source;
#[cfg(test)]
mod tests;

pub(crate) use cells::same;
pub(crate) use contradiction::{
    Assumption, MIN_VARIANTS, check, check_stored, conditions, equalities, is_always, refuse_always,
};
pub(crate) use filter::{Filter, Op};
pub(crate) use literal::{MAX_INTEGER, closure, number};
pub(crate) use lower::{
    assigns, at, in_same_module, index, literal_of, marker, position, position_in, unless_empty,
};
pub(crate) use params::{Param, Via};
pub(crate) use record::check_when_sources;
pub(crate) use rules::type_of;
pub(crate) use scope::{Assign, Cond, Place, Resolved, Role, Scope, Sibling, Value};
pub(crate) use source::{CtxPath, Name, Pair, Source, pairs};
