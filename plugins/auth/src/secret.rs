//! Secret values: erased when dropped, hidden in `Debug`, not serialisable, compared in constant
//! time.

use std::fmt;

pub(crate) use linchpin::seal::{Key, SecretBytes};
use serde::{Deserialize, Deserializer};
use subtle::ConstantTimeEq;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// Whether two secrets are equal, in a time that does not depend on their content. Lengths are not
/// secret.
pub(crate) fn same(a: &[u8], b: &[u8]) -> bool {
    a.ct_eq(b).into()
}

/// A secret text: a password, a token, a code.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct SecretText(String);

impl SecretText {
    /// Creates a secret text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, for code that checks or sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for SecretText {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<Zeroizing<String>> for SecretText {
    fn from(mut text: Zeroizing<String>) -> Self {
        Self(std::mem::take(&mut *text))
    }
}

/// Bodies of requests may contain secrets; responses cannot.
impl<'de> Deserialize<'de> for SecretText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self)
    }
}

impl PartialEq for SecretText {
    fn eq(&self, other: &Self) -> bool {
        same(self.0.as_bytes(), other.0.as_bytes())
    }
}

impl Eq for SecretText {}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_prints_a_secret() {
        let shown = format!(
            "{:?} {:#?}",
            SecretText::new("hunter2hunter2"),
            Some(SecretText::new("hunter2hunter2")),
        );
        assert!(!shown.contains("hunter2"), "{shown}");
    }

    #[test]
    fn secret_equality_compares_all_bytes() {
        assert_eq!(SecretText::new("abc"), SecretText::new("abc"));
        for other in ["abd", "bbc", "ab", "abcd", ""] {
            assert_ne!(SecretText::new("abc"), SecretText::new(other));
        }
        assert!(same(b"", b"") && !same(b"", b"a"));
    }

    #[test]
    fn secret_text_can_be_deserialized() {
        #[derive(Deserialize)]
        struct Body {
            password: SecretText,
        }
        let body: Body = serde_json::from_str(r#"{"password":"violet otter"}"#).unwrap();
        assert_eq!(body.password.expose(), "violet otter");
    }
}
