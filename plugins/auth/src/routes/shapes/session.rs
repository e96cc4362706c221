//! Sessions and their tokens.

use linchpin::{Embedded, Timestamp};

/// A session as its owner sees it.
#[derive(Embedded)]
pub(crate) struct SessionView {
    pub(crate) session_id: String,
    /// Whether it is the one that asks.
    pub(crate) current: bool,
    pub(crate) created_at: Timestamp,
    pub(crate) last_active_at: Timestamp,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) ip_address: Option<String>,
    pub(crate) user_agent: Option<String>,
    pub(crate) amr: Vec<String>,
    pub(crate) is_active: bool,
}

/// Sessions, the latest active first.
#[derive(Embedded)]
pub(crate) struct SessionList {
    pub(crate) sessions: Vec<SessionView>,
}

/// A session that goes on under new tokens.
#[derive(Embedded)]
pub(crate) struct Reissued {
    pub(crate) ok: bool,
    /// A text that may be shown.
    pub(crate) message: String,
    /// Empty where cookies alone carry it.
    pub(crate) token: String,
    pub(crate) refresh_token: Option<String>,
    /// Since when it counts as proved, where that is why.
    pub(crate) step_up_at: Option<Timestamp>,
    pub(crate) expires_at: Timestamp,
}

/// Done, to so many sessions.
#[derive(Embedded)]
pub(crate) struct Revoked {
    pub(crate) ok: bool,
    pub(crate) revoked: i64,
}

/// A refresh.
#[derive(Embedded)]
pub(crate) struct RefreshInput {
    /// Else the header `x-refresh-token`, else the cookie.
    pub(crate) refresh_token: Option<String>,
}

/// A renewed pair.
#[derive(Embedded)]
pub(crate) struct Renewed {
    pub(crate) token: String,
    pub(crate) refresh_token: Option<String>,
    pub(crate) user_id: String,
    pub(crate) expires_at: Timestamp,
}
