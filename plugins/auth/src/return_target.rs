//! Return addresses after a sign-in on a page of the plugin or at a provider. No other module
//! prevents open redirects.

use linchpin::Result;
use percent_encoding::percent_decode_str;
use url::Url;

use crate::error::{INVALID_REDIRECT, refuse};

/// Maximum length, because it is sent in a header.
const MAX_BYTES: usize = 2048;

/// The base for resolving paths.
const BASE_URL: &str = "http://nowhere.invalid/";

/// An allowed return address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReturnTarget(String);

impl ReturnTarget {
    /// Parses a path of this app, or an address of one of the `origins` (such as
    /// `https://app.example.com`).
    ///
    /// # Errors
    /// 400 `invalid_redirect`.
    pub(crate) fn parse(text: &str, origins: &[String]) -> Result<Self> {
        let allowed = text.len() <= MAX_BYTES && (is_path(text) || is_at_origin(text, origins));
        if allowed {
            Ok(Self(text.to_owned()))
        } else {
            Err(refuse(INVALID_REDIRECT))
        }
    }

    /// The address for a `Location` header.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is a path of this app.
    pub(crate) fn is_path(&self) -> bool {
        self.0.starts_with('/')
    }

    /// Whether any client or server may read it as a path at or below `base` that is not at or
    /// below `except`. Browsers resolve dots, and a proxy and the server may each percent-decode it
    /// once. Case and repeated slashes are ignored.
    pub(crate) fn may_be_below(&self, base: &str, except: &str) -> bool {
        let mut text = self.0.clone();
        (0..3).any(|_| {
            let Ok(url) = Url::parse(BASE_URL).and_then(|nowhere| nowhere.join(&text)) else {
                return true;
            };
            let path = url
                .path()
                .split('/')
                .filter(|part| !part.is_empty())
                .fold(String::new(), |path, part| path + "/" + part);
            text = percent_decode_str(&text).decode_utf8_lossy().into_owned();
            is_below(&path, base) && !is_below(&path, except)
        })
    }

    /// Adds a query parameter, before the fragment.
    pub(crate) fn with(&self, name: &str, value: &str) -> String {
        let (front, fragment) = self
            .0
            .split_once('#')
            .map_or((self.0.as_str(), None), |(front, fragment)| {
                (front, Some(fragment))
            });
        let joint = match front.split_once('?') {
            None => "?",
            Some((_, query)) if query.is_empty() || query.ends_with('&') => "",
            Some(_) => "&",
        };
        let pair: String = url::form_urlencoded::Serializer::new(String::new())
            .append_pair(name, value)
            .finish();
        let fragment = fragment.map_or(String::new(), |fragment| format!("#{fragment}"));
        format!("{front}{joint}{pair}{fragment}")
    }
}

fn is_below(path: &str, base: &str) -> bool {
    let front = path
        .get(..base.len())
        .is_some_and(|front| front.eq_ignore_ascii_case(base));
    front && (path.len() == base.len() || path[base.len()..].starts_with('/'))
}

/// Whether every browser resolves the text to a path of the same origin, even if a proxy decodes it
/// once.
fn is_path(text: &str) -> bool {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.is_ok_and(|decoded| [text, &decoded].into_iter().all(is_same_origin_path))
}

fn is_same_origin_path(text: &str) -> bool {
    // Browsers drop tabs and line breaks, and read a backslash as a slash.
    text.starts_with('/') && !text[1..].starts_with(['/', '\\']) && is_plain(text)
}

/// Whether the text has no character that ends a line or that browsers drop.
fn is_plain(text: &str) -> bool {
    !text
        .chars()
        .any(|c| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}'))
}

