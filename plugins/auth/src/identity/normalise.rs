//! Normalised identifiers, for look-ups, uniqueness and rate limits.
//!
//! The typed form is stored too, for display. Rules of individual mail providers do not apply: dots
//! and `+tag` are significant.

use std::net::IpAddr;

use email_address::EmailAddress;
use linchpin::Problem;
use unicode_normalization::UnicodeNormalization as _;

/// Maximum length of an identifier in characters, before and after normalisation.
const MAX_CHARS: usize = 254;

/// An identifier in normalised and in typed form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identifier {
    /// The normalised form.
    pub(crate) normalised: String,
    /// The typed form without outer spaces.
    pub(crate) display: String,
}

/// The reason why a text is not an identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InvalidIdentifier {
    code: &'static str,
    message: &'static str,
}

impl InvalidIdentifier {
    /// The error for a field.
    pub(crate) fn at(self, field: &str) -> Problem {
        Problem::new(field, self.code, self.message)
    }
}

const TOO_LONG: InvalidIdentifier = InvalidIdentifier {
    code: "max_length",
    message: "must be at most 254 characters long",
};
const EMAIL: InvalidIdentifier = InvalidIdentifier {
    code: "format",
    message: "must be an email address",
};
const USERNAME: InvalidIdentifier = InvalidIdentifier {
    code: "format",
    message: "must be 3 to 64 letters, digits, dots, dashes or underscores",
};
const PHONE: InvalidIdentifier = InvalidIdentifier {
    code: "format",
    message: "must be a phone number such as +4930123456",
};

/// The kind of identifier of all accounts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PrimaryField {
    /// An email address.
    #[default]
    Email,
    /// A user name: 3 to 64 ASCII letters, digits, dots, dashes and underscores.
    Username,
    /// A phone number in E.164 form.
    Phone,
}

impl PrimaryField {
    /// The name in requests and settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Email => "email",
            Self::Username => "username",
            Self::Phone => "phone",
        }
    }

    /// Parses an identifier of this kind.
    ///
    /// # Errors
    /// The reason if the text is not one.
    pub(crate) fn parse(self, typed: &str) -> Result<Identifier, InvalidIdentifier> {
        match self {
            Self::Email => email(typed),
            Self::Username => username(typed),
            Self::Phone => phone(typed),
        }
    }
}

/// Parses an email address: NFC, lower case, domain in ASCII by UTS 46.
///
/// # Errors
/// The reason if the text is not one.
pub(crate) fn email(typed: &str) -> Result<Identifier, InvalidIdentifier> {
    let display = display(typed)?;
    let (local, domain) = display.split_once('@').ok_or(EMAIL)?;
    if domain.contains('@')
        || display
            .chars()
            .any(|c| c.is_control() || c.is_whitespace() || is_invisible(c))
    {
        return Err(EMAIL);
    }
    let domain = idna::domain_to_ascii_strict(domain).map_err(|_| EMAIL)?;
    let local = lower(local);
    let normalised = format!("{local}@{domain}");
    if normalised.chars().count() > MAX_CHARS {
        return Err(TOO_LONG);
    }
    // An address is valid only if it can receive mail and cannot add a line break to a mail header.
    if !EmailAddress::is_valid_local_part(&local) || !is_mail_domain(&domain) {
        return Err(EMAIL);
    }
    Ok(Identifier {
        normalised,
        display,
    })
}

/// Whether mail can be sent to a domain: a host name or an IPv4 address. The caller has already
/// refused brackets and colons.
fn is_mail_domain(domain: &str) -> bool {
    !domain.is_empty()
        && (EmailAddress::is_valid_domain(domain) || domain.parse::<IpAddr>().is_ok())
}

/// Parses a user name. Only ASCII is allowed, because characters of other scripts can look like
/// ASCII.
///
/// # Errors
/// The reason if the text is not one.
pub(crate) fn username(typed: &str) -> Result<Identifier, InvalidIdentifier> {
    let display = display(typed)?;
    if !(3..=64).contains(&display.len())
        || !display
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
    {
        return Err(USERNAME);
    }
    Ok(Identifier {
        normalised: display.to_ascii_lowercase(),
        display,
    })
}

/// Parses a phone number in E.164: `+` and 7 to 15 digits; the first digit is not zero.
///
/// # Errors
/// The reason if the text is not one.
pub(crate) fn phone(typed: &str) -> Result<Identifier, InvalidIdentifier> {
    let display = display(typed)?;
    let digits = display.strip_prefix('+').ok_or(PHONE)?;
    if !(7..=15).contains(&digits.len())
        || digits.starts_with('0')
        || !digits.bytes().all(|b| b.is_ascii_digit())
    {
        return Err(PHONE);
    }
    Ok(Identifier {
        normalised: display.clone(),
        display,
    })
}

/// Returns the text without outer spaces, in NFC.
fn display(typed: &str) -> Result<String, InvalidIdentifier> {
    // The length in bytes is checked first, so that a huge text causes no work.
    if typed.len() > 8 * MAX_CHARS {
        return Err(TOO_LONG);
    }
    let text: String = typed.trim().nfc().collect();
    if text.chars().count() > MAX_CHARS {
        Err(TOO_LONG)
    } else {
        Ok(text)
    }
}

