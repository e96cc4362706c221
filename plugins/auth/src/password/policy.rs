//! Rules for new passwords. They do not apply to passwords at sign-in.

use linchpin::{Error, Problem, Result};
use unicode_normalization::UnicodeNormalization as _;

use super::common::is_common;
use super::predictable::is_predictable;
use crate::error::{PASSWORD_TOO_COMMON, refuse_field};
use crate::identity::fold;
use crate::secret::SecretText;

/// The field of the errors.
pub(crate) const FIELD: &str = "password";

/// Maximum size of a normalised password in bytes, which bounds the work.
const MAX_BYTES: usize = 512;

/// A password must contain more than this number of characters that belong to no name.
const CHARS_BESIDES_NAMES: usize = 4;

/// A password in the form that is hashed: NFC, otherwise as typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Password(SecretText);

impl Password {
    /// A password for a check. Only its size is limited.
    ///
    /// # Errors
    /// 400 if it is empty or too long.
    pub(crate) fn for_check(typed: &SecretText, max_chars: usize) -> Result<Self> {
        let password = Self::normalised(typed)?;
        match password.expose().chars().count() {
            0 => Err(invalid("required", "must not be empty")),
            n if n > max_chars => Err(invalid(
                "max_length",
                format!("must be at most {max_chars} characters long"),
            )),
            _ => Ok(password),
        }
    }

    fn normalised(typed: &SecretText) -> Result<Self> {
        // NFC leaves at least a third of the bytes, so a longer text would still be too long.
        if typed.expose().len() > 3 * MAX_BYTES {
            return Err(invalid(
                "max_length",
                format!("must be at most {MAX_BYTES} bytes long"),
            ));
        }
        let text: String = typed.expose().nfc().collect();
        let password = Self(text.into());
        if password.expose().len() > MAX_BYTES {
            return Err(invalid(
                "max_length",
                format!("must be at most {MAX_BYTES} bytes long"),
            ));
        }
        Ok(password)
    }

    /// The text for the hash.
    pub(crate) fn expose(&self) -> &str {
        self.0.expose()
    }
}

fn invalid(code: &'static str, message: impl Into<String>) -> Error {
    Error::invalid(Problem::new(FIELD, code, message))
}

/// The rules for new passwords.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    /// Minimum and maximum length in code points.
    pub(crate) length: std::ops::RangeInclusive<usize>,
    /// Names that are easy to guess: of the app and of the relying party.
    pub(crate) names: Vec<String>,
}

impl Policy {
    /// Checks a new password. `identifiers` are those of its owner, typed and normalised.
    ///
    /// The history and the breach check come later.
    ///
    /// # Errors
    /// 400 with the code of the rule.
    pub(crate) fn check(&self, typed: &SecretText, identifiers: &[&str]) -> Result<Password> {
        let password = Password::normalised(typed)?;
        let (min, max) = (*self.length.start(), *self.length.end());
        match password.expose().chars().count() {
            n if n < min => {
                return Err(invalid(
                    "min_length",
                    format!("must be at least {min} characters long"),
                ));
            }
            n if n > max => {
                return Err(invalid(
                    "max_length",
                    format!("must be at most {max} characters long"),
                ));
            }
            _ => {}
        }
        let text = password.expose();
        if is_common(text) || is_predictable(text) || self.is_made_of_names(&password, identifiers)
        {
            return Err(refuse_field(PASSWORD_TOO_COMMON, FIELD));
        }
        Ok(password)
    }

    fn is_made_of_names(&self, password: &Password, identifiers: &[&str]) -> bool {
        let locals = identifiers
            .iter()
            .filter_map(|i| i.split_once('@'))
            .map(|(local, _)| local);
        let names = self
            .names
            .iter()
            .map(String::as_str)
            .chain(identifiers.iter().copied())
            .chain(locals);
        let names: Vec<Vec<char>> = names
            .map(|name| fold(name.trim()).collect())
            .filter(|name: &Vec<char>| !name.is_empty())
            .collect();
        uncovered(password.expose(), &names) <= CHARS_BESIDES_NAMES
    }
}

