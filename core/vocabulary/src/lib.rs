//! Tables that Linchpin's macros and its runtime share: plain data without dependencies.
//!
//! The macros read them when they check a declaration; the runtime reads them when an app starts.
//! Each fact that both need is here, once.
//!
//! * [`event`]: names of events on the wire.
//! * [`mod@format`]: the named formats of text.
//! * [`kind`]: the facts of each kind of operation.
//! * [`store`]: the capabilities of stores, and the stores that grant each.
//! * [`limit`]: bounds of values.

#![forbid(unsafe_code)]

pub mod event;
pub mod format;
pub mod kind;
pub mod limit;
pub mod store;
