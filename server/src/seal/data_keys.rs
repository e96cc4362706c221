//! The keys of stored data: encryption, and codes that verify a secret without storing it.

use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes256Gcm, Nonce};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::key::equal_in_constant_time;
use super::{Key, Place, SecretBytes};
use crate::{Error, Result};

/// The version of the stored format.
const VERSION: &str = "v1";
/// The maximum length of the id of a key, in bytes.
const MAX_KID_LENGTH: usize = 64;

/// The reason why a stored value cannot be decrypted. It never contains the value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// The key with this id is not configured.
    #[error("stored data is encrypted with key `{0}`, which is not in `security.dataKeys`")]
    KeyGone(String),
    /// The value was changed, truncated, or copied from another place.
    #[error("the stored value was changed outside the application, or copied from another place")]
    Broken,
}

/// The keys of stored data, newest first. The newest key encrypts; all keys decrypt.
///
/// The algorithm is AES-256-GCM with a random nonce. A stored value is
/// `v1.<id of the key>.<nonce>.<ciphertext>`; nonce and ciphertext are in base64.
///
/// ```
/// use linchpin::seal::{DataKeys, Key, Place};
///
/// # fn main() -> linchpin::Result<()> {
/// let place = Place { entity: "endpoints", id: "e1", field: "secret" };
/// let (old, new) = (("a".to_owned(), Key::new([1; 32])), ("b".to_owned(), Key::new([2; 32])));
/// let stored = DataKeys::new([old.clone()])?.seal(place, b"hunter2")?;
///
/// // A value of the older key is still readable. New values use the first key.
/// let keys = DataKeys::new([new, old])?;
/// assert_eq!(keys.open(place, &stored).unwrap().expose(), b"hunter2");
/// assert!(keys.seal(place, b"hunter2")?.starts_with("v1.b."));
///
/// // The same value in another record cannot be decrypted.
/// assert!(keys.open(Place { id: "e2", ..place }, &stored).is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct DataKeys {
    newest: (String, Key),
    older: Vec<(String, Key)>,
}

impl DataKeys {
    /// Creates the keys from ids and keys, newest first.
    ///
    /// # Errors
    /// If there is no key, if an id does not [fit](DataKeys::accepts_kid), or if two keys have the
    /// same id.
    pub fn new(keys: impl IntoIterator<Item = (String, Key)>) -> Result<Self> {
        let mut keys = keys.into_iter();
        let newest = keys
            .next()
            .ok_or_else(|| Error::internal("there is no key for stored data"))?;
        let keys = Self {
            newest,
            older: keys.collect(),
        };
        for (at, kid) in keys.kids().enumerate() {
            if !Self::accepts_kid(kid) {
                return Err(Error::internal(format!(
                    "the id `{kid}` of a data key must be 1 to {MAX_KID_LENGTH} letters, digits, \
                     dashes or underscores"
                )));
            }
            if keys.kids().take(at).any(|other| other == kid) {
                return Err(Error::internal(format!(
                    "two data keys have the id `{kid}`"
                )));
            }
        }
        Ok(keys)
    }

    /// Whether a text can be the id of a key: 1 to 64 letters, digits, dashes or underscores.
    pub fn accepts_kid(kid: &str) -> bool {
        let fits = |b: u8| b.is_ascii_alphanumeric() || b"_-".contains(&b);
        (1..=MAX_KID_LENGTH).contains(&kid.len()) && kid.bytes().all(fits)
    }

    fn all(&self) -> impl Iterator<Item = &(String, Key)> {
        std::iter::once(&self.newest).chain(&self.older)
    }

    /// The id of the newest key.
    pub fn kid(&self) -> &str {
        &self.newest.0
    }

    /// The ids of all keys, newest first.
    pub fn kids(&self) -> impl Iterator<Item = &str> {
        self.all().map(|(kid, _)| kid.as_str())
    }

    /// Whether a key with this id is configured.
    pub fn knows(&self, kid: &str) -> bool {
        self.key(kid).is_some()
    }

    fn key(&self, kid: &str) -> Option<&Key> {
        self.all()
            .find(|(known, _)| known == kid)
            .map(|(_, key)| key)
    }

