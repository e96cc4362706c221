//! Operations: what a declaration says, and how a kind runs.
//!
//! One file per kind. A kind is a static struct that implements [`Kind`]: it plans once at start-up and runs per call.

#[cfg(feature = "server")]
mod bind;
mod build;
mod duplicates;
mod exists;
#[cfg(feature = "server")]
mod guarded;
mod increment;
mod lookup;
mod spec;
mod transition;

pub use duplicates::{assert_apart, assert_distinct_routes, assert_unique, find_duplicates};
pub use exists::Exists;
pub use increment::Increment;
pub use lookup::Lookup;
pub use spec::{Answer, AssignSpec, Kind, Method, OpSpec, Operation, ParamSpec, Place, Returns, RouteSpec, Seg};
pub use transition::Transition;
