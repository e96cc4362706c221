//! The tables that Linchpin's macros and its runtime must agree on: plain data without
//! dependencies.
//!
//! The macros read them when they check a declaration, the runtime reads them when an app starts. A
//! fact that both need stands here, once.
//!
//! * [`format`]: the named formats of text.
//! * [`kind`]: the facts of each kind of operation.
//! * [`store`]: the capabilities of stores, and which store grants which.
//! * [`limit`]: bounds of values.

#![forbid(unsafe_code)]

pub mod format;
pub mod kind;
pub mod limit;
pub mod store;