    /// Encrypts a value for its place with the newest key.
    ///
    /// # Errors
    /// `unavailable` if the system has no randomness; `internal` for a value of more than 64 GiB.
    pub fn seal(&self, place: Place<'_>, value: &[u8]) -> Result<String> {
        let (kid, key) = &self.newest;
        let mut nonce = [0; 12];
        getrandom::fill(&mut nonce).map_err(Error::unavailable)?;
        let sealed = Aes256Gcm::new(key.expose().into())
            .encrypt(
                &Nonce::from(nonce),
                Payload {
                    msg: value,
                    aad: &place.bytes(),
                },
            )
            .map_err(|_| Error::internal("a value is too long to encrypt"))?;
        Ok(format!(
            "{VERSION}.{kid}.{}.{}",
            URL_SAFE_NO_PAD.encode(nonce),
            URL_SAFE_NO_PAD.encode(sealed)
        ))
    }

    /// Decrypts a value of this place.
    ///
    /// # Errors
    /// If the key of the value is not configured, or if the value was not encrypted for this place.
    pub fn open(&self, place: Place<'_>, stored: &str) -> Result<SecretBytes, SealError> {
        let (kid, rest) = split(stored).ok_or(SealError::Broken)?;
        let key = self
            .key(kid)
            .ok_or_else(|| SealError::KeyGone(kid.to_owned()))?;
        let (nonce, sealed) = rest.split_once('.').ok_or(SealError::Broken)?;
        let nonce: [u8; 12] = URL_SAFE_NO_PAD
            .decode(nonce)
            .ok()
            .and_then(|n| n.try_into().ok())
            .ok_or(SealError::Broken)?;
        let sealed = URL_SAFE_NO_PAD
            .decode(sealed)
            .map_err(|_| SealError::Broken)?;
        Aes256Gcm::new(key.expose().into())
            .decrypt(
                &Nonce::from(nonce),
                Payload {
                    msg: &sealed,
                    aad: &place.bytes(),
                },
            )
            .map(SecretBytes::new)
            .map_err(|_| SealError::Broken)
    }

    /// The MAC of parts with the newest key: `v1.<id of the key>.<mac>`. It verifies a secret that
    /// is not stored itself, such as a recovery code. A MAC of one domain is not valid in another.
    ///
    /// ```
    /// use linchpin::seal::{DataKeys, Key};
    ///
    /// # fn main() -> linchpin::Result<()> {
    /// let keys = DataKeys::new([("a".to_owned(), Key::new([7; 32]))])?;
    /// let stored = keys.mac("recovery", &[b"user-1", b"ABCD"]);
    /// assert!(keys.verifies("recovery", &[b"user-1", b"ABCD"], &stored));
    /// assert!(!keys.verifies("recovery", &[b"user-2", b"ABCD"], &stored));
    /// # Ok(())
    /// # }
    /// ```
    pub fn mac(&self, domain: &str, parts: &[&[u8]]) -> String {
        mac_text(&self.newest, domain, parts)
    }

    /// The MACs of parts with each key, newest first, for a look-up of stored MACs.
    pub fn macs(&self, domain: &str, parts: &[&[u8]]) -> Vec<String> {
        self.all().map(|key| mac_text(key, domain, parts)).collect()
    }

    /// Whether a stored MAC is the MAC of these parts. The time does not depend on the stored MAC.
    pub fn verifies(&self, domain: &str, parts: &[&[u8]], stored: &str) -> bool {
        let Some((kid, _)) = split(stored) else {
            return false;
        };
        let Some(key) = self.all().find(|(known, _)| known == kid) else {
            return false;
        };
        equal_in_constant_time(mac_text(key, domain, parts).as_bytes(), stored.as_bytes())
    }
}

/// The id of the key of a stored value, and the rest of the value.
fn split(stored: &str) -> Option<(&str, &str)> {
    stored
        .strip_prefix(VERSION)?
        .strip_prefix('.')?
        .split_once('.')
}

