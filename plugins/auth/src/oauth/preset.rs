//! Presets of providers, and the resolution of settings. No other module contains addresses of
//! providers.

use url::Url;

use super::{ClientProof, Dialect, Kind, Provider, is_safe};
use crate::config::{ProviderSection, ResponseMode};

/// The tenant of personal accounts at Microsoft.
pub(super) const CONSUMERS: &str = "9188040d-6c67-4c5b-b112-36a304b66dad";

/// Paths below the mount that cannot be the id of a provider.
pub(crate) const RESERVED: [&str; 25] = [
    "activity",
    "admin",
    "cancel-deletion",
    "change-email",
    "forgot-password",
    "login",
    "logout",
    "magic-link",
    "me",
    "mfa",
    "oauth",
    "passkey",
    "providers",
    "reauth",
    "refresh",
    "register",
    "resend-verification",
    "reset-password",
    "sessions",
    "set-password",
    "step-up",
    "ui",
    "undo-email",
    "verify-and-login",
    "verify-email",
];

/// A provider with OAuth 2 only.
#[derive(Clone, Debug)]
pub(crate) struct Plain {
    pub(super) authorize: String,
    pub(super) token: String,
    /// The base address of its API for the identity.
    pub(super) api: String,
    /// Whether the client secret is sent in a header instead of the body.
    pub(super) basic: bool,
    pub(super) profile: Profile,
}

/// The API for the identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Profile {
    GitHub,
    Discord,
    Facebook,
    Twitter,
    Bitbucket,
}

/// A preset.
struct Preset {
    id: &'static str,
    name: &'static str,
    scopes: &'static [&'static str],
    trust_email: bool,
    protocol: Protocol,
}

