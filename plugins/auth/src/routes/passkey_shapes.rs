//! Requests and responses of routes for passkeys.

use linchpin::{Embedded, Timestamp};
use serde_json::Value as Json;

/// Options for `navigator.credentials.create()`.
#[derive(Embedded)]
pub(super) struct RegistrationOptions {
    /// `PublicKeyCredentialCreationOptionsJSON`
    pub(super) options: Json,
    pub(super) registration_token: String,
}

/// The result of `navigator.credentials.create()`.
#[derive(Embedded)]
pub(super) struct RegisterInput {
    pub(super) registration_token: String,
    /// `RegistrationResponseJSON`
    pub(super) attestation_response: Json,
    #[field(length = ..=64)]
    pub(super) name: Option<String>,
}

/// A new passkey.
#[derive(Embedded)]
pub(super) struct PasskeyMade {
    pub(super) ok: bool,
    /// A text for users.
    pub(super) message: String,
    pub(super) credential_id: String,
    /// The recovery codes with the first factor; empty if the account has some already.
    pub(super) recovery_codes: Vec<String>,
}

/// A passkey of the caller.
#[derive(Embedded)]
pub(super) struct PasskeyView {
    pub(super) credential_id: String,
    pub(super) name: String,
    pub(super) created_at: Timestamp,
    pub(super) last_used_at: Option<Timestamp>,
    pub(super) transports: Vec<String>,
    pub(super) backed_up: bool,
    pub(super) user_verified: bool,
}

/// The passkeys of an account.
#[derive(Embedded)]
pub(super) struct PasskeyList {
    pub(super) credentials: Vec<PasskeyView>,
}

/// A new name for a passkey.
#[derive(Embedded)]
pub(super) struct RenameInput {
    #[field(length = 1..=64)]
    pub(super) name: String,
}

/// A request for options. The response is the same for all callers.
#[derive(Embedded)]
pub(super) struct LoginOptionsInput {
    #[field(length = ..=254)]
    #[allow(dead_code)]
    // accepted and ignored: a response that depended on it would show whether the account exists
    pub(super) identifier: Option<String>,
}

/// Options for `navigator.credentials.get()`.
#[derive(Embedded)]
pub(super) struct LoginOptions {
    /// `PublicKeyCredentialRequestOptionsJSON`
    pub(super) options: Json,
    pub(super) passkey_token: String,
}

/// The result of `navigator.credentials.get()`.
#[derive(Embedded)]
pub(super) struct LoginInput {
    pub(super) passkey_token: String,
    /// `AuthenticationResponseJSON`
    pub(super) assertion_response: Json,
}
