//! The expression tree.

use super::{CtxPath, FilterSpec, Op, OperandSpec, SourceSpec};
use crate::Value;
use crate::descriptor::EntityDesc;
use crate::field::FieldSet;

/// A filter.
#[derive(Clone, Debug, PartialEq)]
pub enum Filter {
    /// All conditions must hold. If it is empty, every record matches.
    All(Vec<Filter>),
    /// At least one condition must hold. If it is empty, no record matches.
    Any(Vec<Filter>),
    /// One condition.
    Cond {
        /// The position of the field.
        field: usize,
        /// The operator.
        op: Op,
        /// The right side.
        value: Operand,
    },
    /// Whether a list of items contains an item whose member has this value. Used for collections;
    /// a declaration cannot use it.
    Item {
        /// The position of the list.
        field: usize,
        /// The wire name of the member.
        key: &'static str,
        /// The value of the member, a text or an integer.
        value: Source,
        /// Whether such an item must exist. If false, no such item may exist.
        must_exist: bool,
    },
    /// Whether a related record exists. Used for visibility; an operation cannot use it.
    Linked(Box<Linked>),
    /// Whether a value is not null. Used for context values: a comparison with a missing context
    /// value is false.
    Given(Source),
}

/// A condition on related records of another entity or of the same one.
#[derive(Clone, Debug)]
pub struct Linked {
    /// Position of the field of this record. Null matches no record.
    pub field: usize,
    /// The entity of the related records.
    pub of: &'static EntityDesc,
    /// Position of the field in the related record. It must have the same value.
    pub at: usize,
    /// The condition on the related records, in field positions of that entity.
    pub filter: Filter,
}

impl PartialEq for Linked {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.of, other.of)
            && (self.field, self.at) == (other.field, other.at)
            && self.filter == other.filter
    }
}

/// The right side of a condition.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// One value.
    One(Source),
    /// A list, for `In` and `Nin`.
    List(Vec<Source>),
}

/// The source of a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// The call parameter at a position.
    Param(usize),
    /// The verified context.
    Ctx(CtxPath),
    /// The time of the call.
    Now,
    /// A fixed value.
    Value(Value),
    /// The argument of the statement at a position. The filter of a statement contains only such
    /// arguments and fixed values: all other sources are replaced by arguments before a store gets
    /// the filter.
    ///
    /// Code that renders SQL reads `nullable`.
    Arg {
        /// The position in the argument list.
        index: usize,
        /// Whether the argument may be null.
        nullable: bool,
    },
}

impl Filter {
    /// Matches every record.
    pub const TRUE: Self = Self::All(Vec::new());

    /// One condition.
    pub fn cond(field: usize, op: Op, value: Operand) -> Self {
        Self::Cond { field, op, value }
    }

    /// `field == argument index`.
    pub fn eq_arg(field: usize, index: usize) -> Self {
        Self::cond(
            field,
            Op::Eq,
            Operand::One(Source::Arg {
                index,
                nullable: false,
            }),
        )
    }

