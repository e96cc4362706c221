//! Texts of pages: errors by code, and messages about actions.

use linchpin::{Code, Error};

use crate::core::Core;
use crate::error::{
    ACCOUNT_SUSPENDED, CSRF_FAILED, DELETION_SCHEDULED, EMAIL_NOT_VERIFIED, FACTOR_NOT_ALLOWED,
    INVALID_CHALLENGE, INVALID_CODE, INVALID_CREDENTIALS, INVALID_TOKEN, LAST_CREDENTIAL,
    STEP_UP_REQUIRED, WEBAUTHN_FAILED,
};
use crate::identity::PrimaryField;

/// The text of an error for users. An error with a code that is not listed keeps its text, such as
/// the error of a hook, unless its status is 500 or more.
pub(super) fn of(core: &Core, error: &Error) -> String {
    let code = error.code();
    let text = match code {
        INVALID_CREDENTIALS => match core.config.auth.primary_field {
            PrimaryField::Email => "The email address or the password is wrong.",
            PrimaryField::Username => "The user name or the password is wrong.",
            PrimaryField::Phone => "The phone number or the password is wrong.",
        },
        INVALID_TOKEN => "This link or code is no longer valid. Request a new one.",
        INVALID_CHALLENGE => "This step has expired or was already completed. Please start again.",
        WEBAUTHN_FAILED => "The passkey could not be verified. Try again, or sign in another way.",
        EMAIL_NOT_VERIFIED => "Confirm your email address first, with the link in our email.",
        ACCOUNT_SUSPENDED => "This account is suspended.",
        DELETION_SCHEDULED => {
            "This account is scheduled for deletion. Cancel the deletion before you change anything."
        }
        INVALID_CODE => "The code is wrong. Use the latest code and try again.",
        LAST_CREDENTIAL => {
            "This is your only way to sign in. Set a password or add a passkey first."
        }
        FACTOR_NOT_ALLOWED => "This method is not accepted here. Please use another one.",
        STEP_UP_REQUIRED => "Please confirm your identity first: sign in again.",
        CSRF_FAILED => {
            "The page was open for too long, or the form came from another site. Please try again."
        }
        Code::Conflict if !error.details().is_empty() => "An account already exists.",
        Code::ValidationFailed => "Please check your input.",
        Code::RateLimited => return limited(error.retry_after_seconds()),
        Code::Unavailable => "The service is temporarily unavailable. Please try again later.",
        code if code.status() >= 500 => "Something went wrong on our side. Please try again.",
        _ => return sentence(error.message()),
    };
    text.to_owned()
}

fn limited(seconds: Option<u32>) -> String {
    match seconds.unwrap_or(60).div_ceil(60) {
        0 | 1 => "Too many attempts. Please try again in a minute.".to_owned(),
        minutes => format!("Too many attempts. Please try again in {minutes} minutes."),
    }
}

/// Formats an error text as a sentence.
pub(super) fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    let first: String = chars
        .next()
        .map(|c| c.to_uppercase().collect())
        .unwrap_or_default();
    let end = if text.ends_with(['.', '!', '?']) {
        ""
    } else {
        "."
    };
    format!("{first}{}{end}", chars.as_str())
}

/// The message about an action. `word` is from the query of a redirect; other words have no
/// message.
pub(super) fn done(word: &str) -> Option<&'static str> {
    Some(match word {
        "signed-out" => "You are signed out.",
        "password" => "Your password was changed. All other sessions were ended.",
        "reset" => "Your password was set. You can sign in with it now.",
        "verified" => "Your email address is confirmed.",
        "sent" => "If the address needs confirmation, we have sent an email to it.",
        "asked" => {
            "If the account exists, we have sent an email. Open the link in it, or paste its code here."
        }
        "registered" => {
            "Your account was created. Confirm your email address with the link in our email."
        }
        "session" => "The session was ended.",
        "sessions" => "All other sessions were ended.",
        "passkey" => "The passkey was added.",
        "code" => "We have sent a code.",
        "factor" => "Two-step verification is set up.",
        "removed" => "The method was removed.",
        "passkey-removed" => "The passkey was removed.",
        "deleted" => "Your account was deleted.",
        "kept" => "The deletion was cancelled. Your account stays active.",
        "renamed" => "The passkey has a new name.",
        "linked" => "You can now sign in with that account.",
        "unlinked" => "You can no longer sign in with that account.",
        "email-asked" => {
            "If the address can be used, we have sent an email to it. Your address changes when you open the link."
        }
        "email" => "Your email address was changed.",
        "undone" => {
            "Your former email address was restored, and all sessions were ended. If someone else may know your password, set a new one."
        }
        _ => return None,
    })
}

/// The message about a failure before the redirect to this page, mostly at a provider. `word` is
/// from the query of the redirect; other words have no message.
pub(super) fn failed(word: &str) -> Option<&'static str> {
    Some(match word {
        "access_denied" => "You did not give permission at the provider, so nothing was changed.",
        "account_exists" => {
            "An account with that email address already exists. Sign in to it, then link the other account in its settings."
        }
        "already_linked" => {
            "That account is linked to another user, or your account is already linked to this provider."
        }
        "account_suspended" => "This account is suspended.",
        "email_required" => "That account has no email address, but an email address is required.",
        "email_not_verified" => "The email address of that account is not confirmed.",
        "sign_up_disabled" => {
            "That account is not linked to an account here, and you cannot create a new account this way."
        }
        "hook_rejected" => "You cannot sign in with that account.",
        "provider_error" => {
            "The provider returned an invalid response. Please try again, or sign in another way."
        }
        "server_error" => "Something went wrong on our side. Please try again.",
        "overtaken" => {
            "You have signed in since the form was opened, so nothing was changed. Please start again."
        }
        "expired" => "This step has expired or was already completed. Please start again.",
        _ => return None,
    })
}

/// Formats a time, to the minute.
pub(super) fn time(at: linchpin::Timestamp) -> String {
    let text = at.to_string();
    match (text.get(..10), text.get(11..16)) {
        (Some(day), Some(minute)) => format!("{day}, {minute} UTC"),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_sentences() {
        assert_eq!(
            sentence("must have at least 8 characters"),
            "Must have at least 8 characters."
        );
        assert_eq!(
            (sentence(""), sentence("Really?")),
            (".".to_owned(), "Really?".to_owned())
        );
        assert_eq!(
            limited(Some(900)),
            "Too many attempts. Please try again in 15 minutes."
        );
        assert!(done("<script>").is_none() && done("password").is_some());
        assert!(failed("password").is_none() && failed("access_denied").is_some());
    }
}