fn mac_text((kid, key): &(String, Key), domain: &str, parts: &[&[u8]]) -> String {
    let mut all = vec![domain.as_bytes()];
    all.extend_from_slice(parts);
    format!("{VERSION}.{kid}.{}", URL_SAFE_NO_PAD.encode(key.mac(&all)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PLACE: Place<'_> = Place {
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
        keys.seal(PLACE, value).unwrap()
    }

    #[test]
    fn a_value_is_decrypted_only_in_its_own_place() {
        let keys = keys(&["a"]);
        let envelope = seal(&keys, b"secret");
        assert!(envelope.starts_with("v1.a."), "{envelope}");
        assert_eq!(keys.open(PLACE, &envelope).unwrap().expose(), b"secret");
        let elsewhere = [
            Place { id: "u2", ..PLACE },
            Place {
                field: "phone",
                ..PLACE
            },
            Place {
                entity: "auth_factors",
                ..PLACE
            },
            Place {
                entity: "auth_user",
                id: "su1",
                ..PLACE
            },
        ];
        for place in elsewhere {
            assert_eq!(
                keys.open(place, &envelope),
                Err(SealError::Broken),
                "{place:?}"
            );
        }
        assert_ne!(
            envelope,
            seal(&keys, b"secret"),
            "each value has a new nonce"
        );
    }

    /// Stored values must stay readable in later versions.
    #[test]
    fn the_stored_format_does_not_change() {
        let keys = DataKeys::new([("a".to_owned(), Key::new([7; 32]))]).unwrap();
        let stored = "v1.a.AAAAAAAAAAAAAAAA.Er3HwJ7mCNZk4U8a8pPnPIUSiW4AGg";
        assert_eq!(keys.open(PLACE, stored).unwrap().expose(), b"secret");
        assert_eq!(
            keys.mac("otp", &[b"challenge", b"123456"]),
            "v1.a.gMpELYMAqGb7yUJCbSV2abeWoe5Dsl6VGWWmErSOkTQ"
        );
    }

    #[test]
    fn a_value_with_a_changed_character_is_refused() {
        let keys = keys(&["a"]);
        let envelope = seal(&keys, b"secret");
        for at in 0..envelope.len() {
            let mut bytes = envelope.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(bytes).unwrap();
            assert!(keys.open(PLACE, &changed).is_err(), "{changed}");
            assert!(keys.open(PLACE, &envelope[..at]).is_err());
        }
    }

    #[test]
    fn old_values_stay_readable_until_their_key_is_removed() {
        let old = keys(&["a"]);
        let envelope = seal(&old, b"secret");
        let code = old.mac("recovery", &[b"u1", b"ABCD"]);
        let both = keys(&["b", "a"]);
        assert_eq!(both.open(PLACE, &envelope).unwrap().expose(), b"secret");
        assert!(
            seal(&both, b"x").starts_with(&format!("v1.{}.", both.kid()))
                && both.knows("a")
                && !both.knows("c")
        );
        assert!(both.kids().eq(["b", "a"]));
        assert!(both.verifies("recovery", &[b"u1", b"ABCD"], &code));
        assert_eq!(both.macs("recovery", &[b"u1", b"ABCD"])[1], code);
        let without_old_key = keys(&["b"]);
        assert_eq!(
            without_old_key.open(PLACE, &envelope),
            Err(SealError::KeyGone("a".into()))
        );
        assert!(!without_old_key.verifies("recovery", &[b"u1", b"ABCD"], &code));
    }

    #[test]
    fn a_mac_is_bound_to_its_domain_and_parts() {
        let keys = keys(&["a"]);
        let mac = keys.mac("otp", &[b"challenge", b"123456"]);
        assert!(keys.verifies("otp", &[b"challenge", b"123456"], &mac));
        assert!(!keys.verifies("recovery", &[b"challenge", b"123456"], &mac));
        assert!(!keys.verifies("otp", &[b"challenge1", b"23456"], &mac));
        assert!(!keys.verifies("otp", &[b"challenge", b"123457"], &mac));
        assert!(!mac.contains("123456"));
    }

    #[test]
    fn ids_are_checked_and_no_key_is_printed() {
        let key = |kid: &str| (kid.to_owned(), Key::new([104; 32]));
        for (list, what) in [
            (vec![], "there is no key"),
            (vec![key("a"), key("")], "1 to 64 letters"),
            (vec![key("a.b")], "`a.b`"),
            (vec![key(&"a".repeat(65))], "1 to 64 letters"),
            (
                vec![key("a"), key("b"), key("a")],
                "two data keys have the id `a`",
            ),
        ] {
            let error = DataKeys::new(list).unwrap_err();
            assert!(format!("{error:?}").contains(what), "{error:?}");
        }
        let debug_text = format!("{:?}", keys(&["a", "h"]));
        assert!(
            !debug_text.contains("97") && !debug_text.contains("104"),
            "{debug_text}"
        );
    }

    proptest! {
        #[test]
        fn every_sealed_value_can_be_opened(value: Vec<u8>) {
            let keys = keys(&["a"]);
            let envelope = seal(&keys, &value);
            let opened = keys.open(PLACE, &envelope).unwrap();
            prop_assert_eq!(opened.expose(), &value[..]);
        }

        #[test]
        fn hostile_envelopes_are_refused(text in "(v1)?[.]?[ab]?[.]?[-A-Za-z0-9_=.é]{0,60}") {
            prop_assert!(keys(&["a"]).open(PLACE, &text).is_err());
        }
    }
}
