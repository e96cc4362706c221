//! What routes of second factors and proofs take and answer.

use linchpin::{Embedded, Timestamp};
use serde_json::Value as Json;

use crate::mfa::{Typed, Way};
use crate::secret::SecretText;

/// Declares a body that may hold a proof of who sends it, beside fields of its own. `typed` takes
/// the proof out.
macro_rules! proof_input {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $ty:ty,)* }) => {
        $(#[$doc])*
        #[derive(linchpin::Embedded)]
        pub(crate) struct $name {
            $($(#[$field_doc])* pub(crate) $field: $ty,)*
            /// What it is proved with; told from the rest when it is left out.
            pub(crate) method: Option<$crate::mfa::Way>,
            /// Of an authenticator app, a recovery code, or with `reauthToken` the one that was
            /// sent.
            pub(crate) code: Option<String>,
            pub(crate) password: Option<String>,
            /// What `/reauth/challenge` gave out.
            pub(crate) reauth_token: Option<String>,
            /// The passkey's answer.
            pub(crate) webauthn_response: Option<serde_json::Value>,
        }

        impl $name {
            /// The proof that it holds.
            pub(crate) fn typed(&mut self) -> $crate::mfa::Typed {
                $crate::mfa::Typed {
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

/// What a route that wants a proof can be refused with, and what else this one can.
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
    /// What it is proved with.
    pub(crate) method: Way,
    pub(crate) code: Option<String>,
    pub(crate) password: Option<String>,
    /// What `/reauth/challenge` gave out.
    pub(crate) reauth_token: Option<String>,
    /// The passkey's answer.
    pub(crate) webauthn_response: Option<Json>,
}

impl From<StepUpInput> for Typed {
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

/// Asks what somebody can prove themselves with, and for a code to do so.
#[derive(Embedded)]
pub(crate) struct ReauthInput {
    /// What a code is to be sent by.
    pub(crate) method: Option<Way>,
}

/// What somebody can prove themselves with.
#[derive(Embedded)]
pub(crate) struct ReauthView {
    pub(crate) available_methods: Vec<String>,
    /// Goes with the code that was sent.
    pub(crate) reauth_token: Option<String>,
    /// Options of a passkey.
    pub(crate) webauthn_options: Option<Json>,
    /// Until when both count.
    pub(crate) expires_at: Option<Timestamp>,
}

/// An authenticator app that is being set up.
#[derive(Embedded)]
pub(crate) struct TotpSetup {
    /// In base32, for who types it.
    pub(crate) secret: String,
    /// For who scans it.
    pub(crate) uri: String,
    pub(crate) expires_at: Timestamp,
}

/// A code of what is being set up.
#[derive(Embedded)]
pub(crate) struct CodeInput {
    pub(crate) code: String,
}

/// A factor was set up.
#[derive(Embedded)]
pub(crate) struct Enrolled {
    pub(crate) ok: bool,
    /// A text that may be shown.
    pub(crate) message: String,
    /// When it is the first one: for whoever loses it. They are shown once. None when there are
    /// some already.
    pub(crate) recovery_codes: Vec<String>,
}

/// A code was sent.
#[derive(Embedded)]
pub(crate) struct SetupSent {
    pub(crate) ok: bool,
    /// A text that may be shown.
    pub(crate) message: String,
    /// Goes with the code.
    pub(crate) setup_token: String,
    pub(crate) expires_at: Timestamp,
}

/// A code that was sent to set a factor up.
#[derive(Embedded)]
pub(crate) struct SetupInput {
    pub(crate) setup_token: String,
    pub(crate) code: String,
}

/// A phone.
#[derive(Embedded)]
pub(crate) struct PhoneInput {
    /// `+`, then 7 to 15 digits.
    pub(crate) phone: String,
}

/// The second factors of the caller.
#[derive(Embedded)]
pub(crate) struct MethodsView {
    pub(crate) methods: Vec<String>,
    pub(crate) recovery_codes_left: i64,
    /// Whether everybody has to have one.
    pub(crate) required: bool,
}

/// New recovery codes. They are shown once.
#[derive(Embedded)]
pub(crate) struct RecoveryCodes {
    pub(crate) recovery_codes: Vec<String>,
}

/// A sign-in that waits for its second factor.
#[derive(Embedded)]
pub(crate) struct ChallengeView {
    /// Empty: nobody is signed in yet.
    pub(crate) token: String,
    pub(crate) mfa_required: bool,
    /// Goes with the answer.
    pub(crate) mfa_token: String,
    /// `totp`, `emailOtp`, `sms`, `webauthn`.
    pub(crate) mfa_methods: Vec<String>,
    pub(crate) recovery_available: bool,
    /// Options of a passkey.
    pub(crate) webauthn_options: Option<Json>,
    pub(crate) user_id: String,
    pub(crate) expires_at: Timestamp,
}

/// The answer to a challenge.
#[derive(Embedded)]
pub(crate) struct VerifyInput {
    pub(crate) mfa_token: String,
    /// What it is answered with; told from the rest when it is left out.
    pub(crate) method: Option<Way>,
    pub(crate) code: Option<String>,
    /// The passkey's answer.
    pub(crate) webauthn_response: Option<Json>,
    /// Whether this device is not asked again for a while, where the app allows that.
    pub(crate) trust_device: Option<bool>,
}

/// A code was sent, or a passkey is asked for.
#[derive(Embedded)]
pub(crate) struct Resent {
    pub(crate) ok: bool,
    /// A text that may be shown.
    pub(crate) message: String,
    /// Options of a passkey.
    pub(crate) webauthn_options: Option<Json>,
}

/// Another code for a challenge.
#[derive(Embedded)]
pub(crate) struct ResendInput {
    pub(crate) mfa_token: String,
    /// What it is sent by.
    pub(crate) method: Option<Way>,
}