    /// Both conditions must hold.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::All(mut a), Self::All(b)) => {
                a.extend(b);
                Self::All(a)
            }
            (Self::All(mut a), b) => {
                a.push(b);
                Self::All(a)
            }
            (a, Self::All(mut b)) => {
                b.insert(0, a);
                Self::All(b)
            }
            (a, b) => Self::All(vec![a, b]),
        }
    }

    /// At least one condition must hold.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        match self {
            Self::Any(mut a) => {
                a.push(other);
                Self::Any(a)
            }
            a => Self::Any(vec![a, other]),
        }
    }

    /// Replaces every source, to bind values.
    #[must_use]
    pub fn map_sources(self, map: &mut impl FnMut(usize, Op, Source) -> Source) -> Self {
        match self {
            Self::All(list) => Self::All(list.into_iter().map(|f| f.map_sources(map)).collect()),
            Self::Any(list) => Self::Any(list.into_iter().map(|f| f.map_sources(map)).collect()),
            Self::Cond { field, op, value } => Self::Cond {
                field,
                op,
                value: match value {
                    Operand::One(source) => Operand::One(map(field, op, source)),
                    Operand::List(list) => {
                        Operand::List(list.into_iter().map(|s| map(field, op, s)).collect())
                    }
                },
            },
            Self::Item {
                field,
                key,
                value,
                must_exist,
            } => Self::Item {
                field,
                key,
                value: map(field, Op::Eq, value),
                must_exist,
            },
            // The conditions are on fields of another entity.
            Self::Linked(linked) => Self::Linked(Box::new(Linked {
                filter: linked.filter.map_sources(map),
                ..*linked
            })),
            // The condition has no field, so the position is meaningless.
            Self::Given(source) => Self::Given(map(0, Op::Ne, source)),
        }
    }

    /// Calls `note` with every source.
    pub fn sources(&self, note: &mut impl FnMut(&Source)) {
        match self {
            Self::All(list) | Self::Any(list) => list.iter().for_each(|f| f.sources(note)),
            Self::Cond {
                value: Operand::One(source),
                ..
            } => note(source),
            Self::Cond {
                value: Operand::List(list),
                ..
            } => list.iter().for_each(note),
            Self::Item { value, .. } | Self::Given(value) => note(value),
            Self::Linked(linked) => linked.filter.sources(note),
        }
    }

    /// Removes each innermost condition with a parameter for which `omitted` is true. Returns
    /// `None` if nothing remains.
    #[must_use]
    pub fn without_params(self, omitted: &impl Fn(usize) -> bool) -> Option<Self> {
        let keep = |list: Vec<Self>| -> Vec<Self> {
            list.into_iter()
                .filter_map(|f| f.without_params(omitted))
                .collect()
        };
        match self {
            Self::All(list) if list.is_empty() => Some(Self::All(list)),
            Self::All(list) => {
                let kept = keep(list);
                (!kept.is_empty()).then_some(Self::All(kept))
            }
            Self::Any(list) => {
                let kept = keep(list);
                (!kept.is_empty()).then_some(Self::Any(kept))
            }
            Self::Cond { field, op, value } => {
                let uses = |s: &Source| matches!(s, Source::Param(p) if omitted(*p));
                let dropped = match &value {
                    Operand::One(source) => uses(source),
                    Operand::List(list) => list.iter().any(uses),
                };
                (!dropped).then_some(Self::Cond { field, op, value })
            }
            other @ (Self::Item { .. } | Self::Linked(_) | Self::Given(_)) => Some(other),
        }
    }
}

impl Filter {
    /// Returns the fields of the record that the filter reads.
    pub fn fields(&self) -> FieldSet {
        match self {
            Self::All(list) | Self::Any(list) => list
                .iter()
                .fold(FieldSet::NONE, |all, one| all.or(one.fields())),
            Self::Cond { field, .. } | Self::Item { field, .. } => FieldSet::NONE.with(*field),
            // The conditions are on fields of another entity.
            Self::Linked(linked) => FieldSet::NONE.with(linked.field),
            Self::Given(_) => FieldSet::NONE,
        }
    }
}

impl From<&FilterSpec> for Filter {
    fn from(spec: &FilterSpec) -> Self {
        match spec {
            FilterSpec::All(list) => Self::All(list.iter().map(Self::from).collect()),
            FilterSpec::Any(list) => Self::Any(list.iter().map(Self::from).collect()),
            FilterSpec::Cond(field, op, value) => Self::cond(*field, *op, value.into()),
        }
    }
}

impl From<&OperandSpec> for Operand {
    fn from(spec: &OperandSpec) -> Self {
        match spec {
            OperandSpec::One(source) => Self::One(source.into()),
            OperandSpec::List(list) => Self::List(list.iter().map(Source::from).collect()),
        }
    }
}

impl From<&SourceSpec> for Source {
    fn from(spec: &SourceSpec) -> Self {
        match spec {
            SourceSpec::Param(index) => Self::Param(*index),
            SourceSpec::Ctx(path) => Self::Ctx(*path),
            SourceSpec::Now => Self::Now,
            SourceSpec::Literal(value) => Self::Value(value()),
        }
    }
}
