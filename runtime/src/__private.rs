//! What expansions name. No promise to users: anything here may change in a patch release.

#[cfg(not(feature = "server"))]
pub use linchpin_core::__private::*;
#[cfg(not(feature = "server"))]
pub use linchpin_macros::__operation;
#[cfg(feature = "server")]
pub use linchpin_server::__private::*;
