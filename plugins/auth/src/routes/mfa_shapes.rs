//! Requests and responses of routes for second factors and proofs.

use linchpin::{Embedded, Timestamp};
use serde_json::Value as Json;

use crate::mfa::{ProofMethod, SuppliedProof};
use crate::secret::SecretText;

/// Declares a body with its own fields and an optional proof. `take_proof` takes the proof out.
macro_rules! proof_input {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $ty:ty,)* }) => {
        $(#[$doc])*
        #[derive(linchpin::Embedded)]
        pub(crate) struct $name {
            $($(#[$field_doc])* pub(crate) $field: $ty,)*
            /// The method of the proof. If it is left out, the other fields determine it.
            pub(crate) method: Option<$crate::mfa::ProofMethod>,
            /// A code of an authenticator app, a recovery code, or with `reauthToken` a sent code.
            pub(crate) code: Option<String>,
            pub(crate) password: Option<String>,
            /// The token of `/reauth/challenge`.
            pub(crate) reauth_token: Option<String>,
            /// The response of the passkey.
            pub(crate) webauthn_response: Option<serde_json::Value>,
        }

        impl $name {
            /// The proof in the body.
            pub(crate) fn take_proof(&mut self) -> $crate::mfa::SuppliedProof {
                $crate::mfa::SuppliedProof {
                    method: self.method,
                    code: self.code.take().map(Into::into),
                    password: self.password.take().map(Into::into),
                    token: self.reauth_token.take().map(Into::into),
                    webauthn: self.webauthn_response.take(),
                }
            }
        }
    };
}
pub(crate) use proof_input;

/// The errors of a route that needs a proof, with more codes of this route.
macro_rules! proof_refused {
    ($($more:expr),* $(,)?) => {
        &[
            $crate::error::INVALID_CREDENTIALS,
            $crate::error::INVALID_CODE,
            $crate::error::INVALID_CHALLENGE,
            $crate::error::STEP_UP_REQUIRED,
            $crate::error::FACTOR_NOT_ALLOWED,
            $crate::error::DELETION_SCHEDULED,
            $crate::error::MFA_SETUP_REQUIRED,
            $crate::error::CSRF_FAILED,
            linchpin::Code::Conflict,
            linchpin::Code::RateLimited,
            $($more,)*
        ]
    };
}

pub(crate) use proof_refused;

/// A step-up.
#[derive(Embedded)]
pub(crate) struct StepUpInput {
    /// The method of the proof.
    pub(crate) method: ProofMethod,
    pub(crate) code: Option<String>,
    pub(crate) password: Option<String>,
    /// The token of `/reauth/challenge`.
    pub(crate) reauth_token: Option<String>,
    /// The response of the passkey.
    pub(crate) webauthn_response: Option<Json>,
}

impl From<StepUpInput> for SuppliedProof {
    fn from(input: StepUpInput) -> Self {
        let [code, password, token] =
            [input.code, input.password, input.reauth_token].map(|text| text.map(SecretText::from));
        Self {
            method: Some(input.method),
            code,
            password,
            token,
            webauthn: input.webauthn_response,
        }
    }
}

/// Requests the possible methods of proof, and a code for one of them.
#[derive(Embedded)]
pub(crate) struct ReauthInput {
    /// The method by which a code is sent.
    pub(crate) method: Option<ProofMethod>,
}

/// The possible methods of proof.
#[derive(Embedded)]
pub(crate) struct ReauthView {
    pub(crate) available_methods: Vec<String>,
    /// The token for the sent code.
    pub(crate) reauth_token: Option<String>,
    /// Options for a passkey.
    pub(crate) webauthn_options: Option<Json>,
    /// When both expire.
    pub(crate) expires_at: Option<Timestamp>,
}

/// An authenticator app that is being set up.
#[derive(Embedded)]
pub(crate) struct TotpSetup {
    /// The secret in base32, for typing.
    pub(crate) secret: String,
    /// The URI, for scanning.
    pub(crate) uri: String,
    pub(crate) expires_at: Timestamp,
}

/// A code that completes a set-up.
#[derive(Embedded)]
pub(crate) struct CodeInput {
    pub(crate) code: String,
}

/// A factor was set up.
#[derive(Embedded)]
pub(crate) struct Enrolled {
    pub(crate) ok: bool,
    /// A text for users.
    pub(crate) message: String,
    /// The recovery codes with the first factor, shown only once. Empty if the account has some
    /// already.
    pub(crate) recovery_codes: Vec<String>,
}

/// A code was sent.
#[derive(Embedded)]
pub(crate) struct SetupSent {
    pub(crate) ok: bool,
    /// A text for users.
    pub(crate) message: String,
    /// The token for the code.
    pub(crate) setup_token: String,
    pub(crate) expires_at: Timestamp,
}

/// A sent code that completes a set-up.
#[derive(Embedded)]
pub(crate) struct SetupInput {
    pub(crate) setup_token: String,
    pub(crate) code: String,
}

/// A phone.
#[derive(Embedded)]
pub(crate) struct PhoneInput {
    /// The number: `+` and 7 to 15 digits.
    pub(crate) phone: String,
}

/// The second factors of the caller.
#[derive(Embedded)]
pub(crate) struct MethodsView {
    pub(crate) methods: Vec<String>,
    pub(crate) recovery_codes_left: i64,
    /// Whether every account must have a second factor.
    pub(crate) required: bool,
}

/// New recovery codes, shown only once.
#[derive(Embedded)]
pub(crate) struct RecoveryCodes {
    pub(crate) recovery_codes: Vec<String>,
}

/// A sign-in that waits for its second factor.
#[derive(Embedded)]
pub(crate) struct ChallengeView {
    /// Empty, because nobody is signed in yet.
    pub(crate) token: String,
    pub(crate) mfa_required: bool,
    /// The token for the second factor.
    pub(crate) mfa_token: String,
    /// The possible methods: `totp`, `emailOtp`, `sms`, `webauthn`.
    pub(crate) mfa_methods: Vec<String>,
    pub(crate) recovery_available: bool,
    /// Options for a passkey.
    pub(crate) webauthn_options: Option<Json>,
    pub(crate) user_id: String,
    pub(crate) expires_at: Timestamp,
}

/// The answer to a challenge.
#[derive(Embedded)]
pub(crate) struct VerifyInput {
    pub(crate) mfa_token: String,
    /// The method. If it is left out, the other fields determine it.
    pub(crate) method: Option<ProofMethod>,
    pub(crate) code: Option<String>,
    /// The response of the passkey.
    pub(crate) webauthn_response: Option<Json>,
    /// Whether this device is trusted for a while, if the app allows it.
    pub(crate) trust_device: Option<bool>,
}

/// A code was sent, or a passkey is requested.
#[derive(Embedded)]
pub(crate) struct Resent {
    pub(crate) ok: bool,
    /// A text for users.
    pub(crate) message: String,
    /// Options for a passkey.
    pub(crate) webauthn_options: Option<Json>,
}

/// Requests another code for a challenge.
#[derive(Embedded)]
pub(crate) struct ResendInput {
    pub(crate) mfa_token: String,
    /// The method by which the code is sent.
    pub(crate) method: Option<ProofMethod>,
}
