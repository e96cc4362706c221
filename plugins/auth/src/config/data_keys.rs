//! Keys that encrypt stored data: `security.dataKeys`.

use linchpin::seal::DataKeys;

use super::reader::SettingsSource;
use super::{AuthConfig, Security};
use crate::keys::derive::Ring;
use crate::secret::{Key, SecretText};

/// A key that encrypts stored data: `{ kid, key }`.
#[derive(Clone, Debug)]
pub struct DataKey {
    /// The name of the key in stored data: letters, digits, dashes and underscores.
    pub kid: String,
    /// 32 bytes in base64.
    pub key: SecretText,
}

impl DataKey {
    fn bytes(&self) -> Option<Key> {
        Key::from_base64(self.key.expose())
    }
}

/// Reads the keys.
pub(super) fn read(source: &mut SettingsSource, security: &mut Security) {
    for written in source.objects("security.dataKeys").unwrap_or_default() {
        let text = |name: &str| {
            written
                .get(name)
                .and_then(serde_json::Value::as_str)
                .map(str::to_owned)
        };
        match (text("kid"), text("key"), written.len()) {
            (Some(kid), Some(key), 2) => security.data_keys.push(DataKey {
                kid,
                key: SecretText::new(key),
            }),
            _ => drop(source.wrong::<()>(
                "security.dataKeys",
                "each key must be an object { kid, key }",
            )),
        }
    }
}

/// Checks the keys.
pub(super) fn check(keys: &[DataKey], mut wrong: impl FnMut(&str, &str)) {
    for (i, key) in keys.iter().enumerate() {
        if !DataKeys::accepts_kid(&key.kid) {
            wrong(
                "security.dataKeys",
                "`kid` must be 1 to 64 letters, digits, dashes or underscores",
            );
        }
        if keys[..i].iter().any(|other| other.kid == key.kid) {
            wrong("security.dataKeys", "must not contain the same `kid` twice");
        }
        if key.bytes().is_none() {
            wrong("security.dataKeys", "`key` must be 32 bytes in base64");
        }
    }
}

impl AuthConfig {
    /// The plugin's keys for stored data, newest first: the configured keys, then the keys derived
    /// from the secrets. So data that was stored before keys were configured can be read until it
    /// is encrypted again. Keys of the app come before these.
    pub(crate) fn data_keys(&self, ring: &Ring) -> Vec<(String, Key)> {
        let own = self
            .security
            .data_keys
            .iter()
            .filter_map(|key| Some((key.kid.clone(), key.bytes()?)));
        own.chain(ring.data_keys()).collect()
    }
}
