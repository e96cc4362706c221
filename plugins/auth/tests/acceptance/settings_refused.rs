//! Settings that stop the start: development settings in production, and invalid values.

use linchpin::Environment;
use linchpin_auth::{Auth, AuthConfig};
use serde_json::{Value as Json, json};

use crate::cases;
use crate::server::{GOOD, Store};
use crate::settings::file;

cases! {
    one_store:
        production_refuses_settings_that_disable_a_protection,
        production_without_a_mailer_mails_no_links;
}

async fn production_refuses_settings_that_disable_a_protection(store: Store) {
    let start_error = async |change: fn(&mut AuthConfig)| {
        let started = store
            .try_app_in(Environment::Production, |auth| auth.configure(change))
            .await;
        started
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    };
    let error = start_error(|config| config.auth.cookies.secure = false).await;
    assert!(
        error.contains("security.signing.issuer") && error.contains("auth.cookies.secure"),
        "{error}"
    );
    assert!(
        start_error(|config| config.auth.rate_limit.enabled = false)
            .await
            .contains("auth.rateLimit.enabled: ")
    );
    assert_eq!(
        start_error(|config| config.security.issuer = Some("https://me.test".into())).await,
        ""
    );
    // All settings that disable a protection are reported together.
    let error = start_error(|config| {
        config.security.issuer = Some("https://me.test".into());
        config.security.allowed_origins = vec!["http://app.test".into()];
        config.security.csrf = false;
        config.security.trust_proxy = linchpin_auth::TrustProxy::parse("0.0.0.0/0").unwrap();
        config.auth.admin_role = Some("member".into());
        config.auth.oauth.allowed_redirect_origins = vec!["http://app.test".into()];
    })
    .await;
    for key in [
        "security.allowedOrigins",
        "security.csrf.enabled",
        "security.trustProxy",
        "auth.defaultRole",
    ] {
        assert!(error.contains(&format!("{key}: ")), "{key}: {error}");
    }
    assert!(
        error.contains("auth.oauth.allowedRedirectOrigins: "),
        "{error}"
    );
}

/// Start-up fails if an enabled feature mails links and no mailer is set. Routes of a disabled
/// feature do not exist.
async fn production_without_a_mailer_mails_no_links(store: Store) {
    let start = async |change: &dyn Fn(&mut AuthConfig)| {
        let settings = |config: &mut AuthConfig| {
            config.security.issuer = Some("https://me.test".into());
            change(config);
        };
        store
            .try_app_in(Environment::Production, |auth| auth.configure(settings))
            .await
    };
    let page = || Some("https://me.test/page".to_owned());
    let reset = |config: &mut AuthConfig| config.auth.password_reset.link_base_url = page();
    let deletion = |config: &mut AuthConfig| config.auth.account_deletion.link_base_url = page();
    for (key, change) in [
        ("passwordReset", &reset as &dyn Fn(&mut AuthConfig)),
        ("accountDeletion", &deletion),
    ] {
        let error = start(change)
            .await
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default();
        assert!(
            error.contains(&format!("auth.{key}.linkBaseUrl: ")) && error.contains("auth.mailer"),
            "{key}: {error}"
        );
    }
    let forgot = async |change: &dyn Fn(&mut AuthConfig)| {
        let app = start(change).await.unwrap();
        let [forgot, reset] = [
            ("forgot", json!({ "email": "a@x.test" })),
            ("reset", json!({ "token": "x", "password": GOOD })),
        ];
        let status = app
            .post(&format!("/auth/{}-password", forgot.0), forgot.1)
            .await
            .status;
        assert_eq!(
            app.post(&format!("/auth/{}-password", reset.0), reset.1)
                .await
                .status
                == 404,
            status == 404
        );
        app.stop().await;
        status
    };
    assert_eq!(forgot(&|_| ()).await, 404);
    let reset_disabled = |config: &mut AuthConfig| {
        reset(config);
        config.auth.password_reset.enabled = Some(false);
        // These features mail no links: deletions are immediate, and resets are disabled.
        deletion(config);
        config.auth.account_deletion.grace_seconds = 0;
    };
    assert_eq!(forgot(&reset_disabled).await, 404);
    let mailed = |config: &mut AuthConfig| {
        reset(config);
        deletion(config);
        config.auth.mailer = Some(std::sync::Arc::new(crate::post::Post::default()));
    };
    assert_eq!(forgot(&mailed).await, 200);
}

