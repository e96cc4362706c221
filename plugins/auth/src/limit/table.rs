//! All limits of the plugin.

use std::collections::BTreeMap;

/// The attempts that a counter includes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// Every attempt.
    All,
    /// Failed attempts: a success gives its attempt back.
    Failures,
    /// Failed attempts since the last success, which resets the counter.
    FailuresInARow,
    /// Like `FailuresInARow`, and the window grows with each failure: one window after the first,
    /// two after the second. So a single failure is soon forgotten, and an account under attack
    /// stays protected.
    FailuresThatAdd,
}

/// A row of the table.
#[derive(Debug)]
pub(crate) struct Row {
    /// The name in settings, and in the key of each counter.
    pub(crate) name: &'static str,
    pub(crate) counted: Counted,
    pub(crate) limit: Limit,
}

/// A maximum number in a window of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Number of attempts that are allowed in a window.
    pub max: u32,
    /// Length of the window in seconds, from the first counted attempt.
    pub window_seconds: u32,
}

const MINUTE: u32 = 60;
const HOUR: u32 = 60 * MINUTE;
const DAY: u32 = 24 * HOUR;

/// Number of codes that can be sent again for one challenge.
pub(crate) const SENDS_PER_CHALLENGE: i64 = 3;

/// Number of wrong answers that end a set-up, or a proof by a sent code.
pub(crate) const ATTEMPTS_PER_SETUP: i64 = 5;

