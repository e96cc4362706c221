//! Every setting of a file or the environment is read by its name, has its type checked, and
//! changes the configuration.

use linchpin_auth::{Auth, AuthConfig};
use serde_json::{Value as Json, json};

use crate::settings::file;

const OLD: &str = "an-old-secret-of-at-least-32-bytes";
const NEW: &str = "a-new-secret-of-at-least-32-bytes!";

/// Every key of a settings file, with a valid value that differs from the default. Mailers, hooks
/// and checkers have no key: they are set in code.
fn keys_with_values() -> Vec<(String, Json)> {
    let keys = vec![
        ("security.signing.secret", json!([NEW, OLD])),
        ("security.signing.algorithm", json!("EdDSA")),
        (
            "security.signing.keys",
            json!([{ "kid": "a", "publicKeyPem": "pem" }]),
        ),
        ("security.signing.issuer", json!("https://me.test")),
        ("security.signing.audience", json!("me")),
        ("security.dataKeys", json!([{ "kid": "a", "key": "bytes" }])),
        ("security.trustProxy", json!(1)),
        ("security.allowedOrigins", json!(["https://app.test"])),
        ("security.csrf.enabled", json!(false)),
        ("security.csrf.exemptPaths", json!(["/hook"])),
        (
            "security.apiCredentials",
            json!([{ "id": "a", "token": "b", "roles": ["member"] }]),
        ),
        ("auth.publicUrl", json!("https://me.test")),
        ("auth.mount", json!("/a")),
        ("auth.roles", json!(["member"])),
        ("auth.defaultRole", json!("member")),
        ("auth.appName", json!("Acme")),
        ("auth.primaryField", json!("phone")),
        ("auth.concealRegistration", json!(true)),
        ("auth.password.enabled", json!(false)),
        ("auth.password.minLength", json!(9)),
        ("auth.password.maxLength", json!(127)),
        ("auth.password.historyCount", json!(3)),
        ("auth.password.breachOnError", json!("refuse")),
        ("auth.password.argon2.m", json!(65_537)),
        ("auth.password.argon2.t", json!(3)),
        ("auth.password.argon2.p", json!(2)),
        ("auth.session.transport", json!("bearer")),
        ("auth.session.absoluteSeconds", json!(604_801)),
        ("auth.session.idleSeconds", json!(61)),
        ("auth.session.maxPerUser", json!(21)),
        ("auth.session.cacheSeconds", json!(6)),
        (
            "auth.session.onPasswordChange",
            json!("revokeAllAndReissue"),
        ),
        ("auth.refreshTokens.enabled", json!(true)),
        ("auth.refreshTokens.accessSeconds", json!(901)),
        ("auth.refreshTokens.refreshSeconds", json!(2_592_001)),
        ("auth.refreshTokens.graceSeconds", json!(11)),
        ("auth.cookies.secure", json!(false)),
        ("auth.cookies.sameSite", json!("strict")),
        ("auth.cookies.domain", json!("me.test")),
        ("auth.cookies.path", json!("/a")),
        ("auth.emailVerification.enabled", json!(true)),
        ("auth.emailVerification.required", json!(true)),
        ("auth.emailVerification.tokenSeconds", json!(86_401)),
        (
            "auth.emailVerification.linkBaseUrl",
            json!("https://app.test/verify"),
        ),
        ("auth.passwordReset.enabled", json!(true)),
        ("auth.passwordReset.tokenSeconds", json!(1801)),
        (
            "auth.passwordReset.linkBaseUrl",
            json!("https://app.test/reset"),
        ),
        ("auth.magicLink.enabled", json!(true)),
        ("auth.magicLink.tokenSeconds", json!(601)),
        (
            "auth.magicLink.linkBaseUrl",
            json!("https://app.test/enter"),
        ),
        ("auth.magicLink.allowSignUp", json!(true)),
        ("auth.mfa.enabled", json!(true)),
        ("auth.mfa.required", json!(true)),
        ("auth.mfa.issuer", json!("Me")),
        ("auth.mfa.challengeSeconds", json!(301)),
        ("auth.mfa.maxAttempts", json!(6)),
        ("auth.mfa.recoveryCodes", json!(11)),
        ("auth.mfa.trustDeviceSeconds", json!(1)),
        ("auth.mfa.totp.enabled", json!(false)),
        ("auth.mfa.totp.algorithm", json!("SHA512")),
        ("auth.mfa.totp.digits", json!(7)),
        ("auth.mfa.totp.period", json!(31)),
        ("auth.mfa.totp.window", json!(0)),
        ("auth.mfa.emailOtp.enabled", json!(true)),
        ("auth.mfa.emailOtp.digits", json!(7)),
        ("auth.mfa.emailOtp.seconds", json!(301)),
        ("auth.mfa.sms.enabled", json!(true)),
        ("auth.mfa.sms.digits", json!(7)),
        ("auth.mfa.sms.seconds", json!(301)),
        ("auth.mfa.sms.host", json!("app.test")),
        ("auth.passkeys.enabled", json!(true)),
        ("auth.passkeys.rpName", json!("Me")),
        ("auth.passkeys.rpId", json!("me.test")),
        ("auth.passkeys.origins", json!(["https://me.test"])),
        ("auth.passkeys.primary", json!(false)),
        ("auth.passkeys.userVerification", json!("preferred")),
        ("auth.passkeys.timeoutMs", json!(60_001)),
        ("auth.oauth.postRedirect", json!("/a")),
        (
            "auth.oauth.allowedRedirectOrigins",
            json!(["https://app.test"]),
        ),
        ("auth.oauth.linking", json!("verified")),
        ("auth.oauth.allowSignUp", json!(false)),
        ("auth.oauth.github.clientId", json!("an-app")),
        ("auth.oauth.github.clientSecret", json!("a-secret")),
        (
            "auth.oauth.github.redirectUri",
            json!("https://me.test/auth/github/callback"),
        ),
        ("auth.oauth.github.scopes", json!(["read:user"])),
        ("auth.oauth.github.trustEmail", json!(true)),
        ("auth.oauth.microsoft.tenant", json!("common")),
        ("auth.oauth.apple.teamId", json!("team")),
        ("auth.oauth.apple.keyId", json!("key")),
        ("auth.oauth.apple.privateKey", json!("pem")),
        ("auth.oauth.gitlab.baseUrl", json!("https://git.me.test")),
        ("auth.oauth.other.issuer", json!("https://id.me.test")),
        ("auth.oauth.other.name", json!("Other")),
        ("auth.oauth.other.responseMode", json!("form_post")),
        ("auth.stepUp.maxAgeSeconds", json!(301)),
        ("auth.stepUp.accountMaxAgeSeconds", json!(901)),
        ("auth.accountDeletion.enabled", json!(false)),
        ("auth.accountDeletion.graceSeconds", json!(604_801)),
        ("auth.rateLimit.enabled", json!(false)),
        (
            "auth.accountDeletion.linkBaseUrl",
            json!("https://app.test/keep"),
        ),
        ("auth.pages.enabled", json!(true)),
        ("auth.pages.home", json!("/a")),
        ("auth.pages.theme.onAccent", json!("#fff")),
        ("auth.admin.role", json!("member")),
        ("auth.audit.retentionSeconds", json!(31_536_001)),
    ];
    let limits = BUCKETS.iter().flat_map(|bucket| {
        [("max", 7), ("windowSeconds", 61)]
            .map(|(member, n)| (format!("auth.rateLimit.{bucket}.{member}"), json!(n)))
    });
    keys.into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .chain(limits)
        .collect()
}

