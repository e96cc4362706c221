//! Settings that start-up checks, rotated secrets, and hooks that refuse registration.

use linchpin::{BoxFuture, Plugin};
use linchpin_auth::{
    Auth, AuthConfig, AuthHooks, HookCx, HookError, HookResult, SecretText, SignIn, SignUp,
    TrustProxy,
};
use serde_json::{Value as Json, json};

use crate::cases;
use crate::server::{GOOD, Store};

cases! {
    every_store: secrets_can_be_rotated, hooks_may_refuse_registration;
    one_store:
        every_route_is_documented, settings_of_second_factors_are_checked,
        settings_of_second_factors_are_read;
}

const OLD: &str = "an-old-secret-of-at-least-32-bytes";
const NEW: &str = "a-new-secret-of-at-least-32-bytes!";

async fn secrets_can_be_rotated(store: Store) {
    let secrets = |list: &'static [&str]| {
        move |auth: Auth| {
            auth.configure(|config| {
                config.security.secrets = list.iter().map(|s| SecretText::new(*s)).collect();
            })
        }
    };
    let app = store.app_with(secrets(&[OLD])).await;
    let ada = app.register("ada@example.test").await;
    app.stop().await;
    let app = store.app_with(secrets(&[NEW, OLD])).await;
    let kept = app.me(&ada.token).await.status;
    // A store in memory ends with the first app; a file still contains the session.
    assert_eq!(kept, if store.keeps() { 200 } else { 401 });
    app.stop().await;
    let app = store.app_with(secrets(&[NEW])).await;
    app.me(&ada.token).await.refused(401, "unauthorized");
    app.stop().await;

    let file = json!({
        "security": { "signing": { "secret": "31 bytes are not quite enough!!" } },
        "auth": { "roles": ["member"], "defaultRole": "owner", "session": { "idle": 5 } },
    });
    let error = match store
        .try_app(|_| Auth::from_config(AuthConfig::from_json(&file)))
        .await
    {
        Ok(_) => panic!("the app started"),
        Err(error) => error.to_string(),
    };
    for key in [
        "security.signing.secret",
        "auth.defaultRole",
        "auth.session.idle",
    ] {
        assert!(error.contains(key), "{key} in {error}");
    }
    assert!(!error.contains("31 bytes are"), "{error}");
}

struct Refusing;

impl AuthHooks for Refusing {
    fn pre_register<'a>(&'a self, _: &'a HookCx, input: &'a SignUp) -> BoxFuture<'a, HookResult> {
        Box::pin(async {
            match input.identifier.as_str() {
                "blocked@example.test" => {
                    Err(HookError::new("not you").status(403).code("blocked"))
                }
                "panic@example.test" => panic!("a hook of tests"),
                "no@example.test" => Err(HookError::new("no")),
                _ => Ok(()),
            }
        })
    }

    fn post_register<'a>(&'a self, _: &'a HookCx, _: &'a SignUp) -> BoxFuture<'a, HookResult> {
        Box::pin(async { panic!("a hook of tests") })
    }

    fn pre_login<'a>(&'a self, _: &'a HookCx, _: &'a SignIn) -> BoxFuture<'a, HookResult> {
        Box::pin(async { Err(std::io::Error::other("no").into()) })
    }
}

async fn hooks_may_refuse_registration(store: Store) {
    let app = store.app_with(|auth| auth.hooks(Refusing)).await;
    let register = |email: &str| {
        app.post(
            "/auth/register",
            json!({ "email": email, "password": GOOD }),
        )
    };
    let refused = register("no@example.test").await;
    refused.refused(400, "hook_rejected");
    assert_eq!(refused.text("error"), "no");
    register("blocked@example.test")
        .await
        .refused(403, "blocked");
    // The response does not contain the text of a panic.
    let panicked = app
        .raw_any(
            "/auth/register",
            json!({ "email": "panic@example.test", "password": GOOD }),
        )
        .await;
    panicked.refused(500, "internal");
    assert!(
        !String::from_utf8_lossy(&panicked.body).contains("tests")
            && panicked.headers.get("set-cookie").is_none(),
        "{panicked:?}"
    );
    assert_eq!(
        register("ada@example.test").await.status,
        201,
        "the panic of a post hook changes nothing"
    );
    let login = app
        .post(
            "/auth/login",
            json!({ "email": "ada@example.test", "password": GOOD }),
        )
        .await;
    login.refused(400, "hook_rejected");
    app.stop().await;
    // The refused sign-ups created no account.
    let app = store.app().await;
    for email in [
        "no@example.test",
        "blocked@example.test",
        "panic@example.test",
    ] {
        assert_eq!(
            app.post(
                "/auth/register",
                json!({ "email": email, "password": GOOD })
            )
            .await
            .status,
            201,
            "{email}"
        );
    }
}

