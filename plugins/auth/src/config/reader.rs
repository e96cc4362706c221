//! Reads settings by key. Keys are camelCase in a file and upper case in the environment. Each
//! mistake is stored with its key.

use std::collections::{BTreeMap, BTreeSet};

use linchpin::Problem;
use serde_json::Value;

use crate::identity::TrustProxy;
use crate::secret::SecretText;

/// Prefixes of the plugin's environment variables.
pub(crate) const VARIABLES: [&str; 2] = ["LINCHPIN_AUTH_", "LINCHPIN_SECURITY_"];

/// The type of a setting.
pub(crate) trait Readable: Sized {
    /// Reads the value; `None` if the key is not set. A value of the wrong type is stored as a
    /// mistake.
    fn read(source: &mut SettingsSource, key: &str) -> Option<Self>;
}

/// The type of a setting that accepts a fixed list of words.
pub(crate) trait Choices: Copy + 'static {
    /// Each word with its value.
    const CHOICES: &'static [(&'static str, Self)];
}

impl<T: Choices> Readable for T {
    fn read(source: &mut SettingsSource, key: &str) -> Option<Self> {
        source.choice(key)
    }
}

impl<T: Readable> Readable for Option<T> {
    fn read(source: &mut SettingsSource, key: &str) -> Option<Self> {
        T::read(source, key).map(Some)
    }
}

macro_rules! readable {
    ($($type:ty, $read:expr;)+) => {
        $(impl Readable for $type {
            fn read(source: &mut SettingsSource, key: &str) -> Option<Self> {
                let read: fn(&mut SettingsSource, &str) -> Option<Self> = $read;
                read(source, key)
            }
        })+
    };
}

readable! {
    bool, SettingsSource::flag;
    u64, SettingsSource::number;
    // A number that is too large for the field is out of bounds too.
    u32, |source, key| source.number(key).map(|number| u32::try_from(number).unwrap_or(u32::MAX));
    String, SettingsSource::text;
    Vec<String>, SettingsSource::list;
    Vec<SecretText>, |source, key| Some(source.list(key)?.into_iter().map(SecretText::new).collect());
    SecretText, |source, key| source.text(key).map(SecretText::new);
    TrustProxy, SettingsSource::trust;
}

/// The keys and values of one source.
#[derive(Debug, Default)]
pub(crate) struct SettingsSource {
    /// Values of a file, by full key such as `auth.session.idleSeconds`.
    keys: BTreeMap<String, Value>,
    /// Values of the environment, by name.
    variables: BTreeMap<String, String>,
    /// The keys that the plugin read, set or not. All other keys are unknown.
    known_keys: BTreeSet<String>,
    problems: Vec<Problem>,
}

impl SettingsSource {
    /// Reads a JSON file.
    pub(crate) fn file(file: &Value) -> Self {
        let mut out = Self::default();
        if file.is_object() {
            flatten("", file, &mut out.keys);
        } else {
            out.problems.push(Problem::new(
                "",
                "type",
                "the configuration must be an object",
            ));
        }
        out
    }

    /// Reads the variables of the plugin and ignores all others.
    pub(crate) fn environment(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let ours = |(name, _): &(String, String)| VARIABLES.iter().any(|p| name.starts_with(p));
        Self {
            variables: variables.into_iter().filter(ours).collect(),
            ..Self::default()
        }
    }

    fn take(&mut self, key: &str) -> Option<(String, Value)> {
        self.known_keys.insert(key.to_owned());
        if let Some(value) = self.keys.remove(key) {
            return Some((key.to_owned(), value));
        }
        let name = variable(key);
        self.variables
            .remove(&name)
            .map(|text| (name, Value::String(text)))
    }

    /// Reads a string.
    pub(crate) fn text(&mut self, key: &str) -> Option<String> {
        match self.take(key)? {
            (_, Value::String(text)) => Some(text),
            (at, _) => self.wrong(at, "must be text"),
        }
    }

    /// Reads `true` or `false`.
    pub(crate) fn flag(&mut self, key: &str) -> Option<bool> {
        match self.take(key) {
            None => None,
            Some((_, Value::Bool(flag))) => Some(flag),
            Some((at, Value::String(text))) if Self::is_variable(&at) => match text.as_str() {
                "true" => Some(true),
                "false" => Some(false),
                _ => self.wrong(at, "must be true or false"),
            },
            Some((at, _)) => self.wrong(at, "must be true or false"),
        }
    }

