//! Settings of passkeys.

use linchpin::Environment;
use url::Url;

use super::AuthConfig;

/// Whether the authenticator must verify its user, by a PIN or a fingerprint:
/// `passkeys.userVerification`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UserVerification {
    /// Required: a passkey counts as two factors.
    #[default]
    Required,
    /// Preferred: a passkey that did not verify its user counts as one factor.
    Preferred,
}

impl UserVerification {
    /// The name in the WebAuthn standard.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Required => "required",
            Self::Preferred => "preferred",
        }
    }
}

/// `passkeys`
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PasskeySection {
    /// Whether passkeys are enabled.
    pub enabled: bool,
    /// The name of the site in browsers; default `auth.appName`.
    pub rp_name: Option<String>,
    /// The domain of the passkeys: `example.com` works on all its subdomains. It cannot change
    /// later.
    pub rp_id: String,
    /// Origins whose pages may use passkeys; default `https://` and the domain.
    pub origins: Vec<String>,
    /// Whether a passkey alone signs in.
    pub primary: bool,
    /// Whether the authenticator must verify its user.
    pub user_verification: UserVerification,
    /// Timeout of browsers in milliseconds.
    pub timeout_ms: u64,
}

impl Default for PasskeySection {
    fn default() -> Self {
        Self {
            enabled: false,
            rp_name: None,
            rp_id: String::new(),
            origins: Vec::new(),
            primary: true,
            user_verification: UserVerification::default(),
            timeout_ms: 60_000,
        }
    }
}

/// Checks the settings, and sets the default of `origins`.
pub(super) fn check(
    config: &mut AuthConfig,
    environment: Environment,
    mut wrong: impl FnMut(&str, &str),
) {
    let passkeys = &mut config.auth.passkeys;
    if !passkeys.enabled {
        return;
    }
    let id = passkeys.rp_id.as_str();
    if !is_domain(id) {
        wrong(
            "auth.passkeys.rpId",
            "must be a domain in lower case, such as example.com",
        );
        return;
    }
    if passkeys.origins.is_empty() {
        passkeys.origins = vec![format!("https://{id}")];
    }
    for origin in &passkeys.origins {
        if !is_origin_of(origin, id, environment) {
            wrong(
                "auth.passkeys.origins",
                &format!(
                    "`{origin}` must be `https://` followed by {id} or by one of its subdomains; a port is optional"
                ),
            );
        }
    }
    if passkeys
        .rp_name
        .as_deref()
        .is_some_and(|name| name.is_empty() || name.chars().count() > 64)
    {
        wrong("auth.passkeys.rpName", "must have 1 to 64 characters");
    }
}

/// Whether the text is a domain in the form that browsers use, and not an IP address.
fn is_domain(text: &str) -> bool {
    Url::parse(&format!("https://{text}")).is_ok_and(|url| url.domain() == Some(text))
}

/// Whether browsers offer passkeys of this domain to pages of the origin. They require https,
/// except for `localhost`.
fn is_origin_of(origin: &str, id: &str, environment: Environment) -> bool {
    let Ok(url) = Url::parse(origin) else {
        return false;
    };
    let within = |domain: &str| {
        domain == id
            || domain
                .strip_suffix(id)
                .is_some_and(|rest| rest.ends_with('.'))
    };
    let local = |domain: &str| {
        environment != Environment::Production
            && (domain == "localhost" || domain.ends_with(".localhost"))
    };
    let secure =
        |domain: &str| url.scheme() == "https" || (url.scheme() == "http" && local(domain));
    url.origin().ascii_serialization() == origin
        && url
            .domain()
            .is_some_and(|domain| within(domain) && secure(domain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relying_party_ids_and_origins_are_validated() {
        for (id, good) in [
            ("example.com", true),
            ("localhost", true),
            ("Example.com", false),
            ("", false),
            ("127.0.0.1", false),
            ("[::1]", false),
            ("https://example.com", false),
            ("example.com:8080", false),
            ("example.com/x", false),
            ("a b", false),
            ("user@example.com", false),
        ] {
            assert_eq!(is_domain(id), good, "{id}");
        }
        let accepts = |origin: &str, id: &str| is_origin_of(origin, id, Environment::Production);
        assert!(
            accepts("https://example.com", "example.com")
                && accepts("https://a.example.com:8443", "example.com")
        );
        for origin in [
            "http://example.com",
            "https://badexample.com",
            "https://example.com/",
            "https://example.com.evil.test",
            "x",
        ] {
            assert!(!accepts(origin, "example.com"), "{origin}");
        }
        assert!(!accepts("http://localhost:3000", "localhost"));
        assert!(is_origin_of(
            "http://localhost:3000",
            "localhost",
            Environment::Development
        ));
    }

    #[test]
    fn all_problems_of_the_passkey_settings_are_reported() {
        let problems = |json: serde_json::Value| {
            let mut config = AuthConfig::from_json(&json);
            let mut out: Vec<String> = config
                .problems
                .iter()
                .map(|problem| problem.path.clone())
                .collect();
            check(&mut config, Environment::Development, |key, _| {
                out.push(key.to_owned());
            });
            (out, config.auth.passkeys.origins)
        };
        let (wrong, origins) = problems(
            serde_json::json!({ "auth": { "passkeys": { "enabled": true, "rpId": "app.test" } } }),
        );
        assert_eq!(
            (wrong, origins),
            (vec![], vec!["https://app.test".to_owned()])
        );
        let (wrong, _) = problems(serde_json::json!({ "auth": { "passkeys": {
            "enabled": true, "rpId": "app.test", "rpName": "", "origins": ["https://evil.test"], "userVerification": "maybe",
        } } }));
        for key in ["origins", "userVerification", "rpName"] {
            assert!(
                wrong.contains(&format!("auth.passkeys.{key}")),
                "{key} in {wrong:?}"
            );
        }
        assert_eq!(
            problems(serde_json::json!({ "auth": { "passkeys": { "enabled": true } } })).0,
            ["auth.passkeys.rpId"]
        );
    }
}
