//! Settings of second factors.

use std::sync::Arc;

use linchpin::Environment;

use super::AuthConfig;
use crate::sms::SmsProvider;
use crate::totp::{TotpAlgorithm, TotpRules};

/// `mfa`
#[derive(Clone)]
#[non_exhaustive]
pub struct MfaSection {
    /// Whether accounts may have second factors. If false, no sign-in requires a second factor.
    pub enabled: bool,
    /// Whether an account must set up a second factor before it can do anything else.
    pub required: bool,
    /// The name of the app in authenticator apps; default `auth.appName`.
    pub issuer: Option<String>,
    /// Seconds in which a sign-in can be completed with the second factor.
    pub challenge_seconds: u64,
    /// Number of wrong answers that end such a sign-in.
    pub max_attempts: u64,
    /// Number of recovery codes of an account.
    pub recovery_codes: u64,
    /// Seconds in which a trusted device needs no second factor; 0 disables trusted devices.
    pub trust_device_seconds: u64,
    /// `mfa.totp`
    pub totp: TotpSection,
    /// `mfa.emailOtp`
    pub email_otp: EmailOtpSection,
    /// `mfa.sms`
    pub sms: SmsSection,
}

impl std::fmt::Debug for MfaSection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = f.debug_struct("MfaSection");
        out.field("enabled", &self.enabled)
            .field("required", &self.required)
            .field("totp", &self.totp);
        out.field("email_otp", &self.email_otp)
            .field("sms", &self.sms.enabled)
            .finish_non_exhaustive()
    }
}

impl Default for MfaSection {
    fn default() -> Self {
        Self {
            enabled: false,
            required: false,
            issuer: None,
            challenge_seconds: 300,
            max_attempts: 5,
            recovery_codes: 10,
            trust_device_seconds: 0,
            totp: TotpSection::default(),
            email_otp: EmailOtpSection::default(),
            sms: SmsSection::default(),
        }
    }
}

/// `mfa.totp`: authenticator apps. If disabled, users cannot set up further ones; existing ones
/// still work.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TotpSection {
    /// Whether an authenticator app can be set up.
    pub enabled: bool,
    /// The hash algorithm of the codes.
    pub algorithm: TotpAlgorithm,
    /// Digits of a code: 6 to 8.
    pub digits: u64,
    /// Seconds between two codes: 15 to 120.
    pub period: u64,
    /// Number of codes before and after the current one that are accepted: 0 or 1.
    pub window: u64,
}

impl Default for TotpSection {
    fn default() -> Self {
        Self {
            enabled: true,
            algorithm: TotpAlgorithm::default(),
            digits: 6,
            period: 30,
            window: 1,
        }
    }
}

impl TotpSection {
    /// The rules for codes. The settings are already checked.
    pub(crate) fn rules(&self) -> TotpRules {
        TotpRules {
            algorithm: self.algorithm,
            digits: u8::try_from(self.digits).unwrap_or(6),
            period: u32::try_from(self.period).unwrap_or(30),
            window: u8::try_from(self.window).unwrap_or(1),
        }
    }
}

/// `mfa.emailOtp`: mailed codes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EmailOtpSection {
    /// Whether mailed codes can be set up.
    pub enabled: bool,
    /// Digits of a code: 6 to 10.
    pub digits: u64,
    /// Lifetime of a code in seconds: 30 to 600.
    pub seconds: u64,
}

impl Default for EmailOtpSection {
    fn default() -> Self {
        Self {
            enabled: false,
            digits: 6,
            seconds: 300,
        }
    }
}

/// `mfa.sms`: codes sent by text message.
#[derive(Clone)]
#[non_exhaustive]
pub struct SmsSection {
    /// Whether codes by text message can be set up.
    pub enabled: bool,
    /// Digits of a code: 6 to 10.
    pub digits: u64,
    /// Lifetime of a code in seconds: 30 to 600.
    pub seconds: u64,
    /// The host of the web pages on which phones fill in the code automatically.
    pub host: Option<String>,
    /// Sends text messages.
    pub provider: Option<Arc<dyn SmsProvider>>,
}

impl Default for SmsSection {
    fn default() -> Self {
        Self {
            enabled: false,
            digits: 6,
            seconds: 300,
            host: None,
            provider: None,
        }
    }
}

impl SmsSection {
    /// The host to which messages are bound, if there is a provider that can send them.
    pub(crate) fn bound_host(&self) -> Option<&str> {
        self.host.as_deref().filter(|_| self.provider.is_some())
    }
}

impl std::fmt::Debug for SmsSection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SmsSection")
            .field("enabled", &self.enabled)
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}

/// Checks the settings.
pub(super) fn check(
    config: &AuthConfig,
    environment: Environment,
    mut wrong: impl FnMut(&str, &str),
) {
    let mfa = &config.auth.mfa;
    if mfa.required && !mfa.enabled {
        wrong("auth.mfa.required", "needs auth.mfa.enabled");
    }
    if !mfa.enabled {
        return;
    }
    if mfa.required && !mfa.totp.enabled && !mfa.email_otp.enabled && !config.auth.passkeys.enabled
    {
        wrong(
            "auth.mfa.required",
            "needs auth.mfa.totp, auth.mfa.emailOtp or auth.passkeys to be enabled; text messages alone are not enough",
        );
    }
    if mfa.email_otp.enabled && config.auth.mailer.is_none() {
        wrong("auth.mailer", "is required by auth.mfa.emailOtp");
    }
    if mfa.issuer.as_deref().is_some_and(|issuer| {
        issuer.is_empty() || issuer.contains(':') || issuer.chars().any(char::is_control)
    }) {
        wrong("auth.mfa.issuer", "must be a name without colons");
    }
    if mfa.sms.enabled {
        if mfa.sms.provider.is_none() {
            wrong("auth.mfa.sms.provider", "is required by auth.mfa.sms");
        }
        if !mfa.sms.host.as_deref().is_some_and(is_host) {
            wrong(
                "auth.mfa.sms.host",
                "must be the host of the page that asks for the code, such as app.example.com: phones fill in the code only there",
            );
        }
        if environment == Environment::Production && mfa.sms.host.as_deref() == Some("localhost") {
            wrong("auth.mfa.sms.host", "must not be `localhost` in production");
        }
    }
}

fn is_host(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 253
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'.' || b == b'-')
}
