//! The record behind a token that works once.

use linchpin::prelude::*;

/// What a token is for. One of another purpose is as good as none.
#[derive(FieldEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Sets a new password.
    ResetPassword,
    /// Proves an account's address.
    VerifyEmail,
    /// Proves an account's address and signs in, where sign-ups tell nobody whether there is an
    /// account.
    VerifyAndLogin,
    /// Proves an address that is to replace another.
    VerifyNewEmail,
    /// Takes the former address back.
    UndoEmail,
    /// Calls the deletion of an account off.
    CancelDeletion,
    /// Makes an account for whoever reads mail at an address, and signs in.
    SignUp,
    /// Signs in.
    MagicLink,
    /// Waits for the second factor of a sign-in.
    Login,
    /// Waits for the code that proves a new authenticator app.
    TotpSetup,
    /// Waits for the code that proves an address as a factor.
    EmailOtpSetup,
    /// Waits for the code that proves a phone.
    SmsSetup,
    /// Waits for the code that proves who is signed in.
    Reauth,
    /// Waits for a new passkey.
    WebauthnRegister,
    /// Waits for a passkey that signs in.
    PasskeyLogin,
    /// Brings somebody back from a provider.
    OauthState,
    /// Is redeemed for the session of somebody who is back.
    OauthCode,
}

impl Purpose {
    /// Every one.
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

/// A token that has been given out.
#[entity(
    namespace = "auth",
    ttl(expires_at),
    index(user_id, created_at),
    routes(disabled)
)]
#[derive(Clone)]
pub(crate) struct OneTime {
    /// SHA-256 of the token, which itself is stored nowhere.
    #[field(primary)]
    pub(crate) id: String,
    #[field(immutable)]
    pub(crate) purpose: Purpose,
    #[field(immutable)]
    pub(crate) user_id: String,
    /// What belongs to it, encrypted.
    pub(crate) sealed: Option<String>,
    /// Wrong answers that it still bears.
    #[field(range = 0..)]
    pub(crate) tries_left: i64,
    /// Codes that may still be sent for it.
    #[field(range = 0..)]
    pub(crate) sends_left: i64,
    pub(crate) created_at: Timestamp,
    /// Which one of its process it is: tells those of one millisecond apart.
    #[field(immutable)]
    pub(crate) nth: i64,
    pub(crate) expires_at: Option<Timestamp>,
}

impl OneTime {
    /// What is greater of a newer one. Two processes that give some out in the same millisecond
    /// agree on one of them by its id.
    pub(crate) fn order(&self) -> (Timestamp, i64, &str) {
        (self.created_at, self.nth, &self.id)
    }
}

/// Takes a token: of many who present it, one gets it, and nobody after its time.
#[operation(
    kind = "consume",
    filter = (id == param(id) && purpose == param(purpose)),
    expiry = expires_at,
    returns = "entity",
    route(disabled),
)]
pub(crate) const REDEEM: Operation<OneTime>;

/// Counts a try, before it is known how it ends.
#[operation(kind = "increment", field = tries_left, by = -1, match(id = param(id), purpose = param(purpose)), route(disabled))]
pub(crate) const TRY: Operation<OneTime>;

/// Counts a code that is sent.
#[operation(kind = "increment", field = sends_left, by = -1, match(id = param(id), purpose = param(purpose)), route(disabled))]
pub(crate) const SEND: Operation<OneTime>;

/// What a user has been given for a purpose.
#[operation(kind = "lookup", fields(user_id = param(user_id), purpose = param(purpose)), returns = "many", route(disabled))]
pub(crate) const GIVEN: Operation<OneTime>;
