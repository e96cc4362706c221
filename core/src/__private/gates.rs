//! Detects cycles of gates. The descriptor of an entity contains the descriptors of its gates'
//! targets, and const evaluation cannot build a cyclic value. So cycles are detected earlier, in
//! [`Links`]: they contain only an id of each entity, and their depth is limited.

use std::marker::PhantomData;

use crate::entity::{Entity, EntityDesc};

/// An entity, and the targets of its gates.
pub struct Links {
    /// The path of the entity and the line and column of its declaration.
    id: &'static str,
    /// The targets of its gates, with their own links.
    next: &'static [&'static Self],
}

impl Links {
    const END: &'static Self = &Self::new("", &[]);

    /// An entity with these targets.
    pub const fn new(id: &'static str, next: &'static [&'static Self]) -> Self {
        Self { id, next }
    }

    /// The same entity with other targets.
    #[must_use]
    pub const fn to(&self, next: &'static [&'static Self]) -> Self {
        Self::new(self.id, next)
    }
}

macro_rules! levels {
    ($($level:ident)*) => {
        /// An entity with gates on others: its links up to a number of steps.
        pub trait Gated {
            $(/// The links up to the number of steps in the name.
            const $level: &'static Links;)*
        }

        impl<T: Gated> Along<T> {
            $(/// The links up to the number of steps in the name.
            pub const $level: &'static Links = T::$level;)*
        }

        /// An entity without gates: the fallback of [`Along`].
        pub trait Open {
            $(/// No links.
            const $level: &'static Links = Links::END;)*
        }
    };
}

/// The links of an entity, with gates or without.
pub struct Along<T>(PhantomData<T>);

impl<T> Open for Along<T> {}

levels! { L0 L1 L2 L3 L4 L5 L6 L7 L8 }

/// Builds the links of an entity from the links of its targets.
#[doc(hidden)]
#[macro_export]
macro_rules! __gated {
    ($entity:ident $($target:path),*) => {
        impl $crate::__private::Gated for $entity {
            const L0: &'static $crate::__private::Links = &$crate::__private::Links::new(
                ::core::concat!(::core::module_path!(), " ", ::core::stringify!($entity), " ", ::core::line!(), " ", ::core::column!()),
                &[],
            );
            const L1: &'static $crate::__private::Links = &Self::L0.to(&[$($crate::__private::Along::<$target>::L0),*]);
            const L2: &'static $crate::__private::Links = &Self::L0.to(&[$($crate::__private::Along::<$target>::L1),*]);
            const L3: &'static $crate::__private::Links = &Self::L0.to(&[$($crate::__private::Along::<$target>::L2),*]);
            const L4: &'static $crate::__private::Links = &Self::L0.to(&[$($crate::__private::Along::<$target>::L3),*]);
            const L5: &'static $crate::__private::Links = &Self::L0.to(&[$($crate::__private::Along::<$target>::L4),*]);
            const L6: &'static $crate::__private::Links = &Self::L0.to(&[$($crate::__private::Along::<$target>::L5),*]);
            const L7: &'static $crate::__private::Links = &Self::L0.to(&[$($crate::__private::Along::<$target>::L6),*]);
            const L8: &'static $crate::__private::Links = &Self::L0.to(&[$($crate::__private::Along::<$target>::L7),*]);
        }
    };
}
pub use __gated as gated;

/// The descriptor of a gate's target. In a cycle, which is reported, it is an empty descriptor.
pub const fn target<T: Entity>(is_cycle: bool) -> &'static EntityDesc {
    static NOTHING: EntityDesc = EntityDesc {
        poisoned: true,
        ..EntityDesc::new("", "", "", &[])
    };
    // A separate function, because const evaluation evaluates all constants of a function that it
    // calls.
    if is_cycle { &NOTHING } else { desc::<T>() }
}

const fn desc<T: Entity>() -> &'static EntityDesc {
    T::DESC
}

/// Whether gates lead from an entity back to itself.
pub const fn is_cycle(of: &Links) -> bool {
    lead_to(of.next, of.id, false)
}

/// Fails to compile if a gate of an entity leads back to it. Only one entity of a cycle reports it.
///
/// # Panics
/// In const evaluation. This is the purpose of the function.
#[track_caller]
pub const fn expect_no_cycle(of: &Links, target: &'static Links, message: &'static str) {
    assert!(!lead_to(&[target], of.id, true), "{}", message);
}

/// Whether links lead to the entity with this id. If `greater` is true, they may only pass entities
/// with a greater id, so that only the entity with the smallest id of a cycle reports the cycle.
const fn lead_to(next: &[&Links], id: &str, greater: bool) -> bool {
    let mut i = 0;
    while i < next.len() {
        let order = order(next[i].id, id);
        if order == 0 || ((!greater || order > 0) && lead_to(next[i].next, id, greater)) {
            return true;
        }
        i += 1;
    }
    false
}

/// Compares two texts: 0 if they are equal, negative if `a` comes first.
const fn order(a: &str, b: &str) -> i32 {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut i = 0;
    while i < a.len() && i < b.len() {
        if a[i] != b[i] {
            return a[i] as i32 - b[i] as i32;
        }
        i += 1;
    }
    a.len() as i32 - b.len() as i32
}