/// The names of all rate limits.
const BUCKETS: [&str; 45] = [
    "register",
    "login",
    "loginIp",
    "loginSpread",
    "loginIdentifier",
    "loginDevice",
    "passwordLockout",
    "verifyEmail",
    "resetPassword",
    "magicVerify",
    "verifyAndLogin",
    "forgot",
    "forgotIdentifier",
    "resend",
    "resendIdentifier",
    "magicRequest",
    "magicRequestIdentifier",
    "refresh",
    "refreshIp",
    "proof",
    "proofUser",
    "reauth",
    "mfaVerifyUser",
    "mfaVerifyIp",
    "mfaResend",
    "mfaSetup",
    "mfaEnable",
    "mfaEnableUser",
    "smsSend",
    "smsSendUser",
    "smsSendNumber",
    "smsSendIp",
    "passkeyOptions",
    "passkeyLogin",
    "oauthStart",
    "oauthCallback",
    "oauthExchange",
    "changeEmail",
    "changeEmailUser",
    "strangerMail",
    "unprovedMail",
    "link",
    "linkUser",
    "deleteAccount",
    "deleteAccountUser",
];

/// The variable of a key.
fn variable(key: &str) -> String {
    let capital = |c: char| match c {
        '.' => "_".to_owned(),
        c if c.is_ascii_uppercase() => format!("_{c}"),
        c => c.to_ascii_uppercase().to_string(),
    };
    format!("LINCHPIN_{}", key.chars().map(capital).collect::<String>())
}

/// A value in the form of a variable: a list of texts is separated by commas, any other value is
/// JSON.
fn text(value: &Json) -> String {
    let texts = value
        .as_array()
        .and_then(|list| list.iter().map(Json::as_str).collect::<Option<Vec<&str>>>());
    texts
        .map(|texts| texts.join(","))
        .or(value.as_str().map(str::to_owned))
        .unwrap_or_else(|| value.to_string())
}

