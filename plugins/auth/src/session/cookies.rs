//! Cookies: their names, attributes and values, in one place.

use axum::http::header::{COOKIE, SET_COOKIE};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use linchpin::axum;
use linchpin::http::Reply;

use super::credential::{Once, once};
use crate::config::{AuthConfig, SameSite};

/// The name that clients read it by.
const CSRF: &str = "csrf_token";
/// Goes before the cookie of the same purpose.
const DEVICE: HeaderName = HeaderName::from_static("x-device-token");
/// Longest cookie that every browser keeps: its name and its value, in bytes (RFC 6265bis, 5.6).
const LONGEST: usize = 4096;
/// How long somebody may be at a provider, in seconds.
const FLOW: i64 = 600;

/// The cookies of an app.
#[derive(Clone, Debug)]
pub(crate) struct Cookies {
    /// Whether any are set or read.
    enabled: bool,
    token: Cookie,
    refresh: Cookie,
    /// Says that the refresh token beside it was given to this browser, which a page of a sibling
    /// domain cannot make it say.
    renews: Cookie,
    csrf: Cookie,
    /// What forms of pages are bound to for whoever is not signed in.
    browser: Cookie,
    /// The challenge that a page is to answer.
    challenge: Cookie,
    device: Cookie,
    flow: Cookie,
}

#[derive(Clone, Debug)]
struct Cookie {
    name: String,
    /// Everything behind the value but its age.
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

    /// The same for this host alone, whatever domain the others are for: no sibling can set it.
    fn of_host(self, config: &AuthConfig) -> Self {
        let Some(domain) = &config.auth.cookies.domain else {
            return self;
        };
        let name = self.name.replace("__Secure-", "__Host-");
        Self {
            name,
            attributes: self.attributes.replace(&format!("; Domain={domain}"), ""),
        }
    }

    /// `None` for a value that cannot stand in a header, which none of ours is.
    fn set(&self, value: &str, max_age: Option<i64>) -> Option<HeaderValue> {
        let age = max_age.map_or_else(String::new, |age| format!("; Max-Age={}", age.max(0)));
        HeaderValue::try_from(format!("{}={value}{}{age}", self.name, self.attributes)).ok()
    }

