//! Cookies: their names, attributes and values, in one place.

use axum::http::header::{COOKIE, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue};
use linchpin::axum;
use linchpin::http::Reply;

use super::credential::Once;
use crate::config::{AuthConfig, SameSite};

/// The name that clients read it by.
const CSRF: &str = "csrf_token";

/// The cookies of an app.
#[derive(Clone, Debug)]
pub(crate) struct Cookies {
    /// Whether any are set or read.
    enabled: bool,
    token: Cookie,
    refresh: Cookie,
    csrf: Cookie,
}

#[derive(Clone, Debug)]
struct Cookie {
    name: String,
    /// Everything behind the value but its age.
    attributes: String,
}

impl Cookie {
    fn new(name: &str, config: &AuthConfig, path: &str, same_site: SameSite, prefixed: bool, http_only: bool) -> Self {
        let cookies = &config.auth.cookies;
        let name = match (cookies.secure && prefixed, path == "/" && cookies.domain.is_none()) {
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

    /// `None` for a value that cannot stand in a header, which none of ours is.
    fn set(&self, value: &str, max_age: Option<i64>) -> Option<HeaderValue> {
        let age = max_age.map_or_else(String::new, |age| format!("; Max-Age={}", age.max(0)));
        HeaderValue::try_from(format!("{}={value}{}{age}", self.name, self.attributes)).ok()
    }

    /// Its one value in a request.
    fn read<'a>(&self, headers: &'a HeaderMap) -> Once<'a> {
        let mut found = Once::Absent;
        for line in headers.get_all(COOKIE) {
            let Ok(line) = line.to_str() else { return Once::Unusable };
            for pair in line.split(';') {
                let Some((name, value)) = pair.split_once('=') else { continue };
                if name.trim() == self.name {
                    if found != Once::Absent {
                        return Once::Unusable;
                    }
                    found = Once::Text(value.trim());
                }
            }
        }
        found
    }
}

impl Cookies {
    pub(crate) fn new(config: &AuthConfig) -> Self {
        let (cookies, mount) = (&config.auth.cookies, &config.auth.mount);
        Self {
            enabled: config.auth.session.transport.cookies(),
            token: Cookie::new("token", config, &cookies.path, cookies.same_site, true, true),
            refresh: Cookie::new("refresh_token", config, mount, SameSite::Strict, true, true),
            csrf: Cookie::new(CSRF, config, "/", cookies.same_site, false, false),
        }
    }

    /// The access token of a request.
    pub(crate) fn token<'a>(&self, headers: &'a HeaderMap) -> Once<'a> {
        if self.enabled { self.token.read(headers) } else { Once::Absent }
    }

    /// The refresh token of a request.
    pub(crate) fn refresh<'a>(&self, headers: &'a HeaderMap) -> Once<'a> {
        if self.enabled { self.refresh.read(headers) } else { Once::Absent }
    }

    /// The CSRF token of a request.
    pub(crate) fn csrf<'a>(&self, headers: &'a HeaderMap) -> Once<'a> {
        if self.enabled { self.csrf.read(headers) } else { Once::Absent }
    }

    /// Sets the cookies of a session. Ages are in seconds.
    pub(crate) fn set(&self, mut reply: Reply, token: (&str, i64), refresh: Option<(&str, i64)>, csrf: &str) -> Reply {
        if !self.enabled {
            return reply;
        }
        let set = [
            self.token.set(token.0, Some(token.1)),
            refresh.and_then(|(value, age)| self.refresh.set(value, Some(age))),
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
        for cookie in [&self.token, &self.refresh, &self.csrf] {
            if let Some(value) = cookie.set("", Some(0)) {
                reply = reply.and_header(SET_COOKIE, value);
            }
        }
        reply
    }
}
