//! Derived keys: one per purpose, from the signing secrets. The keys of stored data are derived
//! too, unless the app configures them.
//!
//! A value made with an older secret stays valid while that secret is configured. No two purposes
//! share a key, so a value of one is not valid for another.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hkdf::Hkdf;
use sha2::Sha256;

use crate::secret::{Key, same};

/// The salt of all derivations, with the version of this scheme.
const SALT: &[u8] = b"linchpin/auth/v1";

/// The purpose of a derived key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The MAC of CSRF tokens.
    Csrf,
    /// The MAC of refresh tokens.
    Refresh,
    /// The MAC of device tokens.
    Device,
    /// The names of rate-limit and lockout counters.
    Limit,
    /// The pseudonyms of deleted users.
    Audit,
    /// The salts of passwords of accounts whose address is not verified.
    Salt,
}

impl Purpose {
    const ALL: [Self; 6] = [
        Self::Csrf,
        Self::Refresh,
        Self::Device,
        Self::Limit,
        Self::Audit,
        Self::Salt,
    ];

    const fn info(self) -> &'static str {
        match self {
            Self::Csrf => "csrf",
            Self::Refresh => "refresh",
            Self::Device => "device",
            Self::Limit => "limit",
            Self::Audit => "audit",
            Self::Salt => "salt",
        }
    }
}

/// HKDF-SHA256 of a secret for a purpose.
fn expand(secret: &[u8], info: &str) -> Key {
    let mut bytes = [0; 32];
    Hkdf::<Sha256>::new(Some(SALT), secret)
        .expand(info.as_bytes(), &mut bytes)
        .expect("32 bytes are fewer than the 8160 that HKDF-SHA256 can give");
    Key::new(bytes)
}

/// The derived keys of one secret.
#[derive(Debug)]
struct Generation {
    kid: String,
    keys: [Key; Purpose::ALL.len()],
    data: Key,
}

impl Generation {
    fn new(secret: &[u8]) -> Self {
        let kid = URL_SAFE_NO_PAD.encode(&expand(secret, "kid").expose()[..9]);
        let data = expand(secret, &format!("data/{kid}"));
        Self {
            keys: Purpose::ALL.map(|purpose| expand(secret, purpose.info())),
            data,
            kid,
        }
    }

    fn key(&self, purpose: Purpose) -> &Key {
        &self.keys[purpose as usize]
    }
}

/// The derived keys of all secrets, newest first.
#[derive(Debug)]
pub(crate) struct Ring {
    newest: Generation,
    older: Vec<Generation>,
}

impl Ring {
    /// Derives the keys of these secrets, newest first; `None` without a secret.
    pub(crate) fn new<S: AsRef<[u8]>>(secrets: impl IntoIterator<Item = S>) -> Option<Self> {
        let mut all = secrets
            .into_iter()
            .map(|secret| Generation::new(secret.as_ref()));
        Some(Self {
            newest: all.next()?,
            older: all.collect(),
        })
    }

    fn all(&self) -> impl Iterator<Item = &Generation> {
        std::iter::once(&self.newest).chain(&self.older)
    }

    /// The key ids of HS256, newest first.
    pub(crate) fn kids(&self) -> impl Iterator<Item = &str> {
        self.all().map(|generation| generation.kid.as_str())
    }

    /// The id of the newest secret, for values that contain the name of their key.
    pub(crate) fn kid(&self) -> &str {
        &self.newest.kid
    }

    /// The key of new values.
    pub(crate) fn key(&self, purpose: Purpose) -> &Key {
        self.newest.key(purpose)
    }

    /// The key of a value that contains the name of its key.
    pub(crate) fn key_of(&self, kid: &str, purpose: Purpose) -> Option<&Key> {
        self.all()
            .find(|generation| generation.kid == kid)
            .map(|generation| generation.key(purpose))
    }

    /// The MAC of parts with the newest secret.
    pub(crate) fn mac(&self, purpose: Purpose, parts: &[&[u8]]) -> [u8; 32] {
        self.key(purpose).mac(parts)
    }

    /// Whether a MAC is valid for any of the secrets.
    pub(crate) fn verifies(&self, purpose: Purpose, parts: &[&[u8]], presented: &[u8]) -> bool {
        // Checks all of them, so that the time does not depend on the secret.
        self.all().fold(false, |right, generation| {
            right | same(&generation.key(purpose).mac(parts), presented)
        })
    }

    /// Keys of stored data by id, newest first, for apps that configure none.
    pub(crate) fn data_keys(&self) -> Vec<(String, Key)> {
        self.all()
            .map(|generation| (generation.kid.clone(), generation.data.clone()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const OLD: &str = "an old secret of more than 32 bytes, no longer used";
    const NEW: &str = "a new secret of more than 32 bytes, used from now on";

    #[test]
    fn key_derivation_matches_standard_hkdf() {
        // Python: HKDF(SHA256, 32, salt=b"linchpin/auth/v1",
        // info=b"csrf").derive(b"0123456789abcdef0123456789abcdef")
        let ring = Ring::new(["0123456789abcdef0123456789abcdef"]).unwrap();
        let number =
            u128::from_be_bytes(ring.key(Purpose::Csrf).expose()[..16].try_into().unwrap());
        assert_eq!(format!("{number:032x}"), "7b58e8c4442e3a1357080fd661338594");
        assert_eq!(ring.kid(), "X0NlmE3mL6i4");
    }

    #[test]
    fn purposes_and_secrets_share_no_key() {
        let ring = Ring::new([NEW, OLD]).unwrap();
        let mut keys = BTreeSet::new();
        for generation in ring.all() {
            for purpose in Purpose::ALL {
                assert!(
                    keys.insert(*generation.key(purpose).expose()),
                    "{purpose:?}"
                );
            }
            assert!(keys.insert(*generation.data.expose()));
        }
        assert_eq!(ring.kids().collect::<BTreeSet<_>>().len(), 2);
        assert!(
            ring.kid().len() == 12
                && ring
                    .kid()
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        );
    }

    #[test]
    fn keys_are_stored_in_the_order_of_purposes() {
        let ring = Ring::new([NEW]).unwrap();
        for purpose in Purpose::ALL {
            assert_eq!(ring.key(purpose), &expand(NEW.as_bytes(), purpose.info()));
        }
    }

    #[test]
    fn a_mac_of_an_older_secret_is_valid_while_it_is_configured() {
        let before = Ring::new([OLD]).unwrap();
        let mac = before.mac(Purpose::Csrf, &[b"nonce", b"sid"]);
        let after = Ring::new([NEW, OLD]).unwrap();
        assert!(after.verifies(Purpose::Csrf, &[b"nonce", b"sid"], &mac));
        assert!(!after.verifies(Purpose::Device, &[b"nonce", b"sid"], &mac));
        assert!(!after.verifies(Purpose::Csrf, &[b"nonces", b"id"], &mac));
        assert_ne!(after.mac(Purpose::Csrf, &[b"nonce", b"sid"]), mac);
        assert!(
            !Ring::new([NEW])
                .unwrap()
                .verifies(Purpose::Csrf, &[b"nonce", b"sid"], &mac)
        );
        assert_eq!(
            after.key_of(before.kid(), Purpose::Refresh),
            Some(before.key(Purpose::Refresh))
        );
        assert_eq!(after.key_of("nobody", Purpose::Refresh), None);
    }

    #[test]
    fn a_key_ring_needs_a_secret() {
        assert!(Ring::new(Vec::<String>::new()).is_none());
    }
}
