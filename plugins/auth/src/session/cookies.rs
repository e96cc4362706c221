//! Cookies: names, attributes and values.

use axum::http::header::{COOKIE, SET_COOKIE};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use linchpin::axum;
use linchpin::http::Reply;

use super::credential::{SingleValue, single_value};
use crate::config::{AuthConfig, SameSite};

/// The name of the cookie that clients read.
const CSRF: &str = "csrf_token";
/// Has priority over the cookie of the device token.
const DEVICE: HeaderName = HeaderName::from_static("x-device-token");
/// Maximum size of a cookie that all browsers accept: name and value in bytes (RFC 6265bis, 5.6).
const MAX_COOKIE_BYTES: usize = 4096;
/// Time for the sign-in at a provider, in seconds.
const FLOW_SECONDS: i64 = 600;

/// The cookies of an app.
#[derive(Clone, Debug)]
pub(crate) struct Cookies {
    /// Whether the cookies of sessions and devices are set and read. The cookies `browser`,
    /// `challenge` and `flow` always are.
    enabled: bool,
    token: Cookie,
    refresh: Cookie,
    /// Proves that the server gave the refresh token to this browser. A sibling domain cannot forge
    /// it.
    refresh_proof: Cookie,
    csrf: Cookie,
    /// The value to which forms without a session are bound.
    browser: Cookie,
    /// The challenge of a page.
    challenge: Cookie,
    device: Cookie,
    flow: Cookie,
}

#[derive(Clone, Debug)]
struct Cookie {
    name: String,
    /// The attributes except `Max-Age`.
    attributes: String,
}

impl Cookie {
    fn new(
        name: &str,
        config: &AuthConfig,
        path: &str,
        same_site: SameSite,
        prefixed: bool,
        http_only: bool,
    ) -> Self {
        let cookies = &config.auth.cookies;
        let name = match (
            cookies.secure && prefixed,
            path == "/" && cookies.domain.is_none(),
        ) {
            (false, _) => name.to_owned(),
            (true, true) => format!("__Host-{name}"),
            (true, false) => format!("__Secure-{name}"),
        };
        let mut attributes = format!("; Path={path}");
        if let Some(domain) = &cookies.domain {
            attributes.push_str("; Domain=");
            attributes.push_str(domain);
        }
        if cookies.secure {
            attributes.push_str("; Secure");
        }
        if http_only {
            attributes.push_str("; HttpOnly");
        }
        attributes.push_str(match same_site {
            SameSite::Lax => "; SameSite=Lax",
            SameSite::Strict => "; SameSite=Strict",
            SameSite::None => "; SameSite=None",
        });
        Self { name, attributes }
    }

    /// The same cookie for this host only, without `Domain`: a sibling domain cannot set it.
    fn host_only(self, config: &AuthConfig) -> Self {
        let Some(domain) = &config.auth.cookies.domain else {
            return self;
        };
        let name = self.name.replace("__Secure-", "__Host-");
        Self {
            name,
            attributes: self.attributes.replace(&format!("; Domain={domain}"), ""),
        }
    }

    /// `None` if the value is not valid in a header, which does not happen.
    fn set(&self, value: &str, max_age: Option<i64>) -> Option<HeaderValue> {
        let age = max_age.map_or_else(String::new, |age| format!("; Max-Age={}", age.max(0)));
        HeaderValue::try_from(format!("{}={value}{}{age}", self.name, self.attributes)).ok()
    }

    /// The value in a request, if there is exactly one.
    fn read<'a>(&self, headers: &'a HeaderMap) -> SingleValue<'a> {
        let mut values = self.values(headers);
        match (values.next(), values.next()) {
            (None, _) => SingleValue::Absent,
            (Some(value), None) => {
                std::str::from_utf8(value).map_or(SingleValue::Unusable, SingleValue::Text)
            }
            (Some(_), Some(_)) => SingleValue::Unusable,
        }
    }

    /// All values in a request. They are read as bytes: other cookies of the app need not be text,
    /// and must not break a session.
    fn values<'a>(&self, headers: &'a HeaderMap) -> impl Iterator<Item = &'a [u8]> {
        let pairs = headers
            .get_all(COOKIE)
            .into_iter()
            .flat_map(|line| line.as_bytes().split(|byte| *byte == b';'));
        pairs.filter_map(|pair| {
            let at = pair.iter().position(|byte| *byte == b'=')?;
            (pair[..at].trim_ascii() == self.name.as_bytes()).then(|| pair[at + 1..].trim_ascii())
        })
    }
}

