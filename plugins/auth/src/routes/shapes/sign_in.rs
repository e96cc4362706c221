//! Sign-up and sign-in with a password, a link or a provider.

use linchpin::{Embedded, Timestamp};

/// A sign-up by email address.
#[derive(Embedded)]
pub(crate) struct SignUpByEmail {
    pub(crate) email: String,
    pub(crate) password: String,
}

/// A sign-up by user name.
#[derive(Embedded)]
pub(crate) struct SignUpByUsername {
    pub(crate) username: String,
    pub(crate) password: String,
    pub(crate) email: Option<String>,
}

/// A sign-up by phone number.
#[derive(Embedded)]
pub(crate) struct SignUpByPhone {
    pub(crate) phone: String,
    pub(crate) password: String,
    pub(crate) email: Option<String>,
}

/// A sign-in by email address.
#[derive(Embedded)]
pub(crate) struct SignInByEmail {
    pub(crate) email: String,
    pub(crate) password: String,
}

/// A sign-in by user name.
#[derive(Embedded)]
pub(crate) struct SignInByUsername {
    pub(crate) username: String,
    pub(crate) password: String,
}

/// A sign-in by phone number.
#[derive(Embedded)]
pub(crate) struct SignInByPhone {
    pub(crate) phone: String,
    pub(crate) password: String,
}

/// A sign-up with any kind of identifier.
pub(crate) struct SignUpInput {
    pub(crate) identifier: String,
    pub(crate) password: String,
    pub(crate) email: Option<String>,
}

impl From<SignUpByEmail> for SignUpInput {
    fn from(input: SignUpByEmail) -> Self {
        Self {
            identifier: input.email,
            password: input.password,
            email: None,
        }
    }
}

impl From<SignUpByUsername> for SignUpInput {
    fn from(input: SignUpByUsername) -> Self {
        Self {
            identifier: input.username,
            password: input.password,
            email: input.email,
        }
    }
}

impl From<SignUpByPhone> for SignUpInput {
    fn from(input: SignUpByPhone) -> Self {
        Self {
            identifier: input.phone,
            password: input.password,
            email: input.email,
        }
    }
}

/// A sign-in with any kind of identifier.
pub(crate) struct SignInInput {
    pub(crate) identifier: String,
    pub(crate) password: String,
}

impl From<SignInByEmail> for SignInInput {
    fn from(input: SignInByEmail) -> Self {
        Self {
            identifier: input.email,
            password: input.password,
        }
    }
}

impl From<SignInByUsername> for SignInInput {
    fn from(input: SignInByUsername) -> Self {
        Self {
            identifier: input.username,
            password: input.password,
        }
    }
}

impl From<SignInByPhone> for SignInInput {
    fn from(input: SignInByPhone) -> Self {
        Self {
            identifier: input.phone,
            password: input.password,
        }
    }
}

/// A completed sign-in.
#[derive(Embedded)]
pub(crate) struct Authenticated {
    /// The access token; empty if tokens are sent in cookies only.
    pub(crate) token: String,
    pub(crate) user_id: String,
    pub(crate) email: Option<String>,
    pub(crate) email_verified: Option<bool>,
    pub(crate) refresh_token: Option<String>,
    /// When the access token expires.
    pub(crate) expires_at: Option<Timestamp>,
    /// The device token, by which the next sign-in recognises this device.
    pub(crate) device_token: Option<String>,
    pub(crate) deletion_scheduled_for: Option<Timestamp>,
    pub(crate) mfa_setup_required: Option<bool>,
}

/// An email address.
#[derive(Embedded)]
pub(crate) struct EmailInput {
    pub(crate) email: String,
}

/// An email address. The default is the address of the signed-in user.
#[derive(Embedded)]
pub(crate) struct OptionalEmailInput {
    pub(crate) email: Option<String>,
}

/// A request for a sign-in link.
#[derive(Embedded)]
pub(crate) struct MagicLinkInput {
    #[field(length = ..=254)]
    pub(crate) identifier: String,
}

/// A token from a mail, and the new password.
#[derive(Embedded)]
pub(crate) struct ResetInput {
    pub(crate) token: String,
    pub(crate) password: String,
}

/// A new password, and the current one if there is one.
#[derive(Embedded)]
pub(crate) struct SetPasswordInput {
    pub(crate) password: String,
    pub(crate) current_password: Option<String>,
}

/// A provider for sign-in.
#[derive(Embedded)]
pub(crate) struct ProviderView {
    pub(crate) id: String,
    pub(crate) name: String,
}

/// The providers.
#[derive(Embedded)]
pub(crate) struct ProviderList {
    pub(crate) providers: Vec<ProviderView>,
}

/// The one-time code of a sign-in with a provider.
#[derive(Embedded)]
pub(crate) struct ExchangeInput {
    pub(crate) code: String,
    /// The verifier, if the flow began with `codeChallenge`.
    pub(crate) code_verifier: Option<String>,
}