macro_rules! buckets {
    ($($(#[$doc:meta])* $bucket:ident $name:literal: $counted:ident, $max:literal in $n:literal * $unit:ident;)*) => {
        /// The limits. The documentation of each bucket says what its key is.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) enum Bucket {
            $($(#[$doc])* $bucket,)*
        }

        /// In the order of the buckets.
        const ROWS: &[Row] = &[
            $(Row { name: $name, counted: Counted::$counted, limit: Limit { max: $max, window_seconds: $n * $unit } },)*
        ];

        impl Bucket {
            pub(crate) const ALL: &[Self] = &[$(Self::$bucket,)*];
        }
    };
}

buckets! {
    /// Key: client address.
    Register "register": All, 20 in 60 * MINUTE;
    /// Key: client address and identifier.
    Login "login": FailuresInARow, 10 in 15 * MINUTE;
    /// Key: client address.
    LoginIp "loginIp": Failures, 50 in 15 * MINUTE;
    /// Key: client address. Counts different identifiers, by `Limiter::admit_distinct`.
    LoginSpread "loginSpread": Failures, 15 in 15 * MINUTE;
    /// Key: identifier. Counts only attempts from devices that are not recognised.
    LoginIdentifier "loginIdentifier": Failures, 30 in 60 * MINUTE;
    /// Key: recognised device, in place of `LoginIdentifier`.
    LoginDevice "loginDevice": Failures, 10 in 15 * MINUTE;
    /// Key: identifier. Counts only attempts from devices that are not recognised, and only if the
    /// owner has another way to sign in.
    PasswordLockout "passwordLockout": FailuresThatAdd, 100 in 1 * DAY;
    /// Key: client address.
    VerifyEmail "verifyEmail": All, 20 in 15 * MINUTE;
    /// Key: client address.
    ResetPassword "resetPassword": All, 20 in 15 * MINUTE;
    /// Key: client address.
    MagicVerify "magicVerify": All, 20 in 15 * MINUTE;
    /// Key: client address.
    VerifyAndLogin "verifyAndLogin": All, 20 in 15 * MINUTE;
    /// Key: client address.
    Forgot "forgot": All, 10 in 15 * MINUTE;
    /// Key: identifier. No response shows that it is exhausted.
    ForgotIdentifier "forgotIdentifier": All, 3 in 60 * MINUTE;
    /// Key: client address.
    Resend "resend": All, 10 in 15 * MINUTE;
    /// Key: identifier. No response shows that it is exhausted.
    ResendIdentifier "resendIdentifier": All, 3 in 60 * MINUTE;
    /// Key: client address.
    MagicRequest "magicRequest": All, 10 in 15 * MINUTE;
    /// Key: identifier. No response shows that it is exhausted.
    MagicRequestIdentifier "magicRequestIdentifier": All, 3 in 60 * MINUTE;
    /// Key: session.
    Refresh "refresh": All, 30 in 60 * SECOND;
    /// Key: client address.
    RefreshIp "refreshIp": All, 300 in 60 * SECOND;
    /// Key: user and session. Shared by the step-up, proofs in a body, and the current password.
    Proof "proof": Failures, 10 in 15 * MINUTE;
    /// Key: user, and the device if it is recognised. Covers all sessions.
    ProofUser "proofUser": Failures, 30 in 15 * MINUTE;
    /// Key: user and session.
    Reauth "reauth": All, 10 in 15 * MINUTE;
    /// Key: user, and the device if it is recognised.
    MfaVerifyUser "mfaVerifyUser": Failures, 15 in 15 * MINUTE;
    /// Key: client address.
    MfaVerifyIp "mfaVerifyIp": Failures, 50 in 15 * MINUTE;
    /// Key: user, and the device if it is recognised. Each challenge has its own limit too.
    MfaResend "mfaResend": All, 10 in 60 * MINUTE;
    /// Key: user and session.
    MfaSetup "mfaSetup": All, 10 in 15 * MINUTE;
    /// Key: user and session.
    MfaEnable "mfaEnable": All, 10 in 15 * MINUTE;
    /// Key: user. Covers all sessions.
    MfaEnableUser "mfaEnableUser": All, 30 in 15 * MINUTE;
    /// Key: user and session; at sign-in, user and recognised device.
    SmsSend "smsSend": All, 5 in 60 * MINUTE;
    /// Key: user. Covers all sessions and devices.
    SmsSendUser "smsSendUser": All, 15 in 60 * MINUTE;
    /// Key: phone number that is being set up, for all callers.
    SmsSendNumber "smsSendNumber": All, 5 in 60 * MINUTE;
    /// Key: client address.
    SmsSendIp "smsSendIp": All, 20 in 24 * HOUR;
    /// Key: client address.
    PasskeyOptions "passkeyOptions": All, 60 in 60 * SECOND;
    /// Key: client address.
    PasskeyLogin "passkeyLogin": Failures, 30 in 15 * MINUTE;
    /// Key: client address.
    OauthStart "oauthStart": All, 30 in 60 * SECOND;
    /// Key: client address.
    OauthCallback "oauthCallback": All, 30 in 60 * SECOND;
    /// Key: client address.
    OauthExchange "oauthExchange": All, 20 in 60 * SECOND;
    /// Key: user and session.
    ChangeEmail "changeEmail": All, 10 in 60 * MINUTE;
    /// Key: user. Covers all sessions. Each request may mail another person.
    ChangeEmailUser "changeEmailUser": All, 30 in 60 * MINUTE;
    /// Key: mail address, for all callers. Counts mails that other people cause: another account
    /// requests a change to this address, or someone signs up, or signs in at a provider, with this
    /// address. Links to an account's own unverified address have a separate key for each kind of
    /// mail. No response shows that it is exhausted.
    StrangerMail "strangerMail": All, 3 in 60 * MINUTE;
    /// Key: unverified mail address of an account. Counts codes and notices that the account
    /// causes. No response shows that it is exhausted.
    UnprovedMail "unprovedMail": All, 10 in 60 * MINUTE;
    /// Key: user and session.
    Link "link": All, 10 in 60 * MINUTE;
    /// Key: user. Covers all sessions.
    LinkUser "linkUser": All, 30 in 60 * MINUTE;
    /// Key: user and session.
    DeleteAccount "deleteAccount": All, 10 in 60 * MINUTE;
    /// Key: user. Covers all sessions.
    DeleteAccountUser "deleteAccountUser": All, 30 in 60 * MINUTE;
}

const SECOND: u32 = 1;

impl Bucket {
    /// The row of the bucket.
    pub(crate) fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    /// The bucket with a name in the settings.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|bucket| bucket.row().name == name)
    }
}

/// The limits of an app: the table with the changes of the settings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limits(BTreeMap<Bucket, Limit>);

impl Limits {
    /// Replaces a limit.
    ///
    /// # Errors
    /// The reason if the name or the limit is invalid.
    pub(crate) fn set(&mut self, name: &str, limit: Limit) -> Result<(), String> {
        let bucket = Bucket::named(name).ok_or_else(|| format!("there is no limit `{name}`"))?;
        if limit.max == 0 || limit.window_seconds == 0 {
            return Err("`max` and `windowSeconds` must be at least 1".into());
        }
        self.0.insert(bucket, limit);
        Ok(())
    }

    pub(crate) fn of(&self, bucket: Bucket) -> Limit {
        self.0.get(&bucket).copied().unwrap_or(bucket.row().limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_names_are_unique_and_resolve_to_their_bucket() {
        assert_eq!(ROWS.len(), Bucket::ALL.len());
        for bucket in Bucket::ALL {
            assert_eq!(Bucket::named(bucket.row().name), Some(*bucket));
            let Limit {
                max,
                window_seconds,
            } = bucket.row().limit;
            // Anyone can start windows for invented keys, so no window is longer than a day.
            assert!(
                max > 0 && (60..=DAY).contains(&window_seconds),
                "{bucket:?}"
            );
        }
        assert_eq!(Bucket::named("nothing"), None);
    }

    /// The default numbers of the limits on devices, lockouts and requests. The limit of a
    /// challenge is in `mfa.maxAttempts`.
    #[test]
    fn every_limit_has_its_documented_default() {
        use Counted::{All, Failures, FailuresInARow, FailuresThatAdd};
        const EXPECTED: [(&str, Counted, u32, u32); 45] = [
            ("register", All, 20, 3600),
            ("login", FailuresInARow, 10, 900),
            ("loginIp", Failures, 50, 900),
            ("loginSpread", Failures, 15, 900),
            ("loginIdentifier", Failures, 30, 3600),
            ("loginDevice", Failures, 10, 900),
            ("passwordLockout", FailuresThatAdd, 100, 86_400),
            ("verifyEmail", All, 20, 900),
            ("resetPassword", All, 20, 900),
            ("magicVerify", All, 20, 900),
            ("verifyAndLogin", All, 20, 900),
            ("forgot", All, 10, 900),
            ("forgotIdentifier", All, 3, 3600),
            ("resend", All, 10, 900),
            ("resendIdentifier", All, 3, 3600),
            ("magicRequest", All, 10, 900),
            ("magicRequestIdentifier", All, 3, 3600),
            ("refresh", All, 30, 60),
            ("refreshIp", All, 300, 60),
            ("proof", Failures, 10, 900),
            ("proofUser", Failures, 30, 900),
            ("reauth", All, 10, 900),
            ("mfaVerifyUser", Failures, 15, 900),
            ("mfaVerifyIp", Failures, 50, 900),
            ("mfaResend", All, 10, 3600),
            ("mfaSetup", All, 10, 900),
            ("mfaEnable", All, 10, 900),
            ("mfaEnableUser", All, 30, 900),
            ("smsSend", All, 5, 3600),
            ("smsSendUser", All, 15, 3600),
            ("smsSendNumber", All, 5, 3600),
            ("smsSendIp", All, 20, 86_400),
            ("passkeyOptions", All, 60, 60),
            ("passkeyLogin", Failures, 30, 900),
            ("oauthStart", All, 30, 60),
            ("oauthCallback", All, 30, 60),
            ("oauthExchange", All, 20, 60),
            ("changeEmail", All, 10, 3600),
            ("changeEmailUser", All, 30, 3600),
            ("strangerMail", All, 3, 3600),
            ("unprovedMail", All, 10, 3600),
            ("link", All, 10, 3600),
            ("linkUser", All, 30, 3600),
            ("deleteAccount", All, 10, 3600),
            ("deleteAccountUser", All, 30, 3600),
        ];
        let rows = ROWS.iter().map(|row| {
            (
                row.name,
                row.counted,
                row.limit.max,
                row.limit.window_seconds,
            )
        });
        assert_eq!(rows.collect::<Vec<_>>(), EXPECTED);
        assert_eq!(
            (
                SENDS_PER_CHALLENGE,
                crate::config::AuthConfig::default().auth.mfa.max_attempts
            ),
            (3, 5)
        );
    }

    #[test]
    fn settings_replace_single_limits() {
        let mut limits = Limits::default();
        assert_eq!(
            limits.of(Bucket::Login),
            Limit {
                max: 10,
                window_seconds: 900
            }
        );
        limits
            .set(
                "login",
                Limit {
                    max: 3,
                    window_seconds: 60,
                },
            )
            .unwrap();
        assert_eq!(
            (limits.of(Bucket::Login).max, limits.of(Bucket::LoginIp).max),
            (3, 50)
        );
        for (name, max, window_seconds) in [("logn", 1, 1), ("login", 0, 1), ("login", 1, 0)] {
            assert!(
                limits
                    .set(
                        name,
                        Limit {
                            max,
                            window_seconds
                        }
                    )
                    .is_err()
            );
        }
    }
}
