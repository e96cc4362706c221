//! Accounts in responses to their owners and to administrators.

use linchpin::{Embedded, Timestamp};
use serde_json::Value as Json;

/// The account of the caller.
#[derive(Embedded)]
pub(crate) struct UserView {
    pub(crate) id: String,
    pub(crate) user_id: String,
    pub(crate) email: Option<String>,
    pub(crate) username: Option<String>,
    pub(crate) phone: Option<String>,
    pub(crate) email_verified: bool,
    pub(crate) roles: Vec<String>,
    pub(crate) display_name: Option<String>,
    pub(crate) first_name: Option<String>,
    pub(crate) last_name: Option<String>,
    pub(crate) user_metadata: Json,
    pub(crate) has_password: bool,
    pub(crate) mfa_enabled: bool,
    pub(crate) mfa_methods: Vec<String>,
    pub(crate) providers: Vec<String>,
    pub(crate) suspended: bool,
    pub(crate) deletion_scheduled_for: Option<Timestamp>,
    /// The handle of the session of the request.
    pub(crate) session_id: String,
    pub(crate) tenant_id: Option<String>,
    pub(crate) created_at: Timestamp,
}

/// The changes that a user may make to the account.
#[derive(Embedded)]
pub(crate) struct Profile {
    #[field(length = ..=200)]
    pub(crate) display_name: Option<String>,
    #[field(length = ..=200)]
    pub(crate) first_name: Option<String>,
    #[field(length = ..=200)]
    pub(crate) last_name: Option<String>,
    /// An object of at most 16 KiB, which replaces the previous one.
    pub(crate) user_metadata: Json,
}

/// A token from a mail. Without one, the session counts.
#[derive(Embedded)]
pub(crate) struct CancelInput {
    pub(crate) token: Option<String>,
}

/// An account whose deletion is scheduled.
#[derive(Embedded)]
pub(crate) struct Scheduled {
    pub(crate) ok: bool,
    pub(crate) deletion_scheduled_for: Timestamp,
}

/// An account for administrators. Most members are those of [`UserView`]; they are repeated,
/// because clients get one flat object.
#[derive(Embedded)]
pub(crate) struct AdminUser {
    pub(crate) id: String,
    pub(crate) user_id: String,
    pub(crate) email: Option<String>,
    pub(crate) username: Option<String>,
    pub(crate) phone: Option<String>,
    pub(crate) email_verified: bool,
    pub(crate) roles: Vec<String>,
    pub(crate) display_name: Option<String>,
    pub(crate) first_name: Option<String>,
    pub(crate) last_name: Option<String>,
    pub(crate) user_metadata: Json,
    pub(crate) has_password: bool,
    pub(crate) mfa_enabled: bool,
    pub(crate) mfa_methods: Vec<String>,
    pub(crate) providers: Vec<String>,
    pub(crate) suspended: bool,
    pub(crate) suspended_at: Option<Timestamp>,
    pub(crate) suspended_reason: Option<String>,
    pub(crate) deletion_scheduled_for: Option<Timestamp>,
    pub(crate) tenant_id: Option<String>,
    pub(crate) created_at: Timestamp,
}

impl AdminUser {
    /// The members of [`UserView`] except the session, and the reason for a suspension.
    pub(crate) fn new(
        view: UserView,
        suspended_at: Option<Timestamp>,
        suspended_reason: Option<String>,
    ) -> Self {
        Self {
            id: view.id,
            user_id: view.user_id,
            email: view.email,
            username: view.username,
            phone: view.phone,
            email_verified: view.email_verified,
            roles: view.roles,
            display_name: view.display_name,
            first_name: view.first_name,
            last_name: view.last_name,
            user_metadata: view.user_metadata,
            has_password: view.has_password,
            mfa_enabled: view.mfa_enabled,
            mfa_methods: view.mfa_methods,
            providers: view.providers,
            suspended: view.suspended,
            suspended_at,
            suspended_reason,
            deletion_scheduled_for: view.deletion_scheduled_for,
            tenant_id: view.tenant_id,
            created_at: view.created_at,
        }
    }
}

/// A page of accounts.
#[derive(Embedded)]
pub(crate) struct AdminUserPage {
    pub(crate) items: Vec<AdminUser>,
    pub(crate) next_cursor: Option<String>,
    pub(crate) has_more: bool,
}

/// The reason for a suspension.
#[derive(Embedded)]
pub(crate) struct SuspendInput {
    #[field(length = ..=500)]
    pub(crate) reason: Option<String>,
}

/// The roles of an account.
#[derive(Embedded)]
pub(crate) struct Roles {
    // Required: without it all roles would be removed.
    #[field(required)]
    pub(crate) roles: Vec<String>,
}
