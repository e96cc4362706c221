//! Checks of the settings. All mistakes are collected, each with its key, before any route is
//! mounted.

use argon2::Params;
use linchpin::{Environment, Error, Problem, Result, SigningSecret};

use super::{AuthConfig, SameSite};
use crate::keys::derive::Ring;
use crate::keys::signing::{Algorithm, Signing};
use crate::limit::Limits;
use crate::oauth::Provider;

/// The checked settings and the values made from them.
pub(crate) struct Checked {
    pub(crate) config: AuthConfig,
    pub(crate) ring: Ring,
    pub(crate) signing: Signing,
    pub(crate) argon2: Params,
    /// `None` if limits are disabled.
    pub(crate) limits: Option<Limits>,
    /// The external providers.
    pub(crate) providers: Vec<Provider>,
    /// Whether the app runs in production, where development features are off.
    pub(crate) production: bool,
}

/// Minimum length of a secret in bytes.
const MIN_SECRET_BYTES: usize = 32;

impl AuthConfig {
    /// Checks the settings. `secrets` are the secrets of the app, used if the settings have none.
    ///
    /// # Errors
    /// All mistakes, each with its key.
    pub(crate) fn check(
        mut self,
        secrets: &[SigningSecret],
        environment: Environment,
    ) -> Result<Checked> {
        let mut problems = std::mem::take(&mut self.problems);
        let production = environment == Environment::Production;
        let mut wrong =
            |key: &str, message: &str| problems.push(Problem::new(key, "invalid", message));
        super::table::check_bounds(&self, &mut wrong);
        super::flows::check(&mut self, environment, &mut wrong);
        super::passkeys::check(&mut self, environment, &mut wrong);
        super::mfa::check(&self, environment, &mut wrong);
        let providers = super::oauth::check(&self, environment, &mut wrong);
        super::pages::check(&mut self, environment, &mut wrong);
        if production {
            super::production::check(&self, &mut wrong);
        }
        let (security, auth) = (&self.security, &self.auth);

        let mut keys: Vec<Vec<u8>> = security
            .secrets
            .iter()
            .map(|s| s.expose().as_bytes().to_vec())
            .collect();
        if keys.is_empty() {
            keys = secrets.iter().map(|s| s.expose().to_vec()).collect();
        }
        if keys.is_empty() {
            wrong("security.signing.secret", "is required");
        }
        for (i, key) in keys.iter().enumerate() {
            if key.len() < MIN_SECRET_BYTES {
                wrong(
                    "security.signing.secret",
                    &format!(
                        "must be at least {MIN_SECRET_BYTES} bytes, has {}",
                        key.len()
                    ),
                );
            }
            if keys[..i].contains(key) {
                wrong(
                    "security.signing.secret",
                    "must not contain the same secret twice",
                );
            }
        }
        for key in &security.keys {
            if key.kid().is_empty()
                || key.kid().len() > 64
                || !key
                    .kid()
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
            {
                wrong(
                    "security.signing.keys",
                    "`kid` must be 1 to 64 letters, digits, dashes or underscores",
                );
            }
        }
        super::data_keys::check(&security.data_keys, &mut wrong);
        let ring = Ring::new(&keys);
        let signing = match (security.algorithm, &ring) {
            (_, None) => None,
            (Algorithm::Hs256, Some(ring)) => {
                if !security.keys.is_empty() {
                    wrong(
                        "security.signing.keys",
                        "must be empty for HS256, which signs with security.signing.secret",
                    );
                }
                Signing::hs256(&keys, ring).ok()
            }
            (algorithm, Some(_)) => Signing::asymmetric(algorithm, &security.keys)
                .map_err(|message| wrong("security.signing.keys", &message))
                .ok(),
        };
        if production && security.issuer.is_none() {
            wrong(
                "security.signing.issuer",
                "is required in production: the issuer of tokens, such as https://app.example.com",
            );
        }
        for origin in &security.allowed_origins {
            if origin == "*" || !is_origin(origin) {
                wrong(
                    "security.allowedOrigins",
                    &format!("`{origin}` is not an origin such as https://app.example.com"),
                );
            }
        }
        for (i, credential) in security.api_credentials.iter().enumerate() {
            let token = credential.token.expose();
            if token.len() < MIN_SECRET_BYTES
                || token.contains('.')
                || !token.bytes().all(|b| b.is_ascii_graphic())
            {
                wrong(
                    "security.apiCredentials",
                    "a token must be at least 32 visible characters without dots",
                );
            }
            if credential.id.is_empty()
                || security.api_credentials[..i]
                    .iter()
                    .any(|o| o.id == credential.id || o.token == credential.token)
            {
                wrong(
                    "security.apiCredentials",
                    "each credential must have its own id and its own token",
                );
            }
        }

        if auth.app_name.trim().is_empty()
            || auth.app_name.chars().count() > 64
            || auth.app_name.chars().any(char::is_control)
        {
            wrong(
                "auth.appName",
                "must have 1 to 64 characters, none of them a control character",
            );
        }
        // The path is part of routes and of cookie attributes.
        if !auth.mount.starts_with('/')
            || auth.mount.len() < 2
            || auth.mount.ends_with('/')
            || auth.mount.contains(['{', '}', '?', '#'])
            || !is_attribute(&auth.mount)
        {
            wrong("auth.mount", "must be a path such as /auth");
        }
        for path in security
            .csrf_exempt
            .iter()
            .filter(|path| !path.starts_with('/') || *path == "/*")
        {
            wrong(
                "security.csrf.exemptPaths",
                &format!(
                    "`{path}` must be a path such as /hook or a prefix such as /hooks/*; to turn off \
                     the check, set security.csrf.enabled to false"
                ),
            );
        }
        if let Some(role) = auth
            .default_role
            .as_ref()
            .filter(|role| !auth.roles.contains(role))
        {
            wrong(
                "auth.defaultRole",
                &format!("`{role}` is not in auth.roles"),
            );
        }
        if let Some(role) = auth
            .admin_role
            .as_ref()
            .filter(|role| !auth.roles.contains(role))
        {
            wrong("auth.admin.role", &format!("`{role}` is not in auth.roles"));
        }
        if auth
            .roles
            .iter()
            .any(|role| role.is_empty() || role.len() > 64)
        {
            wrong("auth.roles", "must have 1 to 64 characters each");
        }
        let password = &auth.password;
        if password.max_length < password.min_length.max(64) || password.max_length > 128 {
            wrong(
                "auth.password.maxLength",
                "must be between 64 and 128, and at least minLength",
            );
        }
        let argon2 = password
            .argon2
            .params()
            .map_err(|message| wrong("auth.password.argon2", &message))
            .ok();
        let session = &auth.session;
        if !(60..=31_536_000).contains(&self.absolute_seconds()) {
            wrong(
                "auth.session.absoluteSeconds",
                "must be between 60 and 31536000",
            );
        }
        if session.idle_seconds > self.absolute_seconds() {
            wrong(
                "auth.session.idleSeconds",
                "must be at most absoluteSeconds",
            );
        }
        let refresh = &auth.refresh;
        if !(refresh.access_seconds..=31_536_000).contains(&refresh.refresh_seconds) {
            wrong(
                "auth.refreshTokens.refreshSeconds",
                "must be between accessSeconds and 31536000",
            );
        }
        let cookies = &auth.cookies;
        if production && !cookies.secure {
            wrong("auth.cookies.secure", "may be false in development only");
        }
        if cookies.same_site == SameSite::None && !cookies.secure {
            wrong("auth.cookies.sameSite", "`none` needs secure cookies");
        }
        if !cookies.path.starts_with('/') || !is_attribute(&cookies.path) {
            wrong("auth.cookies.path", "must be a path");
        }
        if cookies
            .domain
            .as_deref()
            .is_some_and(|domain| !is_domain(domain))
        {
            wrong(
                "auth.cookies.domain",
                "must be a domain such as example.com, without a scheme or a path",
            );
        }
        if production && !auth.rate_limit.enabled {
            wrong("auth.rateLimit.enabled", "may be false in development only");
        }
        let mut limits = Limits::default();
        for (name, limit) in &auth.rate_limit.buckets {
            if let Err(message) = limits.set(name, *limit) {
                wrong(&format!("auth.rateLimit.{name}"), &message);
            }
        }
        let limits = auth.rate_limit.enabled.then_some(limits);
        match (ring, signing, argon2) {
            (Some(ring), Some(signing), Some(argon2)) if problems.is_empty() => {
                let signing = signing
                    .with_issuer_and_audience(security.issuer.clone(), security.audience.clone());
                Ok(Checked {
                    config: self,
                    ring,
                    signing,
                    argon2,
                    limits,
                    providers,
                    production,
                })
            }
            _ => Err(Error::new(
                linchpin::Code::Internal,
                "The configuration of authentication is not valid",
            )
            .with_details(problems)),
        }
    }
}

/// Whether the text is an origin such as `https://app.example.com`, optionally with a port.
pub(super) fn is_origin(text: &str) -> bool {
    url::Url::parse(text).is_ok_and(|url| {
        matches!(url.scheme(), "http" | "https") && url.origin().ascii_serialization() == text
    })
}

/// Whether the text is a host name. Browsers drop a cookie with any other domain.
fn is_domain(text: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty()
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    text.strip_prefix('.').unwrap_or(text).split('.').all(label)
}

/// Whether the text may be the value of a cookie attribute.
fn is_attribute(text: &str) -> bool {
    text.bytes()
        .all(|b| b.is_ascii_graphic() && b != b';' && b != b',')
}
