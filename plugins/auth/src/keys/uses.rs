//! Keys that encrypted data. Start-up reads these records instead of all data.

use linchpin::prelude::*;

/// A key that was the newest at some time.
#[entity(namespace = "auth", routes(disabled))]
#[derive(Clone)]
pub(crate) struct DataKeyUse {
    /// The id of the key.
    #[field(primary)]
    pub(crate) id: String,
    pub(crate) since: Timestamp,
}
