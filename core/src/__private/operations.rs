//! Short constructors for the parts of operations, so that expansions are easy to read.

use crate::Value;
use crate::filter::{CtxPath, FilterSpec, Op, OperandSpec, SourceSpec};
use crate::operation::{AssignSpec, Method, ParamSpec, Place, RouteSpec, Seg, Whole};

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

/// All conditions must hold.
pub const fn all(list: &'static [FilterSpec]) -> FilterSpec {
    FilterSpec::All(list)
}

/// At least one condition must hold.
pub const fn any(list: &'static [FilterSpec]) -> FilterSpec {
    FilterSpec::Any(list)
}

/// The value of the call parameter at a position.
pub const fn given(param: usize) -> SourceSpec {
    SourceSpec::Param(param)
}

/// A value of the verified context.
pub const fn ctx(path: CtxPath) -> SourceSpec {
    SourceSpec::Ctx(path)
}

/// A literal.
pub const fn is(value: fn() -> Value) -> SourceSpec {
    SourceSpec::Literal(value)
}

/// The time of the call.
pub const NOW: SourceSpec = SourceSpec::Now;

/// Null.
pub const NULL: SourceSpec = SourceSpec::Literal(null);

/// Null.
pub fn null() -> Value {
    Value::Null
}

/// A parameter in the record's `{id}` segment.
pub const fn in_id(name: &'static str, field: usize) -> ParamSpec {
    ParamSpec::new(name, field, Place::Id)
}

/// A parameter in a path segment. A lookup or an `exists` may have another route without this
/// segment; there, the parameter is in the query string.
pub const fn in_segment(name: &'static str, field: usize) -> ParamSpec {
    ParamSpec::new(name, field, Place::Segment)
}

/// A parameter in the query string.
pub const fn in_query(name: &'static str, field: usize) -> ParamSpec {
    ParamSpec::new(name, field, Place::Query)
}

/// The key of an item, in its path segment.
pub const fn in_item(field: usize) -> ParamSpec {
    ParamSpec::new("itemId", field, Place::Segment).element()
}

/// The whole body.
pub const fn whole(field: usize, whole: Whole) -> ParamSpec {
    ParamSpec::new("", field, Place::Whole(whole))
}

/// A parameter in the body.
pub const fn in_body(name: &'static str, field: usize) -> ParamSpec {
    ParamSpec::new(name, field, Place::Body)
}

/// The path segment of the record's key.
pub const ID: Seg = Seg::Param("id");

/// A static segment.
pub const fn seg(text: &'static str) -> Seg {
    Seg::Lit(text)
}

/// A segment that is a path parameter.
pub const fn param(name: &'static str) -> Seg {
    Seg::Param(name)
}

/// A GET route below the entity.
pub const fn on_get(segments: &'static [Seg]) -> RouteSpec {
    RouteSpec {
        method: Method::Get,
        segments,
    }
}

/// A POST route below the entity.
pub const fn on_post(segments: &'static [Seg]) -> RouteSpec {
    RouteSpec {
        method: Method::Post,
        segments,
    }
}

/// A PUT route below the entity.
pub const fn on_put(segments: &'static [Seg]) -> RouteSpec {
    RouteSpec {
        method: Method::Put,
        segments,
    }
}

/// A PATCH route below the entity.
pub const fn on_patch(segments: &'static [Seg]) -> RouteSpec {
    RouteSpec {
        method: Method::Patch,
        segments,
    }
}

/// A DELETE route below the entity.
pub const fn on_delete(segments: &'static [Seg]) -> RouteSpec {
    RouteSpec {
        method: Method::Delete,
        segments,
    }
}