/// The document lists these routes, with their security and a success response. It contains no
/// route `/auth/users` and no schema `User`.
async fn every_route_is_documented(store: Store) {
    let app = store.app_with(Auth::refresh_tokens).await;
    let document = app.raw("GET", "/openapi.json", &[], "").await.json();
    for (path, method, public) in [
        ("/auth/register", "post", true),
        ("/auth/login", "post", true),
        ("/auth/logout", "post", true),
        ("/auth/me", "get", false),
        ("/auth/me", "patch", false),
        ("/auth/sessions", "get", false),
        ("/auth/sessions", "delete", false),
        ("/auth/sessions/{sessionId}", "delete", false),
        ("/auth/sessions/revoke-others", "post", false),
        ("/auth/refresh", "post", true),
    ] {
        let operation = &document["paths"][path][method];
        assert_eq!(
            operation["security"] == json!([]),
            public,
            "{method} {path}: {operation}"
        );
        assert!(
            operation["responses"]["200"].is_object() || operation["responses"]["201"].is_object(),
            "{operation}"
        );
    }
    assert!(
        document["paths"].get("/auth/users").is_none()
            && document["components"]["schemas"].get("User").is_none()
    );
}

/// A settings file with one value.
pub fn file(key: &str, value: &Json) -> Json {
    key.rsplit('.')
        .fold(value.clone(), |inner, name| json!({ name: inner }))
}

/// The app and the plugin read one environment. Each reports the mistakes in its own variables.
#[tokio::test]
async fn app_and_plugin_share_one_environment() {
    // Without `Auth::from_env`, the variables of the plugin are unknown.
    assert!(
        Auth::new().variables().is_empty()
            && Auth::from_env().variables().contains(&"LINCHPIN_AUTH_")
    );
    let start = async |name: &str, value: &str| {
        let variables = [
            ("LINCHPIN_PORT", "0"),
            ("LINCHPIN_DATABASE_URL", "memory:"),
            ("LINCHPIN_SIGNING_SECRET", NEW),
            (name, value),
        ];
        let owned = || {
            variables
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        };
        let auth = Auth::from_config(AuthConfig::from_vars(owned()));
        linchpin::App::new(linchpin::Config::from_vars(owned()).unwrap())
            .plugin(auth)
            .start()
            .await
    };
    let running = start("LINCHPIN_AUTH_SESSION_IDLE_SECONDS", "60")
        .await
        .unwrap();
    running.stop().await.unwrap();
    for (name, value) in [
        ("LINCHPIN_AUTH_SESSION_IDLE", "60"),
        ("LINCHPIN_SECURITY_TRUST_PROXY", "everybody"),
        ("LINCHPIN_AUHT_MOUNT", "/a"),
    ] {
        let error = start(name, value)
            .await
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default();
        assert!(
            error.contains(name) || error.contains("security.trustProxy"),
            "{name}: {error}"
        );
    }
}

async fn settings_of_second_factors_are_checked(store: Store) {
    let wrong = store.try_app(|auth| {
        auth.configure(|config| {
            let auth = &mut config.auth;
            auth.mfa.required = true;
            auth.mfa.totp.digits = 5;
            auth.mfa.totp.window = 2;
            auth.mfa.totp.period = 1;
            auth.mfa.email_otp.seconds = 601;
            auth.mfa.sms.digits = 11;
            auth.mfa.max_attempts = 0;
            auth.mfa.recovery_codes = 0;
            auth.mfa.challenge_seconds = 10;
            auth.mfa.trust_device_seconds = 1 << 40;
            auth.step_up.max_age_seconds = 0;
            auth.step_up.account_max_age_seconds = 1 << 40;
        })
    });
    let text = format!("{:?}", wrong.await.err().unwrap());
    for key in [
        "auth.mfa.required",
        "auth.mfa.totp.digits",
        "auth.mfa.totp.window",
        "auth.mfa.totp.period",
        "auth.mfa.emailOtp.seconds",
        "auth.mfa.sms.digits",
        "auth.mfa.maxAttempts",
        "auth.mfa.recoveryCodes",
        "auth.mfa.challengeSeconds",
        "auth.mfa.trustDeviceSeconds",
        "auth.stepUp.maxAgeSeconds",
        "auth.stepUp.accountMaxAgeSeconds",
    ] {
        assert!(text.contains(key), "{key} in {text}");
    }
    let wrong = store.try_app(|auth| {
        auth.configure(|config| {
            let mfa = &mut config.auth.mfa;
            (mfa.enabled, mfa.required, mfa.totp.enabled, mfa.sms.enabled) =
                (true, true, false, true);
            (mfa.issuer, mfa.sms.host) = (Some("a:b".into()), Some("https://x.test/".into()));
        })
    });
    let text = format!("{:?}", wrong.await.err().unwrap());
    for key in [
        "auth.mfa.required",
        "auth.mfa.issuer",
        "auth.mfa.sms.host",
        "auth.mfa.sms.provider",
    ] {
        assert!(text.contains(key), "{key} in {text}");
    }
}

