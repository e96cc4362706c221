//! All mistakes are reported together, and no secret is printed.

use super::*;

const GOOD: &str = "0123456789abcdef0123456789abcdef";

fn vars(list: &[(&str, &str)]) -> Result<Config> {
    Config::from_vars(list.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())))
        .and_then(checked)
}

fn checked(config: Config) -> Result<Config> {
    let stores = Stores::new(&config, &[]);
    config.checked(&stores).map(|(config, _)| config)
}

#[test]
fn reports_every_mistake_at_once_and_no_secret() {
    let wrong = [
        ("LINCHPIN_PORT", "70000"),
        ("LINCHPIN_PROT", "1"),
        ("LINCHPIN_SIGNING_SECRET", "hush-hush"),
        ("LINCHPIN_DATABASE_URL", "mysql://u:pw@h/db"),
        ("LINCHPIN_POSTGRES_READERS", "0"),
        ("LINCHPIN_POSTGRES_SCANS", "no"),
        ("LINCHPIN_DOCS", "maybe"),
        (
            "LINCHPIN_CORS_ORIGINS",
            "https://good.example, https://bad.example/path",
        ),
        ("LINCHPIN_MAX_CONNECTIONS", "0"),
        ("LINCHPIN_CONNECTIONS_PER_ADDRESS", "many"),
        ("LINCHPIN_BODIES_MIB", "0"),
        ("LINCHPIN_LOG", "infoo=,x"),
        ("OTHER", "ignored"),
    ];
    let error = vars(&wrong)
        .err()
        .map(|e| e.to_string())
        .unwrap_or_default();
    for name in [
        "LINCHPIN_PORT",
        "LINCHPIN_PROT",
        "LINCHPIN_SIGNING_SECRET",
        "LINCHPIN_DATABASE_URL",
        "LINCHPIN_POSTGRES_READERS",
        "LINCHPIN_POSTGRES_SCANS",
        "LINCHPIN_DOCS",
        "LINCHPIN_CORS_ORIGINS",
        "LINCHPIN_MAX_CONNECTIONS",
        "LINCHPIN_CONNECTIONS_PER_ADDRESS",
        "LINCHPIN_BODIES_MIB",
        "LINCHPIN_LOG",
    ] {
        assert!(error.contains(name), "{name} in {error}");
    }
    assert!(error.contains("did you mean `LINCHPIN_PORT`?"), "{error}");
    assert!(error.contains("such as `https://bad.example`"), "{error}");
    assert!(
        !error.contains("hush-hush") && !error.contains("pw"),
        "{error}"
    );
}

#[test]
fn a_log_filter_needs_a_default_level() {
    for good in [
        "info",
        "INFO",
        "info,linchpin=debug",
        "off,my_app[call{id=1}]=debug",
    ] {
        assert!(vars(&[("LINCHPIN_LOG", good)]).is_ok(), "{good}");
    }
    for (bad, expected) in [
        (
            "infoo",
            "`infoo` does not end with a level (off, error, warn, info, debug, trace); did you mean `info`?",
        ),
        ("infoo=,x", "`infoo=` does not end with a level"),
        ("info,linchpin", "`linchpin` does not end with a level"),
        ("info,", "`` does not end with a level"),
        ("=debug", "has no module before `=`"),
        (
            "info,linchpin=loud",
            "`linchpin=loud` does not end with a level",
        ),
        ("", "does not end with a level"),
    ] {
        let error = vars(&[("LINCHPIN_LOG", bad)])
            .err()
            .map(|e| e.to_string())
            .unwrap_or_default();
        assert!(
            error.contains("LINCHPIN_LOG") && error.contains(expected),
            "{bad}: {error}"
        );
    }
}

#[test]
fn an_unknown_variable_is_reported_with_the_plugin_variable_it_resembles() {
    let names = [
        "AUTH_SESSION_IDLE_SECONDS",
        "ATUH_SESSION_IDLE_SECONDS",
        "SECURTY_CSRF",
        "MAIL_FROM",
        "DOKS",
    ];
    let mut config =
        Config::from_vars(names.map(|name| (format!("LINCHPIN_{name}"), "1".to_owned())))
            .expect("a configuration");
    config.leave(&["LINCHPIN_AUTH_", "LINCHPIN_SECURITY_"]);
    let error = checked(config).err();
    let messages: Vec<String> = error
        .iter()
        .flat_map(crate::Error::details)
        .map(|p| format!("{} {}", p.path, p.message))
        .collect();
    let nothing = "is not a known variable of this app";
    assert_eq!(
        messages,
        [
            format!(
                "LINCHPIN_ATUH_SESSION_IDLE_SECONDS {nothing}; did you mean `LINCHPIN_AUTH_SESSION_IDLE_SECONDS`?"
            ),
            format!("LINCHPIN_SECURTY_CSRF {nothing}; did you mean `LINCHPIN_SECURITY_CSRF`?"),
            format!(
                "LINCHPIN_MAIL_FROM {nothing}; a plugin reads its variables only if it was created with `from_env`, as `Auth::from_env()`"
            ),
            format!("LINCHPIN_DOKS {nothing}; did you mean `LINCHPIN_DOCS`?"),
        ]
    );
}

