//! The identification of the sender by RFC 8292: keys, and signed tokens.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use aws_lc_rs::agreement::{ECDH_P256, PrivateKey};
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::encoding::{AsBigEndian, EcPrivateKeyBin};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use linchpin::{Error, Result, Timestamp};
use parking_lot::Mutex;
use serde::Serialize;
use zeroize::Zeroizing;

use super::{decode, encode};

/// The lifetime of a token: 12 hours. RFC 8292 allows at most 24 hours.
const TOKEN_LIFETIME: Duration = Duration::from_hours(12);
/// A token is replaced this long before it expires.
const RENEWAL_MARGIN: Duration = Duration::from_hours(1);
/// The maximum number of cached tokens.
const MAX_TOKENS: usize = 1_000;

/// The error of a text that is not a VAPID key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a VAPID key must be a P-256 private key of 32 bytes in base64url: create one with the command `push keys`"
)]
pub struct VapidKeyError;

/// A key that identifies the app to push services.
///
/// Browsers get the public key when they subscribe. Their push services accept messages only from a
/// sender that signs with the private key.
///
/// ```
/// use linchpin_push::VapidKey;
///
/// # fn main() -> Result<(), linchpin_push::VapidKeyError> {
/// let key = VapidKey::generate();
/// let same = VapidKey::parse(&key.private_text())?;
/// assert_eq!(key.public_text(), same.public_text());
/// assert!(VapidKey::parse("too short").is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct VapidKey {
    private: Zeroizing<Vec<u8>>,
    public: String,
    id: String,
    signing: EncodingKey,
}

impl fmt::Debug for VapidKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VapidKey")
            .field("public", &self.public)
            .finish_non_exhaustive()
    }
}

impl VapidKey {
    /// Generates a key.
    ///
    /// # Panics
    /// If the operating system has no random numbers.
    #[expect(clippy::expect_used, reason = "nothing works without random numbers")]
    pub fn generate() -> Self {
        let key = PrivateKey::generate(&ECDH_P256).expect("random numbers");
        let bytes: EcPrivateKeyBin<'_> = key.as_be_bytes().expect("a key just made");
        Self::of(bytes.as_ref()).expect("a key just made")
    }

    /// Reads the private key: 32 bytes in base64url.
    ///
    /// # Errors
    /// If the text is something else.
    pub fn parse(text: &str) -> std::result::Result<Self, VapidKeyError> {
        let bytes = Zeroizing::new(decode(text.trim()).ok_or(VapidKeyError)?);
        Self::of(&bytes).ok_or(VapidKeyError)
    }

    fn of(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != 32 {
            return None;
        }
        let key = PrivateKey::from_private_key(&ECDH_P256, bytes).ok()?;
        let public = key.compute_public_key().ok()?;
        let pair = EcdsaKeyPair::from_private_key_and_public_key(
            &ECDSA_P256_SHA256_FIXED_SIGNING,
            bytes,
            public.as_ref(),
        );
        let pkcs8 = pair.ok()?.to_pkcs8v1().ok()?;
        let id = encode(&digest(&SHA256, public.as_ref()).as_ref()[..12]);
        Some(Self {
            private: Zeroizing::new(bytes.to_vec()),
            public: encode(public.as_ref()),
            id,
            signing: EncodingKey::from_ec_der(pkcs8.as_ref()),
        })
    }

    /// The private key, for the environment of the app. Keep it secret.
    pub fn private_text(&self) -> Zeroizing<String> {
        Zeroizing::new(encode(&*self.private))
    }

    /// The public key in the format of browsers: 65 bytes in base64url.
    pub fn public_text(&self) -> &str {
        &self.public
    }

    /// A short id of the key, which subscriptions store.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// The header `authorization` for a push service.
    fn authorization(&self, origin: &str, subject: &str, expires_at: Timestamp) -> Result<String> {
        #[derive(Serialize)]
        struct Claims<'a> {
            aud: &'a str,
            exp: i64,
            sub: &'a str,
        }
        let claims = Claims {
            aud: origin,
            exp: expires_at.millis().div_euclid(1_000),
            sub: subject,
        };
        let header = Header::new(Algorithm::ES256);
        let token =
            jsonwebtoken::encode(&header, &claims, &self.signing).map_err(Error::internal)?;
        Ok(format!("vapid t={token},k={}", self.public))
    }
}

impl std::str::FromStr for VapidKey {
    type Err = VapidKeyError;

