//! Declared conditions on a record: static data.

use crate::Value;
use crate::field::{CtxPath, FieldSet};

/// An operator of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// `$eq`; null is equal to null.
    Eq,
    /// `$ne`; null differs from every value.
    Ne,
    /// `$gt`
    Gt,
    /// `$gte`
    Gte,
    /// `$lt`
    Lt,
    /// `$lte`
    Lte,
    /// `$in`
    In,
    /// `$nin`
    Nin,
    /// `$contains`, case folded
    Contains,
    /// `$has`, of a string array
    Has,
    /// Whether the list has fewer elements than this; null counts as an empty list. Used for limits
    /// of lists; a declaration cannot use it.
    Shorter,
    /// Whether the list has more elements than this; null counts as an empty list. Used for limits
    /// of lists; a declaration cannot use it.
    Longer,
}

impl Op {
    /// `$eq` and so on.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Eq => "$eq",
            Self::Ne => "$ne",
            Self::Gt => "$gt",
            Self::Gte => "$gte",
            Self::Lt => "$lt",
            Self::Lte => "$lte",
            Self::In => "$in",
            Self::Nin => "$nin",
            Self::Contains => "$contains",
            Self::Has => "$has",
            Self::Shorter => "$shorter",
            Self::Longer => "$longer",
        }
    }
}

/// A declared filter: static data.
#[derive(Clone, Copy, Debug)]
pub enum FilterSpec {
    /// All conditions must hold.
    All(&'static [FilterSpec]),
    /// At least one condition must hold.
    Any(&'static [FilterSpec]),
    /// A condition on the field at a position.
    Cond(usize, Op, OperandSpec),
}

/// The right side of a declared condition.
#[derive(Clone, Copy, Debug)]
pub enum OperandSpec {
    /// One value; for `In` and `Nin`, a parameter that holds a list.
    One(SourceSpec),
    /// A list of values, for `In` and `Nin`.
    List(&'static [SourceSpec]),
}

/// The declared source of a value.
#[derive(Clone, Copy, Debug)]
pub enum SourceSpec {
    /// The call parameter at a position of the operation's parameters.
    Param(usize),
    /// The verified context. Clients cannot supply it.
    Ctx(CtxPath),
    /// The time of the call.
    Now,
    /// A literal. The compiler checks it against the field's type.
    Literal(fn() -> Value),
}

impl FilterSpec {
    /// Returns the fields that the filter reads.
    pub fn fields(&self) -> FieldSet {
        match self {
            Self::All(list) | Self::Any(list) => list
                .iter()
                .fold(FieldSet::NONE, |all, one| all.or(one.fields())),
            Self::Cond(field, ..) => FieldSet::NONE.with(*field),
        }
    }
}
