//! The data keys, which encrypt stored secrets: first those of the app, then those of its plugins.

use zeroize::Zeroize as _;

use crate::seal::{DataKeys, Key};
use crate::{Error, Problem, Result};

/// The key of the setting.
pub(super) const SETTING: &str = "security.dataKeys";
/// The minimum number of different bytes of a key in production.
const MIN_DISTINCT_BYTES: usize = 6;

/// Checks the ids and keys of a setting, and returns the keys that are right. The problems name the
/// setting, never a key.
pub(super) fn checked<'a>(
    setting: &str,
    keys: impl IntoIterator<Item = (&'a str, &'a str)>,
    problems: &mut Vec<Problem>,
) -> Vec<(String, Key)> {
    let mut wrong = |message: String| problems.push(Problem::new(setting, "invalid", message));
    let mut all: Vec<(String, Key)> = Vec::new();
    for (kid, key) in keys {
        if !DataKeys::accepts_kid(kid) {
            wrong("`kid` must be 1 to 64 letters, digits, dashes or underscores".to_owned());
        } else if all.iter().any(|(other, _)| other == kid) {
            wrong(format!("must not hold the `kid` `{kid}` twice"));
        } else if let Some(key) = Key::from_base64(key) {
            all.push((kid.to_owned(), key));
        } else {
            wrong(format!("`key` of `{kid}` must be 32 bytes in base64"));
        }
    }
    all
}

/// Returns a problem for each key that is easy to guess; production refuses such keys. The
/// probability that a random key has so few different bytes is negligible.
pub(super) fn weak(keys: &[(String, Key)]) -> impl Iterator<Item = Problem> {
    let is_weak = |key: &Key| {
        let mut seen = [false; 256];
        for byte in key.expose() {
            seen[usize::from(*byte)] = true;
        }
        seen.iter().filter(|seen| **seen).count() < MIN_DISTINCT_BYTES
    };
    let weak = keys.iter().filter(move |(_, key)| is_weak(key));
    weak.map(|(kid, _)| {
        let text = format!("`key` of `{kid}` has too few different bytes: use random bytes");
        Problem::new(SETTING, "invalid", text)
    })
}

/// An entry of the environment variable.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyEntry {
    kid: String,
    key: String,
}

/// Reads the keys of an environment variable: a JSON list of `{ kid, key }`.
pub(super) fn from_json(name: &str, json: &str, problems: &mut Vec<Problem>) -> Vec<(String, Key)> {
    // The message of the parser is not repeated: it may contain a part of the text.
    let Ok(mut list) = serde_json::from_str::<Vec<KeyEntry>>(json) else {
        let message = "must be a JSON list, newest key first, such as \
                       [{\"kid\":\"2026-11\",\"key\":\"<32 bytes in base64>\"}]";
        problems.push(Problem::new(name, "invalid", message));
        return Vec::new();
    };
    let pairs = list
        .iter()
        .map(|entry| (entry.kid.as_str(), entry.key.as_str()));
    let keys = checked(name, pairs, problems);
    for entry in &mut list {
        entry.key.zeroize();
    }
    keys
}

/// Adds the keys of a plugin as the oldest ones. A key that is in the list already is skipped.
///
/// # Errors
/// If another key has the same id.
pub(super) fn add(
    all: &mut Vec<(String, Key)>,
    keys: impl IntoIterator<Item = (String, Key)>,
) -> Result<()> {
    for (kid, key) in keys {
        match all.iter().find(|(known, _)| *known == kid) {
            Some((_, known)) if *known == key => {}
            Some(_) => {
                return Err(Error::internal(format!(
                    "two different data keys have the id `{kid}`; give one another id"
                )));
            }
            None => all.push((kid, key)),
        }
    }
    Ok(())
}