/// Converts to lower case, then to NFC, because lower case can decompose characters. A second
/// conversion changes nothing.
fn lower(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).nfc().collect()
}

/// Invisible characters: two different addresses look the same if only such a character differs.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn spellings_of_an_address_have_one_normalised_form() {
        for (typed, normalised) in [
            ("alice@example.test", "alice@example.test"),
            ("  Alice@EXAMPLE.Test \n", "alice@example.test"),
            ("a.b@gmail.com", "a.b@gmail.com"),
            ("ab+x@gmail.com", "ab+x@gmail.com"),
            ("alice@Bücher.example", "alice@xn--bcher-kva.example"),
            ("alice@bu\u{308}cher.example", "alice@xn--bcher-kva.example"),
            ("alice@xn--bcher-kva.example", "alice@xn--bcher-kva.example"),
            ("alice@例え。テスト", "alice@xn--r8jz45g.xn--zckzah"),
            ("RENE\u{301}@x.test", "ren\u{e9}@x.test"),
            ("root@localhost", "root@localhost"),
        ] {
            assert_eq!(
                email(typed).map(|i| i.normalised),
                Ok(normalised.to_owned()),
                "{typed}"
            );
        }
        assert_eq!(email(" Alice@X.test ").unwrap().display, "Alice@X.test");
    }

    #[test]
    fn invalid_email_addresses_are_rejected() {
        for typed in [
            "",
            "x",
            "@",
            "a@",
            "@b.test",
            "a@b@c.test",
            "a b@c.test",
            "a@b .test",
            "a\n@b.test",
            "a@b.test\r\nBcc: c@d.test",
            "a\0@b.test",
            "a@b..test",
            "a@-b.test",
            "a@b_c.test",
            "a@xn--a.test",
            "a@b.test\u{200b}",
            "a\u{200d}b@c.test",
            "a\u{202e}b@c.test",
            "<a@b.test>",
            "a..b@c.test",
            "a,b@c.test",
            "a@[127.0.0.1]",
            "a@b.test.",
        ] {
            assert_eq!(email(typed), Err(EMAIL), "{typed:?}");
        }
        let long = |n: usize| {
            format!(
                "{}@{}.test",
                "a".repeat(60),
                format!("{}.", "b".repeat(60)).repeat(3)
            )
            .replace(".test", &"x".repeat(n))
        };
        assert_eq!(email(&format!("{}@x.test", "a".repeat(250))), Err(TOO_LONG));
        assert!(email(&"a".repeat(1 << 20)).is_err() && email(&long(60)).is_err());
    }

    #[test]
    fn user_names_and_phone_numbers_are_validated() {
        assert_eq!(
            username(" Alice_S.9- ").unwrap(),
            Identifier {
                normalised: "alice_s.9-".into(),
                display: "Alice_S.9-".into()
            }
        );
        for typed in [
            "ab",
            "",
            &"a".repeat(65),
            "alice smith",
            "аlice",
            "alice@x",
            "ａlice",
            "alicé",
        ] {
            assert_eq!(username(typed), Err(USERNAME), "{typed}");
        }
        assert_eq!(phone(" +4930123456 ").unwrap().normalised, "+4930123456");
        for typed in [
            "4930123456",
            "+",
            "+0301234567",
            "+123456",
            "+1234567890123456",
            "+49 30 123456",
            "+49３０123456",
            "++4930123456",
        ] {
            assert_eq!(phone(typed), Err(PHONE), "{typed}");
        }
        assert_eq!(
            PrimaryField::Username.parse("Bob").unwrap().normalised,
            "bob"
        );
        assert_eq!(
            PrimaryField::Email.parse("x").unwrap_err().at("email").path,
            "email"
        );
    }

    proptest! {
        #[test]
        fn arbitrary_text_causes_no_panic_and_normalisation_is_stable(text in prop_oneof!["\\PC{0,40}", "\\PC{0,12}@\\PC{0,20}", "[a-zA-ZäÄßİıſK.+-]{1,9}@[a-zA-ZäÄßİé-]{1,9}[.][a-z]{2,4}"]) {
            for field in [PrimaryField::Email, PrimaryField::Username, PrimaryField::Phone] {
                if let Ok(one) = field.parse(&text) {
                    prop_assert!(one.normalised.chars().count() <= MAX_CHARS);
                    prop_assert!(!one.normalised.chars().any(char::is_control));
                    let again = field.parse(&one.normalised).expect("the normalised form is valid");
                    prop_assert_eq!(&again.normalised, &one.normalised);
                    prop_assert_eq!(&field.parse(&one.display).unwrap().normalised, &one.normalised);
                }
            }
        }

        #[test]
        fn normalised_addresses_ignore_case(local in "[a-z0-9][a-z0-9+]{0,10}", domain in "[a-z]{1,10}[.][a-z]{2,5}") {
            let address = format!("{local}@{domain}");
            prop_assert_eq!(email(&address).unwrap().normalised, email(&address.to_uppercase()).unwrap().normalised);
        }
    }
}