#[test]
fn a_missing_secret_in_production_is_reported_with_all_other_mistakes() {
    let error = vars(&[
        ("LINCHPIN_ENVIRONMENT", "production"),
        ("LINCHPIN_PORT", "x"),
    ])
    .err();
    let paths: Vec<_> = error
        .iter()
        .flat_map(crate::Error::details)
        .map(|p| p.path.clone())
        .collect();
    assert_eq!(paths, ["LINCHPIN_PORT", "security.signing.secret"]);
    let valid = vars(&[
        ("LINCHPIN_ENVIRONMENT", "production"),
        ("LINCHPIN_SIGNING_SECRET", GOOD),
    ])
    .ok();
    assert!(valid.is_some_and(|c| !c.docs_on() && c.host.is_unspecified()));
}

#[test]
fn a_placeholder_secret_is_refused_in_production() {
    let secret = (
        "LINCHPIN_SIGNING_SECRET",
        "change-me-change-me-change-me-change-me",
    );
    let error = vars(&[("LINCHPIN_ENVIRONMENT", "production"), secret])
        .err()
        .map(|e| e.to_string())
        .unwrap_or_default();
    assert!(
        error.contains("security.signing.secret") && !error.contains("change-me"),
        "{error}"
    );
    assert!(vars(&[secret]).is_ok());
}

#[test]
fn a_short_secret_is_reported_as_one_mistake() {
    let error = vars(&[
        ("LINCHPIN_ENVIRONMENT", "production"),
        ("LINCHPIN_SIGNING_SECRET", "short"),
    ])
    .err();
    assert_eq!(error.map(|e| e.details().len()), Some(1));
}

#[test]
fn a_postgres_url_and_its_settings_are_read() {
    let config = vars(&[
        (
            "LINCHPIN_DATABASE_URL",
            "postgresql://u:hush@h/db?sslmode=require",
        ),
        ("LINCHPIN_POSTGRES_WRITERS", "3"),
        ("LINCHPIN_SIGNING_SECRET", GOOD),
    ]);
    let config = config.expect("a valid configuration");
    assert!(
        config
            .database
            .expose()
            .starts_with("postgresql://u:hush@h")
    );
    assert_eq!(config.postgres.writers, Some(3));
    assert!(!format!("{config:?}").contains("hush"));
}

#[test]
fn the_folder_of_a_database_is_not_created() {
    let temporary = tempfile::tempdir().unwrap();
    let (folder, file) = (
        temporary.path().join("data"),
        temporary.path().join("data").join("app.db"),
    );
    let url = format!("sqlite:{}", file.display());
    let paths = |list: &[(&str, &str)]| {
        let error = vars(list).err();
        error
            .iter()
            .flat_map(crate::Error::details)
            .map(|p| p.path.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        paths(&[("LINCHPIN_DATABASE_URL", &url)]),
        ["stores.default"]
    );
    assert_eq!(
        paths(&[
            ("LINCHPIN_DATABASE_URL", &url),
            ("LINCHPIN_SIGNING_SECRET", GOOD)
        ]),
        ["stores.default"]
    );
    let production = [
        ("LINCHPIN_DATABASE_URL", url.as_str()),
        ("LINCHPIN_ENVIRONMENT", "production"),
    ];
    assert_eq!(
        paths(&production),
        ["stores.default", "security.signing.secret"]
    );
    assert!(!folder.exists());
    std::fs::create_dir(&folder).unwrap();
    assert!(vars(&[("LINCHPIN_DATABASE_URL", &url)]).is_ok());
    assert!(
        folder
            .join(".linchpin")
            .join("development-secret")
            .is_file()
    );
}

#[test]
fn secrets_are_never_printed() {
    let config = Config::new().signing_secret(GOOD);
    assert!(!format!("{config:?}").contains(GOOD));
}
