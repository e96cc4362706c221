//! Text messages: the trait of providers, and the text of a message with a code.

use std::fmt;

use linchpin::{BoxFuture, Result};

use crate::identity::normalise::phone;
use crate::secret::SecretText;

/// A phone number in E.164: `+` and 7 to 15 digits.
#[derive(Clone, PartialEq, Eq)]
pub struct E164(String);

impl E164 {
    /// Parses a number in this form.
    pub fn parse(text: &str) -> Option<Self> {
        phone(text).ok().map(|number| Self(number.normalised))
    }

    /// The number as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The last two digits, which the owner recognises and which do not identify the owner.
    pub(crate) fn hint(&self) -> String {
        format!("••{}", &self.0[self.0.len() - 2..])
    }
}

impl fmt::Debug for E164 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "E164({})", self.hint())
    }
}

/// Sends text messages.
pub trait SmsProvider: Send + Sync + 'static {
    /// Sends a message. After an error it may be sent again.
    fn send<'a>(&'a self, to: &'a E164, text: &'a str) -> BoxFuture<'a, Result<()>>;
}

/// The text of a message with a code. The last line binds the code to a host, so that phones fill
/// it in only there.
pub(crate) fn text(app: &str, host: &str, code: &SecretText) -> SecretText {
    let code = code.expose();
    let app: String = app.chars().filter(|c| !c.is_control()).collect();
    SecretText::new(format!("{code} is your {app} code.\n\n@{host} #{code}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_binds_the_code_to_the_host() {
        let text = text(
            "Acme\n@evil.test #1",
            "acme.example",
            &SecretText::new("012345"),
        );
        assert_eq!(
            text.expose(),
            "012345 is your Acme@evil.test #1 code.\n\n@acme.example #012345"
        );
        assert_eq!(text.expose().lines().last(), Some("@acme.example #012345"));
    }

    #[test]
    fn a_number_is_not_printed() {
        let number = E164::parse("+4930123456").unwrap();
        assert_eq!(
            (number.as_str(), format!("{number:?}").as_str()),
            ("+4930123456", "E164(••56)")
        );
        assert_eq!(E164::parse("030123456"), None);
    }
}
