//! Values in a declaration that a layer above this crate uses.

use std::any::Any;

/// A value in a declaration that only a layer above this crate can read: the function of a custom
/// operation, a middleware, the handler of an extra route.
///
/// The layer that defines the type reads the value with `downcast_ref` when it plans the
/// declaration, once at start-up.
pub type Attachment = &'static (dyn Any + Send + Sync);
