//! Settings of the pages.

use std::collections::BTreeMap;

use linchpin::Environment;

use super::reader::SettingsSource;
use super::{AuthConfig, AuthSection, Transport};
use crate::return_target::ReturnTarget;
use crate::routes::pages::BASE;

/// The custom properties of the style sheet that a theme can set.
const NAMES: [&str; 13] = [
    "accent",
    "on-accent",
    "page",
    "surface",
    "text",
    "muted",
    "line",
    "danger",
    "danger-surface",
    "good",
    "good-surface",
    "radius",
    "font",
];

/// `pages`
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct PagesSection {
    /// Whether the plugin serves pages; default: only in development.
    pub enabled: Option<bool>,
    /// The path after sign-in; default: the security page.
    pub home: Option<String>,
    /// Colours and shapes: `accent`, `on-accent`, `page`, `surface`, `text`, `muted`, `line`,
    /// `danger`, `danger-surface`, `good`, `good-surface`, `radius`, `font`, each with a CSS value.
    pub theme: BTreeMap<String, String>,
}

/// Reads the theme.
pub(super) fn read(source: &mut SettingsSource, auth: &mut AuthSection) {
    for name in NAMES {
        let key: String = name
            .split('-')
            .enumerate()
            .map(|(at, part)| {
                if at == 0 {
                    part.to_owned()
                } else {
                    capitalised(part)
                }
            })
            .collect();
        if let Some(value) = source.text(&format!("auth.pages.theme.{key}")) {
            auth.pages.theme.insert(name.to_owned(), value);
        }
    }
}

fn capitalised(word: &str) -> String {
    word[..1].to_uppercase() + &word[1..]
}

/// Checks the settings, and decides whether there are pages.
pub(super) fn check(
    config: &mut AuthConfig,
    environment: Environment,
    mut wrong: impl FnMut(&str, &str),
) {
    let cookies = config.auth.session.transport != Transport::Bearer;
    let base = format!("{}{BASE}", config.auth.mount);
    let cookies_reach_pages = cookie_path_contains(&config.auth.cookies.path, &base);
    let cookies_path = config.auth.cookies.path.clone();
    let pages = &mut config.auth.pages;
    if pages.enabled == Some(true) && !cookies {
        wrong(
            "auth.pages.enabled",
            "needs sessions in cookies: auth.session.transport `both` or `cookie`",
        );
    } else if pages.enabled == Some(true) && !cookies_reach_pages {
        wrong(
            "auth.cookies.path",
            &format!(
                "must contain the pages at {base}: set it to `/`, or set auth.pages.enabled to false"
            ),
        );
    }
    if pages.enabled.is_none()
        && environment != Environment::Production
        && cookies
        && !cookies_reach_pages
    {
        tracing::warn!(
            path = cookies_path,
            "the pages are off, because auth.cookies.path does not contain {base}: set it to `/`"
        );
    }
    pages.enabled = Some(
        pages
            .enabled
            .unwrap_or(environment != Environment::Production && cookies && cookies_reach_pages),
    );
    if pages
        .home
        .as_deref()
        .is_some_and(|home| ReturnTarget::parse(home, &[]).is_err())
    {
        wrong("auth.pages.home", "must be a path such as /app");
    }
    for (name, value) in &pages.theme {
        if !NAMES.contains(&name.as_str()) {
            wrong(
                "auth.pages.theme",
                &format!("`{name}` is not one of {}", NAMES.join(", ")),
            );
        }
        if !is_value(value) {
            wrong(
                &format!("auth.pages.theme.{name}"),
                "must be a CSS value of at most 200 characters, without braces, semicolons or URLs",
            );
        }
    }
}

/// Whether browsers send cookies of this path to all paths below `base` (RFC 6265, 5.1.4).
fn cookie_path_contains(path: &str, base: &str) -> bool {
    base.strip_prefix(path)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || path.ends_with('/'))
}

/// Whether the text is a CSS value that cannot end its declaration or load anything.
fn is_value(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || " #%.,()-\"'".contains(c);
    !text.is_empty()
        && text.len() <= 200
        && text.chars().all(plain)
        && !text.to_ascii_lowercase().contains("url(")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(json: serde_json::Value, environment: Environment) -> (AuthConfig, Vec<String>) {
        let mut config = AuthConfig::from_json(&json);
        let mut out: Vec<String> = config
            .problems
            .iter()
            .map(|problem| problem.path.clone())
            .collect();
        check(&mut config, environment, |key, _| out.push(key.to_owned()));
        (config, out)
    }

    #[test]
    fn pages_are_on_in_development_and_opt_in_in_production() {
        let none = serde_json::json!({});
        let bearer = serde_json::json!({ "auth": { "session": { "transport": "bearer" } } });
        let enabled = serde_json::json!({ "auth": { "pages": { "enabled": true } } });
        for (json, environment, expected) in [
            (&none, Environment::Development, true),
            (&none, Environment::Production, false),
            (&bearer, Environment::Development, false),
            (&enabled, Environment::Production, true),
        ] {
            let (config, wrong) = checked(json.clone(), environment);
            assert_eq!(
                (config.auth.pages.enabled, wrong.len()),
                (Some(expected), 0),
                "{json}"
            );
        }
    }

    #[test]
    fn a_theme_accepts_only_known_properties_with_css_values() {
        let theme = serde_json::json!({ "auth": { "pages": { "theme": { "accent": "#0a7", "onAccent": "rgb(255 255 255)", "font": "\"Inter\", sans-serif" } } } });
        let (config, wrong) = checked(theme, Environment::Development);
        assert_eq!(
            (config.auth.pages.theme["on-accent"].as_str(), wrong.len()),
            ("rgb(255 255 255)", 0)
        );
        for value in [
            "red; } body { display: none",
            "url(https://evil.test)",
            "URL(x)",
            "a{b",
            "",
            "</style>",
            "\\000041",
        ] {
            let (_, wrong) = checked(
                serde_json::json!({ "auth": { "pages": { "theme": { "accent": value } } } }),
                Environment::Development,
            );
            assert_eq!(wrong, ["auth.pages.theme.accent"], "{value}");
        }
        let (_, wrong) = checked(
            serde_json::json!({ "auth": { "pages": { "theme": { "accnt": "red" }, "home": "//evil.test" } } }),
            Environment::Development,
        );
        assert_eq!(wrong, ["auth.pages.theme.accnt", "auth.pages.home"]);
    }
}