/// The minimum number of characters of `text` that no name covers, over all ways to place names
/// without overlap. A character that folds to several, such as `ß`, counts once.
fn uncovered(text: &str, names: &[Vec<char>]) -> usize {
    let (mut folded, mut costs) = (Vec::new(), Vec::new());
    for c in text.chars() {
        for (at, part) in fold(c.encode_utf8(&mut [0; 4])).enumerate() {
            folded.push(part);
            costs.push(usize::from(at == 0));
        }
    }
    let mut fewest = vec![0; folded.len() + 1];
    for end in 1..=folded.len() {
        fewest[end] = fewest[end - 1] + costs[end - 1];
        for name in names.iter().filter(|name| folded[..end].ends_with(name)) {
            fewest[end] = fewest[end].min(fewest[end - name.len()]);
        }
    }
    fewest[folded.len()]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn policy() -> Policy {
        Policy {
            length: 8..=128,
            names: vec!["Accounts".into(), String::new()],
        }
    }

    fn check(password: &str) -> Result<Password> {
        policy().check(
            &SecretText::new(password),
            &["Alice.Smith@example.test", "alice.smith@example.test"],
        )
    }

    fn code(password: &str) -> (&'static str, &'static str) {
        let error = check(password).expect_err(password);
        assert_eq!(
            (
                error.code().status(),
                error.details().len(),
                error.details()[0].path.as_str()
            ),
            (400, 1, "password"),
            "{password}"
        );
        (error.code().as_str(), error.details()[0].code)
    }

    #[test]
    fn length_is_counted_in_code_points_after_nfc() {
        assert_eq!(code("1234567"), ("validation_failed", "min_length"));
        assert_eq!(
            code(&"violet-otter!".repeat(10)),
            ("validation_failed", "max_length")
        );
        assert!(check(&"violet-otter!".repeat(10)[..128]).is_ok());
        // Eight code points as typed, seven in NFC.
        assert_eq!(code("e\u{301}lan-vt"), ("validation_failed", "min_length"));
        assert!(check("e\u{301}lan-vta").is_ok());
        // 128 code points of four bytes are 512 bytes.
        assert!(check(&"🦦🪔🧵🪵🧭🪁🧿🪶".repeat(16)).is_ok());
        // A text of one mebibyte.
        assert_eq!(
            code(&"é".repeat(1 << 19)),
            ("validation_failed", "max_length")
        );
    }

    #[test]
    fn two_spellings_are_one_password_and_spaces_count() {
        assert_eq!(
            check("pa\u{308}sse la\u{301}mp").unwrap(),
            check("p\u{e4}sse l\u{e1}mp").unwrap()
        );
        assert_ne!(
            check(" violet otter").unwrap(),
            check("violet otter").unwrap()
        );
        assert_eq!(check(" violet otter ").unwrap().expose(), " violet otter ");
    }

    #[test]
    fn commonly_tried_passwords_are_refused() {
        for password in [
            "password123",
            "PASSWORD123",
            "qwertyuiop",
            "linkedin",
            "00000000",
            "987654321",
            "123123123",
            "aaaaaaaa",
            "        ",
        ] {
            assert_eq!(
                code(password),
                ("password_too_common", "password_too_common"),
                "{password}"
            );
        }
    }

    #[test]
    fn a_name_with_up_to_four_more_characters_is_refused() {
        for password in [
            "alice.smith",
            "alice.smith1",
            "ALICE.SMITH",
            "12alice.smith34",
            "alice.smith@example.test",
            "alice.smith@example.test2026",
            "accounts",
            "Accounts2026",
            "accountsaccounts!",
            "accounts-alice.smith-1",
            "ßßalice.smithßß",
        ] {
            assert_eq!(code(password).0, "password_too_common", "{password}");
        }
        for password in [
            "alice.smith12345",
            "violet-otter-91-lamp",
            "aaaa bbbb cccc",
            "correct accounts horse",
        ] {
            assert!(check(password).is_ok(), "{password}");
        }
        // Repetitions of a short name.
        let of = |password: &str, owner: &str| policy().check(&SecretText::new(password), &[owner]);
        assert!(
            of("bobbobbob-91", "bob@x.test").is_err() && of("bobbobbob-91", "rob@x.test").is_ok()
        );
    }

    #[test]
    fn a_password_at_sign_in_is_checked_for_length_only() {
        let tried = |p: &str| Password::for_check(&SecretText::new(p), 128);
        assert!(
            tried("1").is_ok() && tried("password123").is_ok() && tried(&"x".repeat(128)).is_ok()
        );
        assert_eq!(tried("").unwrap_err().details()[0].code, "required");
        assert_eq!(
            tried(&"x".repeat(129)).unwrap_err().details()[0].code,
            "max_length"
        );
        assert_eq!(tried("e\u{301}").unwrap(), tried("\u{e9}").unwrap());
    }

    proptest! {
        #[test]
        fn arbitrary_text_causes_no_panic(text: String, identifier: String) {
            let _ = policy().check(&SecretText::new(text), &[&identifier]);
        }

        #[test]
        fn accepted_passwords_are_stable_under_normalisation(text in "\\PC{8,40}") {
            if let Ok(password) = check(&text) {
                prop_assert_eq!(check(password.expose()).unwrap(), password);
            }
        }

        #[test]
        fn names_with_up_to_four_more_characters_never_pass(before in "[^a-zA-Z]{0,2}", after in "[^a-zA-Z]{0,2}", name in "alice[.]smith|accounts|accountsaccounts") {
            let refused = check(&format!("{before}{name}{after}")).is_err();
            prop_assert!(refused);
        }
    }
}
