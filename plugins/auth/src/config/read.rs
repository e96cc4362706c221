//! Settings from a file or from the environment: every key in one list.

use serde_json::{Map, Value};

use super::reader::Written;
use super::{ApiCredential, AuthConfig, SameSite, Transport};
use crate::identity::PrimaryField;
use crate::keys::signing::{Algorithm, SigningKey};
use crate::limit::Bucket;
use crate::limit::table::Limit;
use crate::password::BreachOnError;
use crate::secret::SecretText;

impl AuthConfig {
    /// Reads `{ "security": { .. }, "auth": { .. } }`, with keys in camelCase.
    ///
    /// What is wrong is reported when the app starts, with every other mistake.
    #[must_use]
    pub fn from_json(file: &Value) -> Self {
        Self::read(Written::file(file))
    }

    /// Reads the environment: `auth.session.idleSeconds` is `LINCHPIN_AUTH_SESSION_IDLE_SECONDS`. Lists are separated by commas.
    ///
    /// What is wrong is reported when the app starts, with every other mistake.
    #[must_use]
    pub fn from_env() -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
        Self::from_vars(std::env::vars_os().filter_map(text))
    }

    /// [`AuthConfig::from_env`] over given variables.
    #[must_use]
    pub fn from_vars(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        Self { of_environment: true, ..Self::read(Written::environment(variables)) }
    }

    fn read(mut w: Written) -> Self {
        let mut out = Self::default();
        security(&mut w, &mut out);
        let auth = &mut out.auth;
        if let Some(mount) = w.text("auth.mount") {
            auth.mount = mount;
        }
        if let Some(roles) = w.list("auth.roles") {
            auth.roles = roles;
        }
        auth.default_role = w.text("auth.defaultRole");
        if let Some(name) = w.text("auth.appName") {
            auth.app_name = name;
        }
        let kinds = [("email", PrimaryField::Email), ("username", PrimaryField::Username), ("phone", PrimaryField::Phone)];
        w.choice("auth.primaryField", &kinds, &mut auth.primary_field);
        w.flag("auth.password.enabled", &mut auth.password.enabled);
        w.number_into("auth.password.minLength", &mut auth.password.min_length);
        w.number_into("auth.password.maxLength", &mut auth.password.max_length);
        let on_error = [("allow", BreachOnError::Allow), ("refuse", BreachOnError::Refuse)];
        w.choice("auth.password.breachOnError", &on_error, &mut auth.password.breach_on_error);
        for (key, part) in [
            ("auth.password.argon2.m", &mut auth.password.argon2.m),
            ("auth.password.argon2.t", &mut auth.password.argon2.t),
            ("auth.password.argon2.p", &mut auth.password.argon2.p),
        ] {
            if let Some(number) = w.number(key) {
                *part = u32::try_from(number).unwrap_or(u32::MAX);
            }
        }
        let transports = [("both", Transport::Both), ("cookie", Transport::Cookie), ("bearer", Transport::Bearer)];
        w.choice("auth.session.transport", &transports, &mut auth.session.transport);
        auth.session.absolute_seconds = w.number("auth.session.absoluteSeconds");
        w.number_into("auth.session.idleSeconds", &mut auth.session.idle_seconds);
        w.number_into("auth.session.maxPerUser", &mut auth.session.max_per_user);
        w.number_into("auth.session.cacheSeconds", &mut auth.session.cache_seconds);
        w.flag("auth.refreshTokens.enabled", &mut auth.refresh.enabled);
        w.number_into("auth.refreshTokens.accessSeconds", &mut auth.refresh.access_seconds);
        w.number_into("auth.refreshTokens.refreshSeconds", &mut auth.refresh.refresh_seconds);
        w.number_into("auth.refreshTokens.graceSeconds", &mut auth.refresh.grace_seconds);
        w.flag("auth.cookies.secure", &mut auth.cookies.secure);
        let sites = [("lax", SameSite::Lax), ("strict", SameSite::Strict), ("none", SameSite::None)];
        w.choice("auth.cookies.sameSite", &sites, &mut auth.cookies.same_site);
        auth.cookies.domain = w.text("auth.cookies.domain");
        if let Some(path) = w.text("auth.cookies.path") {
            auth.cookies.path = path;
        }
        w.number_into("auth.stepUp.maxAgeSeconds", &mut auth.step_up.max_age_seconds);
        w.number_into("auth.stepUp.accountMaxAgeSeconds", &mut auth.step_up.account_max_age_seconds);
        w.flag("auth.rateLimit.enabled", &mut auth.rate_limit.enabled);
        for bucket in Bucket::ALL {
            let name = bucket.row().name;
            let written = [w.number(&format!("auth.rateLimit.{name}.max")), w.number(&format!("auth.rateLimit.{name}.windowSeconds"))];
            if written != [None, None] {
                let [max, window] = written.map(|number| number.map(|number| u32::try_from(number).unwrap_or(u32::MAX)));
                let usual = bucket.row().limit;
                let limit = Limit { max: max.unwrap_or(usual.max), window_seconds: window.unwrap_or(usual.window_seconds) };
                auth.rate_limit.buckets.insert(name.to_owned(), limit);
            }
        }
        auth.admin_role = w.text("auth.admin.role");
        w.number_into("auth.audit.retentionSeconds", &mut auth.audit_retention_seconds);
        super::flows::read(&mut w, &mut out);
        super::passkeys::read(&mut w, &mut out);
        super::mfa::read(&mut w, &mut out);
        super::oauth::read(&mut w, &mut out);
        super::pages::read(&mut w, &mut out);
        out.problems = w.finish();
        out
    }
}

