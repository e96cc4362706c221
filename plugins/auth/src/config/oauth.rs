//! `oauth`: who else says who somebody is, and what their word is worth here.

use std::collections::BTreeMap;

use linchpin::Environment;

use super::reader::Written;
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
    /// `oauth.<id>`: each way to sign in, by the id that stands in its paths. An id of a preset
    /// (`google`, `github` and so on) needs little more than a client; any other is an OpenID
    /// Connect issuer.
    pub providers: BTreeMap<String, ProviderSection>,
    /// `oauth.postRedirect`: where people land who did not say where they want to.
    pub post_redirect: String,
    /// `oauth.allowedRedirectOrigins`: where they may land beside this app.
    pub allowed_redirect_origins: Vec<String>,
    /// `oauth.linking`: what happens when an account with the same email address is there already.
    pub linking: Linking,
    /// `oauth.allowSignUp`: whether whoever has no account gets one.
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

/// What happens when a provider names an address that an account has: `oauth.linking`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Linking {
    /// Its owner signs in as before and links the provider by themselves.
    #[default]
    Never,
    /// The provider is linked to it, when both sides have verified the address and the provider is
    /// trusted with it.
    Verified,
}

/// How a provider sends people back: `responseMode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResponseMode {
    /// In the query of a redirect.
    #[default]
    Query,
    /// As a form that the browser posts.
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
    /// `redirectUri`: where the provider sends people back to; `auth.publicUrl` and the path of the
    /// callback unless it is set.
    pub redirect_uri: Option<String>,
    /// `scopes`, in place of the preset's.
    pub scopes: Option<Vec<String>>,
    /// `trustEmail`: whether an address that it has verified is as good as verified here.
    pub trust_email: Option<bool>,
    /// `name`: what people know it by.
    pub name: Option<String>,
    /// `issuer`, of a provider without a preset.
    pub issuer: Option<String>,
    /// `responseMode`, of a provider without a preset.
    pub response_mode: Option<ResponseMode>,
    /// `tenant`, of `microsoft`.
    pub tenant: Option<String>,
    /// `teamId`, of `apple`.
    pub team_id: Option<String>,
    /// `keyId`, of `apple`.
    pub key_id: Option<String>,
    /// `privateKey`, of `apple`: the downloaded key, in PEM.
    pub private_key: Option<SecretText>,
    /// `baseUrl`, of `gitlab`.
    pub base_url: Option<String>,
    /// A server of tests that stands in for those of a preset: its address takes the place of
    /// theirs.
    #[cfg(feature = "test-util")]
    pub stand_in: Option<String>,
}

impl ProviderSection {
    /// A provider at which the app is known by this id.
    pub fn new(client_id: impl Into<String>) -> Self {
        Self {
            client_id: client_id.into(),
            ..Self::default()
        }
    }

    /// With the secret that proves it is the app.
    #[must_use]
    pub fn secret(self, secret: impl Into<SecretText>) -> Self {
        Self {
            client_secret: Some(secret.into()),
            ..self
        }
    }

    /// At an OpenID Connect issuer.
    #[must_use]
    pub fn issuer(self, issuer: impl Into<String>) -> Self {
        Self {
            issuer: Some(issuer.into()),
            ..self
        }
    }
}

/// The keys of a provider.
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
pub(super) fn read(w: &mut Written, auth: &mut AuthSection) {
    for id in w.below("auth.oauth", &KEYS) {
        let mut provider = ProviderSection::default();
        let key = |name: &str| format!("auth.oauth.{id}.{name}");
        table::read(w, &key("clientId"), &mut provider.client_id);
        table::read(w, &key("clientSecret"), &mut provider.client_secret);
        table::read(w, &key("redirectUri"), &mut provider.redirect_uri);
        table::read(w, &key("scopes"), &mut provider.scopes);
        table::read(w, &key("trustEmail"), &mut provider.trust_email);
        table::read(w, &key("name"), &mut provider.name);
        table::read(w, &key("issuer"), &mut provider.issuer);
        table::read(w, &key("responseMode"), &mut provider.response_mode);
        table::read(w, &key("tenant"), &mut provider.tenant);
        table::read(w, &key("teamId"), &mut provider.team_id);
        table::read(w, &key("keyId"), &mut provider.key_id);
        table::read(w, &key("privateKey"), &mut provider.private_key);
        table::read(w, &key("baseUrl"), &mut provider.base_url);
        auth.oauth.providers.insert(id, provider);
    }
}

/// Judges them, and makes of each provider what is worked with.
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
            "must be the https address that browsers reach the app at, without a query",
        );
    }
    for origin in &oauth.allowed_redirect_origins {
        if !super::check::is_origin(origin) {
            wrong(
                "auth.oauth.allowedRedirectOrigins",
                &format!("`{origin}` is no exact origin such as https://app.example.com"),
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

/// What is worked with of each provider.
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
        let told = |key: &str, what: &str| {
            wrong(
                &format!(
                    "auth.oauth.{id}{}{key}",
                    if key.is_empty() { "" } else { "." }
                ),
                what,
            );
        };
        out.extend(preset::resolve(id, section, callback, production, told));
    }
    out
}

/// What is worked with of each provider: there are none without the feature.
#[cfg(not(feature = "providers"))]
fn providers(config: &AuthConfig, _: bool, wrong: impl FnMut(&str, &str)) -> Vec<Provider> {
    refuse_providers(config, wrong);
    Vec::new()
}

/// Refuses each provider that is set up in an app that is built without them.
#[cfg(any(test, not(feature = "providers")))]
fn refuse_providers(config: &AuthConfig, mut wrong: impl FnMut(&str, &str)) {
    for id in config.auth.oauth.providers.keys() {
        wrong(
            &format!("auth.oauth.{id}"),
            "needs the feature `providers` of linchpin-auth, which this app is built without",
        );
    }
}

/// `https://app.example.com` or `https://example.com/app`.
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
