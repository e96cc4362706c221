//! The error codes of this plugin, each with its status and its text.
//!
//! Texts contain no user data. Clients use the code.

use linchpin::{Code, Error, Problem};

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $status:literal, $code:literal, $text:literal;)*) => {
        $($(#[$doc])* pub(crate) const $name: Code = Code::Other($status, $code);)*

        /// Every code with its text.
        const TEXTS: &[(Code, &str)] = &[$(($name, $text)),*];
    };
}

codes! {
    /// The identifier or the password is wrong. The response does not say which.
    INVALID_CREDENTIALS = 401, "invalid_credentials", "The credentials are not valid";
    /// A code of a second factor or of an exchange is wrong.
    INVALID_CODE = 401, "invalid_code", "The code is not valid";
    /// A challenge is unknown, used, expired or for another purpose.
    INVALID_CHALLENGE = 401, "invalid_challenge", "The challenge is not valid; start again";
    WEBAUTHN_FAILED = 401, "webauthn_failed", "The passkey could not be verified";
    REFRESH_REQUIRED = 401, "refresh_required", "A refresh token is required";
    REFRESH_INVALID = 401, "refresh_invalid", "The refresh token is not valid";
    REFRESH_REUSED = 401, "refresh_reused", "The refresh token has been used before; the session has ended";
    ACCOUNT_SUSPENDED = 403, "account_suspended", "The account is suspended";
    EMAIL_NOT_VERIFIED = 403, "email_not_verified", "The email address is not verified";
    DELETION_SCHEDULED = 403, "deletion_scheduled", "The account is scheduled for deletion";
    STEP_UP_REQUIRED = 403, "step_up_required", "Recent proof of identity is required";
    FACTOR_NOT_ALLOWED = 403, "factor_not_allowed", "This factor is not enough here";
    MFA_REQUIRED = 403, "mfa_required", "A second factor is required";
    MFA_SETUP_REQUIRED = 403, "mfa_setup_required", "A second factor must be set up first";
    CSRF_FAILED = 403, "csrf_failed", "The request may be forged";
    INVALID_TOKEN = 400, "invalid_token", "The token is not valid";
    INVALID_STATE = 400, "invalid_state", "The state is not valid; start again";
    INVALID_REDIRECT = 400, "invalid_redirect", "The return target is not allowed";
    PASSWORD_TOO_COMMON = 400, "password_too_common", "The password is too easy to guess";
    PASSWORD_BREACHED = 400, "password_breached", "The password is known from a data breach";
    PASSWORD_REUSED = 400, "password_reused", "The password has been used before";
    CURRENT_PASSWORD_REQUIRED = 400, "current_password_required", "The current password is required";
    SETUP_NOT_STARTED = 400, "setup_not_started", "The set-up has not been started or has expired";
    EMAIL_MISSING = 400, "email_missing", "The account has no email address";
    METHOD_UNAVAILABLE = 400, "method_unavailable", "The method is not available";
    LAST_CREDENTIAL = 409, "last_credential", "No other way to sign in would remain";
    LIMIT_REACHED = 409, "limit_reached", "The maximum number is reached";
    NOT_SCHEDULED = 409, "not_scheduled", "No deletion is scheduled";
    MFA_NOT_ENABLED = 409, "mfa_not_enabled", "No second factor is set up";
    HOOK_TIMEOUT = 504, "hook_timeout", "A check took too long";
}

/// The default status and code of a hook's error.
pub(crate) const HOOK_REJECTED: Code = Code::Other(400, "hook_rejected");

/// An error with the status and text of a code.
pub(crate) fn refuse(code: Code) -> Error {
    let text = TEXTS
        .iter()
        .find(|(known, _)| *known == code)
        .map_or("The request was refused", |(_, text)| *text);
    Error::new(code, text)
}

/// The same error for a field of the body.
pub(crate) fn refuse_field(code: Code, field: &str) -> Error {
    let error = refuse(code);
    let problem = Problem::new(field, code.as_str(), error.message().to_owned());
    error.with_details(vec![problem])
}

/// Maps a version conflict to 409, because the caller may try again.
pub(crate) fn conflict(error: Error) -> Error {
    match error.code() {
        Code::PreconditionFailed => Error::new(
            Code::Conflict,
            "The account was changed meanwhile; try again",
        ),
        _ => error,
    }
}

/// 429 `rate_limited` with the seconds to wait.
pub(crate) fn rate_limited(seconds: u32) -> Error {
    Error::new(Code::RateLimited, "Too many attempts; try again later").retry_after(seconds.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_have_a_status_and_a_text() {
        for (i, (code, text)) in TEXTS.iter().enumerate() {
            assert!(
                (400..600).contains(&code.status()) && !text.is_empty(),
                "{code:?}"
            );
            assert!(
                TEXTS[..i]
                    .iter()
                    .all(|(other, _)| other.as_str() != code.as_str()),
                "{code:?} twice"
            );
            assert_eq!(refuse(*code).message(), *text);
        }
        let error = refuse_field(PASSWORD_BREACHED, "password");
        assert_eq!(
            (error.code().status(), error.details()[0].path.as_str()),
            (400, "password")
        );
        assert_eq!(rate_limited(0).retry_after_seconds(), Some(1));
    }
}
