//! Every limit of the plugin: the only place for these numbers.

use std::collections::BTreeMap;

/// What a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// Every attempt.
    All,
    /// Attempts that fail: one that succeeds is given back.
    Failures,
    /// Attempts that fail since the last one that succeeded: that one empties the counter.
    FailuresInARow,
    /// The same, and the more there are the longer they are kept in mind: for one window after the
    /// first of them, two after the second. What is tried once is soon forgotten, however many
    /// there are of it, and what is under siege is not.
    FailuresThatAdd,
}

/// A limit as it stands in the table.
#[derive(Debug)]
pub(crate) struct Row {
    /// The name in the configuration, and in the key of each counter.
    pub(crate) name: &'static str,
    pub(crate) counted: Counted,
    pub(crate) limit: Limit,
}

/// So many in so much time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// So many pass; the next does not.
    pub max: u32,
    /// Seconds from the first one that was counted.
    pub window_seconds: u32,
}

const MINUTE: u32 = 60;
const HOUR: u32 = 60 * MINUTE;
const DAY: u32 = 24 * HOUR;

/// Codes sent for one challenge, the first one not counted.
pub(crate) const SENDS_PER_CHALLENGE: i64 = 3;

/// Wrong answers that drop what is being set up, and that end proof of identity by a sent code.
pub(crate) const TRIES_PER_SETUP: i64 = 5;

