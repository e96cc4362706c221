//! What has happened.

use linchpin::{Embedded, Timestamp};
use serde_json::Value as Json;

/// What has happened to the caller's account.
#[derive(Embedded)]
pub(crate) struct ActivityView {
    pub(crate) id: String,
    pub(crate) event: String,
    pub(crate) at: Timestamp,
    pub(crate) ip_address: Option<String>,
    pub(crate) user_agent: Option<String>,
    pub(crate) session_id: Option<String>,
    pub(crate) outcome: String,
}

/// A page of it.
#[derive(Embedded)]
pub(crate) struct ActivityPage {
    pub(crate) items: Vec<ActivityView>,
    pub(crate) next_cursor: Option<String>,
    pub(crate) has_more: bool,
}

/// What has happened, as those who run the app see it.
#[derive(Embedded)]
pub(crate) struct AuditView {
    pub(crate) id: String,
    pub(crate) event: String,
    pub(crate) at: Timestamp,
    pub(crate) user_id: Option<String>,
    pub(crate) session_id: Option<String>,
    pub(crate) tenant_id: Option<String>,
    pub(crate) ip_address: Option<String>,
    pub(crate) user_agent: Option<String>,
    pub(crate) request_id: Option<String>,
    pub(crate) outcome: String,
    pub(crate) details: Option<Json>,
}

/// A page of it.
#[derive(Embedded)]
pub(crate) struct AuditPage {
    pub(crate) items: Vec<AuditView>,
    pub(crate) next_cursor: Option<String>,
    pub(crate) has_more: bool,
}
