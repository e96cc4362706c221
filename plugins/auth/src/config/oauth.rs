//! `oauth`: external providers, and the rules for their accounts and redirects.

use std::collections::BTreeMap;

use linchpin::Environment;

use super::reader::SettingsSource;
use super::{AuthConfig, AuthSection, table};
use crate::oauth::Provider;
#[cfg(feature = "providers")]
use crate::oauth::preset;
use crate::return_target::ReturnTarget;
use crate::secret::SecretText;

/// `oauth`
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OauthSection {
    /// `oauth.<id>`: the providers, by the id that their paths contain. A preset id (`google`,
    /// `github` and so on) needs a client id and mostly a secret; any other id is an OpenID Connect
    /// issuer.
    pub providers: BTreeMap<String, ProviderSection>,
    /// `oauth.postRedirect`: the path or address after sign-in if the request names none.
    pub post_redirect: String,
    /// `oauth.allowedRedirectOrigins`: allowed origins of return addresses in addition to this
    /// app.
    pub allowed_redirect_origins: Vec<String>,
    /// `oauth.linking`: the rule for a provider that reports the address of an existing account.
    pub linking: Linking,
    /// `oauth.allowSignUp`: whether a sign-in without an account creates one.
    pub allow_sign_up: bool,
}

impl Default for OauthSection {
    fn default() -> Self {
        Self {
            providers: BTreeMap::new(),
            post_redirect: "/".to_owned(),
            allowed_redirect_origins: Vec::new(),
            linking: Linking::default(),
            allow_sign_up: true,
        }
    }
}

/// The rule for a provider that reports the address of an existing account: `oauth.linking`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Linking {
    /// The provider is not linked, and the sign-in is refused. The user can sign in to the account
    /// in another way and link the provider there.
    #[default]
    Never,
    /// The provider is linked to the account if both sides verified the address and the provider
    /// has `trustEmail`.
    Verified,
}

/// The form in which the provider returns the result: `responseMode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResponseMode {
    /// In the query of a redirect.
    #[default]
    Query,
    /// In a form that the browser posts.
    FormPost,
}

/// `oauth.<id>`
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ProviderSection {
    /// `clientId`
    pub client_id: String,
    /// `clientSecret`
    pub client_secret: Option<SecretText>,
    /// `redirectUri`: the address of the callback; default `auth.publicUrl` and the callback's
    /// path.
    pub redirect_uri: Option<String>,
    /// `scopes`, which replace those of the preset.
    pub scopes: Option<Vec<String>>,
    /// `trustEmail`: whether an address that the provider verified counts as verified here.
    pub trust_email: Option<bool>,
    /// `name`: the name of the provider on pages.
    pub name: Option<String>,
    /// `issuer`: for a provider without a preset.
    pub issuer: Option<String>,
    /// `responseMode`: for a provider without a preset.
    pub response_mode: Option<ResponseMode>,
    /// `tenant`: for `microsoft`.
    pub tenant: Option<String>,
    /// `teamId`: for `apple`.
    pub team_id: Option<String>,
    /// `keyId`: for `apple`.
    pub key_id: Option<String>,
    /// `privateKey`: for `apple`, the downloaded key in PEM.
    pub private_key: Option<SecretText>,
    /// `baseUrl`: for `gitlab`.
    pub base_url: Option<String>,
    /// The address of a test server that replaces the servers of a preset.
    #[cfg(feature = "test-util")]
    pub stand_in: Option<String>,
}

impl ProviderSection {
    /// A provider with the app's client id at that provider.
    pub fn new(client_id: impl Into<String>) -> Self {
        Self {
            client_id: client_id.into(),
            ..Self::default()
        }
    }

    /// Sets the client secret.
    #[must_use]
    pub fn secret(self, secret: impl Into<SecretText>) -> Self {
        Self {
            client_secret: Some(secret.into()),
            ..self
        }
    }

    /// Sets the OpenID Connect issuer.
    #[must_use]
    pub fn issuer(self, issuer: impl Into<String>) -> Self {
        Self {
            issuer: Some(issuer.into()),
            ..self
        }
    }
}

/// The settings of a provider.
const KEYS: [&str; 13] = [
    "clientId",
    "clientSecret",
    "redirectUri",
    "scopes",
    "trustEmail",
    "name",
    "issuer",
    "responseMode",
    "tenant",
    "teamId",
    "keyId",
    "privateKey",
    "baseUrl",
];

