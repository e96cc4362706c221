//! Reads settings from a file or from the environment: the settings of the table, and the lists and
//! maps.

use serde_json::{Map, Value};

use super::reader::SettingsSource;
use super::{ApiCredential, AuthConfig, Security, table};
use crate::keys::signing::SigningKey;
use crate::limit::Bucket;
use crate::limit::table::Limit;
#[cfg(feature = "test-util")]
use crate::password::Argon2Cost;
use crate::secret::SecretText;

impl AuthConfig {
    /// Reads `{ "security": { .. }, "auth": { .. } }`, with keys in camelCase.
    ///
    /// A mistake is reported at start-up, together with all other mistakes.
    #[must_use]
    pub fn from_json(file: &Value) -> Self {
        Self::read(SettingsSource::file(file))
    }

    /// Reads the environment: `auth.session.idleSeconds` is `LINCHPIN_AUTH_SESSION_IDLE_SECONDS`.
    /// Lists are separated by commas.
    ///
    /// A mistake is reported at start-up, together with all other mistakes.
    #[must_use]
    pub fn from_env() -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self::from_vars(std::env::vars_os().filter_map(text))
    }

    /// Like [`AuthConfig::from_env`], with these variables.
    #[must_use]
    pub fn from_vars(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        Self {
            from_environment: true,
            ..Self::read(SettingsSource::environment(variables))
        }
    }

    fn read(mut source: SettingsSource) -> Self {
        let mut out = Self::default();
        table::read_all(&mut source, &mut out);
        #[cfg(feature = "test-util")]
        if out.auth.password.argon2 == Argon2Cost::OF_TESTS {
            let _: Option<()> =
                source.wrong("auth.password.argon2", "is for tests: set it in code");
        }
        read_lists(&mut source, &mut out.security);
        let auth = &mut out.auth;
        for bucket in Bucket::ALL {
            let name = bucket.row().name;
            let numbers = [
                source.number(&format!("auth.rateLimit.{name}.max")),
                source.number(&format!("auth.rateLimit.{name}.windowSeconds")),
            ];
            if numbers != [None, None] {
                let [max, window] = numbers
                    .map(|number| number.map(|number| u32::try_from(number).unwrap_or(u32::MAX)));
                let default = bucket.row().limit;
                let limit = Limit {
                    max: max.unwrap_or(default.max),
                    window_seconds: window.unwrap_or(default.window_seconds),
                };
                auth.rate_limit.buckets.insert(name.to_owned(), limit);
            }
        }
        super::oauth::read(&mut source, auth);
        super::pages::read(&mut source, auth);
        out.problems = source.finish();
        out
    }
}

/// Reads the lists of objects.
fn read_lists(source: &mut SettingsSource, security: &mut Security) {
    for key in source.objects("security.signing.keys").unwrap_or_default() {
        match signing_key(&key) {
            Some(key) => security.keys.push(key),
            None => drop(source.wrong::<()>(
                "security.signing.keys",
                "each key must be an object { kid, privateKeyPem } or { kid, publicKeyPem }",
            )),
        }
    }
    super::data_keys::read(source, security);
    for credential in source
        .objects("security.apiCredentials")
        .unwrap_or_default()
    {
        match api_credential(&credential) {
            Some(credential) => security.api_credentials.push(credential),
            None => {
                let _ = source.wrong::<()>(
                    "security.apiCredentials",
                    "each credential must be an object { id, token, roles }",
                );
            }
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
        Some(roles) => roles
            .as_array()?
            .iter()
            .map(|r| r.as_str().map(str::to_owned))
            .collect::<Option<_>>()?,
    };
    let known = written
        .keys()
        .all(|key| ["id", "token", "roles"].contains(&key.as_str()));
    known.then_some(())?;
    Some(ApiCredential {
        id: text("id")?,
        token: SecretText::new(text("token")?),
        roles,
    })
}
