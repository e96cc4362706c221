//! HTTP: policy, and (with the `server` feature) everything between a socket and an adapter.

#[cfg(feature = "server")]
mod extra;
mod policy;

#[cfg(feature = "server")]
pub use extra::{ExtraHandler, ExtraRoute, ExtraRouteSpec};
pub use policy::{AuthDesc, PolicyDesc};