    /// Reads a whole number.
    pub(crate) fn number(&mut self, key: &str) -> Option<u64> {
        match self.take(key)? {
            (at, Value::Number(number)) => number
                .as_u64()
                .or_else(|| self.wrong(at, "must be a whole number that is not negative")),
            (at, Value::String(text)) if Self::is_variable(&at) => text
                .parse()
                .ok()
                .or_else(|| self.wrong(at, "must be a whole number that is not negative")),
            (at, _) => self.wrong(at, "must be a whole number that is not negative"),
        }
    }

    /// Reads a list of strings. A single string is a list with one element. In the environment,
    /// elements are separated by commas.
    pub(crate) fn list(&mut self, key: &str) -> Option<Vec<String>> {
        match self.take(key)? {
            (at, Value::String(text)) if Self::is_variable(&at) => Some(
                text.split(',')
                    .map(str::trim)
                    .filter(|one| !one.is_empty())
                    .map(str::to_owned)
                    .collect(),
            ),
            (_, Value::String(text)) => Some(vec![text]),
            (at, Value::Array(list)) => {
                let texts: Option<Vec<String>> = list
                    .iter()
                    .map(|one| one.as_str().map(str::to_owned))
                    .collect();
                texts.or_else(|| self.wrong(at, "must be a list of strings"))
            }
            (at, _) => self.wrong(at, "must be a list of strings"),
        }
    }

    /// Reads `security.trustProxy`: `false`, a number of proxies, or a list of networks. A string
    /// may contain any one of them.
    pub(crate) fn trust(&mut self, key: &str) -> Option<TrustProxy> {
        let (at, value) = self.take(key)?;
        let form = || {
            "must be false, a number of proxies from 1 to 10, or a list of networks such as 10.0.0.0/8".to_owned()
        };
        let read = match &value {
            Value::Bool(false) => Ok(TrustProxy::Nobody),
            Value::Number(hops) => hops.as_u64().ok_or_else(form).and_then(TrustProxy::hops),
            Value::Array(list) => {
                let texts: Option<Vec<&str>> = list.iter().map(Value::as_str).collect();
                texts.ok_or_else(form).and_then(TrustProxy::networks)
            }
            Value::String(text) => TrustProxy::parse(text),
            Value::Bool(true) | Value::Null | Value::Object(_) => Err(form()),
        };
        read.map_err(|what| self.wrong::<()>(at, what)).ok()
    }

    /// Reads a list of objects.
    pub(crate) fn objects(&mut self, key: &str) -> Option<Vec<serde_json::Map<String, Value>>> {
        let (at, value) = self.take(key)?;
        let list = match value {
            Value::String(text) if Self::is_variable(&at) => {
                serde_json::from_str(&text).unwrap_or_default()
            }
            other => other,
        };
        let objects = list
            .as_array()
            .and_then(|list| list.iter().map(|one| one.as_object().cloned()).collect());
        objects.or_else(|| self.wrong(at, "must be a list of objects"))
    }

    /// Reads one of a fixed list of words.
    pub(crate) fn choice<T: Choices>(&mut self, key: &str) -> Option<T> {
        let text = self.text(key)?;
        let found = T::CHOICES
            .iter()
            .find(|(word, _)| *word == text)
            .map(|(_, value)| *value);
        found.or_else(|| {
            let known: Vec<&str> = T::CHOICES.iter().map(|(word, _)| *word).collect();
            self.wrong(key, format!("must be one of {}", known.join(", ")))
        })
    }

    /// Returns the names between `key` and one of the keys in `last`: `google` for
    /// `auth.oauth.google.clientId`. In environment variables, underscores replace dashes.
    pub(crate) fn below(&self, key: &str, last: &[&str]) -> BTreeSet<String> {
        let name_in_key = |full: &String| {
            full.strip_prefix(key)?
                .strip_prefix('.')?
                .split_once('.')
                .map(|(name, _)| name.to_owned())
        };
        let prefix = format!("{}_", variable(key));
        let endings: Vec<String> = last
            .iter()
            .map(|last| variable(&format!(".{last}")).split_off("LINCHPIN".len() + 1))
            .collect();
        let name_in_variable = |name: &String| {
            let rest = name.strip_prefix(&prefix)?;
            let found = endings
                .iter()
                .find_map(|ending| rest.strip_suffix(ending.as_str()))?;
            Some(found.to_ascii_lowercase().replace('_', "-"))
        };
        let names = self
            .keys
            .keys()
            .filter_map(name_in_key)
            .chain(self.variables.keys().filter_map(name_in_variable));
        names.filter(|name| !name.is_empty()).collect()
    }

