//! Entries of the audit in responses.

use linchpin::{Embedded, Timestamp};
use serde_json::Value as Json;

/// An event of the caller's account.
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

/// A page of events.
#[derive(Embedded)]
pub(crate) struct ActivityPage {
    pub(crate) items: Vec<ActivityView>,
    pub(crate) next_cursor: Option<String>,
    pub(crate) has_more: bool,
}

/// An entry of the audit, for administrators.
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

/// A page of entries.
#[derive(Embedded)]
pub(crate) struct AuditPage {
    pub(crate) items: Vec<AuditView>,
    pub(crate) next_cursor: Option<String>,
    pub(crate) has_more: bool,
}
