//! Which keys data at rest has been encrypted with: what start-up asks for, in place of a look at
//! every record.

use linchpin::prelude::*;

/// A key that has been the newest.
#[entity(namespace = "auth", routes(disabled))]
#[derive(Clone)]
pub(crate) struct DataKeyUse {
    /// What the data calls it.
    #[field(primary)]
    pub(crate) id: String,
    pub(crate) since: Timestamp,
}
