//! The fields of an entity by position.

use crate::entity::{Entity, Field};

/// The field at a position, in order of declaration. Operations find markers by position, in any
/// module.
pub trait FieldAt<const INDEX: usize>: Entity {
    /// `post::status`.
    type Marker: Field<Entity = Self>;
}

/// The marker of the field at a position. The name is one letter so that expansions of operations
/// are easy to read.
pub type F<E, const INDEX: usize> = <E as FieldAt<INDEX>>::Marker;

/// Implements the fields of an entity for its markers.
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
