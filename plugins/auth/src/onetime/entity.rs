//! The entity of one-time tokens.

use linchpin::prelude::*;

/// The purpose of a token. A token of another purpose is invalid.
#[derive(FieldEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Sets a new password.
    ResetPassword,
    /// Verifies an account's address.
    VerifyEmail,
    /// Verifies an account's address and signs in, for concealed sign-ups.
    VerifyAndLogin,
    /// Verifies an address that will replace another one.
    VerifyNewEmail,
    /// Restores the former address.
    UndoEmail,
    /// Cancels the deletion of an account.
    CancelDeletion,
    /// Creates an account for the owner of a mailbox, and signs in.
    SignUp,
    /// Signs in.
    MagicLink,
    /// A sign-in that waits for its second factor.
    Login,
    /// An authenticator app that is being set up.
    TotpSetup,
    /// Codes by mail that are being set up.
    EmailOtpSetup,
    /// A phone that is being set up.
    SmsSetup,
    /// A proof of identity that waits for its code.
    Reauth,
    /// The registration of a passkey.
    WebauthnRegister,
    /// A sign-in with a passkey.
    PasskeyLogin,
    /// The state of a sign-in at a provider.
    OauthState,
    /// The code that is exchanged for a session after a sign-in at a provider.
    OauthCode,
}

impl Purpose {
    /// All purposes.
    pub(crate) const ALL: &[Self] = &[
        Self::ResetPassword,
        Self::VerifyEmail,
        Self::VerifyAndLogin,
        Self::VerifyNewEmail,
        Self::UndoEmail,
        Self::CancelDeletion,
        Self::SignUp,
        Self::MagicLink,
        Self::Login,
        Self::TotpSetup,
        Self::EmailOtpSetup,
        Self::SmsSetup,
        Self::Reauth,
        Self::WebauthnRegister,
        Self::PasskeyLogin,
        Self::OauthState,
        Self::OauthCode,
    ];
}

/// An issued token.
#[entity(
    namespace = "auth",
    ttl(expires_at),
    index(user_id, created_at),
    routes(disabled)
)]
#[derive(Clone)]
pub(crate) struct OneTime {
    /// SHA-256 of the token, which is not stored.
    #[field(primary)]
    pub(crate) id: String,
    #[field(immutable)]
    pub(crate) purpose: Purpose,
    #[field(immutable)]
    pub(crate) user_id: String,
    /// The payload, encrypted.
    pub(crate) sealed: Option<String>,
    /// Number of wrong answers that are still allowed.
    #[field(range = 0.., column = "tries_left")]
    pub(crate) attempts_left: i64,
    /// Number of codes that can still be sent for it.
    #[field(range = 0..)]
    pub(crate) sends_left: i64,
    pub(crate) created_at: Timestamp,
    /// The number of the token in its process, which orders tokens of one millisecond.
    #[field(immutable)]
    pub(crate) nth: i64,
    pub(crate) expires_at: Option<Timestamp>,
}

impl OneTime {
    /// The order of tokens: greater is newer. If two processes issue tokens in the same
    /// millisecond, their ids decide.
    pub(crate) fn order(&self) -> (Timestamp, i64, &str) {
        (self.created_at, self.nth, &self.id)
    }
}

/// Consumes a token. Only one of several concurrent requests succeeds; after the expiry, none does.
#[operation(
    kind = "consume",
    filter = (id == param(id) && purpose == param(purpose)),
    expiry = expires_at,
    returns = "entity",
    route(disabled),
)]
pub(crate) const REDEEM: Operation<OneTime>;

/// Counts an attempt before its answer is checked.
#[operation(kind = "increment", field = attempts_left, by = -1, match(id = param(id), purpose = param(purpose)), route(disabled))]
pub(crate) const TRY: Operation<OneTime>;

/// Counts a sent code.
#[operation(kind = "increment", field = sends_left, by = -1, match(id = param(id), purpose = param(purpose)), route(disabled))]
pub(crate) const SEND: Operation<OneTime>;

/// Returns the tokens of a user for a purpose.
#[operation(kind = "lookup", fields(user_id = param(user_id), purpose = param(purpose)), returns = "many", route(disabled))]
pub(crate) const GIVEN: Operation<OneTime>;
