//! Recovery codes, for users who lost all other factors. Each works once. Only a MAC that is bound
//! to the user is stored.

use linchpin::Result;
use linchpin::seal::DataKeys;
use zeroize::Zeroizing;

use crate::env::SecureRng;
use crate::secret::SecretText;

/// 32 characters that are not mistaken for each other. The number is a power of two, so five random
/// bits choose one without bias.
const ALPHABET: &[u8; 32] = b"ABCDEFGHJKLMNPQRSTUVWXYZ23456789";
const LENGTH: usize = 12;
/// The domain of the MACs.
const DOMAIN: &str = "recovery";

/// A recovery code in normalised form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecoveryCode(SecretText);

impl RecoveryCode {
    /// Generates a code.
    ///
    /// # Errors
    /// If the random source fails.
    pub(crate) fn generate(rng: &dyn SecureRng) -> Result<Self> {
        let mut bytes = Zeroizing::new([0u8; LENGTH]);
        rng.fill(&mut *bytes)?;
        let text: String = bytes
            .iter()
            .map(|b| char::from(ALPHABET[usize::from(b & 31)]))
            .collect();
        Ok(Self(text.into()))
    }

    /// Parses a typed code. Case, spaces and dashes are ignored.
    pub(crate) fn parse(typed: &str) -> Option<Self> {
        let mut text = Zeroizing::new(String::with_capacity(LENGTH));
        for c in typed.chars().filter(|c| !matches!(c, ' ' | '-')) {
            let c = c.to_ascii_uppercase();
            if text.len() == LENGTH || !c.is_ascii() || !ALPHABET.contains(&(c as u8)) {
                return None;
            }
            text.push(c);
        }
        (text.len() == LENGTH).then(|| Self(text.into()))
    }

    /// The code as its owner sees it: `XXXX-XXXX-XXXX`.
    pub(crate) fn formatted(&self) -> SecretText {
        let text = self.0.expose();
        SecretText::new(format!("{}-{}-{}", &text[..4], &text[4..8], &text[8..]))
    }

    /// The stored form, with the newest key.
    pub(crate) fn stored(&self, keys: &DataKeys, user: &str) -> String {
        keys.mac(DOMAIN, &[user.as_bytes(), self.0.expose().as_bytes()])
    }

    /// The possible stored forms: one for each configured key.
    pub(crate) fn candidates(&self, keys: &DataKeys, user: &str) -> Vec<String> {
        keys.macs(DOMAIN, &[user.as_bytes(), self.0.expose().as_bytes()])
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::env::Env;
    use crate::secret::Key;

    fn keys() -> DataKeys {
        DataKeys::new([("a".to_owned(), Key::new([1; 32]))]).unwrap()
    }

    #[test]
    fn codes_differ_and_use_every_character() {
        let rng = Env::system().rng;
        let codes: Vec<_> = (0..500)
            .map(|_| RecoveryCode::generate(&*rng).unwrap())
            .collect();
        let texts: BTreeSet<&str> = codes.iter().map(|c| c.0.expose()).collect();
        assert_eq!(texts.len(), codes.len());
        let used: BTreeSet<char> = texts.iter().flat_map(|t| t.chars()).collect();
        assert_eq!(used, ALPHABET.iter().map(|b| char::from(*b)).collect());
    }

    #[test]
    fn case_spaces_and_dashes_are_ignored() {
        let code = RecoveryCode::parse("ABCDEFGH2345").unwrap();
        assert_eq!(code.formatted().expose(), "ABCD-EFGH-2345");
        for typed in [
            "abcd-efgh-2345",
            " ABCD efgh 2345 ",
            "a-b-c-d-e-f-g-h-2-3-4-5",
            "abcdefgh2345",
        ] {
            assert_eq!(RecoveryCode::parse(typed), Some(code.clone()), "{typed}");
        }
        for typed in [
            "",
            "ABCD-EFGH-234",
            "ABCD-EFGH-23456",
            "ABCD-EFGH-2340",
            "ABCD-EFGH-234I",
            "ABCD_EFGH_2345",
            "ÀBCD-EFGH-2345",
        ] {
            assert_eq!(RecoveryCode::parse(typed), None, "{typed}");
        }
    }

    #[test]
    fn stored_recovery_codes_hide_the_code_and_are_bound_to_the_user() {
        let code = RecoveryCode::parse("ABCD-EFGH-2345").unwrap();
        let stored = code.stored(&keys(), "u1");
        assert!(!stored.contains("ABCD"));
        assert_eq!(code.candidates(&keys(), "u1")[0], stored);
        assert_ne!(code.candidates(&keys(), "u2")[0], stored);
    }

    proptest! {
        #[test]
        fn displayed_recovery_codes_can_be_parsed(seed: [u8; LENGTH]) {
            let text: String = seed.iter().map(|b| char::from(ALPHABET[usize::from(b & 31)])).collect();
            let code = RecoveryCode(text.into());
            prop_assert_eq!(RecoveryCode::parse(code.formatted().expose()), Some(code));
        }

        #[test]
        fn arbitrary_input_causes_no_panic(typed: String) {
            let _ = RecoveryCode::parse(&typed);
        }
    }
}
