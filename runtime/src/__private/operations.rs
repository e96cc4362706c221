//! Short forms of the parts of operations, so that an expansion reads as a list of facts.

use crate::Value;
use crate::filter::{FilterSpec, Op, OperandSpec, SourceSpec};
use crate::operation::{AssignSpec, Method, ParamSpec, Place, RouteSpec, Seg};

/// `field = value`.
pub const fn assign(field: usize, value: SourceSpec) -> AssignSpec {
    AssignSpec { field, value }
}

/// A condition with one value.
pub const fn cond(field: usize, op: Op, value: SourceSpec) -> FilterSpec {
    FilterSpec::Cond(field, op, OperandSpec::One(value))
}

/// A condition with a list of values.
pub const fn among(field: usize, op: Op, values: &'static [SourceSpec]) -> FilterSpec {
    FilterSpec::Cond(field, op, OperandSpec::List(values))
}

/// The absent value.
pub fn null() -> Value {
    Value::Null
}

/// A required parameter; [`ParamSpec::optional`] and so on change it.
pub const fn param(name: &'static str, field: usize, place: Place) -> ParamSpec {
    ParamSpec { name, field, place, required: true, nullable: false, list: false }
}

/// A route below the entity.
pub const fn route(method: Method, segments: &'static [Seg]) -> RouteSpec {
    RouteSpec { method, segments }
}
