//! The table of settings with a single value: key, field and bounds. Reading and the check of
//! bounds use this table. Other modules check lists, maps, and rules between several settings.

use std::ops::RangeInclusive;

use super::AuthConfig;
use super::reader::{Readable, SettingsSource};
use crate::otp::DIGITS as DIGITS_OF_CODES;

/// A setting.
pub(super) struct Setting {
    key: &'static str,
    read: fn(&mut SettingsSource, &str, &mut AuthConfig),
    bounds: Option<Bounds>,
}

/// The bounds of a number, and the condition under which they apply.
struct Bounds {
    range: RangeInclusive<u64>,
    value: fn(&AuthConfig) -> u64,
    when: fn(&AuthConfig) -> bool,
}

/// `"key" => field`, optionally with `in range` for numbers and `when condition`.
macro_rules! settings {
    ($($key:literal => $($field:ident).+ $(in $range:expr $(, when $when:expr)?)?;)+) => {
        &[$(Setting {
            key: $key,
            read: |source, key, config| read(source, key, &mut config.$($field).+),
            bounds: settings!(@bounds $($field).+ $(in $range $(, when $when)?)?),
        }),+]
    };
    (@bounds $($field:ident).+) => { None };
    (@bounds $($field:ident).+ in $range:expr) => { settings!(@bounds $($field).+ in $range, when |_| true) };
    (@bounds $($field:ident).+ in $range:expr, when $when:expr) => {
        Some(Bounds { range: $range, value: |config| config.$($field).+, when: $when })
    };
}

/// Number of digits of a sent code.
const DIGITS: RangeInclusive<u64> = *DIGITS_OF_CODES.start() as u64..=*DIGITS_OF_CODES.end() as u64;

static SETTINGS: &[Setting] = settings! {
    "security.signing.secret" => security.secrets;
    "security.signing.algorithm" => security.algorithm;
    "security.signing.issuer" => security.issuer;
    "security.signing.audience" => security.audience;
    "security.trustProxy" => security.trust_proxy;
    "security.allowedOrigins" => security.allowed_origins;
    "security.csrf.enabled" => security.csrf;
    "security.csrf.exemptPaths" => security.csrf_exempt;

    "auth.mount" => auth.mount;
    "auth.publicUrl" => auth.public_url;
    "auth.roles" => auth.roles;
    "auth.defaultRole" => auth.default_role;
    "auth.appName" => auth.app_name;
    "auth.primaryField" => auth.primary_field;
    "auth.concealRegistration" => auth.conceal_registration;
    "auth.admin.role" => auth.admin_role;
    "auth.audit.retentionSeconds" => auth.audit_retention_seconds;

    "auth.password.enabled" => auth.password.enabled;
    "auth.password.minLength" => auth.password.min_length in 8..=64;
    "auth.password.maxLength" => auth.password.max_length;
    "auth.password.historyCount" => auth.password.history_count in 0..=24;
    "auth.password.breachOnError" => auth.password.breach_on_error;
    "auth.password.argon2.m" => auth.password.argon2.m;
    "auth.password.argon2.t" => auth.password.argon2.t;
    "auth.password.argon2.p" => auth.password.argon2.p;

    "auth.session.transport" => auth.session.transport;
    "auth.session.absoluteSeconds" => auth.session.absolute_seconds;
    "auth.session.idleSeconds" => auth.session.idle_seconds;
    "auth.session.maxPerUser" => auth.session.max_per_user in 1..=1000;
    "auth.session.onPasswordChange" => auth.session.on_password_change;
    "auth.session.cacheSeconds" => auth.session.cache_seconds in 0..=30;
    "auth.refreshTokens.enabled" => auth.refresh.enabled;
    "auth.refreshTokens.accessSeconds" => auth.refresh.access_seconds in 30..=86_400;
    "auth.refreshTokens.refreshSeconds" => auth.refresh.refresh_seconds;
    "auth.refreshTokens.graceSeconds" => auth.refresh.grace_seconds in 0..=60;
    "auth.cookies.secure" => auth.cookies.secure;
    "auth.cookies.sameSite" => auth.cookies.same_site;
    "auth.cookies.domain" => auth.cookies.domain;
    "auth.cookies.path" => auth.cookies.path;
    "auth.stepUp.maxAgeSeconds" => auth.step_up.max_age_seconds in 30..=86_400;
    "auth.stepUp.accountMaxAgeSeconds" => auth.step_up.account_max_age_seconds in 30..=86_400;
    "auth.rateLimit.enabled" => auth.rate_limit.enabled;

    "auth.emailVerification.enabled" => auth.email_verification.enabled;
    "auth.emailVerification.required" => auth.email_verification.required;
    "auth.emailVerification.tokenSeconds" => auth.email_verification.token_seconds in 60..=604_800,
        when |config| config.auth.email_verification.enabled;
    "auth.emailVerification.linkBaseUrl" => auth.email_verification.link_base_url;
    "auth.passwordReset.enabled" => auth.password_reset.enabled;
    "auth.passwordReset.tokenSeconds" => auth.password_reset.token_seconds in 60..=604_800, when |config| config.auth.resets();
    "auth.passwordReset.linkBaseUrl" => auth.password_reset.link_base_url;
    "auth.magicLink.enabled" => auth.magic_link.enabled;
    "auth.magicLink.tokenSeconds" => auth.magic_link.token_seconds in 60..=604_800, when |config| config.auth.magic_link.enabled;
    "auth.magicLink.linkBaseUrl" => auth.magic_link.link_base_url;
    "auth.magicLink.allowSignUp" => auth.magic_link.allow_sign_up;
    "auth.accountDeletion.enabled" => auth.account_deletion.enabled;
    "auth.accountDeletion.graceSeconds" => auth.account_deletion.grace_seconds in 0..=31_536_000;
    "auth.accountDeletion.linkBaseUrl" => auth.account_deletion.link_base_url;

    "auth.passkeys.enabled" => auth.passkeys.enabled;
    "auth.passkeys.rpName" => auth.passkeys.rp_name;
    "auth.passkeys.rpId" => auth.passkeys.rp_id;
    "auth.passkeys.origins" => auth.passkeys.origins;
    "auth.passkeys.primary" => auth.passkeys.primary;
    "auth.passkeys.userVerification" => auth.passkeys.user_verification;
    "auth.passkeys.timeoutMs" => auth.passkeys.timeout_ms in 10_000..=600_000, when |config| config.auth.passkeys.enabled;

    "auth.mfa.enabled" => auth.mfa.enabled;
    "auth.mfa.required" => auth.mfa.required;
    "auth.mfa.issuer" => auth.mfa.issuer;
    "auth.mfa.challengeSeconds" => auth.mfa.challenge_seconds in 60..=900;
    "auth.mfa.maxAttempts" => auth.mfa.max_attempts in 1..=10;
    "auth.mfa.recoveryCodes" => auth.mfa.recovery_codes in 1..=50;
    "auth.mfa.trustDeviceSeconds" => auth.mfa.trust_device_seconds in 0..=15_552_000;
    "auth.mfa.totp.enabled" => auth.mfa.totp.enabled;
    "auth.mfa.totp.algorithm" => auth.mfa.totp.algorithm;
    "auth.mfa.totp.digits" => auth.mfa.totp.digits in 6..=8;
    "auth.mfa.totp.period" => auth.mfa.totp.period in 15..=120;
    "auth.mfa.totp.window" => auth.mfa.totp.window in 0..=1;
    "auth.mfa.emailOtp.enabled" => auth.mfa.email_otp.enabled;
    "auth.mfa.emailOtp.digits" => auth.mfa.email_otp.digits in DIGITS;
    "auth.mfa.emailOtp.seconds" => auth.mfa.email_otp.seconds in 30..=600;
    "auth.mfa.sms.enabled" => auth.mfa.sms.enabled;
    "auth.mfa.sms.digits" => auth.mfa.sms.digits in DIGITS;
    "auth.mfa.sms.seconds" => auth.mfa.sms.seconds in 30..=600;
    "auth.mfa.sms.host" => auth.mfa.sms.host;

    "auth.oauth.postRedirect" => auth.oauth.post_redirect;
    "auth.oauth.allowedRedirectOrigins" => auth.oauth.allowed_redirect_origins;
    "auth.oauth.linking" => auth.oauth.linking;
    "auth.oauth.allowSignUp" => auth.oauth.allow_sign_up;

    "auth.pages.enabled" => auth.pages.enabled;
    "auth.pages.home" => auth.pages.home;
};

