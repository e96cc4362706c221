//! Forged requests: whether a request with cookies comes from the app's own pages.

use axum::http::header::{HOST, ORIGIN, REFERER};
use axum::http::{HeaderMap, HeaderName, Method};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use linchpin::{Error, Result, axum};
use url::Url;

use super::cookies::Cookies;
use super::credential::{SingleValue, single_value};
use crate::config::AuthConfig;
use crate::env::Env;
use crate::error::{CSRF_FAILED, refuse};
use crate::keys::derive::{Purpose, Ring};
use crate::secret::same;

const HEADER: HeaderName = HeaderName::from_static("x-csrf-token");
pub(crate) const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const NONCE_BYTES: usize = 16;

/// The rules against forged requests.
#[derive(Clone, Debug)]
pub(crate) struct Csrf {
    enabled: bool,
    allowed: Vec<String>,
    exempt: Vec<String>,
    /// Paths of routes that check for forged requests themselves if they need it. A session cookie
    /// does not authenticate a request to them.
    self_checked_paths: Vec<String>,
    /// The origin of the app in production, if it is set. `Host` is chosen by the client.
    public: Option<String>,
    /// Whether the app's pages use TLS: in production with cookies, which browsers accept only with
    /// TLS.
    tls: bool,
}

/// The relevant parts of a request, which are checked after its session is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Presented {
    origin_is_ours: bool,
    /// The token of the header, if the cookie has the same value.
    token: Option<String>,
}

impl Csrf {
    pub(crate) fn new(
        config: &AuthConfig,
        self_checked_paths: Vec<String>,
        production: bool,
    ) -> Self {
        let security = &config.security;
        let mut exempt = security.csrf_exempt.clone();
        if config.auth.pages.enabled == Some(true) {
            // Forms contain their own token and are checked by it.
            exempt.push(format!(
                "{}{}/*",
                config.auth.mount,
                crate::routes::pages::BASE
            ));
        }
        let tls =
            production && config.auth.cookies.secure && config.auth.session.transport.cookies();
        let public = config
            .auth
            .public_url
            .as_deref()
            .filter(|_| production)
            .and_then(|url| Url::parse(url).ok());
        let public = public.map(|url| url.origin().ascii_serialization());
        Self {
            enabled: security.csrf,
            allowed: security.allowed_origins.clone(),
            exempt,
            self_checked_paths,
            public,
            tls,
        }
    }

    /// Whether the route at a path checks for forged requests itself.
    pub(crate) fn checks_itself(&self, path: &str) -> bool {
        self.self_checked_paths
            .iter()
            .any(|checked| checked == path)
    }

    /// The parts of a request with a cookie that must be checked; `None` if nothing must be
    /// checked.
    pub(crate) fn parts_to_check(
        &self,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
        cookies: &Cookies,
    ) -> Option<Presented> {
        let safe = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
        if safe || !self.enabled || self.is_exempt(path) {
            return None;
        }
        Some(self.presented(headers, cookies))
    }

    pub(crate) fn presented(&self, headers: &HeaderMap, cookies: &Cookies) -> Presented {
        let token = match (single_value(headers, &HEADER), cookies.csrf(headers)) {
            (SingleValue::Text(header), SingleValue::Text(cookie))
                if same(header.as_bytes(), cookie.as_bytes()) =>
            {
                Some(header.to_owned())
            }
            _ => None,
        };
        Presented {
            origin_is_ours: self.is_from_us(headers),
            token,
        }
    }

    /// Whether the request is from a page of the server or of an allowed origin. `null` and a
    /// missing origin are not.
    fn is_from_us(&self, headers: &HeaderMap) -> bool {
        let origin = match (
            single_value(headers, &ORIGIN),
            single_value(headers, &REFERER),
        ) {
            (SingleValue::Text(origin), _) => Some(origin.to_owned()),
            (SingleValue::Absent, SingleValue::Text(referer)) => Url::parse(referer)
                .ok()
                .map(|url| url.origin().ascii_serialization()),
            _ => None,
        };
        origin.is_some_and(|origin| self.is_ours(&origin, headers))
    }

    fn is_ours(&self, origin: &str, headers: &HeaderMap) -> bool {
        self.allowed.iter().any(|allowed| allowed == origin) || self.is_server(origin, headers)
    }