    /// Its one value in a request.
    fn read<'a>(&self, headers: &'a HeaderMap) -> Once<'a> {
        let mut values = self.values(headers);
        match (values.next(), values.next()) {
            (None, _) => Once::Absent,
            (Some(value), None) => std::str::from_utf8(value).map_or(Once::Unusable, Once::Text),
            (Some(_), Some(_)) => Once::Unusable,
        }
    }

    /// All its values in a request. Byte by byte: what else the app keeps in the browser need not
    /// be text, and must not cost anybody their session.
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
            renews: Cookie::new("renews", config, "/", SameSite::Strict, true, true)
                .of_host(config),
            device: Cookie::new("device", config, mount, SameSite::Lax, true, true),
            csrf: Cookie::new(CSRF, config, "/", cookies.same_site, false, false),
            flow: Cookie::new("oauth_flow", config, mount, SameSite::Lax, true, true),
            browser: Cookie::new("browser", config, "/", SameSite::Lax, true, true).of_host(config),
            challenge: Cookie::new("challenge", config, mount, SameSite::Lax, true, true),
        }
    }

    /// The name of the cookie that holds the access token.
    pub(crate) fn token_name(&self) -> &str {
        &self.token.name
    }

    /// Whether browsers keep an access token: they drop cookies that are longer, and say nothing of
    /// it.
    pub(crate) fn fits(&self, token: &str) -> bool {
        !self.enabled || self.token.name.len() + token.len() <= LONGEST
    }

    /// The access token of a request.
    pub(crate) fn token<'a>(&self, headers: &'a HeaderMap) -> Once<'a> {
        if self.enabled {
            self.token.read(headers)
        } else {
            Once::Absent
        }
    }

    /// The refresh token of a request.
    pub(crate) fn refresh<'a>(&self, headers: &'a HeaderMap) -> Once<'a> {
        if self.enabled {
            self.refresh.read(headers)
        } else {
            Once::Absent
        }
    }

    /// Every refresh token of a request, whoever has put it there.
    pub(crate) fn refreshes<'a>(&self, headers: &'a HeaderMap) -> impl Iterator<Item = &'a str> {
        let found = self.enabled.then(|| self.refresh.values(headers));
        found
            .into_iter()
            .flatten()
            .filter_map(|value| std::str::from_utf8(value).ok())
    }

    /// What says that the refresh token of a request was given to its browser.
    pub(crate) fn renews<'a>(&self, headers: &'a HeaderMap) -> Once<'a> {
        if self.enabled {
            self.renews.read(headers)
        } else {
            Once::Absent
        }
    }

    /// The CSRF token of a request.
    pub(crate) fn csrf<'a>(&self, headers: &'a HeaderMap) -> Once<'a> {
        if self.enabled {
            self.csrf.read(headers)
        } else {
            Once::Absent
        }
    }

    /// The token of a device that has been signed in from: of the header, else of the cookie.
    pub(crate) fn device<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        let cookie = || {
            if self.enabled {
                self.device.read(headers)
            } else {
                Once::Absent
            }
        };
        match once(headers, &DEVICE) {
            Once::Text(token) => Some(token.trim()),
            Once::Unusable => None,
            Once::Absent => match cookie() {
                Once::Text(token) => Some(token),
                Once::Absent | Once::Unusable => None,
            },
        }
    }

    /// Lets a browser be recognised. It stays when a session ends.
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

    /// What a browser was given that was sent to a provider. It is no credential of a session, and
    /// there whatever the transport is: nothing else says that who comes back is who was sent away.
    pub(crate) fn flow<'a>(&self, headers: &'a HeaderMap) -> Once<'a> {
        self.flow.read(headers)
    }

    /// Marks a browser that is sent to a provider.
    pub(crate) fn set_flow(&self, reply: Reply, value: &str) -> Reply {
        match self.flow.set(value, Some(FLOW)) {
            Some(value) => reply.and_header(SET_COOKIE, value),
            None => reply,
        }
    }

    /// What a browser's forms are bound to.
    pub(crate) fn browser<'a>(&self, headers: &'a HeaderMap) -> Once<'a> {
        self.browser.read(headers)
    }

    /// The challenge that a browser is to answer.
    pub(crate) fn challenge<'a>(&self, headers: &'a HeaderMap) -> Once<'a> {
        self.challenge.read(headers)
    }

    /// Lets a browser keep a challenge for so many seconds.
    pub(crate) fn set_challenge(&self, value: &str, seconds: i64) -> Option<HeaderValue> {
        self.challenge.set(value, Some(seconds))
    }

    /// Gives a browser what its forms are bound to, until it is closed.
    pub(crate) fn set_browser(&self, value: &str) -> Option<HeaderValue> {
        self.browser.set(value, None)
    }

    /// Sets the cookies of a session; beside a refresh token stands what says whom it was given to.
    /// Ages are in seconds.
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
                .and_then(|(_, given, age)| self.renews.set(given, Some(*age))),
            self.csrf.set(csrf, None),
        ];
        for value in set.into_iter().flatten() {
            reply = reply.and_header(SET_COOKIE, value);
        }
        reply
    }

    /// Sets the CSRF token alone.
    pub(crate) fn set_csrf(&self, reply: Reply, csrf: &str) -> Reply {
        match self.csrf.set(csrf, None).filter(|_| self.enabled) {
            Some(value) => reply.and_header(SET_COOKIE, value),
            None => reply,
        }
    }

    /// Clears what a session has set.
    pub(crate) fn clear(&self, mut reply: Reply) -> Reply {
        if !self.enabled {
            return reply;
        }
        for cookie in [&self.token, &self.refresh, &self.renews, &self.csrf] {
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
    fn what_is_not_ours_is_not_looked_at() {
        let cookies = Cookies::new(&AuthConfig::default());
        let cases: [(&[&[u8]], Once<'_>); 11] = [
            (&[], Once::Absent),
            (&[b"a=b; token=c"], Once::Absent),
            (&[b"\xff; \xff=\xff; __Host-token"], Once::Absent),
            (&[b"a=\xff;__Host-token= abc ;\xff=b"], Once::Text("abc")),
            (&[b"a=\xff", b"__Host-token=abc"], Once::Text("abc")),
            (&[b"__Host-token=a=b"], Once::Text("a=b")),
            (&[b"__Host-token=\xff"], Once::Unusable),
            (&[b"__Host-token=abc; __Host-token=abc"], Once::Unusable),
            (&[b"__Host-token=\xff; __Host-token=abc"], Once::Unusable),
            (&[b"__Host-token=abc; __Host-token=\xff"], Once::Unusable),
            (
                &[b"__Host-token=abc", b"a=\xff; __Host-token=abc"],
                Once::Unusable,
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
