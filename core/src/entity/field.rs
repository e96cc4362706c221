//! The markers that name fields in code.

use super::{Comparand, Entity};
use crate::Value;
use crate::field::{Embedded, FieldType, Items, canonical_value};
use crate::filter::{Filter, Op, Operand, Source};

/// The type of a field's value without `Option`: `Status` for `post::status`, whether or not the
/// field is optional.
pub type ValueOf<F> = <<F as Field>::Ty as FieldType>::Inner;

/// The marker of one field, made by `#[entity]`: `post::status`.
///
/// Markers build filters in code: `post::status.eq(Status::Draft)`.
pub trait Field: Sized + 'static {
    /// The entity of the field.
    type Entity: Entity;
    /// The Rust type of the field.
    type Ty: FieldType;
    /// The position of the field.
    const INDEX: usize;

    /// Equality. `None` matches records that hold null.
    ///
    /// `value` has the field's type, or a type that converts `Into` it. For an optional field,
    /// `Some` may be omitted: see [`Comparand`].
    fn eq<M>(self, value: impl Comparand<Self::Ty, M>) -> Filter {
        condition::<Self, M>(Op::Eq, value)
    }
    /// Inequality. Records that hold null match.
    fn ne<M>(self, value: impl Comparand<Self::Ty, M>) -> Filter {
        condition::<Self, M>(Op::Ne, value)
    }
    /// Greater than. Null never matches.
    fn gt<M>(self, value: impl Comparand<Self::Ty, M>) -> Filter {
        condition::<Self, M>(Op::Gt, value)
    }
    /// Greater than or equal. Null never matches.
    fn gte<M>(self, value: impl Comparand<Self::Ty, M>) -> Filter {
        condition::<Self, M>(Op::Gte, value)
    }
    /// Less than. Null never matches.
    fn lt<M>(self, value: impl Comparand<Self::Ty, M>) -> Filter {
        condition::<Self, M>(Op::Lt, value)
    }
    /// Less than or equal. Null never matches.
    fn lte<M>(self, value: impl Comparand<Self::Ty, M>) -> Filter {
        condition::<Self, M>(Op::Lte, value)
    }
    /// Membership in a list.
    fn one_of<M>(self, values: impl IntoIterator<Item = impl Comparand<Self::Ty, M>>) -> Filter {
        list::<Self, M>(Op::In, values)
    }
    /// Absence from a list. Records that hold null match unless the list contains null.
    fn none_of<M>(self, values: impl IntoIterator<Item = impl Comparand<Self::Ty, M>>) -> Filter {
        list::<Self, M>(Op::Nin, values)
    }
}

fn condition<F: Field, M>(op: Op, value: impl Comparand<F::Ty, M>) -> Filter {
    Filter::cond(
        F::INDEX,
        op,
        Operand::One(Source::Value(stored::<F>(value.comparand()))),
    )
}

fn list<F: Field, M>(op: Op, values: impl IntoIterator<Item = impl Comparand<F::Ty, M>>) -> Filter {
    let values = values
        .into_iter()
        .map(|value| Source::Value(stored::<F>(value.comparand())))
        .collect();
    Filter::cond(F::INDEX, op, Operand::List(values))
}

/// Converts a value to its stored form.
fn stored<F: Field>(value: F::Ty) -> Value {
    canonical_value(&F::Entity::DESC.fields[F::INDEX], value.into_value())
}

/// The type of one item of a field: `Revision` for `post::revisions`.
pub type ItemOf<F> = <ValueOf<F> as Items>::Item;

/// The type of a partial change of one item of a field: `RevisionPatch` for `post::revisions`.
pub type ItemPatchOf<F> = <ItemOf<F> as Embedded>::Patch;