enum Protocol {
    Oidc(&'static str),
    Microsoft,
    LinkedIn(&'static str),
    Apple(&'static str),
    GitLab(&'static str),
    Plain {
        authorize: &'static str,
        token: &'static str,
        api: &'static str,
        basic: bool,
        profile: Profile,
    },
}

const OPENID: &[&str] = &["openid", "email", "profile"];

const PRESETS: [Preset; 11] = [
    Preset {
        id: "google",
        name: "Google",
        scopes: OPENID,
        trust_email: true,
        protocol: Protocol::Oidc("https://accounts.google.com"),
    },
    Preset {
        id: "microsoft",
        name: "Microsoft",
        scopes: OPENID,
        trust_email: false,
        protocol: Protocol::Microsoft,
    },
    Preset {
        id: "linkedin",
        name: "LinkedIn",
        scopes: OPENID,
        trust_email: false,
        protocol: Protocol::LinkedIn("https://www.linkedin.com/oauth"),
    },
    Preset {
        id: "slack",
        name: "Slack",
        scopes: OPENID,
        trust_email: false,
        protocol: Protocol::Oidc("https://slack.com"),
    },
    Preset {
        id: "apple",
        name: "Apple",
        scopes: &["name", "email"],
        trust_email: true,
        protocol: Protocol::Apple("https://appleid.apple.com"),
    },
    Preset {
        id: "gitlab",
        name: "GitLab",
        scopes: OPENID,
        trust_email: false,
        protocol: Protocol::GitLab("https://gitlab.com"),
    },
    Preset {
        id: "github",
        name: "GitHub",
        scopes: &["read:user", "user:email"],
        trust_email: false,
        protocol: Protocol::Plain {
            authorize: "https://github.com/login/oauth/authorize",
            token: "https://github.com/login/oauth/access_token",
            api: "https://api.github.com",
            basic: false,
            profile: Profile::GitHub,
        },
    },
    Preset {
        id: "discord",
        name: "Discord",
        scopes: &["identify", "email"],
        trust_email: false,
        protocol: Protocol::Plain {
            authorize: "https://discord.com/oauth2/authorize",
            token: "https://discord.com/api/oauth2/token",
            api: "https://discord.com/api/v10",
            basic: true,
            profile: Profile::Discord,
        },
    },
    Preset {
        id: "facebook",
        name: "Facebook",
        scopes: &["email"],
        trust_email: false,
        protocol: Protocol::Plain {
            authorize: "https://www.facebook.com/v23.0/dialog/oauth",
            token: "https://graph.facebook.com/v23.0/oauth/access_token",
            api: "https://graph.facebook.com/v23.0",
            basic: false,
            profile: Profile::Facebook,
        },
    },
    Preset {
        id: "twitter",
        name: "X",
        // Without `tweet.read` the API refuses to return the user.
        scopes: &["users.read", "tweet.read"],
        trust_email: false,
        protocol: Protocol::Plain {
            authorize: "https://x.com/i/oauth2/authorize",
            token: "https://api.x.com/2/oauth2/token",
            api: "https://api.x.com/2",
            basic: true,
            profile: Profile::Twitter,
        },
    },
    Preset {
        id: "bitbucket",
        name: "Bitbucket",
        scopes: &["account", "email"],
        trust_email: false,
        protocol: Protocol::Plain {
            authorize: "https://bitbucket.org/site/oauth2/authorize",
            token: "https://bitbucket.org/site/oauth2/access_token",
            api: "https://api.bitbucket.org/2.0",
            basic: true,
            profile: Profile::Bitbucket,
        },
    },
];

/// Whether the text can be the id of a provider.
pub(crate) fn is_id(id: &str) -> bool {
    let form = (1..=32).contains(&id.len())
        && id
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    form && !id.starts_with('-') && !id.ends_with('-') && !RESERVED.contains(&id)
}

/// Resolves the settings of a provider. Reports each invalid setting with its key; then the result
/// is `None`.
pub(crate) fn resolve(
    id: &str,
    section: &ProviderSection,
    callback: Option<String>,
    production: bool,
    mut report: impl FnMut(&str, &str),
) -> Option<Provider> {
    let mut wrong = 0;
    let mut wrong_at = |key: &str, what: &str| {
        wrong += 1;
        report(key, what);
    };
    if RESERVED.contains(&id) {
        wrong_at(
            "",
            "this id is reserved, because another route has this path: choose another id",
        );
    } else if !is_id(id) {
        wrong_at(
            "",
            "the id must be 1 to 32 lowercase letters, digits or dashes, and must not begin or end with a dash",
        );
    }
    let preset = PRESETS.iter().find(|preset| preset.id == id);
    let loopback = !production;
    let is_safe_address = |text: &str| {
        Url::parse(text).is_ok_and(|url| {
            is_safe(&url, loopback) && url.query().is_none() && url.fragment().is_none()
        })
    };
    refuse_settings_of_other_presets(section, preset, &mut wrong_at);
    if section.client_id.is_empty() {
        wrong_at("clientId", "is required");
    }
    let secret = match (
        &section.client_secret,
        preset.map(|preset| &preset.protocol),
    ) {
        (_, Some(Protocol::Apple(_))) => apple(section, &mut wrong_at),
        (Some(secret), _) if !secret.expose().is_empty() => {
            Some(ClientProof::Secret(secret.clone()))
        }
        (None, None) => Some(ClientProof::None),
        _ => {
            wrong_at("clientSecret", "is required");
            None
        }
    };
    let kind = kind(id, section, preset, &is_safe_address, &mut wrong_at);
    let callback = match section.redirect_uri.clone().or(callback) {
        Some(callback)
            if is_safe_address(&callback)
                || Url::parse(&callback).is_ok_and(|url| is_safe(&url, true)) =>
        {
            callback
        }
        Some(_) => {
            wrong_at(
                "redirectUri",
                "must be an https address, or an http address of this machine, without a query or a fragment",
            );
            String::new()
        }
        None => {
            wrong_at("redirectUri", "is required unless auth.publicUrl is set");
            String::new()
        }
    };
    let default_scopes = || {
        preset
            .map_or(OPENID, |preset| preset.scopes)
            .iter()
            .map(|scope| (*scope).to_owned())
            .collect()
    };
    let scopes: Vec<String> = section.scopes.clone().unwrap_or_else(default_scopes);
    if scopes.iter().any(|scope| {
        scope.is_empty()
            || !scope
                .bytes()
                .all(|b| b.is_ascii_graphic() && b != b'"' && b != b'\\')
    }) {
        wrong_at("scopes", "must be names without spaces");
    }
    let is_apple = matches!(
        preset,
        Some(Preset {
            protocol: Protocol::Apple(_),
            ..
        })
    );
    if matches!(kind, Some(Kind::Oidc { .. }))
        && !is_apple
        && !scopes.iter().any(|scope| scope == "openid")
    {
        wrong_at("scopes", "must contain `openid`");
    }
    let is_microsoft = matches!(
        preset,
        Some(Preset {
            protocol: Protocol::Microsoft,
            ..
        })
    );
    if is_microsoft && section.trust_email == Some(true) {
        wrong_at(
            "trustEmail",
            "cannot be true: any tenant of Microsoft can set any email address",
        );
    }
    let name = section
        .name
        .clone()
        .unwrap_or_else(|| preset.map_or(id, |preset| preset.name).to_owned());
    if name.is_empty() || name.chars().count() > 64 || name.chars().any(char::is_control) {
        wrong_at("name", "must have 1 to 64 characters");
    }
    let (Some(kind), Some(secret), 0) = (kind, secret, wrong) else {
        return None;
    };
    Some(Provider {
        id: id.to_owned(),
        name,
        client_id: section.client_id.clone(),
        secret,
        callback,
        scopes,
        trust_email: section
            .trust_email
            .unwrap_or(preset.is_some_and(|preset| preset.trust_email)),
        form_post: is_apple || section.response_mode == Some(ResponseMode::FormPost),
        kind,
        loopback,
    })
}

/// Refuses settings of other presets.
fn refuse_settings_of_other_presets(
    section: &ProviderSection,
    preset: Option<&Preset>,
    wrong_at: &mut impl FnMut(&str, &str),
) {
    let is = |id: &str| preset.is_some_and(|preset| preset.id == id);
    for (key, written, fits, whose) in [
        (
            "issuer",
            section.issuer.is_some(),
            preset.is_none(),
            "providers without a preset",
        ),
        (
            "responseMode",
            section.response_mode.is_some(),
            preset.is_none(),
            "providers without a preset",
        ),
        (
            "tenant",
            section.tenant.is_some(),
            is("microsoft"),
            "microsoft",
        ),
        ("teamId", section.team_id.is_some(), is("apple"), "apple"),
        ("keyId", section.key_id.is_some(), is("apple"), "apple"),
        (
            "privateKey",
            section.private_key.is_some(),
            is("apple"),
            "apple",
        ),
        (
            "clientSecret",
            section.client_secret.is_some(),
            !is("apple"),
            "providers other than apple; for apple, set privateKey",
        ),
        (
            "baseUrl",
            section.base_url.is_some(),
            is("gitlab"),
            "gitlab",
        ),
    ] {
        if written && !fits {
            wrong_at(key, &format!("is only for {whose}"));
        }
    }
}

fn apple(section: &ProviderSection, wrong_at: &mut impl FnMut(&str, &str)) -> Option<ClientProof> {
    let mut text = |key: &str, value: &Option<String>| {
        let value = value.clone().filter(|value| !value.is_empty());
        if value.is_none() {
            wrong_at(key, "is required");
        }
        value
    };
    let (team_id, key_id) = (
        text("teamId", &section.team_id),
        text("keyId", &section.key_id),
    );
    let private_key = section.private_key.clone();
    if private_key
        .as_ref()
        .is_none_or(|key| jsonwebtoken::EncodingKey::from_ec_pem(key.expose().as_bytes()).is_err())
    {
        wrong_at(
            "privateKey",
            "must be the private key from Apple, in PEM format",
        );
    }
    Some(ClientProof::Apple {
        team_id: team_id?,
        key_id: key_id?,
        private_key: private_key?,
    })
}

fn kind(
    id: &str,
    section: &ProviderSection,
    preset: Option<&Preset>,
    is_safe_address: &impl Fn(&str) -> bool,
    wrong_at: &mut impl FnMut(&str, &str),
) -> Option<Kind> {
    let oidc = |issuer: String, dialect: Dialect| Some(Kind::Oidc { issuer, dialect });
    let Some(preset) = preset else {
        let issuer = section.issuer.clone().unwrap_or_default();
        if !is_safe_address(&issuer) {
            let known: Vec<&str> = PRESETS.iter().map(|preset| preset.id).collect();
            wrong_at(
                "issuer",
                &format!(
                    "must be an https address, because `{id}` is not a preset ({})",
                    known.join(", ")
                ),
            );
        }
        return oidc(issuer, Dialect::Standard);
    };
    match &preset.protocol {
        Protocol::Oidc(issuer) | Protocol::Apple(issuer) => {
            oidc(preset_address(section, issuer), Dialect::Standard)
        }
        Protocol::LinkedIn(issuer) => oidc(preset_address(section, issuer), Dialect::NoNonce),
        Protocol::GitLab(usual) => {
            let base = section
                .base_url
                .clone()
                .unwrap_or_else(|| preset_address(section, usual));
            let base = base.trim_end_matches('/').to_owned();
            if !is_safe_address(&base) {
                wrong_at("baseUrl", "must be an https address");
            }
            oidc(base.clone(), Dialect::Below(base))
        }
        Protocol::Microsoft => {
            let tenant = section
                .tenant
                .clone()
                .unwrap_or_else(|| "common".to_owned());
            let is_name = tenant.contains('.')
                && tenant
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b == b'.' || b == b'-');
            if !(super::discovery::is_tenant(&tenant)
                || is_name
                || ["common", "organizations", "consumers"].contains(&tenant.as_str()))
            {
                wrong_at(
                    "tenant",
                    "must be common, organizations, consumers, or the id or a domain of a tenant",
                );
            }
            let issuer = preset_address(
                section,
                &format!("https://login.microsoftonline.com/{tenant}/v2.0"),
            );
            oidc(issuer, Dialect::Microsoft { tenant })
        }
        Protocol::Plain {
            authorize,
            token,
            api,
            basic,
            profile,
        } => {
            let [authorize, token, api] =
                [authorize, token, api].map(|url| preset_address(section, url));
            Some(Kind::Plain(Plain {
                authorize,
                token,
                api,
                basic: *basic,
                profile: *profile,
            }))
        }
    }
}

/// The address of a preset, or the same path at the test server that replaces it.
#[cfg(feature = "test-util")]
fn preset_address(section: &ProviderSection, url: &str) -> String {
    let path = url
        .splitn(4, '/')
        .nth(3)
        .map_or_else(String::new, |path| format!("/{path}"));
    section
        .stand_in
        .as_ref()
        .map_or_else(|| url.to_owned(), |server| format!("{server}{path}"))
}

/// The address of a preset.
#[cfg(not(feature = "test-util"))]
fn preset_address(_: &ProviderSection, url: &str) -> String {
    url.to_owned()
}
