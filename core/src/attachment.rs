//! Values that a declaration carries for a layer above this crate.

use std::any::Any;

/// A value that a declaration carries and that only a layer above this crate understands: the
/// function of a custom operation, a middleware, the handler of an extra route.
///
/// The layer that declares the value's type reads it back by `downcast_ref` when it plans the
/// declaration, once at start-up.
pub type Attachment = &'static (dyn Any + Send + Sync);