    /// Whether an origin is the server's own.
    fn is_server(&self, origin: &str, headers: &HeaderMap) -> bool {
        if let Some(public) = &self.public {
            return origin.eq_ignore_ascii_case(public);
        }
        // TLS ends at a proxy, so the scheme of the request says nothing. A plain http origin can
        // be forged on the network, so it does not count, except on this machine, where browsers
        // accept secure cookies without TLS.
        let plain = || {
            origin
                .strip_prefix("http://")
                .filter(|authority| !self.tls || is_this_machine(authority))
        };
        match (
            origin.strip_prefix("https://").or_else(plain),
            single_value(headers, &HOST),
        ) {
            (Some(authority), SingleValue::Text(host)) => {
                !authority.is_empty() && authority.eq_ignore_ascii_case(host)
            }
            _ => false,
        }
    }

    fn is_exempt(&self, path: &str) -> bool {
        let below = |pattern: &str| {
            pattern.strip_suffix("/*").is_some_and(|base| {
                path.strip_prefix(base)
                    .is_some_and(|rest| rest.starts_with('/'))
            })
        };
        path.starts_with("/__push/")
            || self
                .exempt
                .iter()
                .any(|pattern| pattern == path || below(pattern))
    }

    /// Checks that no page of a foreign origin sent a request that opens a session. Programs that
    /// are not browsers send no origin and pass.
    ///
    /// # Errors
    /// 403 `csrf_failed`.
    pub(crate) fn may_sign_in(&self, headers: &HeaderMap) -> Result<()> {
        if !self.enabled {
            return Ok(());
        }
        let foreign = match (
            single_value(headers, &ORIGIN),
            single_value(headers, &FETCH_SITE),
        ) {
            (SingleValue::Text(origin), _) => !self.is_ours(origin, headers),
            (SingleValue::Absent, SingleValue::Text(site)) => {
                site.eq_ignore_ascii_case("cross-site")
            }
            (SingleValue::Absent, SingleValue::Absent) => false,
            _ => true,
        };
        if foreign { Err(failed()) } else { Ok(()) }
    }

    /// Checks a redirect to a provider whose result belongs to the holder of a code verifier. A
    /// page of a foreign origin may have the verifier, so a request from such a page is refused. A
    /// request without an origin may be from a native app; some browsers report links of native
    /// apps as cross-site. So a cross-site request without an origin is refused only if the result
    /// goes to a page of the app, which needs no verifier.
    pub(crate) fn may_bind(&self, headers: &HeaderMap, to_own_page: bool) -> Result<()> {
        if !self.enabled {
            return Ok(());
        }
        let has_origin = [
            single_value(headers, &ORIGIN),
            single_value(headers, &REFERER),
        ]
        .iter()
        .any(|has_origin| !matches!(has_origin, SingleValue::Absent));
        let own = match single_value(headers, &FETCH_SITE) {
            _ if has_origin => self.is_from_us(headers),
            SingleValue::Absent => true,
            SingleValue::Text(site) => !to_own_page || !site.eq_ignore_ascii_case("cross-site"),
            SingleValue::Unusable => false,
        };
        if own { Ok(()) } else { Err(failed()) }
    }

    /// Checks a navigation that changes data: its link must be on a page of the server, or the user
    /// typed the address.
    ///
    /// # Errors
    /// 403 `csrf_failed`, also for clients that are not browsers.
    pub(crate) fn is_own_navigation(&self, headers: &HeaderMap, cookies: &Cookies) -> Result<()> {
        let typed = matches!(single_value(headers, &FETCH_SITE), SingleValue::Text(site) if site.eq_ignore_ascii_case("none"));
        let own = typed || self.is_from_own_page(headers);
        let by_cookie = matches!(
            super::credential::of(headers, cookies),
            super::credential::Credential::Cookie(_)
        );
        if by_cookie && (own || !self.enabled) {
            Ok(())
        } else {
            Err(failed())
        }
    }

    /// Whether a page of the server sent the browser here. Links from other sites, mails and
    /// programs do not count.
    pub(crate) fn is_from_own_page(&self, headers: &HeaderMap) -> bool {
        match (
            single_value(headers, &FETCH_SITE),
            single_value(headers, &REFERER),
        ) {
            _ if !self.enabled => true,
            (SingleValue::Text(site), _) => site.eq_ignore_ascii_case("same-origin"),
            (SingleValue::Absent, SingleValue::Text(referer)) => Url::parse(referer)
                .is_ok_and(|url| self.is_server(&url.origin().ascii_serialization(), headers)),
            _ => false,
        }
    }