impl Cookies {
    pub(crate) fn new(config: &AuthConfig) -> Self {
        let (cookies, mount) = (&config.auth.cookies, &config.auth.mount);
        Self {
            enabled: config.auth.session.transport.cookies(),
            token: Cookie::new(
                "token",
                config,
                &cookies.path,
                cookies.same_site,
                true,
                true,
            ),
            refresh: Cookie::new("refresh_token", config, mount, SameSite::Strict, true, true),
            refresh_proof: Cookie::new("renews", config, "/", SameSite::Strict, true, true)
                .host_only(config),
            device: Cookie::new("device", config, mount, SameSite::Lax, true, true),
            csrf: Cookie::new(CSRF, config, "/", cookies.same_site, false, false),
            flow: Cookie::new("oauth_flow", config, mount, SameSite::Lax, true, true),
            browser: Cookie::new("browser", config, "/", SameSite::Lax, true, true)
                .host_only(config),
            challenge: Cookie::new("challenge", config, mount, SameSite::Lax, true, true),
        }
    }

    /// The name of the cookie with the access token.
    pub(crate) fn token_name(&self) -> &str {
        &self.token.name
    }

    /// Whether browsers accept an access token in a cookie. They silently drop longer ones.
    pub(crate) fn fits(&self, token: &str) -> bool {
        !self.enabled || self.token.name.len() + token.len() <= MAX_COOKIE_BYTES
    }

