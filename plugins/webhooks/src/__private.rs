//! Items that expanded macros use. They are not part of the public API and may change in a patch
//! release.

pub use linchpin::__private::*;
pub use linchpin::event::Change;
