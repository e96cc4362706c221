//! What routes of passkeys take and answer.

use linchpin::{Embedded, Timestamp};
use serde_json::Value as Json;

/// What `navigator.credentials.create()` is asked.
#[derive(Embedded)]
pub(super) struct RegistrationOptions {
    /// `PublicKeyCredentialCreationOptionsJSON`
    pub(super) options: Json,
    pub(super) registration_token: String,
}

/// What it answered.
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
    /// A text that may be shown.
    pub(super) message: String,
    pub(super) credential_id: String,
    /// The account's first ones; none when it has some already.
    pub(super) recovery_codes: Vec<String>,
}

/// A passkey as its owner sees it.
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

/// Another name for one.
#[derive(Embedded)]
pub(super) struct RenameInput {
    #[field(length = 1..=64)]
    pub(super) name: String,
}

/// Who wants to sign in, which nobody asks: the answer is the same for all.
#[derive(Embedded)]
pub(super) struct LoginOptionsInput {
    #[field(length = ..=254)]
    #[allow(dead_code)]
    // accepted and never used: an answer that depended on it would tell who has an account
    pub(super) identifier: Option<String>,
}

/// What `navigator.credentials.get()` is asked.
#[derive(Embedded)]
pub(super) struct LoginOptions {
    /// `PublicKeyCredentialRequestOptionsJSON`
    pub(super) options: Json,
    pub(super) passkey_token: String,
}

/// What it answered.
#[derive(Embedded)]
pub(super) struct LoginInput {
    pub(super) passkey_token: String,
    /// `AuthenticationResponseJSON`
    pub(super) assertion_response: Json,
}