/// Whether the address has exactly the scheme, host and port of a listed origin.
fn is_at_origin(text: &str, origins: &[String]) -> bool {
    let decoded = percent_decode_str(text).decode_utf8();
    if !text.is_ascii()
        || text.contains(['\\', ' '])
        || !decoded.is_ok_and(|decoded| is_plain(text) && is_plain(&decoded))
    {
        return false;
    }
    let Ok(url) = Url::parse(text) else {
        return false;
    };
    let has_userinfo = !url.username().is_empty() || url.password().is_some();
    // Compares the parsed forms and the written forms, because the parser may accept more than
    // browsers.
    !has_userinfo
        && origins.iter().any(|origin| {
            let exact = text
                .strip_prefix(origin.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?', '#']));
            exact
                && Url::parse(origin).is_ok_and(|origin| {
                    origin.origin().is_tuple() && origin.origin() == url.origin()
                })
        })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn origins() -> Vec<String> {
        vec![
            "https://app.example.com".into(),
            "http://127.0.0.1:5173".into(),
        ]
    }

    fn allowed(text: &str) -> bool {
        ReturnTarget::parse(text, &origins()).is_ok()
    }

    #[test]
    fn paths_of_the_app_are_allowed() {
        for text in [
            "/",
            "/app",
            "/app?x=1&y=%2F#z",
            "/a//b",
            "/caf%C3%A9",
            "/?next=https://evil.test",
            "/a%2Fb",
            "/a%5Cb",
        ] {
            assert!(allowed(text), "{text}");
        }
    }

    #[test]
    fn return_targets_below_the_mount_but_not_the_pages_are_recognised() {
        let is_below_mount = |text: &str| {
            ReturnTarget::parse(text, &[])
                .unwrap()
                .may_be_below("/auth", "/auth/ui")
        };
        for text in [
            "/",
            "/app",
            "/authors",
            "/auth/ui",
            "/auth/ui/security?x=/auth/y",
            "/x?next=/auth/y#/auth/y",
            "/auth/../app",
            "/%252561uth/x",
        ] {
            assert!(!is_below_mount(text), "{text}");
        }
        for text in [
            "/auth",
            "/auth?x",
            "/auth#x",
            "/auth/",
            "/auth/x/link",
            "/AUTH/x",
            "/auth/uix",
            "/x/../auth/y",
            "/./auth/y",
            "/%61uth/y",
            "/%2561uth/y",
            "/x/..\\auth/y",
            "/x/%2e%2E/auth/y",
            "/auth/ui/../y",
            "/auth/ui/%2e%2e/y",
            "/auth/ui/%2e%2e%2fy",
            "/x/..//auth/y",
            "/auth//y",
            "/a\u{fc}/../auth",
        ] {
            assert!(is_below_mount(text), "{text}");
        }
    }

    #[test]
    fn return_targets_of_other_origins_are_refused() {
        for text in [
            "",
            "app",
            "//evil.test",
            "/\\evil.test",
            "\\/evil.test",
            "/%2Fevil.test",
            "/%2f%2fevil.test",
            "/%5Cevil.test",
            "%2F/evil.test",
            "/\tevil",
            "/\n/evil.test",
            "/%09/evil.test",
            "/%0d%0aSet-Cookie:x=1",
            "/%00",
            "/%ff",
            " /app",
            "/app\u{2028}",
            "/\u{85}x",
            "/\t/evil.test",
            "///evil.test",
            "javascript:alert(1)",
            "data:text/html,x",
            "?x",
            "#x",
        ] {
            assert!(!allowed(text), "{text:?}");
        }
        assert!(!allowed(&format!("/{}", "a".repeat(MAX_BYTES))));
        assert!(allowed(&format!("/{}", "a".repeat(MAX_BYTES - 1))));
    }

    #[test]
    fn only_addresses_of_listed_origins_are_allowed() {
        for text in [
            "https://app.example.com",
            "https://app.example.com/x?y#z",
            "https://app.example.com?x",
            "http://127.0.0.1:5173/x",
        ] {
            assert!(allowed(text), "{text}");
        }
        for text in [
            "http://app.example.com/",
            "https://app.example.com:444/",
            "https://app.example.com.evil.test/",
            "https://app.example.com@evil.test/",
            "https://user@app.example.com/",
            "https://user:pw@app.example.com/",
            "https://evil.test/https://app.example.com/",
            "https://app.example.com\\@evil.test",
            "https:app.example.com",
            "https:///app.example.com/",
            "https://xapp.example.com/",
            "https://app.example.com:@evil.test/",
            "https://app.example.com/%0d%0a",
            "https://app.example.com/\n",
            " https://app.example.com/",
            "https://APP.example.com/",
            "ftp://app.example.com/",
            "http://127.0.0.1:5174/",
            "http://127.0.0.1/",
            "https://app.example.com%2eevil.test/",
            "https://app.example.com。evil.test/",
        ] {
            assert!(!allowed(text), "{text:?}");
        }
        assert!(
            ReturnTarget::parse("null", &["null".into()]).is_err()
                && ReturnTarget::parse("file:///etc", &["file://".into()]).is_err()
        );
        assert_eq!(
            ReturnTarget::parse("//x", &[]).unwrap_err().code().as_str(),
            "invalid_redirect"
        );
    }

    #[test]
    fn parameters_are_added_before_the_fragment() {
        let with = |text: &str| {
            ReturnTarget::parse(text, &origins())
                .unwrap()
                .with("code", "a b&c")
        };
        assert_eq!(with("/"), "/?code=a+b%26c");
        assert_eq!(with("/x?y=1"), "/x?y=1&code=a+b%26c");
        assert_eq!(with("/x?"), "/x?code=a+b%26c");
        assert_eq!(with("/x?y&#z?w"), "/x?y&code=a+b%26c#z?w");
        assert_eq!(
            with("https://app.example.com"),
            "https://app.example.com?code=a+b%26c"
        );
    }

    proptest! {
        /// A browser on a page of the app resolves each allowed address to the app's origin or a
        /// listed one. The `url` crate follows the same standard as browsers.
        #[test]
        fn accepted_return_targets_resolve_to_allowed_origins(text in prop_oneof![
            "[/\\\\.:@%a-z0-9?#\t\r\n ]{0,24}",
            "/[/\\\\.:@%250-9a-fA-F?#]{0,16}",
            "https?:[/\\\\]{0,3}[a-z.:@%]{0,8}(app[.]example[.]com|127[.]0[.]0[.]1:5173)?[/\\\\.:@%?#a-z]{0,10}",
            "\\PC{0,20}",
        ]) {
            if let Ok(target) = ReturnTarget::parse(&text, &origins()) {
                let here = Url::parse("https://ours.test/auth/callback").unwrap();
                for hop in [target.as_str().to_owned(), percent_decode_str(target.as_str()).decode_utf8().unwrap().into_owned(), target.with("code", "x")] {
                    let end = here.join(&hop).unwrap().origin().ascii_serialization();
                    prop_assert!(end == "https://ours.test" || origins().contains(&end), "{} -> {}", hop, end);
                }
            }
        }
    }
}
