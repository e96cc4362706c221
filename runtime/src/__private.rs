//! Items that macro expansions name. They are not public API: any of them may change in a patch
//! release.

#[cfg(not(feature = "server"))]
pub use linchpin_core::__private::*;
#[cfg(not(feature = "server"))]
pub use linchpin_macros::__operation;
#[cfg(feature = "server")]
pub use linchpin_server::__private::*;
