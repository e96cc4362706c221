//! Named formats of text.

/// The names that `format = ".."` accepts, in the order of their documentation.
pub const FORMATS: &[&str] = &[
    "email",
    "url",
    "uuid",
    "cuid",
    "slug",
    "hostname",
    "ipv4",
    "ipv6",
    "e164",
    "date",
    "time",
    "color",
    "base64url",
    "iana_tz",
    "bcp47",
];
