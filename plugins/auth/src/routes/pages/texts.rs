//! Texts of pages: errors by code, and messages about actions.

use linchpin::{Code, Error};

use crate::core::Core;
use crate::error::{
    ACCOUNT_SUSPENDED, CSRF_FAILED, DELETION_SCHEDULED, EMAIL_NOT_VERIFIED, FACTOR_NOT_ALLOWED,
    INVALID_CHALLENGE, INVALID_CODE, INVALID_CREDENTIALS, INVALID_TOKEN, LAST_CREDENTIAL,
    STEP_UP_REQUIRED, WEBAUTHN_FAILED,
};
use crate::identity::PrimaryField;

/// The text of an error for users. A hook's error keeps its text, and so does any code that is not
/// listed.
pub(super) fn of(core: &Core, error: &Error) -> String {
    let code = error.code();
    let text = match code {
        INVALID_CREDENTIALS => match core.config.auth.primary_field {
            PrimaryField::Email => "The email address or the password is not right.",
            PrimaryField::Username => "The user name or the password is not right.",
            PrimaryField::Phone => "The phone number or the password is not right.",
        },
        INVALID_TOKEN => "This link or code is not valid any more. Ask for a new one.",
        INVALID_CHALLENGE => "That took too long or was done twice. Please start again.",
        WEBAUTHN_FAILED => "The passkey could not be verified. Try again, or sign in another way.",
        EMAIL_NOT_VERIFIED => {
            "Confirm your email address first, with the link that we have sent you."
        }
        ACCOUNT_SUSPENDED => "This account is suspended.",
        DELETION_SCHEDULED => "This account will be deleted. Keep it first to change anything.",
        INVALID_CODE => "That code is not right. Look at the newest one and try again.",
        LAST_CREDENTIAL => {
            "You could not sign in any more without it. Set a password or add a passkey first."
        }
        FACTOR_NOT_ALLOWED => "That does not prove enough here. Please use something else.",
        STEP_UP_REQUIRED => "Please confirm first that it is you: sign in again.",
        CSRF_FAILED => {
            "The page was open for too long, or the form came from elsewhere. Please try again."
        }
        Code::Conflict if !error.details().is_empty() => "There is an account already.",
        Code::ValidationFailed => "Please look at what you have entered.",
        Code::RateLimited => return limited(error.retry_after_seconds()),
        Code::Unavailable => {
            "This does not work at the moment. Please try again in a little while."
        }
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

/// The message about an action, by the word in a redirect. Other words have no message.
pub(super) fn done(word: &str) -> Option<&'static str> {
    Some(match word {
        "signed-out" => "You are signed out.",
        "password" => "Your password was changed. You are signed out everywhere else.",
        "reset" => "Your password was set. You can sign in with it now.",
        "verified" => "Your email address is confirmed.",
        "sent" => "If that address needs it, a message is on its way.",
        "asked" => {
            "If there is an account, a message is on its way. Open the link in it, or paste its code here."
        }
        "registered" => {
            "Your account is there. Confirm your email address with the link that we have sent you."
        }
        "session" => "The session was ended.",
        "sessions" => "All other sessions were ended.",
        "passkey" => "The passkey was added.",
        "code" => "A code is on its way.",
        "factor" => "Two-step verification is set up.",
        "removed" => "It was removed.",
        "passkey-removed" => "The passkey was removed.",
        "deleted" => "Your account was deleted.",
        "kept" => "Your account stays.",
        "renamed" => "The passkey has a new name.",
        "linked" => "You can sign in with that account from now on.",
        "unlinked" => "You no longer sign in with that account.",
        "email-asked" => {
            "If that address can be used, a message is on its way to it. Yours changes once you open the link in it."
        }
        "email" => "Your email address is changed.",
        "undone" => {
            "Your former email address is back, and you are signed out everywhere. Set a new password if somebody knows yours."
        }
        _ => return None,
    })
}

/// The message about a failure before this page, mostly at a provider, by the word in a redirect.
/// Other words have no message.
pub(super) fn failed(word: &str) -> Option<&'static str> {
    Some(match word {
        "access_denied" => "You did not allow it there, so nothing was done.",
        "account_exists" => {
            "There is an account with that email address already. Sign in to it as you usually do, and link the other one there."
        }
        "already_linked" => {
            "That account is linked to somebody else here, or you have one of that provider already."
        }
        "account_suspended" => "This account is suspended.",
        "email_required" => "No email address came with that account, and one is needed here.",
        "email_not_verified" => "The email address of that account is not confirmed.",
        "sign_up_disabled" => "There is no account here for that one, and none is made this way.",
        "hook_rejected" => "You cannot sign in with that account.",
        "provider_error" => {
            "Nobody answered as they should there. Please try again, or sign in another way."
        }
        "server_error" => "Something went wrong on our side. Please try again.",
        "overtaken" => {
            "You have signed in since that form was opened, so nothing was done. Please start again."
        }
        "expired" => "That took too long or was done twice. Please start again.",
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