/// One file with all of these keys.
fn file_with(keys: &[(String, Json)]) -> Json {
    let mut file = json!({});
    for (key, value) in keys {
        let mut at = &mut file;
        for name in key.split('.') {
            at = &mut at[name];
        }
        *at = value.clone();
    }
    file
}

/// All settings of a configuration as text. Secrets are redacted.
fn settings_text(config: &AuthConfig) -> String {
    let (security, auth) = (&config.security, &config.auth);
    let (password, mfa) = (&auth.password, &auth.mfa);
    let sms = (
        mfa.sms.enabled,
        mfa.sms.digits,
        mfa.sms.seconds,
        &mfa.sms.host,
    );
    let hashes = (&password.argon2, &password.breach_on_error);
    let parts: [&dyn std::fmt::Debug; 21] = [
        security,
        &(
            &auth.mount,
            &auth.public_url,
            &auth.roles,
            &auth.default_role,
            &auth.primary_field,
            auth.conceal_registration,
        ),
        &(
            password.enabled,
            password.min_length,
            password.max_length,
            password.history_count,
            hashes,
        ),
        &auth.session,
        &auth.refresh,
        &auth.cookies,
        &auth.email_verification,
        &auth.password_reset,
        &auth.magic_link,
        &auth.passkeys,
        &auth.account_deletion,
        &auth.pages,
        &(
            mfa.enabled,
            mfa.required,
            &mfa.issuer,
            mfa.challenge_seconds,
            mfa.max_attempts,
            mfa.recovery_codes,
        ),
        &(mfa.trust_device_seconds, &mfa.totp, &mfa.email_otp),
        &sms,
        &auth.oauth,
        &auth.step_up,
        &auth.rate_limit,
        &auth.admin_role,
        &auth.audit_retention_seconds,
        &auth.app_name,
    ];
    format!("{parts:?}")
}

/// The errors of a start with this configuration.
async fn start_error(config: AuthConfig) -> String {
    let app = linchpin::Config::new()
        .signing_secret(NEW)
        .port(0)
        .database("memory:");
    match linchpin::App::new(app)
        .plugin(Auth::from_config(config))
        .start()
        .await
    {
        Ok(_) => panic!("these settings must not be valid together"),
        Err(error) => error.to_string(),
    }
}

/// Each key is read from a file and from the environment, and changes the configuration.
#[tokio::test]
async fn every_setting_is_read() {
    let (keys, defaults) = (keys_with_values(), settings_text(&AuthConfig::default()));
    for (key, value) in &keys {
        let read = settings_text(&AuthConfig::from_json(&file(key, value)));
        assert_ne!(read, defaults, "{key} has no effect");
        assert_eq!(
            settings_text(&AuthConfig::from_vars([(variable(key), text(value))])),
            read,
            "{key}"
        );
    }
    let all = AuthConfig::from_json(&file_with(&keys));
    let variables = || keys.iter().map(|(key, value)| (variable(key), text(value)));
    assert_eq!(
        settings_text(&AuthConfig::from_vars(variables())),
        settings_text(&all)
    );
    for start_error in [
        start_error(all).await,
        start_error(AuthConfig::from_vars(variables())).await,
    ] {
        assert!(!start_error.contains("is not a setting"), "{start_error}");
    }
}

/// A value of another type is reported under its key.
#[tokio::test]
async fn every_setting_checks_its_type() {
    let wrong = |(key, value): (String, Json)| match value {
        Json::Bool(_) => (key, json!("perhaps")),
        Json::Number(_) => (key, json!("seven")),
        _ => (key, json!(7.5)),
    };
    let keys: Vec<(String, Json)> = keys_with_values().into_iter().map(wrong).collect();
    let file_errors = start_error(AuthConfig::from_json(&file_with(&keys))).await;
    // A setting of type text accepts any text; an enumeration, a number or a list of objects does
    // not.
    let environment_errors = start_error(AuthConfig::from_vars(
        keys.iter().map(|(key, value)| (variable(key), text(value))),
    ))
    .await;
    for (key, value) in &keys {
        if key == "security.trustProxy" {
            assert!(
                file_errors.contains("security.trustProxy: ")
                    && environment_errors.contains("TRUST_PROXY: "),
                "{file_errors} {environment_errors}"
            );
            continue;
        }
        assert!(
            file_errors.contains(&format!("{key}: must be")),
            "{key} in {file_errors}"
        );
        let name = variable(key);
        assert!(
            value.is_number() || environment_errors.contains(&format!("{name}: must be")),
            "{name} in {environment_errors}"
        );
    }
    for text in [&file_errors, &environment_errors] {
        assert!(!text.contains("is not a setting"), "{text}");
    }
    let misspelt = start_error(AuthConfig::from_json(
        &json!({ "auth": { "session": { "idle": 5 } } }),
    ))
    .await;
    assert!(
        misspelt.contains("auth.session.idle: is not a setting"),
        "{misspelt}"
    );
}
