//! Stored secrets: which values are encrypted, which are hashed, and the keys for both.
//!
//! An encrypted value contains the name of its key, so keys are rotated by adding a new first one.
//! It is bound to its place, so a value copied to another record or field cannot be decrypted.

use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes256Gcm, Nonce};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use linchpin::Result;

use super::derive::mac;
use crate::env::SecureRng;
use crate::secret::{Key, SecretBytes, same};

const VERSION: &str = "v1";

/// The place of a stored value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    /// The storage name of the entity.
    pub(crate) entity: &'static str,
    /// The id of the record.
    pub(crate) id: &'a str,
    /// The name of the field.
    pub(crate) field: &'static str,
}

impl Place<'_> {
    /// The bytes to which an encrypted value is bound. Lengths come first, so that two places never
    /// have the same bytes.
    fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.entity.len() + self.id.len() + self.field.len() + 24);
        for part in [self.entity, self.id, self.field] {
            out.extend_from_slice(&(part.len() as u64).to_be_bytes());
            out.extend_from_slice(part.as_bytes());
        }
        out
    }
}

/// The purpose of a stored MAC. A MAC of one purpose is not valid for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Domain {
    /// A numeric code, with its challenge.
    Otp,
    /// A recovery code, with its user.
    Recovery,
}

impl Domain {
    const fn name(self) -> &'static [u8] {
        match self {
            Self::Otp => b"otp",
            Self::Recovery => b"recovery",
        }
    }
}

/// The reason why a value cannot be decrypted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Sealed {
    /// Its key is not configured.
    #[error("data at rest needs key `{0}`, which is not in `security.dataKeys`")]
    KeyGone(String),
    /// It was changed, truncated, or copied from another place.
    #[error("data at rest was changed outside the application")]
    Broken,
}

/// The keys of stored data, newest first.
#[derive(Debug)]
pub(crate) struct DataKeys {
    newest: (String, Key),
    older: Vec<(String, Key)>,
}

impl DataKeys {
    /// Creates the keys from ids and keys, newest first; `None` without any.
    pub(crate) fn new(keys: impl IntoIterator<Item = (String, Key)>) -> Option<Self> {
        let mut keys = keys.into_iter();
        Some(Self {
            newest: keys.next()?,
            older: keys.collect(),
        })
    }

    fn all(&self) -> impl Iterator<Item = &(String, Key)> {
        std::iter::once(&self.newest).chain(&self.older)
    }

    /// The id of the newest key.
    pub(crate) fn kid(&self) -> &str {
        &self.newest.0
    }

    /// Whether a key is configured.
    pub(crate) fn knows(&self, kid: &str) -> bool {
        self.key(kid).is_some()
    }

    fn key(&self, kid: &str) -> Option<&Key> {
        self.all()
            .find(|(known, _)| known == kid)
            .map(|(_, key)| key)
    }

    /// Encrypts a value for its place: `v1.<kid>.<nonce>.<ciphertext>`.
    ///
    /// # Errors
    /// If there is no randomness.
    pub(crate) fn seal(
        &self,
        rng: &dyn SecureRng,
        place: Place<'_>,
        value: &[u8],
    ) -> Result<String> {
        let (kid, key) = &self.newest;
        let mut nonce = [0; 12];
        rng.fill(&mut nonce)?;
        let sealed = Aes256Gcm::new(key.expose().into())
            .encrypt(
                &Nonce::from(nonce),
                Payload {
                    msg: value,
                    aad: &place.bytes(),
                },
            )
            .map_err(|_| linchpin::Error::internal("a value is too long to encrypt"))?;
        Ok(format!(
            "{VERSION}.{kid}.{}.{}",
            URL_SAFE_NO_PAD.encode(nonce),
            URL_SAFE_NO_PAD.encode(sealed)
        ))
    }

    /// Decrypts a value of this place.
    ///
    /// # Errors
    /// If its key is not configured, or if it was not encrypted for this place.
    pub(crate) fn open(&self, place: Place<'_>, envelope: &str) -> Result<SecretBytes, Sealed> {
        let (kid, rest) = split(envelope).ok_or(Sealed::Broken)?;
        let key = self
            .key(kid)
            .ok_or_else(|| Sealed::KeyGone(kid.to_owned()))?;
        let (nonce, sealed) = rest.split_once('.').ok_or(Sealed::Broken)?;
        let nonce: [u8; 12] = URL_SAFE_NO_PAD
            .decode(nonce)
            .ok()
            .and_then(|n| n.try_into().ok())
            .ok_or(Sealed::Broken)?;
        let sealed = URL_SAFE_NO_PAD.decode(sealed).map_err(|_| Sealed::Broken)?;
        Aes256Gcm::new(key.expose().into())
            .decrypt(
                &Nonce::from(nonce),
                Payload {
                    msg: &sealed,
                    aad: &place.bytes(),
                },
            )
            .map(SecretBytes::new)
            .map_err(|_| Sealed::Broken)
    }

    /// The MAC of parts with the newest key: `v1.<kid>.<mac>`.
    pub(crate) fn mac(&self, domain: Domain, parts: &[&[u8]]) -> String {
        written(&self.newest, domain, parts)
    }