async fn settings_of_second_factors_are_read(store: Store) {
    let file = serde_json::json!({ "auth": { "mfa": {
        "enabled": true, "required": true, "issuer": "Acme", "challengeSeconds": 120, "maxAttempts": 3, "recoveryCodes": 8,
        "trustDeviceSeconds": 3600, "totp": { "enabled": true, "algorithm": "SHA256", "digits": 8, "period": 60, "window": 0 },
        "emailOtp": { "enabled": true, "digits": 8, "seconds": 60 }, "sms": { "enabled": false, "digits": 7, "seconds": 90, "host": "x.test" }
    }, "stepUp": { "maxAgeSeconds": 60, "accountMaxAgeSeconds": 120 } } });
    let read = linchpin_auth::AuthConfig::from_json(&file);
    let mfa = &read.auth.mfa;
    assert!(
        mfa.enabled
            && mfa.required
            && mfa.issuer.as_deref() == Some("Acme")
            && mfa.email_otp.enabled
    );
    assert_eq!(
        (
            mfa.challenge_seconds,
            mfa.max_attempts,
            mfa.recovery_codes,
            mfa.trust_device_seconds
        ),
        (120, 3, 8, 3600)
    );
    assert_eq!(
        (
            mfa.totp.algorithm,
            mfa.totp.digits,
            mfa.totp.period,
            mfa.totp.window
        ),
        (linchpin_auth::TotpAlgorithm::Sha256, 8, 60, 0)
    );
    assert_eq!(
        (
            mfa.email_otp.digits,
            mfa.email_otp.seconds,
            mfa.sms.digits,
            mfa.sms.seconds
        ),
        (8, 60, 7, 90)
    );
    assert_eq!(
        (read.auth.step_up.max_age_seconds, mfa.sms.host.as_deref()),
        (60, Some("x.test"))
    );
    let variables = [
        ("LINCHPIN_AUTH_MFA_ENABLED", "true"),
        ("LINCHPIN_AUTH_MFA_EMAIL_OTP_ENABLED", "true"),
    ];
    let read =
        linchpin_auth::AuthConfig::from_vars(variables.map(|(k, v)| (k.to_owned(), v.to_owned())));
    assert!(read.auth.mfa.enabled && read.auth.mfa.email_otp.enabled);
    // A misspelt key is reported at start-up.
    let file = serde_json::json!({ "auth": { "mfa": { "enable": true } } });
    let wrong = store
        .try_app(|_| linchpin_auth::Auth::from_config(linchpin_auth::AuthConfig::from_json(&file)))
        .await;
    assert!(format!("{:?}", wrong.err().unwrap()).contains("auth.mfa.enable"));
}

/// `security.trustProxy` is `false`, a number or a list, or one of them as text.
#[tokio::test]
async fn trust_proxy_accepts_every_form() {
    let read = |value: &Json| AuthConfig::from_json(&file("security.trustProxy", value));
    let networks = TrustProxy::parse("10.0.0.0/8, 2001:db8::/32").unwrap();
    for (value, trust) in [
        (json!(false), TrustProxy::Nobody),
        (json!("false"), TrustProxy::Nobody),
        (json!(1), TrustProxy::Hops(1)),
        (json!(10), TrustProxy::Hops(10)),
        (json!("2"), TrustProxy::Hops(2)),
        (json!(["10.0.0.0/8", "2001:db8::/32"]), networks.clone()),
        (json!("10.0.0.0/8,2001:db8::/32"), networks),
    ] {
        assert_eq!(read(&value).security.trust_proxy, trust, "{value}");
    }
    for value in [
        json!(true),
        json!(0),
        json!(11),
        json!(-1),
        json!(1.5),
        json!("true"),
        json!(["x"]),
        json!(["1"]),
        json!([1]),
        json!({}),
    ] {
        let error = Store::memory()
            .try_app(|_| Auth::from_config(read(&value)))
            .await
            .err()
            .map(|error| error.to_string());
        assert!(
            error
                .as_ref()
                .is_some_and(|error| error.contains("security.trustProxy: ")),
            "{value}: {error:?}"
        );
    }
}
