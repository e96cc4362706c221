//! The fields of an entity by their positions.

use crate::entity::{Entity, Field};

/// The field at a position, in order of declaration. Operations reach markers by it, wherever they
/// stand.
pub trait FieldAt<const INDEX: usize>: Entity {
    /// `post::status`.
    type Marker: Field<Entity = Self>;
}

/// The marker of the field at a position. Every operation names some: by one letter, so that what
/// it expands to can be read.
pub type F<E, const INDEX: usize> = <E as FieldAt<INDEX>>::Marker;

/// Makes markers the fields of an entity.
#[doc(hidden)]
#[macro_export]
macro_rules! __fields {
    ($entity:ident $($index:literal $module:ident :: $name:ident: $ty:ty,)*) => {
        $(
            impl $crate::__private::Field for $module::$name {
                type Entity = $entity;
                type Ty = $ty;
                const INDEX: usize = $index;
            }
            impl $crate::__private::FieldAt<$index> for $entity {
                type Marker = $module::$name;
            }
        )*
    };
}
pub use __fields as fields;