    /// Stores a mistake and returns `None`.
    pub(crate) fn wrong<T>(
        &mut self,
        key: impl Into<String>,
        message: impl Into<String>,
    ) -> Option<T> {
        self.problems.push(Problem::new(key, "invalid", message));
        None
    }

    fn is_variable(at: &str) -> bool {
        at.starts_with("LINCHPIN_")
    }

    /// Returns all mistakes, including unknown keys.
    pub(crate) fn finish(mut self) -> Vec<Problem> {
        let names: Vec<String> = self.known_keys.iter().map(|key| variable(key)).collect();
        for key in self.keys.keys() {
            let hint = nearest(key, self.known_keys.iter().map(String::as_str));
            self.problems.push(Problem::new(
                key,
                "unknown",
                format!("is not a setting{hint}"),
            ));
        }
        for name in self.variables.keys() {
            let hint = nearest(name, names.iter().map(String::as_str));
            self.problems.push(Problem::new(
                name,
                "unknown",
                format!("is not a setting{hint}"),
            ));
        }
        self.problems
    }
}

/// The variable of a key: `LINCHPIN_AUTH_SESSION_IDLE_SECONDS` for `auth.session.idleSeconds`.
fn variable(key: &str) -> String {
    let mut out = "LINCHPIN_".to_owned();
    for c in key.chars() {
        match c {
            '.' | '-' => out.push('_'),
            c if c.is_ascii_uppercase() => {
                out.push('_');
                out.push(c);
            }
            c => out.push(c.to_ascii_uppercase()),
        }
    }
    out
}

fn flatten(at: &str, value: &Value, out: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(members) if !members.is_empty() || at.is_empty() => {
            for (name, value) in members {
                flatten(
                    &if at.is_empty() {
                        name.clone()
                    } else {
                        format!("{at}.{name}")
                    },
                    value,
                    out,
                );
            }
        }
        other => drop(out.insert(at.to_owned(), other.clone())),
    }
}