/// The error of a plugin that needs keys in an app without any.
pub(super) fn missing() -> Error {
    Error::internal(
        "it needs a key for stored data: set LINCHPIN_DATA_KEYS to \
         [{\"kid\":\"2026-11\",\"key\":\"<32 random bytes in base64>\"}], or call \
         `Config::data_keys`",
    )
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, OnceLock};

    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;
    use crate::seal::Place;
    use crate::{App, BoxFuture, Config, MiddlewareCx, Plugin, PostCx, RoutesCx};

    const SECRET: &str = "0123456789abcdef0123456789abcdef";
    const PLACE: Place<'_> = Place {
        entity: "endpoints",
        id: "e1",
        field: "secret",
    };

    fn key(byte: u8) -> String {
        STANDARD.encode([byte; 32])
    }

    fn config() -> Config {
        Config::new()
            .signing_secret(SECRET)
            .port(0)
            .database("memory:")
    }

    /// A plugin that adds a data key.
    struct KeyProvider(&'static str, u8);

    impl Plugin for KeyProvider {
        fn name(&self) -> &'static str {
            "giving"
        }

        fn setup_middleware<'a>(&'a self, cx: &'a mut MiddlewareCx) -> BoxFuture<'a, Result<()>> {
            Box::pin(async { cx.add_data_keys([(self.0.to_owned(), Key::new([self.1; 32]))]) })
        }
    }

    type Found = Arc<OnceLock<Option<Arc<DataKeys>>>>;

    /// A plugin that reads the keys, and may need them. It is set up first.
    struct KeyReader {
        needs: bool,
        found: Found,
    }

    impl Plugin for KeyReader {
        fn name(&self) -> &'static str {
            "taking"
        }

        fn setup_routes<'a>(&'a self, cx: &'a mut RoutesCx) -> BoxFuture<'a, Result<()>> {
            Box::pin(async {
                let _ = self.found.set(cx.data_keys().cloned());
                if self.needs {
                    cx.require_data_keys()?;
                }
                Ok(())
            })
        }

        fn setup_post<'a>(&'a self, cx: &'a mut PostCx) -> BoxFuture<'a, Result<()>> {
            Box::pin(async {
                let found = self.found.get().and_then(Option::as_ref).map(Arc::as_ptr);
                assert_eq!(found, cx.data_keys().map(Arc::as_ptr));
                Ok(())
            })
        }
    }

    /// Starts an app with a plugin that reads its keys. Returns the keys that the plugin has read.
    async fn found(config: Config, provider: Option<KeyProvider>, needs: bool) -> Result<Found> {
        let found = Found::default();
        let mut app = App::new(config).plugin(KeyReader {
            needs,
            found: Arc::clone(&found),
        });
        if let Some(provider) = provider {
            app = app.plugin(provider);
        }
        app.start().await?.stop().await?;
        Ok(found)
    }

    #[tokio::test]
    async fn the_keys_of_the_app_come_before_those_of_plugins() {
        let keys = [("b", key(2)), ("a", key(1))];
        let both = found(config().data_keys(keys), Some(KeyProvider("own", 9)), true)
            .await
            .unwrap();
        let both = both.get().unwrap().as_ref().unwrap();
        assert!(both.kids().eq(["b", "a", "own"]));
        let alone = found(config(), Some(KeyProvider("own", 9)), true)
            .await
            .unwrap();
        let alone = alone.get().unwrap().as_ref().unwrap();
        assert_eq!(alone.kid(), "own");
        let stored = alone.seal(PLACE, b"hunter2").unwrap();
        assert_eq!(both.open(PLACE, &stored).unwrap().expose(), b"hunter2");
        // The same key in both lists is one key; another key of the same id is refused.
        let keys = [("own", key(9))];
        let same = found(config().data_keys(keys), Some(KeyProvider("own", 9)), true)
            .await
            .unwrap();
        assert!(same.get().unwrap().as_ref().unwrap().kids().eq(["own"]));
        let keys = [("own", key(8))];
        let error = found(config().data_keys(keys), Some(KeyProvider("own", 9)), true)
            .await
            .expect_err("two keys of one id")
            .to_string();
        assert!(
            error.contains("plugin `giving`") && error.contains("have the id `own`"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn an_app_without_keys_starts_unless_a_plugin_needs_them() {
        let none = found(config(), None, false).await.unwrap();
        assert!(none.get().unwrap().is_none());
        let error = found(config(), None, true)
            .await
            .expect_err("there is no key")
            .to_string();
        assert!(
            error.contains("plugin `taking`") && error.contains("LINCHPIN_DATA_KEYS"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn every_mistake_is_reported_and_no_key_is_printed() {
        let entry = |kid: &str, key: &str| format!(r#"{{"kid":"{kid}","key":"{key}"}}"#);
        let list = [
            entry("", &key(1)),
            entry("a", "hush-hush"),
            entry("b", &key(2)),
            entry("b", &key(3)),
        ];
        let started = |value: String| async {
            let vars = [
                ("LINCHPIN_DATA_KEYS".to_owned(), value),
                ("LINCHPIN_SIGNING_SECRET".to_owned(), SECRET.to_owned()),
            ];
            let config = Config::from_vars(vars).unwrap().port(0).database("memory:");
            let shown = format!("{config:?}");
            let started = found(config, None, true).await;
            (shown, started.err().map(|error| error.to_string()))
        };
        let (shown, error) = started(format!("[{}]", list.join(","))).await;
        let error = error.expect("the keys are wrong");
        for what in [
            "LINCHPIN_DATA_KEYS",
            "1 to 64 letters",
            "`key` of `a` must be 32 bytes",
            "`b` twice",
        ] {
            assert!(error.contains(what), "{what} in {error}");
        }
        for text in [&shown, &error] {
            assert!(!text.contains("hush") && !text.contains(&key(2)), "{text}");
        }
        for wrong in [
            "hush-hush",
            r#"{"kid":"a"}"#,
            r#"[{"kid":"a"}]"#,
            r#"["hush"]"#,
        ] {
            let (_, error) = started(wrong.to_owned()).await;
            let error = error.expect("the keys are wrong");
            assert!(
                error.contains("must be a JSON list") && !error.contains("hush"),
                "{error}"
            );
        }
        let (_, none) = started(format!("[{}]", entry("a", &key(1)))).await;
        assert_eq!(none, None);
    }

    #[tokio::test]
    async fn production_needs_random_keys() {
        let good: [u8; 32] = std::array::from_fn(|at| at as u8);
        for (key, starts) in [(key(7), false), (STANDARD.encode(good), true)] {
            let config = config()
                .environment(crate::Environment::Production)
                .data_keys([("a", &key)]);
            let error = found(config, None, true).await.err();
            let error = error.map(|error| error.to_string()).unwrap_or_default();
            assert_eq!(
                !error.contains("too few different bytes"),
                starts,
                "{error}"
            );
            assert!(!error.contains(&key), "{error}");
        }
    }

    #[tokio::test]
    async fn keys_in_code_are_checked_too() {
        let config = config().data_keys([("a", "hush-hush".to_owned()), ("a.b", key(1))]);
        let error = found(config, None, false)
            .await
            .expect_err("the keys are wrong")
            .to_string();
        assert!(
            error.matches(SETTING).count() == 2 && !error.contains("hush"),
            "{error}"
        );
    }
}