/// Reads the providers.
pub(super) fn read(source: &mut SettingsSource, auth: &mut AuthSection) {
    for id in source.below("auth.oauth", &KEYS) {
        let mut provider = ProviderSection::default();
        let key = |name: &str| format!("auth.oauth.{id}.{name}");
        table::read(source, &key("clientId"), &mut provider.client_id);
        table::read(source, &key("clientSecret"), &mut provider.client_secret);
        table::read(source, &key("redirectUri"), &mut provider.redirect_uri);
        table::read(source, &key("scopes"), &mut provider.scopes);
        table::read(source, &key("trustEmail"), &mut provider.trust_email);
        table::read(source, &key("name"), &mut provider.name);
        table::read(source, &key("issuer"), &mut provider.issuer);
        table::read(source, &key("responseMode"), &mut provider.response_mode);
        table::read(source, &key("tenant"), &mut provider.tenant);
        table::read(source, &key("teamId"), &mut provider.team_id);
        table::read(source, &key("keyId"), &mut provider.key_id);
        table::read(source, &key("privateKey"), &mut provider.private_key);
        table::read(source, &key("baseUrl"), &mut provider.base_url);
        auth.oauth.providers.insert(id, provider);
    }
}

/// Checks the providers and resolves their presets.
pub(super) fn check(
    config: &AuthConfig,
    environment: Environment,
    mut wrong: impl FnMut(&str, &str),
) -> Vec<Provider> {
    let (auth, production) = (&config.auth, environment == Environment::Production);
    let oauth = &auth.oauth;
    if auth
        .public_url
        .as_deref()
        .is_some_and(|url| !is_base(url, production))
    {
        wrong(
            "auth.publicUrl",
            "must be the https address of the app for browsers, without a query",
        );
    }
    for origin in &oauth.allowed_redirect_origins {
        if !super::check::is_origin(origin) {
            wrong(
                "auth.oauth.allowedRedirectOrigins",
                &format!("`{origin}` is not an origin such as https://app.example.com"),
            );
        }
    }
    if ReturnTarget::parse(&oauth.post_redirect, &oauth.allowed_redirect_origins).is_err() {
        wrong(
            "auth.oauth.postRedirect",
            "must be a path, or an address of one of auth.oauth.allowedRedirectOrigins",
        );
    }
    providers(config, production, wrong)
}

/// Resolves the presets of the providers.
#[cfg(feature = "providers")]
fn providers(
    config: &AuthConfig,
    production: bool,
    mut wrong: impl FnMut(&str, &str),
) -> Vec<Provider> {
    let auth = &config.auth;
    let mut out = Vec::new();
    for (id, section) in &auth.oauth.providers {
        let callback = auth
            .public_url
            .as_deref()
            .map(|base| format!("{}{}/{id}/callback", base.trim_end_matches('/'), auth.mount));
        let report = |key: &str, what: &str| {
            wrong(
                &format!(
                    "auth.oauth.{id}{}{key}",
                    if key.is_empty() { "" } else { "." }
                ),
                what,
            );
        };
        out.extend(preset::resolve(id, section, callback, production, report));
    }
    out
}

/// Without the feature there are no providers.
#[cfg(not(feature = "providers"))]
fn providers(config: &AuthConfig, _: bool, wrong: impl FnMut(&str, &str)) -> Vec<Provider> {
    refuse_providers(config, wrong);
    Vec::new()
}

/// Reports each provider in an app that is built without the feature.
#[cfg(any(test, not(feature = "providers")))]
fn refuse_providers(config: &AuthConfig, mut wrong: impl FnMut(&str, &str)) {
    for id in config.auth.oauth.providers.keys() {
        wrong(
            &format!("auth.oauth.{id}"),
            "needs the Cargo feature `providers` of linchpin-auth: enable it in Cargo.toml",
        );
    }
}

/// Whether the text is a base address such as `https://app.example.com` or
/// `https://example.com/app`.
fn is_base(text: &str, production: bool) -> bool {
    url::Url::parse(text).is_ok_and(|url| {
        crate::oauth::is_safe(&url, !production)
            && url.query().is_none()
            && url.fragment().is_none()
            && url.username().is_empty()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_without_its_feature_names_the_feature() {
        let file = serde_json::json!({ "auth": { "oauth": { "google": { "clientId": "x" }, "linking": "never" } } });
        let config = AuthConfig::from_json(&file);
        let mut out = Vec::new();
        refuse_providers(&config, |key, what| out.push(format!("{key}: {what}")));
        assert_eq!(out.len(), 1);
        assert!(
            out[0].starts_with("auth.oauth.google: ") && out[0].contains("feature `providers`"),
            "{out:?}"
        );
    }
}