    /// The MAC of parts with each key, newest first, for a look-up in the store.
    pub(crate) fn macs(&self, domain: Domain, parts: &[&[u8]]) -> Vec<String> {
        self.all().map(|key| written(key, domain, parts)).collect()
    }

    /// Whether a stored MAC is the MAC of these parts.
    pub(crate) fn verifies(&self, domain: Domain, parts: &[&[u8]], stored: &str) -> bool {
        let Some((kid, _)) = split(stored) else {
            return false;
        };
        let Some(key) = self.all().find(|(known, _)| known == kid) else {
            return false;
        };
        same(written(key, domain, parts).as_bytes(), stored.as_bytes())
    }
}

/// The id of the key of a stored value, and the rest of the value.
fn split(stored: &str) -> Option<(&str, &str)> {
    stored
        .strip_prefix(VERSION)?
        .strip_prefix('.')?
        .split_once('.')
}

fn written((kid, key): &(String, Key), domain: Domain, parts: &[&[u8]]) -> String {
    let mut all = vec![domain.name()];
    all.extend_from_slice(parts);
    format!("{VERSION}.{kid}.{}", URL_SAFE_NO_PAD.encode(mac(key, &all)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::env::Env;

    const HERE: Place<'_> = Place {
        entity: "auth_users",
        id: "u1",
        field: "totpSecret",
    };

    fn keys(names: &[&str]) -> DataKeys {
        DataKeys::new(
            names
                .iter()
                .map(|name| ((*name).to_owned(), Key::new([name.as_bytes()[0]; 32]))),
        )
        .unwrap()
    }

    fn seal(keys: &DataKeys, value: &[u8]) -> String {
        keys.seal(&*Env::system().rng, HERE, value).unwrap()
    }

    #[test]
    fn a_value_opens_in_its_own_place_only() {
        let keys = keys(&["a"]);
        let envelope = seal(&keys, b"secret");
        assert!(envelope.starts_with("v1.a."), "{envelope}");
        assert_eq!(keys.open(HERE, &envelope).unwrap().expose(), b"secret");
        let elsewhere = [
            Place { id: "u2", ..HERE },
            Place {
                field: "phone",
                ..HERE
            },
            Place {
                entity: "auth_factors",
                ..HERE
            },
            Place {
                entity: "auth_user",
                id: "su1",
                ..HERE
            },
        ];
        for place in elsewhere {
            assert_eq!(
                keys.open(place, &envelope),
                Err(Sealed::Broken),
                "{place:?}"
            );
        }
        assert_ne!(envelope, seal(&keys, b"secret"), "the nonce is fresh");
    }

    #[test]
    fn any_changed_character_is_noticed() {
        let keys = keys(&["a"]);
        let envelope = seal(&keys, b"secret");
        for at in 0..envelope.len() {
            let mut bytes = envelope.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(bytes).unwrap();
            assert!(keys.open(HERE, &changed).is_err(), "{changed}");
            assert!(keys.open(HERE, &envelope[..at]).is_err());
        }
    }

    #[test]
    fn rotation_keeps_old_values_readable_until_their_key_goes() {
        let old = keys(&["a"]);
        let envelope = seal(&old, b"secret");
        let code = old.mac(Domain::Recovery, &[b"u1", b"ABCD"]);
        let both = keys(&["b", "a"]);
        assert_eq!(both.open(HERE, &envelope).unwrap().expose(), b"secret");
        assert!(
            seal(&both, b"x").starts_with(&format!("v1.{}.", both.kid()))
                && both.knows("a")
                && !both.knows("c")
        );
        assert!(both.verifies(Domain::Recovery, &[b"u1", b"ABCD"], &code));
        assert_eq!(both.macs(Domain::Recovery, &[b"u1", b"ABCD"])[1], code);
        let gone = keys(&["b"]);
        assert_eq!(gone.open(HERE, &envelope), Err(Sealed::KeyGone("a".into())));
        assert!(!gone.verifies(Domain::Recovery, &[b"u1", b"ABCD"], &code));
    }

    #[test]
    fn a_mac_is_of_one_domain_and_one_user() {
        let keys = keys(&["a"]);
        let mac = keys.mac(Domain::Otp, &[b"challenge", b"123456"]);
        assert!(keys.verifies(Domain::Otp, &[b"challenge", b"123456"], &mac));
        assert!(!keys.verifies(Domain::Recovery, &[b"challenge", b"123456"], &mac));
        assert!(!keys.verifies(Domain::Otp, &[b"challenge1", b"23456"], &mac));
        assert!(!keys.verifies(Domain::Otp, &[b"challenge", b"123457"], &mac));
        assert!(!mac.contains("123456"));
    }

    proptest! {
        #[test]
        fn every_value_comes_back(value: Vec<u8>) {
            let keys = keys(&["a"]);
            let envelope = seal(&keys, &value);
            let opened = keys.open(HERE, &envelope).unwrap();
            prop_assert_eq!(opened.expose(), &value[..]);
        }

        #[test]
        fn hostile_envelopes_are_refused(text in "(v1)?[.]?[ab]?[.]?[-A-Za-z0-9_=.é]{0,60}") {
            prop_assert!(keys(&["a"]).open(HERE, &text).is_err());
        }
    }
}
