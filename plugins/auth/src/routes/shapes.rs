//! What routes take and answer.

use linchpin::{Embedded, Timestamp};
use serde_json::Value as Json;

/// A sign-up by email address.
#[derive(Embedded)]
pub(crate) struct RegisterByEmail {
    pub(crate) email: String,
    pub(crate) password: String,
}

/// A sign-up by user name.
#[derive(Embedded)]
pub(crate) struct RegisterByUsername {
    pub(crate) username: String,
    pub(crate) password: String,
    pub(crate) email: Option<String>,
}

/// A sign-up by phone number.
#[derive(Embedded)]
pub(crate) struct RegisterByPhone {
    pub(crate) phone: String,
    pub(crate) password: String,
    pub(crate) email: Option<String>,
}

/// A sign-in by email address.
#[derive(Embedded)]
pub(crate) struct LoginByEmail {
    pub(crate) email: String,
    pub(crate) password: String,
}

/// A sign-in by user name.
#[derive(Embedded)]
pub(crate) struct LoginByUsername {
    pub(crate) username: String,
    pub(crate) password: String,
}

/// A sign-in by phone number.
#[derive(Embedded)]
pub(crate) struct LoginByPhone {
    pub(crate) phone: String,
    pub(crate) password: String,
}

/// What a sign-up says, whatever accounts are known by.
pub(crate) struct SignUpInput {
    pub(crate) identifier: String,
    pub(crate) password: String,
    pub(crate) email: Option<String>,
}

impl From<RegisterByEmail> for SignUpInput {
    fn from(input: RegisterByEmail) -> Self {
        Self { identifier: input.email, password: input.password, email: None }
    }
}

impl From<RegisterByUsername> for SignUpInput {
    fn from(input: RegisterByUsername) -> Self {
        Self { identifier: input.username, password: input.password, email: input.email }
    }
}

impl From<RegisterByPhone> for SignUpInput {
    fn from(input: RegisterByPhone) -> Self {
        Self { identifier: input.phone, password: input.password, email: input.email }
    }
}

/// What a sign-in says, whatever accounts are known by.
pub(crate) struct SignInInput {
    pub(crate) identifier: String,
    pub(crate) password: String,
}

impl From<LoginByEmail> for SignInInput {
    fn from(input: LoginByEmail) -> Self {
        Self { identifier: input.email, password: input.password }
    }
}

impl From<LoginByUsername> for SignInInput {
    fn from(input: LoginByUsername) -> Self {
        Self { identifier: input.username, password: input.password }
    }
}

impl From<LoginByPhone> for SignInInput {
    fn from(input: LoginByPhone) -> Self {
        Self { identifier: input.phone, password: input.password }
    }
}

/// What a completed sign-in answers.
#[derive(Embedded)]
pub(crate) struct Authenticated {
    /// The access token; empty where cookies alone carry it.
    pub(crate) token: String,
    pub(crate) user_id: String,
    pub(crate) email: Option<String>,
    pub(crate) email_verified: Option<bool>,
    pub(crate) refresh_token: Option<String>,
    /// `exp` of the token.
    pub(crate) expires_at: Option<Timestamp>,
    /// Recognises this device at the next sign-in.
    pub(crate) device_token: Option<String>,
    pub(crate) deletion_scheduled_for: Option<Timestamp>,
    pub(crate) mfa_setup_required: Option<bool>,
}

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
    /// The handle of the session that asks.
    pub(crate) session_id: String,
    pub(crate) tenant_id: Option<String>,
    pub(crate) created_at: Timestamp,
}

/// What its owner may change of an account.
#[derive(Embedded)]
pub(crate) struct Profile {
    #[field(length = ..=200)]
    pub(crate) display_name: Option<String>,
    #[field(length = ..=200)]
    pub(crate) first_name: Option<String>,
    #[field(length = ..=200)]
    pub(crate) last_name: Option<String>,
    /// An object of at most 16 KiB; it takes the place of the one before.
    pub(crate) user_metadata: Json,
}

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

/// Done.
#[derive(Embedded)]
pub(crate) struct Ok {
    pub(crate) ok: bool,
}

/// Done, with a text that may be shown.
#[derive(Embedded)]
pub(crate) struct Said {
    pub(crate) ok: bool,
    pub(crate) message: String,
}

/// A session that goes on under new tokens.
#[derive(Embedded)]
pub(crate) struct Reissued {
    pub(crate) ok: bool,
    /// Empty where cookies alone carry it.
    pub(crate) token: String,
    pub(crate) refresh_token: Option<String>,
    /// Since when it counts as proved, where that is why.
    pub(crate) step_up_at: Option<Timestamp>,
    pub(crate) expires_at: Timestamp,
}

/// An address.
#[derive(Embedded)]
pub(crate) struct EmailInput {
    pub(crate) email: String,
}

/// An address; that of the session without one.
#[derive(Embedded)]
pub(crate) struct OptionalEmailInput {
    pub(crate) email: Option<String>,
}

/// A token from a mail.
#[derive(Embedded)]
pub(crate) struct TokenInput {
    pub(crate) token: String,
}

/// A token from a mail; the session decides without one.
#[derive(Embedded)]
pub(crate) struct CancelInput {
    pub(crate) token: Option<String>,
}

/// An account that will be deleted.
#[derive(Embedded)]
pub(crate) struct Scheduled {
    pub(crate) ok: bool,
    pub(crate) deletion_scheduled_for: Timestamp,
}

/// Whoever wants to sign in by a link.
#[derive(Embedded)]
pub(crate) struct MagicLinkInput {
    #[field(length = ..=254)]
    pub(crate) identifier: String,
}

/// A token from a mail and what it is to set.
#[derive(Embedded)]
pub(crate) struct ResetInput {
    pub(crate) token: String,
    pub(crate) password: String,
}

/// A new password, and the present one if there is one.
#[derive(Embedded)]
pub(crate) struct SetPasswordInput {
    pub(crate) password: String,
    pub(crate) current_password: Option<String>,
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

/// A provider that one can sign in with.
#[derive(Embedded)]
pub(crate) struct ProviderView {
    pub(crate) id: String,
    pub(crate) name: String,
}

/// All of them.
#[derive(Embedded)]
pub(crate) struct ProviderList {
    pub(crate) providers: Vec<ProviderView>,
}

/// Where somebody is to go.
#[derive(Embedded)]
pub(crate) struct SendTo {
    pub(crate) url: String,
}

/// A code that somebody came back from a provider with.
#[derive(Embedded)]
pub(crate) struct ExchangeInput {
    pub(crate) code: String,
    /// Of the `codeChallenge` that it began with, if it did.
    pub(crate) code_verifier: Option<String>,
}

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

/// An account as those who run the app see it.
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
    /// What its owner sees, but for the session that asks, and why it is suspended.
    pub(crate) fn new(view: UserView, user: crate::entities::User) -> Self {
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
            suspended_at: user.suspended_at,
            suspended_reason: user.suspended_reason,
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

/// Why an account is suspended.
#[derive(Embedded)]
pub(crate) struct SuspendInput {
    #[field(length = ..=500)]
    pub(crate) reason: Option<String>,
}

/// What the owner of an account may do.
#[derive(Embedded)]
pub(crate) struct Roles {
    pub(crate) roles: Vec<String>,
}
