//! The fields of an entity by position.

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