fn security(w: &mut Written, out: &mut AuthConfig) {
    let security = &mut out.security;
    if let Some(secrets) = w.list("security.signing.secret") {
        security.secrets = secrets.into_iter().map(SecretText::new).collect();
    }
    let algorithms = [("HS256", Algorithm::Hs256), ("EdDSA", Algorithm::EdDsa), ("RS256", Algorithm::Rs256)];
    w.choice("security.signing.algorithm", &algorithms, &mut security.algorithm);
    for key in w.objects("security.signing.keys").unwrap_or_default() {
        match signing_key(&key) {
            Some(key) => security.keys.push(key),
            None => drop(w.wrong::<()>("security.signing.keys", "each is { kid, privateKeyPem } or { kid, publicKeyPem }")),
        }
    }
    security.issuer = w.text("security.signing.issuer");
    security.audience = w.text("security.signing.audience");
    super::data_keys::read(w, security);
    if let Some(trust) = w.trust("security.trustProxy") {
        security.trust_proxy = trust;
    }
    if let Some(origins) = w.list("security.allowedOrigins") {
        security.allowed_origins = origins;
    }
    w.flag("security.csrf.enabled", &mut security.csrf);
    if let Some(paths) = w.list("security.csrf.exemptPaths") {
        security.csrf_exempt = paths;
    }
    for credential in w.objects("security.apiCredentials").unwrap_or_default() {
        match api_credential(&credential) {
            Some(credential) => security.api_credentials.push(credential),
            None => drop(w.wrong::<()>("security.apiCredentials", "each is { id, token, roles }")),
        }
    }
}

fn signing_key(key: &Map<String, Value>) -> Option<SigningKey> {
    let text = |name: &str| key.get(name).and_then(Value::as_str).map(str::to_owned);
    let kid = text("kid")?;
    match (text("privateKeyPem"), text("publicKeyPem"), key.len()) {
        (Some(pem), None, 2) => Some(SigningKey::Private { kid, pem }),
        (None, Some(pem), 2) => Some(SigningKey::Public { kid, pem }),
        _ => None,
    }
}

fn api_credential(written: &Map<String, Value>) -> Option<ApiCredential> {
    let text = |name: &str| written.get(name).and_then(Value::as_str).map(str::to_owned);
    let roles = match written.get("roles") {
        None => Vec::new(),
        Some(roles) => roles.as_array()?.iter().map(|r| r.as_str().map(str::to_owned)).collect::<Option<_>>()?,
    };
    let known = written.keys().all(|key| ["id", "token", "roles"].contains(&key.as_str()));
    known.then_some(())?;
    Some(ApiCredential { id: text("id")?, token: SecretText::new(text("token")?), roles })
}
