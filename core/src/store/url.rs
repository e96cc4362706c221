//! The URL of a store.

use percent_encoding::percent_decode_str;

use super::kind::is_scheme;

/// The URL of the app's records, such as `sqlite:app.db`.
///
/// It can hold a password, so it is never printed: `Debug` shows the scheme only.
///
/// ```
/// use linchpin::DatabaseUrl;
///
/// let url = DatabaseUrl::new("postgres://me:hush@host/blog");
/// assert_eq!(url.scheme(), Some("postgres"));
/// assert_eq!(url.rest(), "//me:hush@host/blog");
/// assert_eq!(format!("{url:?}"), "DatabaseUrl(postgres:..)");
/// assert_eq!(url.redact("no role me, password hush"), "no role me, password ..");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseUrl {
    text: String,
    /// The position of the colon after the scheme, if the text begins with a scheme.
    colon: Option<usize>,
}

impl DatabaseUrl {
    /// Takes a text. Start-up checks whether a store accepts it.
    pub fn new(text: impl Into<String>) -> Self {
        let text = text.into();
        let colon = text.find(':').filter(|colon| is_scheme(&text[..*colon]));
        Self { text, colon }
    }

    /// Returns the scheme: `sqlite` of `sqlite:app.db`. `None` if the text has none.
    pub fn scheme(&self) -> Option<&str> {
        self.colon.map(|colon| &self.text[..colon])
    }

    /// Returns the text after the scheme and its colon; the whole text if it has no scheme.
    pub fn rest(&self) -> &str {
        self.colon
            .map_or(&*self.text, |colon| &self.text[colon + 1..])
    }

    /// Returns the whole URL, with the password if it has one. Do not print it.
    pub fn expose(&self) -> &str {
        &self.text
    }

    /// Replaces the URL and its password in a text.
    #[must_use]
    pub fn redact(&self, text: &str) -> String {
        let redacted_url = format!("{}:..", self.scheme().unwrap_or("url"));
        let mut text = text.to_owned();
        if self.colon.is_some() && !self.rest().is_empty() {
            text = text.replace(&self.text, &redacted_url);
        }
        for secret in self.secrets().filter(|secret| !secret.is_empty()) {
            let decoded = percent_decode_str(secret).decode_utf8_lossy();
            text = text.replace(secret, "..").replace(&*decoded, "..");
        }
        text
    }

    /// Returns the password, and the values of parameters with secret names.
    fn secrets(&self) -> impl Iterator<Item = &str> {
        let (_, parameters) = self.rest().split_once('?').unwrap_or_default();
        let named = parameters.split('&').filter_map(|parameter| {
            let (name, value) = parameter.split_once('=')?;
            let name = name.to_ascii_lowercase();
            ["pass", "pwd", "secret", "token", "key"]
                .iter()
                .any(|word| name.contains(word))
                .then_some(value)
        });
        self.passwords().into_iter().flatten().chain(named)
    }

    /// Returns the possible passwords, the longer one first: the text between the first `:` and the
    /// last `@`, once in the whole text after `//`, and once in its part before the first `/`, `?`
    /// or `#`. A raw password may contain these three characters, and parameters may contain `@`,
    /// so both texts count as secrets.
    fn passwords(&self) -> [Option<&str>; 2] {
        let after_slashes = self.rest().strip_prefix("//").unwrap_or_default();
        let authority = after_slashes
            .split(['/', '?', '#'])
            .next()
            .unwrap_or_default();
        [after_slashes, authority].map(|text| {
            let (user, _) = text.rsplit_once('@')?;
            user.split_once(':').map(|(_, password)| password)
        })
    }
}

impl std::fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DatabaseUrl({}:..)", self.scheme().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheme_ends_at_the_first_colon() {
        let cases = [
            ("sqlite:app.db", Some("sqlite"), "app.db"),
            ("memory:", Some("memory"), ""),
            ("postgres://u:pw@h/db", Some("postgres"), "//u:pw@h/db"),
            ("toy+tls:x:y", Some("toy+tls"), "x:y"),
            ("", None, ""),
            ("app.db", None, "app.db"),
            (":memory:", None, ":memory:"),
            ("u:pw@h", Some("u"), "pw@h"),
            ("Hush@h:5432/db", None, "Hush@h:5432/db"),
        ];
        for (text, scheme, rest) in cases {
            let url = DatabaseUrl::new(text);
            assert_eq!((url.scheme(), url.rest()), (scheme, rest), "{text}");
        }
    }

    #[test]
    fn a_password_is_removed_from_texts() {
        let url = DatabaseUrl::new("toy://me:a%40b@c@host/db");
        let text = "cannot open toy://me:a%40b@c@host/db: a%40b@c and a@b@c are refused";
        assert_eq!(
            url.redact(text),
            "cannot open toy:..: .. and .. are refused"
        );
        assert!(!format!("{url:?}").contains("a%40b"));
        let url = DatabaseUrl::new("toy:box?size=3&api_token=hush");
        assert_eq!(url.redact("box of size 3: hush!"), "box of size 3: ..!");
        let url = DatabaseUrl::new("toy://me:hush@host/db?name=a@b");
        assert_eq!(url.redact("refused: hush"), "refused: ..");
        let url = DatabaseUrl::new("toy://me@host?pwd=quiet");
        assert_eq!(url.redact("refused: me, quiet"), "refused: me, ..");
        let url = DatabaseUrl::new("sqlite:app.db");
        assert_eq!(url.redact("cannot open app.db"), "cannot open app.db");
    }
}