macro_rules! buckets {
    ($($(#[$doc:meta])* $bucket:ident $name:literal: $counted:ident, $max:literal in $n:literal * $unit:ident;)*) => {
        /// What is limited. The comment says what a counter is kept for.
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
    /// Address.
    Register "register": All, 20 in 60 * MINUTE;
    /// Address and identifier.
    Login "login": FailuresInARow, 10 in 15 * MINUTE;
    /// Address.
    LoginIp "loginIp": Failures, 50 in 15 * MINUTE;
    /// Address: one for each identifier, by `Limiter::admit_distinct`.
    LoginSpread "loginSpread": Failures, 15 in 15 * MINUTE;
    /// Identifier, from devices that are not recognised.
    LoginIdentifier "loginIdentifier": Failures, 30 in 60 * MINUTE;
    /// Recognised device, in place of the former.
    LoginDevice "loginDevice": Failures, 10 in 15 * MINUTE;
    /// Identifier, from devices that are not recognised, when its owner has another way in.
    PasswordLockout "passwordLockout": FailuresThatAdd, 100 in 1 * DAY;
    /// Address.
    VerifyEmail "verifyEmail": All, 20 in 15 * MINUTE;
    /// Address.
    ResetPassword "resetPassword": All, 20 in 15 * MINUTE;
    /// Address.
    MagicVerify "magicVerify": All, 20 in 15 * MINUTE;
    /// Address.
    VerifyAndLogin "verifyAndLogin": All, 20 in 15 * MINUTE;
    /// Address.
    Forgot "forgot": All, 10 in 15 * MINUTE;
    /// Identifier; nobody is told.
    ForgotIdentifier "forgotIdentifier": All, 3 in 60 * MINUTE;
    /// Address.
    Resend "resend": All, 10 in 15 * MINUTE;
    /// Identifier; nobody is told.
    ResendIdentifier "resendIdentifier": All, 3 in 60 * MINUTE;
    /// Address.
    MagicRequest "magicRequest": All, 10 in 15 * MINUTE;
    /// Identifier; nobody is told.
    MagicRequestIdentifier "magicRequestIdentifier": All, 3 in 60 * MINUTE;
    /// Session.
    Refresh "refresh": All, 30 in 60 * SECOND;
    /// Address.
    RefreshIp "refreshIp": All, 300 in 60 * SECOND;
    /// User and session; shared by step-up, proof in a body, and the current password.
    Proof "proof": Failures, 10 in 15 * MINUTE;
    /// The same of all sessions: user, and the device where it is recognised.
    ProofUser "proofUser": Failures, 30 in 15 * MINUTE;
    /// User and session.
    Reauth "reauth": All, 10 in 15 * MINUTE;
    /// User, from devices that are not recognised.
    MfaVerifyUser "mfaVerifyUser": Failures, 15 in 15 * MINUTE;
    /// Address.
    MfaVerifyIp "mfaVerifyIp": Failures, 50 in 15 * MINUTE;
    /// User; a challenge counts its own.
    MfaResend "mfaResend": All, 10 in 60 * MINUTE;
    /// User and session.
    MfaSetup "mfaSetup": All, 10 in 15 * MINUTE;
    /// User and session.
    MfaEnable "mfaEnable": All, 10 in 15 * MINUTE;
    /// The same of all sessions: user.
    MfaEnableUser "mfaEnableUser": All, 30 in 15 * MINUTE;
    /// User, and the session that asks for it, or in a sign-in the device where it is recognised.
    SmsSend "smsSend": All, 5 in 60 * MINUTE;
    /// The same of all sessions and devices: user.
    SmsSendUser "smsSendUser": All, 15 in 60 * MINUTE;
    /// Number that is being set up, whoever asks.
    SmsSendNumber "smsSendNumber": All, 5 in 60 * MINUTE;
    /// Address.
    SmsSendIp "smsSendIp": All, 20 in 24 * HOUR;
    /// Address.
    PasskeyOptions "passkeyOptions": All, 60 in 60 * SECOND;
    /// Address.
    PasskeyLogin "passkeyLogin": Failures, 30 in 15 * MINUTE;
    /// Address.
    OauthStart "oauthStart": All, 30 in 60 * SECOND;
    /// Address.
    OauthCallback "oauthCallback": All, 30 in 60 * SECOND;
    /// Address.
    OauthExchange "oauthExchange": All, 20 in 60 * SECOND;
    /// User and session.
    ChangeEmail "changeEmail": All, 10 in 60 * MINUTE;
    /// The same of all sessions: user. Each may mail a stranger.
    ChangeEmailUser "changeEmailUser": All, 30 in 60 * MINUTE;
    /// Address of mail, whoever causes it: accounts that ask to be known by it, sign-ups and
    /// sign-ins with an address that is taken; and apart, by their kind, links that an account
    /// causes at an address that it has not proved. Nobody is told.
    StrangerMail "strangerMail": All, 3 in 60 * MINUTE;
    /// Address of mail that its account has not proved: codes and notices that the account causes.
    /// Nobody is told.
    UnprovedMail "unprovedMail": All, 10 in 60 * MINUTE;
    /// User and session.
    Link "link": All, 10 in 60 * MINUTE;
    /// The same of all sessions: user.
    LinkUser "linkUser": All, 30 in 60 * MINUTE;
    /// User and session.
    DeleteAccount "deleteAccount": All, 10 in 60 * MINUTE;
    /// The same of all sessions: user.
    DeleteAccountUser "deleteAccountUser": All, 30 in 60 * MINUTE;
}

const SECOND: u32 = 1;

impl Bucket {
    /// Its row of the table.
    pub(crate) fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    /// The bucket of a name in the configuration.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|bucket| bucket.row().name == name)
    }
}

/// The limits of an app: the table, and what its configuration says otherwise.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limits(BTreeMap<Bucket, Limit>);

impl Limits {
    /// Takes a limit of the configuration.
    ///
    /// # Errors
    /// Why it cannot be one.
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
    fn names_are_unique_and_lead_back() {
        assert_eq!(ROWS.len(), Bucket::ALL.len());
        for bucket in Bucket::ALL {
            assert_eq!(Bucket::named(bucket.row().name), Some(*bucket));
            let Limit {
                max,
                window_seconds,
            } = bucket.row().limit;
            // Anybody can begin a window, of whatever they make up: none is kept for long.
            assert!(
                max > 0 && (60..=DAY).contains(&window_seconds),
                "{bucket:?}"
            );
        }
        assert_eq!(Bucket::named("nothing"), None);
    }

    /// Contract 8.4, and what 8.3 says of devices and of lockout; what a challenge bears stands in
    /// `mfa.maxAttempts`.
    #[test]
    fn the_numbers_are_those_of_the_contract() {
        use Counted::{All, Failures, FailuresInARow, FailuresThatAdd};
        const CONTRACT: [(&str, Counted, u32, u32); 45] = [
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
        assert_eq!(rows.collect::<Vec<_>>(), CONTRACT);
        assert_eq!(
            (
                SENDS_PER_CHALLENGE,
                crate::config::AuthConfig::default().auth.mfa.max_attempts
            ),
            (3, 5)
        );
    }

    #[test]
    fn the_configuration_overrides_single_rows() {
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