/// Invalid paths, paths that would match everything, and invalid names are refused.
#[tokio::test]
async fn invalid_paths_and_names_are_refused() {
    let start = async |key: &str, value: Json| {
        let started = Store::memory()
            .try_app(|_| {
                Auth::from_config(AuthConfig::from_json(&file(key, &value)))
                    .roles(["admin", "member"])
            })
            .await;
        started
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    };
    for mount in [
        "", "/", "auth", "/auth/", "/a;b", "/a,b", "/a b", "/a\tb", "/a{b}", "/a?b", "/a#b",
        "/\u{e4}",
    ] {
        let error = start("auth.mount", json!(mount)).await;
        assert!(error.contains("auth.mount: "), "{mount:?}: {error}");
    }
    for path in ["", "hook", "*", "/*", "https://me.test/hook"] {
        let error = start("security.csrf.exemptPaths", json!(["/fine", path])).await;
        assert!(
            error.contains("security.csrf.exemptPaths: ") && error.contains(&format!("`{path}`")),
            "{path:?}: {error}"
        );
    }
    for name in ["", " ", "Acme\r\nBcc: e@evil.test", &"a".repeat(65)] {
        let error = start("auth.appName", json!(name)).await;
        assert!(error.contains("auth.appName: "), "{name:?}: {error}");
    }
    for (key, value) in [
        ("auth.mount", json!("/accounts/v1")),
        ("security.csrf.exemptPaths", json!(["/hook", "/hooks/*"])),
    ] {
        assert_eq!(start(key, value).await, "");
    }
}

/// Numbers at and beyond their bounds, and values that a cookie attribute cannot contain.
#[tokio::test]
async fn settings_enforce_their_documented_limits() {
    let start = async |settings: &Json| {
        let started = Store::memory()
            .try_app(|_| {
                Auth::from_config(AuthConfig::from_json(settings)).roles(["admin", "member"])
            })
            .await;
        started
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    };
    let numbers: [(&str, &[u64], &[u64]); 12] = [
        ("auth.password.minLength", &[0, 7, 65], &[8, 64]),
        ("auth.password.maxLength", &[0, 63, 129], &[64, 128]),
        ("auth.password.historyCount", &[25], &[0, 24]),
        (
            "auth.session.absoluteSeconds",
            &[0, 59, 31_536_001, u64::MAX],
            &[60, 31_536_000],
        ),
        ("auth.session.maxPerUser", &[0, 1001], &[1, 1000]),
        ("auth.session.cacheSeconds", &[31], &[0, 30]),
        ("auth.session.idleSeconds", &[31_536_001], &[0, 60]),
        (
            "auth.refreshTokens.accessSeconds",
            &[0, 29, 86_401],
            &[30, 86_400],
        ),
        (
            "auth.refreshTokens.refreshSeconds",
            &[0, 30, 31_536_001, u64::MAX],
            &[86_400, 31_536_000],
        ),
        ("auth.refreshTokens.graceSeconds", &[61], &[0, 60]),
        (
            "auth.accountDeletion.graceSeconds",
            &[31_536_001, u64::MAX],
            &[0, 31_536_000],
        ),
        (
            "auth.audit.retentionSeconds",
            &[0, 604_799, 315_360_001, u64::MAX],
            &[604_800, 315_360_000],
        ),
    ];
    for (key, beyond, within) in numbers {
        for number in beyond {
            let error = start(&file(key, &json!(number))).await;
            assert!(
                error.contains(&format!("{key}: ")),
                "{key} = {number}: {error}"
            );
        }
        for number in within {
            assert_eq!(
                start(&file(key, &json!(number))).await,
                "",
                "{key} = {number}"
            );
        }
    }
    for (key, value) in [
        ("domain", ""),
        ("domain", "a;b"),
        ("domain", "a\tb"),
        ("path", "app"),
        ("path", "/a;b"),
    ] {
        let key = format!("auth.cookies.{key}");
        let error = start(&file(&key, &json!(value))).await;
        assert!(
            error.contains(&format!("{key}: ")),
            "{key} = {value:?}: {error}"
        );
    }
    let sent_anywhere =
        |secure: bool| json!({ "auth": { "cookies": { "sameSite": "none", "secure": secure } } });
    assert!(
        start(&sent_anywhere(false))
            .await
            .contains("auth.cookies.sameSite: ")
    );
    assert_eq!(start(&sent_anywhere(true)).await, "");
    let no_passwords = json!({ "auth": { "password": { "enabled": false }, "passwordReset": { "enabled": true } } });
    assert!(
        start(&no_passwords)
            .await
            .contains("auth.passwordReset.enabled: ")
    );
}

/// The cheap hash of tests can be set in code only, not by a file or the environment.
#[tokio::test]
async fn the_test_cost_is_accepted_from_code_only() {
    let cost = [("m", "8"), ("t", "1"), ("p", "1")];
    let variables = cost.map(|(name, value)| {
        let name = format!("LINCHPIN_AUTH_PASSWORD_ARGON2_{}", name.to_uppercase());
        (name, value.to_owned())
    });
    let cost = json!({ "m": 8, "t": 1, "p": 1 });
    for config in [
        AuthConfig::from_vars(variables),
        AuthConfig::from_json(&file("auth.password.argon2", &cost)),
    ] {
        let started = Store::memory()
            .try_app(|_| Auth::from_config(config).roles(["admin", "member"]))
            .await;
        let error = started.err().map(|error| error.to_string());
        assert!(
            error
                .as_deref()
                .is_some_and(|error| error.contains("auth.password.argon2: ")),
            "{error:?}"
        );
    }
}
