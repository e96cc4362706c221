//! Sessions and their tokens in responses.

use linchpin::{Embedded, Timestamp};

/// A session of the caller.
#[derive(Embedded)]
pub(crate) struct SessionView {
    pub(crate) session_id: String,
    /// Whether it is the session of the request.
    pub(crate) current: bool,
    pub(crate) created_at: Timestamp,
    pub(crate) last_active_at: Timestamp,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) ip_address: Option<String>,
    pub(crate) user_agent: Option<String>,
    pub(crate) amr: Vec<String>,
    pub(crate) is_active: bool,
}

/// Sessions, last active first.
#[derive(Embedded)]
pub(crate) struct SessionList {
    pub(crate) sessions: Vec<SessionView>,
}

/// A session that continues under new tokens.
#[derive(Embedded)]
pub(crate) struct Reissued {
    pub(crate) ok: bool,
    /// A text for users.
    pub(crate) message: String,
    /// The access token; empty if tokens are sent in cookies only.
    pub(crate) token: String,
    pub(crate) refresh_token: Option<String>,
    /// The time of the step-up, if there was one.
    pub(crate) step_up_at: Option<Timestamp>,
    pub(crate) expires_at: Timestamp,
}

/// An acknowledgement with the number of sessions.
#[derive(Embedded)]
pub(crate) struct Revoked {
    pub(crate) ok: bool,
    pub(crate) revoked: i64,
}

/// A refresh.
#[derive(Embedded)]
pub(crate) struct RefreshInput {
    /// The refresh token. Without it, the header `x-refresh-token` counts, then the cookie.
    pub(crate) refresh_token: Option<String>,
}

/// A new pair of tokens.
#[derive(Embedded)]
pub(crate) struct Renewed {
    pub(crate) token: String,
    pub(crate) refresh_token: Option<String>,
    pub(crate) user_id: String,
    pub(crate) expires_at: Timestamp,
}