    /// Checks the parts that [`Csrf::presented`] returned, for the session with this `sid`.
    ///
    /// # Errors
    /// 403 `csrf_failed`, without a reason.
    pub(crate) fn check(&self, presented: &Presented, sid: &str, ring: &Ring) -> Result<()> {
        if !self.enabled
            || (presented.origin_is_ours
                && presented
                    .token
                    .as_deref()
                    .is_some_and(|token| is_token_of(token, sid, ring)))
        {
            return Ok(());
        }
        Err(failed())
    }
}

fn failed() -> Error {
    refuse(CSRF_FAILED)
}

/// Whether a host, optionally with a port, is always this machine.
fn is_this_machine(authority: &str) -> bool {
    let host = Url::parse(&format!("http://{authority}")).ok();
    match host.as_ref().and_then(Url::host) {
        Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// Creates a CSRF token for a session or for another owner of a form.
///
/// # Errors
/// If the random source fails.
pub(crate) fn make(env: &Env, ring: &Ring, subject: &str) -> Result<String> {
    let nonce = URL_SAFE_NO_PAD.encode(env.random::<NONCE_BYTES>()?);
    let mac =
        URL_SAFE_NO_PAD.encode(ring.mac(Purpose::Csrf, &[nonce.as_bytes(), subject.as_bytes()]));
    Ok(format!("{nonce}.{mac}"))
}

/// The subject of the token that proves that the server gave this browser the refresh token of a
/// session.
pub(crate) fn refresh_subject(handle: &str) -> String {
    format!("renews {handle}")
}

/// Whether [`make`] created the token for this subject.
pub(crate) fn is_token_of(token: &str, subject: &str, ring: &Ring) -> bool {
    let Some((nonce, mac)) = token.split_once('.') else {
        return false;
    };
    URL_SAFE_NO_PAD.decode(mac).is_ok_and(|mac| {
        ring.verifies(Purpose::Csrf, &[nonce.as_bytes(), subject.as_bytes()], &mac)
    })
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn headers(list: &[(&'static str, &str)]) -> HeaderMap {
        let mut out = HeaderMap::new();
        for (name, value) in list {
            out.append(*name, HeaderValue::from_str(value).unwrap());
        }
        out
    }

    fn rules() -> (Csrf, Cookies, Ring) {
        let mut config = AuthConfig::default();
        config
            .security
            .allowed_origins
            .push("https://app.test".to_owned());
        config.security.csrf_exempt = vec!["/hook".to_owned(), "/open/*".to_owned()];
        let ring = Ring::new(["a secret of tests that has 32 bytes"]).unwrap();
        (
            Csrf::new(&config, vec!["/auth/login".to_owned()], false),
            Cookies::new(&config),
            ring,
        )
    }

    #[test]
    fn a_request_must_prove_that_a_page_of_the_app_sent_it() {
        let (csrf, cookies, ring) = rules();
        let token = make(&Env::system(), &ring, "sid").unwrap();
        let cookie = format!("a=b; csrf_token={token}");
        let is_allowed = |list: &[(&'static str, &str)], sid: &str| {
            let presented = csrf
                .parts_to_check(&Method::POST, "/x", &headers(list), &cookies)
                .unwrap();
            csrf.check(&presented, sid, &ring).is_ok()
        };
        let good = [
            ("host", "me.test"),
            ("origin", "https://me.test"),
            ("x-csrf-token", &token),
            ("cookie", &cookie),
        ];
        assert!(is_allowed(&good, "sid"));
        assert!(!is_allowed(&good, "another"));
        for (place, value) in [
            (1, "https://evil.test"),
            (1, "null"),
            (1, "https://me.test.evil.test"),
            (1, "https://"),
            (2, "x"),
            (2, ""),
            (3, "a=b"),
            (3, "csrf_token=x"),
        ] {
            let mut bad = good;
            bad[place].1 = value;
            assert!(!is_allowed(&bad, "sid"), "{value}");
        }
        for left_out in 1..4 {
            let list: Vec<_> = good
                .iter()
                .enumerate()
                .filter(|(i, _)| *i != left_out)
                .map(|(_, pair)| *pair)
                .collect();
            assert!(!is_allowed(&list, "sid"), "{left_out}");
        }
        let twice: Vec<_> = good
            .iter()
            .chain([&("origin", "https://me.test")])
            .copied()
            .collect();
        assert!(!is_allowed(&twice, "sid"));
        let mut referred = good;
        referred[1] = ("referer", "https://app.test/page?x");
        assert!(is_allowed(&referred, "sid"));
        let other = make(
            &Env::system(),
            &Ring::new(["another secret of tests, of 32 bytes"]).unwrap(),
            "sid",
        )
        .unwrap();
        let forged = format!("csrf_token={other}");
        assert!(!is_allowed(
            &[
                good[0],
                good[1],
                ("x-csrf-token", &other),
                ("cookie", &forged)
            ],
            "sid"
        ));
    }

    #[test]
    fn safe_methods_and_exempt_paths_need_no_csrf_token() {
        let (csrf, cookies, _) = rules();
        let must_check = |method: Method, path: &str| {
            csrf.parts_to_check(&method, path, &HeaderMap::new(), &cookies)
                .is_some()
        };
        assert!(
            !must_check(Method::GET, "/x")
                && !must_check(Method::HEAD, "/x")
                && !must_check(Method::OPTIONS, "/x")
        );
        assert!(
            !must_check(Method::POST, "/hook")
                && !must_check(Method::POST, "/open/a/b")
                && !must_check(Method::POST, "/__push/subscribe")
        );
        for path in ["/x", "/hook/x", "/open", "/opener/x", "/__push"] {
            assert!(must_check(Method::POST, path), "{path}");
        }
        assert!(
            must_check(Method::DELETE, "/x")
                && must_check(Method::PATCH, "/x")
                && must_check(Method::PUT, "/x")
        );
    }

    #[test]
    fn foreign_origins_cannot_sign_in() {
        let (csrf, _, _) = rules();
        let may = |list: &[(&'static str, &str)]| csrf.may_sign_in(&headers(list)).is_ok();
        assert!(
            may(&[])
                && may(&[("host", "me.test"), ("origin", "http://me.test")])
                && may(&[("origin", "https://app.test")])
        );
        assert!(
            may(&[("sec-fetch-site", "same-origin")])
                && may(&[
                    ("origin", "https://app.test"),
                    ("sec-fetch-site", "cross-site")
                ])
        );
        assert!(
            !may(&[("host", "me.test"), ("origin", "https://evil.test")])
                && !may(&[("origin", "null")])
        );
        assert!(!may(&[("sec-fetch-site", "cross-site")]));
    }

    #[test]
    fn in_production_only_the_public_url_is_the_own_origin() {
        let mut config = AuthConfig::default();
        config.auth.public_url = Some("https://App.test:8443/base".to_owned());
        config
            .security
            .allowed_origins
            .push("https://front.test".to_owned());
        let may = |production: bool, host: &str, origin: &str| {
            Csrf::new(&config, Vec::new(), production)
                .may_sign_in(&headers(&[("host", host), ("origin", origin)]))
                .is_ok()
        };
        for host in ["app.test:8443", "inner.test", "evil.test"] {
            assert!(
                may(true, host, "https://app.test:8443") && may(true, host, "https://front.test"),
                "{host}"
            );
            for origin in [
                "https://evil.test",
                "https://inner.test",
                "https://app.test",
                "http://app.test:8443",
                "http://localhost",
            ] {
                assert!(!may(true, host, origin), "{host} {origin}");
            }
        }
        // In development, the public URL is not checked: the app may have any address.
        assert!(may(false, "localhost:3000", "http://localhost:3000"));
        let own = |referer: &str| {
            Csrf::new(&config, Vec::new(), true)
                .is_from_own_page(&headers(&[("host", "evil.test"), ("referer", referer)]))
        };
        assert!(own("https://app.test:8443/page") && !own("https://evil.test/page"));
    }

    #[test]
    fn in_production_the_own_origin_must_use_https() {
        let may = |config: &AuthConfig, production: bool, origin: &str| {
            let host = origin.split("//").nth(1).unwrap();
            Csrf::new(config, Vec::new(), production)
                .may_sign_in(&headers(&[("host", host), ("origin", origin)]))
                .is_ok()
        };
        let (mut config, plain) = (AuthConfig::default(), "http://me.test:8000");
        assert!(
            may(&config, true, "https://me.test")
                && may(&config, false, plain)
                && !may(&config, true, plain)
        );
        for origin in [
            "http://localhost:3000",
            "http://app.localhost",
            "http://127.0.0.1:3000",
            "http://[::1]:3000",
            "http://LOCALHOST",
        ] {
            assert!(may(&config, true, origin), "{origin}");
        }
        for origin in [
            "http://localhost.test",
            "http://notlocalhost",
            "http://127.0.0.1.test",
            "http://128.0.0.1",
            "http://[::2]",
            "http://",
        ] {
            assert!(!may(&config, true, origin), "{origin}");
        }
        config.auth.session.transport = crate::config::Transport::Bearer;
        assert!(may(&config, true, plain), "no cookies are used");
    }
}
