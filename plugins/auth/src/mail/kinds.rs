//! Kinds of mail, with their variables and default texts.

use serde::{Deserialize, Serialize};

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident $name:literal [$($var:literal)*] $subject:literal $text:literal;)*) => {
        /// The kind of a mail.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum MailKind {
            $($(#[$doc])* $kind,)*
        }

        impl MailKind {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$kind,)*];

            /// The name in snake case, such as `verify_email`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                }
            }

            /// Variables of this kind's templates, in addition to `app`.
            pub const fn variables(self) -> &'static [&'static str] {
                match self {
                    $(Self::$kind => &[$($var),*],)*
                }
            }

            /// The default subject and text.
            pub(super) const fn default_texts(self) -> (&'static str, &'static str) {
                match self {
                    $(Self::$kind => ($subject, $text),)*
                }
            }
        }
    };
}

kinds! {
    /// Verifies the address of a new account.
    VerifyEmail "verify_email" ["link"]
        "Confirm your email address"
        "Please confirm that this address is yours:\n\n{{link}}\n\nIf you did not sign up at {{app}}, ignore this message.";
    /// Verifies an address that will replace another one.
    VerifyNewEmail "verify_new_email" ["link"]
        "Confirm your new email address"
        "Please confirm that this is your new address at {{app}}:\n\n{{link}}\n\nUntil then the old address stays in use. If you did not ask for this, ignore this message.";
    /// Sets a new password.
    PasswordReset "password_reset" ["link"]
        "Reset your password"
        "Someone asked to reset the password of your account at {{app}}. You can set a new password here:\n\n{{link}}\n\nIf it was not you, ignore this message; your password does not change.";
    /// Signs in.
    MagicLink "magic_link" ["link"]
        "Your sign-in link"
        "Use this link to sign in to {{app}}:\n\n{{link}}\n\nThe link works once. If you did not ask for it, ignore this message.";
    /// A code for a second factor or for a proof of identity.
    EmailOtp "email_otp" ["code"]
        "Your code"
        "Your code for {{app}} is:\n\n{{code}}\n\nNobody from {{app}} will ever ask you for it. If you did not ask for this code, someone may know your password: change it.";
    /// Cancels the deletion of an account.
    CancelDeletion "cancel_deletion" ["link" "at"]
        "Your account will be deleted"
        "Your account at {{app}} will be deleted on {{at}}. To keep your account, open this link:\n\n{{link}}";
    /// Someone tried to sign up with the address of an existing account.
    ExistingAccount "existing_account" []
        "You already have an account"
        "Someone tried to sign up at {{app}} with this address. You already have an account with this address: sign in to it.\n\nIf it was not you, ignore this message.";
    /// The password was changed in a session.
    PasswordChanged "password_changed" ["at" "ip" "protect"]
        "Your password was changed"
        "The password of your account at {{app}} was changed on {{at}} from {{ip}}.\n\nIf it was not you, {{protect}}.";
    /// The password was set by a mailed link.
    PasswordResetDone "password_reset_done" ["at" "ip"]
        "Your password was reset"
        "The password of your account at {{app}} was reset on {{at}} from {{ip}}. All sessions have ended.\n\nIf it was not you, reset it again and check who can read your mail.";
    /// For the former address: a change of the address was requested, with a link that undoes it.
    EmailChanged "email_changed" ["link" "at"]
        "Your email address was changed"
        "On {{at}}, the email address of your account at {{app}} was changed, or a change was requested.\n\nIf it was not you, undo the change within seven days:\n\n{{link}}";
    /// For the address that was removed when the owner restored the former address.
    EmailRestored "email_restored" ["at" "ip"]
        "Your email address was changed back"
        "On {{at}}, the former email address of your account at {{app}} was restored from {{ip}}, with the link that was mailed to it. All sessions were ended, and this address is no longer in use.\n\nIf you did not expect this, contact the operator of {{app}}.";
    /// A second factor was set up.
    MfaEnabled "mfa_enabled" ["method" "at" "ip" "protect"]
        "A second factor was added"
        "The second factor \"{{method}}\" was added to your account at {{app}} on {{at}} from {{ip}}.\n\nIf it was not you, {{protect}}.";
    /// A second factor was removed.
    MfaDisabled "mfa_disabled" ["method" "at" "ip" "protect"]
        "A second factor was removed"
        "The second factor \"{{method}}\" was removed from your account at {{app}} on {{at}} from {{ip}}.\n\nIf it was not you, {{protect}}.";
    /// A recovery code was used.
    RecoveryCodeUsed "recovery_code_used" ["left" "at" "ip" "protect"]
        "A recovery code was used"
        "A recovery code of your account at {{app}} was used on {{at}} from {{ip}}. You have {{left}} left.\n\nIf it was not you, {{protect}}, and create new recovery codes.";
    /// New recovery codes were created.
    RecoveryCodesRegenerated "recovery_codes_regenerated" ["at" "ip" "protect"]
        "You have new recovery codes"
        "New recovery codes were created for your account at {{app}} on {{at}} from {{ip}}. The old ones no longer work.\n\nIf it was not you, {{protect}}.";
    /// The unused recovery codes became invalid, because their key was removed.
    RecoveryCodesEnded "recovery_codes_ended" ["at"]
        "Your recovery codes no longer work"
        "On {{at}}, {{app}} removed an old encryption key. The unused recovery codes of your account depended on it and no longer work. Sign in and create new ones.";
    /// A passkey was added.
    PasskeyAdded "passkey_added" ["name" "at" "ip" "protect"]
        "A passkey was added"
        "The passkey \"{{name}}\" was added to your account at {{app}} on {{at}} from {{ip}}.\n\nIf it was not you, remove it and {{protect}}.";
    /// A passkey was removed.
    PasskeyRemoved "passkey_removed" ["name" "at" "ip" "protect"]
        "A passkey was removed"
        "The passkey \"{{name}}\" was removed from your account at {{app}} on {{at}} from {{ip}}.\n\nIf it was not you, {{protect}}.";
    /// Another way to sign in was added.
    ProviderLinked "provider_linked" ["provider" "at" "ip" "protect"]
        "A sign-in method was added"
        "You can now sign in to {{app}} with {{provider}}. This was set up on {{at}} from {{ip}}.\n\nIf it was not you, remove it and {{protect}}.";
    /// A way to sign in was removed.
    ProviderUnlinked "provider_unlinked" ["provider" "at" "ip" "protect"]
        "A sign-in method was removed"
        "You can no longer sign in to {{app}} with {{provider}}. This was changed on {{at}} from {{ip}}.\n\nIf it was not you, {{protect}}.";
    /// A sign-in from a new device.
    NewDeviceLogin "new_device_login" ["at" "ip" "device" "protect"]
        "A new device signed in"
        "Someone signed in to your account at {{app}} on {{at}} from {{ip}}, with {{device}}.\n\nIf it was not you, {{protect}}.";
    /// Many wrong passwords.
    PasswordUnderAttack "password_under_attack" ["at" "protect"]
        "Someone is guessing your password"
        "Since {{at}}, someone has entered many wrong passwords for your account at {{app}}. Your password is now refused on devices that you have not used before. To lift this, {{protect}}, or sign in another way.";
    /// Many wrong second factors after a correct password.
    MfaUnderAttack "mfa_under_attack" ["at" "ip" "protect"]
        "Someone knows your password"
        "On {{at}}, someone at {{ip}} entered the correct password of your account at {{app}} and many wrong codes.\n\nIf it was not you, {{protect}}.";
    /// A refresh token was used twice.
    RefreshReused "refresh_reused" ["at" "ip"]
        "A session was ended for your safety"
        "On {{at}}, a session of your account at {{app}} was renewed from {{ip}} with a token that had already been used. The token may have been stolen, so the session was ended. Please sign in again.";
    /// The deletion of the account was scheduled.
    DeletionScheduled "deletion_scheduled" ["due" "at" "ip"]
        "Your account will be deleted"
        "The deletion of your account at {{app}} was requested on {{at}} from {{ip}}. The account will be deleted on {{due}}. To keep it, sign in before then and cancel the deletion.";
    /// The deletion of the account was cancelled.
    DeletionCancelled "deletion_cancelled" ["at"]
        "Your account will not be deleted"
        "The deletion of your account at {{app}} was cancelled on {{at}}.";
    /// The account was deleted.
    AccountDeleted "account_deleted" ["at"]
        "Your account was deleted"
        "Your account at {{app}} was deleted on {{at}}.";
    /// The account was suspended.
    AccountSuspended "account_suspended" ["at"]
        "Your account was suspended"
        "Your account at {{app}} was suspended on {{at}}. All sessions have ended.";
}