/// Reads a setting, if it is set.
pub(super) fn read<T: Readable>(source: &mut SettingsSource, key: &str, into: &mut T) {
    if let Some(value) = T::read(source, key) {
        *into = value;
    }
}

/// Reads all settings of the table.
pub(super) fn read_all(source: &mut SettingsSource, config: &mut AuthConfig) {
    for setting in SETTINGS {
        (setting.read)(source, setting.key, config);
    }
}

/// Reports each number that is out of bounds.
pub(super) fn check_bounds(config: &AuthConfig, mut wrong: impl FnMut(&str, &str)) {
    for setting in SETTINGS {
        let Some(bounds) = &setting.bounds else {
            continue;
        };
        if (bounds.when)(config) && !bounds.range.contains(&(bounds.value)(config)) {
            wrong(
                setting.key,
                &format!(
                    "must be between {} and {}",
                    bounds.range.start(),
                    bounds.range.end()
                ),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_unique_and_defaults_are_within_bounds() {
        let mut keys: Vec<&str> = SETTINGS.iter().map(|setting| setting.key).collect();
        keys.sort_unstable();
        assert!(keys.windows(2).all(|two| two[0] != two[1]), "{keys:?}");
        let mut out = Vec::new();
        check_bounds(&AuthConfig::default(), |key, what| {
            out.push(format!("{key}: {what}"));
        });
        assert_eq!(out, Vec::<String>::new());
    }

    #[test]
    fn values_outside_a_bound_are_reported() {
        for setting in SETTINGS {
            let Some(bounds) = &setting.bounds else {
                continue;
            };
            let outside = [
                bounds.range.start().checked_sub(1),
                bounds.range.end().checked_add(1),
            ];
            for (number, fits) in outside
                .into_iter()
                .flatten()
                .map(|number| (number, false))
                .chain([(*bounds.range.start(), true), (*bounds.range.end(), true)])
            {
                let mut config = AuthConfig::default();
                let switches = [
                    "emailVerification",
                    "passwordReset",
                    "magicLink",
                    "passkeys",
                ];
                for section in switches {
                    let on = serde_json::json!({ "auth": { section: { "enabled": true } } });
                    read_all(&mut SettingsSource::file(&on), &mut config);
                }
                let name = setting.key.rsplit('.').fold(
                    serde_json::json!(number),
                    |inner, name| serde_json::json!({ name: inner }),
                );
                read_all(&mut SettingsSource::file(&name), &mut config);
                let mut out = Vec::new();
                check_bounds(&config, |key, _| out.push(key.to_owned()));
                assert_eq!(
                    out.contains(&setting.key.to_owned()),
                    !fits,
                    "{} = {number}",
                    setting.key
                );
            }
        }
    }
}