    /// The access token of a request.
    pub(crate) fn token<'a>(&self, headers: &'a HeaderMap) -> SingleValue<'a> {
        if self.enabled {
            self.token.read(headers)
        } else {
            SingleValue::Absent
        }
    }

    /// The refresh token of a request.
    pub(crate) fn refresh<'a>(&self, headers: &'a HeaderMap) -> SingleValue<'a> {
        if self.enabled {
            self.refresh.read(headers)
        } else {
            SingleValue::Absent
        }
    }

    /// All refresh tokens of a request, planted ones included.
    pub(crate) fn all_refresh_tokens<'a>(
        &self,
        headers: &'a HeaderMap,
    ) -> impl Iterator<Item = &'a str> {
        let found = self.enabled.then(|| self.refresh.values(headers));
        found
            .into_iter()
            .flatten()
            .filter_map(|value| std::str::from_utf8(value).ok())
    }

    /// The proof that the server gave the refresh token to this browser.
    pub(crate) fn refresh_proof<'a>(&self, headers: &'a HeaderMap) -> SingleValue<'a> {
        if self.enabled {
            self.refresh_proof.read(headers)
        } else {
            SingleValue::Absent
        }
    }

    /// The CSRF token of a request.
    pub(crate) fn csrf<'a>(&self, headers: &'a HeaderMap) -> SingleValue<'a> {
        if self.enabled {
            self.csrf.read(headers)
        } else {
            SingleValue::Absent
        }
    }

    /// The device token of a request: from the header, otherwise from the cookie.
    pub(crate) fn device<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        let cookie = || {
            if self.enabled {
                self.device.read(headers)
            } else {
                SingleValue::Absent
            }
        };
        match single_value(headers, &DEVICE) {
            SingleValue::Text(token) => Some(token.trim()),
            SingleValue::Unusable => None,
            SingleValue::Absent => match cookie() {
                SingleValue::Text(token) => Some(token),
                SingleValue::Absent | SingleValue::Unusable => None,
            },
        }
    }

    /// Sets the device token. It stays when a session ends.
    pub(crate) fn set_device(&self, reply: Reply, token: &str, max_age: u64) -> Reply {
        match self
            .device
            .set(token, i64::try_from(max_age).ok())
            .filter(|_| self.enabled)
        {
            Some(value) => reply.and_header(SET_COOKIE, value),
            None => reply,
        }
    }

    /// The marks of a browser that was redirected to a provider. They are set for every transport,
    /// because nothing else shows that the same browser comes back.
    pub(crate) fn flow<'a>(&self, headers: &'a HeaderMap) -> SingleValue<'a> {
        self.flow.read(headers)
    }

    /// Sets the marks of a browser.
    pub(crate) fn set_flow(&self, reply: Reply, value: &str) -> Reply {
        match self.flow.set(value, Some(FLOW_SECONDS)) {
            Some(value) => reply.and_header(SET_COOKIE, value),
            None => reply,
        }
    }

    /// The value to which forms without a session are bound.
    pub(crate) fn browser<'a>(&self, headers: &'a HeaderMap) -> SingleValue<'a> {
        self.browser.read(headers)
    }

    /// The challenge of the browser.
    pub(crate) fn challenge<'a>(&self, headers: &'a HeaderMap) -> SingleValue<'a> {
        self.challenge.read(headers)
    }

    /// Sets the challenge for some seconds.
    pub(crate) fn set_challenge(&self, value: &str, seconds: i64) -> Option<HeaderValue> {
        self.challenge.set(value, Some(seconds))
    }

    /// Sets the value to which forms without a session are bound, until the browser is closed.
    pub(crate) fn set_browser(&self, value: &str) -> Option<HeaderValue> {
        self.browser.set(value, None)
    }

    /// Sets the cookies of a session. If there is a refresh token, it also sets the cookie that
    /// proves that the server gave the token to this browser. Ages are in seconds.
    pub(crate) fn set(
        &self,
        mut reply: Reply,
        token: (&str, i64),
        refresh: Option<(&str, String, i64)>,
        csrf: &str,
    ) -> Reply {
        if !self.enabled {
            return reply;
        }
        let set = [
            self.token.set(token.0, Some(token.1)),
            refresh
                .as_ref()
                .and_then(|(value, _, age)| self.refresh.set(value, Some(*age))),
            refresh
                .as_ref()
                .and_then(|(_, given, age)| self.refresh_proof.set(given, Some(*age))),
            self.csrf.set(csrf, None),
        ];
        for value in set.into_iter().flatten() {
            reply = reply.and_header(SET_COOKIE, value);
        }
        reply
    }

    /// Sets only the CSRF token.
    pub(crate) fn set_csrf(&self, reply: Reply, csrf: &str) -> Reply {
        match self.csrf.set(csrf, None).filter(|_| self.enabled) {
            Some(value) => reply.and_header(SET_COOKIE, value),
            None => reply,
        }
    }

    /// Clears the cookies of a session.
    pub(crate) fn clear(&self, mut reply: Reply) -> Reply {
        if !self.enabled {
            return reply;
        }
        for cookie in [&self.token, &self.refresh, &self.refresh_proof, &self.csrf] {
            if let Some(value) = cookie.set("", Some(0)) {
                reply = reply.and_header(SET_COOKIE, value);
            }
        }
        reply
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_cookies_are_ignored() {
        let cookies = Cookies::new(&AuthConfig::default());
        let cases: [(&[&[u8]], SingleValue<'_>); 11] = [
            (&[], SingleValue::Absent),
            (&[b"a=b; token=c"], SingleValue::Absent),
            (&[b"\xff; \xff=\xff; __Host-token"], SingleValue::Absent),
            (
                &[b"a=\xff;__Host-token= abc ;\xff=b"],
                SingleValue::Text("abc"),
            ),
            (&[b"a=\xff", b"__Host-token=abc"], SingleValue::Text("abc")),
            (&[b"__Host-token=a=b"], SingleValue::Text("a=b")),
            (&[b"__Host-token=\xff"], SingleValue::Unusable),
            (
                &[b"__Host-token=abc; __Host-token=abc"],
                SingleValue::Unusable,
            ),
            (
                &[b"__Host-token=\xff; __Host-token=abc"],
                SingleValue::Unusable,
            ),
            (
                &[b"__Host-token=abc; __Host-token=\xff"],
                SingleValue::Unusable,
            ),
            (
                &[b"__Host-token=abc", b"a=\xff; __Host-token=abc"],
                SingleValue::Unusable,
            ),
        ];
        for (lines, expected) in cases {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(
                    COOKIE,
                    HeaderValue::from_bytes(line).expect("a value of a header"),
                );
            }
            assert_eq!(cookies.token(&headers), expected, "{lines:?}");
        }
    }
}