/// Returns `; did you mean ..?` with the most similar key. A key is similar if it differs in a few
/// letters, in additional words, or in its section.
fn nearest<'a>(key: &str, known: impl Iterator<Item = &'a str>) -> String {
    let last = |key: &str| {
        key.rsplit('.')
            .next()
            .unwrap_or_default()
            .to_ascii_lowercase()
    };
    let words = |key: &str| {
        key.split(['.', '_'])
            .map(str::to_ascii_lowercase)
            .collect::<Vec<_>>()
    };
    let has_all_words = |known: &str| {
        let (wrong, mut known) = (words(key), words(known).into_iter());
        wrong.len() > 2 && wrong.iter().all(|word| known.any(|other| other == *word))
    };
    // Keys are long and have common prefixes.
    let max_distance = (key.chars().count() / 8).max(2);
    let mut near: Vec<(usize, &str)> = Vec::new();
    for known in known {
        let letters = strsim::osa_distance(key, known);
        if letters <= max_distance {
            near.push((letters, known));
        } else if has_all_words(known) || last(known) == last(key) {
            near.push((max_distance + known.len().abs_diff(key.len()), known));
        }
    }
    near.sort_unstable();
    near.first().map_or_else(String::new, |(_, known)| {
        format!("; did you mean `{known}`?")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_mistake_is_reported_under_its_key() {
        let mut source = SettingsSource::file(
            &json!({ "auth": { "mount": 7, "session": { "idleSeconds": -1, "idle": 3 }, "on": "yes" } }),
        );
        assert_eq!(source.text("auth.mount"), None);
        assert_eq!(source.number("auth.session.idleSeconds"), None);
        assert_eq!(source.flag("auth.on"), None);
        let problems = source.finish();
        let keys: Vec<&str> = problems.iter().map(|p| p.path.as_str()).collect();
        assert_eq!(
            keys,
            [
                "auth.mount",
                "auth.session.idleSeconds",
                "auth.on",
                "auth.session.idle"
            ]
        );
    }

    #[test]
    fn the_environment_sets_the_same_values() {
        let variables = [
            ("LINCHPIN_AUTH_SESSION_IDLE_SECONDS", "60"),
            ("LINCHPIN_AUTH_ROLES", "a, b"),
            ("LINCHPIN_AUTH_ROLL", "a"),
            ("HOME", "/"),
        ];
        let mut source =
            SettingsSource::environment(variables.map(|(k, v)| (k.to_owned(), v.to_owned())));
        assert_eq!(source.number("auth.session.idleSeconds"), Some(60));
        assert_eq!(
            source.list("auth.roles"),
            Some(vec!["a".to_owned(), "b".to_owned()])
        );
        let problems = source.finish();
        assert_eq!(
            (problems.len(), problems[0].path.as_str()),
            (1, "LINCHPIN_AUTH_ROLL")
        );
    }

    #[test]
    fn similar_names_are_suggested_for_keys_and_variables() {
        let keys = [
            "auth.session.idleSeconds",
            "auth.signup.open",
            "auth.mail.from",
            "auth.roles",
        ];
        let shown = |problems: Vec<Problem>| {
            problems
                .into_iter()
                .map(|p| format!("{} {}", p.path, p.message))
                .collect::<Vec<_>>()
        };
        let names = [
            "AUTH_SESION_IDLE_SECONDS",
            "AUTH_IDLE_SECONDS",
            "AUTH_SIGNUP_OPNE",
            "SECURITY_NOWHERE",
        ];
        let mut environment = SettingsSource::environment(
            names.map(|name| (format!("LINCHPIN_{name}"), "1".to_owned())),
        );
        let mut file = SettingsSource::file(
            &json!({ "auth": { "session": { "idleSecond": 1 }, "idleSeconds": 1, "nothing": 1 } }),
        );
        for key in keys {
            let _ = (environment.text(key), file.text(key));
        }
        let suggestion = |name: &str, suggestion: &str| {
            format!("{name} is not a setting; did you mean `{suggestion}`?")
        };
        assert_eq!(
            shown(environment.finish()),
            [
                suggestion(
                    "LINCHPIN_AUTH_IDLE_SECONDS",
                    "LINCHPIN_AUTH_SESSION_IDLE_SECONDS"
                ),
                suggestion(
                    "LINCHPIN_AUTH_SESION_IDLE_SECONDS",
                    "LINCHPIN_AUTH_SESSION_IDLE_SECONDS"
                ),
                suggestion("LINCHPIN_AUTH_SIGNUP_OPNE", "LINCHPIN_AUTH_SIGNUP_OPEN"),
                "LINCHPIN_SECURITY_NOWHERE is not a setting".to_owned(),
            ]
        );
        assert_eq!(
            shown(file.finish()),
            [
                suggestion("auth.idleSeconds", "auth.session.idleSeconds"),
                "auth.nothing is not a setting".to_owned(),
                suggestion("auth.session.idleSecond", "auth.session.idleSeconds"),
            ]
        );
    }

    #[test]
    fn names_below_a_key_are_found_in_files_and_variables() {
        let file = SettingsSource::file(
            &json!({ "auth": { "oauth": { "linking": "never", "google": { "clientId": "x" }, "my-idp": { "oops": 1 } } } }),
        );
        assert_eq!(
            file.below("auth.oauth", &["clientId"])
                .into_iter()
                .collect::<Vec<_>>(),
            ["google", "my-idp"]
        );
        let variables = [
            "POST_REDIRECT",
            "GOOGLE_CLIENT_ID",
            "GOOGLE_SCOPES",
            "MY_IDP_CLIENT_ID",
            "_CLIENT_ID",
        ];
        let mut environment = SettingsSource::environment(
            variables.map(|name| (format!("LINCHPIN_AUTH_OAUTH_{name}"), "x".to_owned())),
        );
        assert_eq!(
            environment
                .below("auth.oauth", &["clientId", "scopes"])
                .into_iter()
                .collect::<Vec<_>>(),
            ["google", "my-idp"]
        );
        assert_eq!(
            environment.text("auth.oauth.my-idp.clientId").as_deref(),
            Some("x")
        );
    }
}
