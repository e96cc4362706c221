//! The clock of an app.

use std::sync::Arc;

use crate::Timestamp;

/// The clock of the app: the instant of each call.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;
