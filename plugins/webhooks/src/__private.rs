//! What expansions name. No promise to users: anything here may change in a patch release.

pub use linchpin::__private::*;
pub use linchpin::event::Change;
