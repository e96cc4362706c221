//! Keys and secret bytes: erased when dropped, hidden in `Debug`, compared in constant time.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// A key of 256 bits. It is never printed.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Key([u8; 32]);

impl Key {
    /// Creates a key from its bytes.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Reads a key of 32 bytes in base64, in the standard or in the URL-safe alphabet; `None` for
    /// any other text.
    ///
    /// ```
    /// use linchpin::seal::Key;
    ///
    /// let key = Key::from_base64("BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=");
    /// assert_eq!(key, Some(Key::new([7; 32])));
    /// assert_eq!(Key::from_base64("BwcHBw=="), None);
    /// ```
    pub fn from_base64(text: &str) -> Option<Self> {
        let text = text.trim_end_matches('=');
        let bytes = STANDARD_NO_PAD
            .decode(text)
            .or_else(|_| URL_SAFE_NO_PAD.decode(text))
            .ok()
            .map(Zeroizing::new)?;
        Some(Self(bytes.as_slice().try_into().ok()?))
    }

    /// The bytes, for code that encrypts or signs.
    pub const fn expose(&self) -> &[u8; 32] {
        &self.0
    }

    /// HMAC-SHA256 over parts. Each part follows its length, so `("ab", "c")` differs from `("a",
    /// "bc")`.
    ///
    /// ```
    /// use linchpin::seal::Key;
    ///
    /// let key = Key::new([7; 32]);
    /// assert_ne!(key.mac(&[b"ab", b"c"]), key.mac(&[b"a", b"bc"]));
    /// ```
    pub fn mac(&self, parts: &[&[u8]]) -> [u8; 32] {
        let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(&self.0)
            .expect("HMAC takes a key of any length");
        for part in parts {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part);
        }
        mac.finalize().into_bytes().into()
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        equal_in_constant_time(&self.0, &other.0)
    }
}

impl Eq for Key {}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// Secret bytes. They are never printed.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct SecretBytes(Vec<u8>);

impl SecretBytes {
    /// Creates secret bytes.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// The bytes, for code that uses them.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl PartialEq for SecretBytes {
    fn eq(&self, other: &Self) -> bool {
        equal_in_constant_time(&self.0, &other.0)
    }
}

impl Eq for SecretBytes {}

impl fmt::Debug for SecretBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretBytes(..)")
    }
}

/// Whether two secrets are equal, in a time that does not depend on their content. Lengths are not
/// secret.
pub(super) fn equal_in_constant_time(a: &[u8], b: &[u8]) -> bool {
    a.ct_eq(b).into()
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::{STANDARD, URL_SAFE};

    use super::*;

    #[test]
    fn debug_output_contains_no_secret() {
        let debug_text = format!(
            "{:?} {:#?}",
            SecretBytes::new(*b"hunter2"),
            Key::new([104; 32])
        );
        assert_eq!(debug_text, "SecretBytes(..) Key(..)");
    }

    #[test]
    fn equality_compares_every_byte() {
        let mut other = [0; 32];
        other[31] = 1;
        assert_ne!(Key::new([0; 32]), Key::new(other));
        assert_eq!(Key::new(other), Key::new(other));
        assert_eq!(SecretBytes::new(*b"ab"), SecretBytes::new(*b"ab"));
        assert_ne!(SecretBytes::new(*b"ab"), SecretBytes::new(*b"a"));
    }

    #[test]
    fn base64_of_32_bytes_is_a_key() {
        let bytes = [0xfb; 32];
        for text in [STANDARD.encode(bytes), URL_SAFE.encode(bytes)] {
            assert_eq!(Key::from_base64(&text), Some(Key::new(bytes)));
            assert_eq!(
                Key::from_base64(text.trim_end_matches('=')),
                Some(Key::new(bytes))
            );
        }
        for text in ["", "not base64 at all", &STANDARD.encode([1; 31])] {
            assert_eq!(Key::from_base64(text), None);
        }
    }
}