    fn from_str(text: &str) -> std::result::Result<Self, VapidKeyError> {
        Self::parse(text)
    }
}

/// Whether a text is a contact that push services accept: `mailto:` or `https://`, at most 256
/// bytes.
pub(crate) fn is_subject(text: &str) -> bool {
    let rest = text
        .strip_prefix("mailto:")
        .or_else(|| text.strip_prefix("https://"));
    let visible = |byte: u8| (0x21..0x7f).contains(&byte);
    rest.is_some_and(|rest| !rest.is_empty()) && text.bytes().all(visible) && text.len() <= 256
}

/// A cache of signed tokens, one for each push service and key.
#[derive(Default)]
pub(crate) struct Tokens(Mutex<HashMap<(String, String), (Timestamp, String)>>);

impl Tokens {
    /// The header `authorization` for a push service.
    ///
    /// # Errors
    /// `internal` if the token cannot be signed.
    pub(crate) fn authorization(
        &self,
        key: &VapidKey,
        origin: &str,
        subject: &str,
        now: Timestamp,
    ) -> Result<String> {
        let cache_key = (origin.to_owned(), key.id.clone());
        let usable = |until: Timestamp| {
            let rest = until.millis().saturating_sub(now.millis());
            rest > millis(RENEWAL_MARGIN) && rest <= millis(TOKEN_LIFETIME)
        };
        if let Some((until, text)) = self.0.lock().get(&cache_key)
            && usable(*until)
        {
            return Ok(text.clone());
        }
        let until = Timestamp::from_millis(now.millis().saturating_add(millis(TOKEN_LIFETIME)));
        let text = key.authorization(origin, subject, until)?;
        let mut cache = self.0.lock();
        if cache.len() >= MAX_TOKENS {
            cache.clear();
        }
        cache.insert(cache_key, (until, text.clone()));
        Ok(text)
    }
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    fn parts(header: &str) -> (serde_json::Value, String) {
        let token = header.strip_prefix("vapid t=").unwrap();
        let (token, key) = token.split_once(",k=").unwrap();
        let claims = token.split('.').nth(1).unwrap();
        let claims = serde_json::from_slice(&decode(claims).unwrap()).unwrap();
        (claims, key.to_owned())
    }

    #[test]
    fn a_token_names_the_service_and_is_reused_until_an_hour_before_its_end() {
        let (key, tokens) = (VapidKey::generate(), Tokens::default());
        let made = |origin: &str, now| {
            tokens
                .authorization(&key, origin, "mailto:ops@example.com", at(now))
                .unwrap()
        };
        let first = made("https://push.example", 1_000);
        let (claims, public) = parts(&first);
        assert_eq!(claims["aud"], "https://push.example");
        assert_eq!(claims["exp"], 1_000 + 12 * 3_600);
        assert_eq!(claims["sub"], "mailto:ops@example.com");
        assert_eq!(public, key.public_text());
        assert_eq!(made("https://push.example", 1_000 + 11 * 3_600 - 1), first);
        assert_ne!(made("https://push.example", 1_000 + 11 * 3_600), first);
        assert_ne!(made("https://push.example:8443", 1_000), first);
        // After the clock was set back, the cached token would be valid for longer than 24 hours. A
        // new one is signed.
        let back = made("https://push.example", -50_000);
        assert_eq!(parts(&back).0["exp"], -50_000 + 12 * 3_600);
    }

    #[test]
    fn texts_other_than_a_private_key_are_refused() {
        let key = VapidKey::generate();
        let long = encode([1; 33]);
        let zero = encode([0; 32]);
        let large = encode([0xff; 32]);
        for text in [
            "",
            "x",
            "no base64!",
            key.public_text(),
            &long,
            &zero,
            &large,
        ] {
            assert_eq!(VapidKey::parse(text).err(), Some(VapidKeyError), "{text}");
        }
        let padded = format!(" {}= ", *key.private_text());
        assert_eq!(VapidKey::parse(&padded).unwrap().id(), key.id());
        assert!(!format!("{key:?}").contains(key.private_text().as_str()));
    }

    #[test]
    fn a_subject_is_a_mailto_address_or_an_https_page() {
        for good in ["mailto:ops@example.com", "https://example.com/contact"] {
            assert!(is_subject(good), "{good}");
        }
        for bad in [
            "",
            "ops@example.com",
            "http://example.com",
            "mailto:",
            "mailto:a b",
            "https://x\r\ny",
        ] {
            assert!(!is_subject(bad), "{bad}");
        }
    }
}
