//! Settings that only development accepts, because each of them disables a protection.

use super::AuthConfig;
use crate::identity::TrustProxy;

/// Minimum prefix length of a network of proxies, for IPv4 and IPv6. A wider network contains
/// clients. The widest private networks are `10.0.0.0/8` and `fc00::/7`.
const MIN_PREFIX_BITS: (u8, u8) = (8, 7);

/// Checks the settings of an app in production.
pub(super) fn check(config: &AuthConfig, mut wrong: impl FnMut(&str, &str)) {
    let (security, auth) = (&config.security, &config.auth);
    for origin in security
        .allowed_origins
        .iter()
        .filter(|origin| origin.starts_with("http://"))
    {
        let what = format!(
            "`{origin}` is allowed in development only: without TLS, anyone on the network can change its pages"
        );
        wrong("security.allowedOrigins", &what);
    }
    // A native app on the user's machine is reached without TLS (RFC 8252).
    let lacks_tls = |origin: &&String| {
        url::Url::parse(origin).is_ok_and(|url| !crate::oauth::is_safe(&url, true))
    };
    for origin in auth.oauth.allowed_redirect_origins.iter().filter(lacks_tls) {
        let what = format!(
            "`{origin}` is allowed in development only: without TLS, others can read the one-time code of a sign-in"
        );
        wrong("auth.oauth.allowedRedirectOrigins", &what);
    }
    if !security.csrf {
        wrong(
            "security.csrf.enabled",
            "must be true in production; security.csrf.exemptPaths exempts single paths",
        );
    }
    if let TrustProxy::Networks(networks) = &security.trust_proxy {
        let (v4, v6) = MIN_PREFIX_BITS;
        for network in networks
            .iter()
            .filter(|network| network.prefix_len() < if network.addr().is_ipv4() { v4 } else { v6 })
        {
            let what = format!(
                "`{network}` is too large: it contains clients, and these could then forge their address. List only networks of proxies, such as 10.0.0.0/8"
            );
            wrong("security.trustProxy", &what);
        }
    }
    if let Some(role) = auth
        .admin_role
        .as_ref()
        .filter(|role| auth.default_role.as_ref() == Some(*role))
    {
        wrong(
            "auth.defaultRole",
            &format!(
                "`{role}` is also auth.admin.role, so every new account would be an administrator: choose another role"
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems_of(change: impl FnOnce(&mut AuthConfig)) -> Vec<String> {
        let mut config = AuthConfig::default();
        change(&mut config);
        let mut out = Vec::new();
        check(&config, |key, what| out.push(format!("{key}: {what}")));
        out
    }

    #[test]
    fn settings_that_weaken_protection_are_reported_in_production() {
        assert_eq!(problems_of(|_| ()), Vec::<String>::new());
        let origins = |origins: &'static [&'static str]| {
            move |config: &mut AuthConfig| {
                config.security.allowed_origins =
                    origins.iter().map(|&origin| origin.to_owned()).collect();
            }
        };
        let found = problems_of(origins(&[
            "https://app.test",
            "http://app.test",
            "http://localhost:3000",
        ]));
        assert!(
            found.len() == 2 && found[0].starts_with("security.allowedOrigins: `http://app.test`"),
            "{found:?}"
        );
        let redirect_origins = |config: &mut AuthConfig| {
            let origins = [
                "https://app.test",
                "http://127.0.0.1:8000",
                "http://localhost",
                "http://app.test",
            ];
            config.auth.oauth.allowed_redirect_origins = origins.map(str::to_owned).to_vec();
        };
        let found = problems_of(redirect_origins);
        assert!(
            found.len() == 1
                && found[0].starts_with("auth.oauth.allowedRedirectOrigins: `http://app.test`"),
            "{found:?}"
        );
        assert!(
            problems_of(|config| config.security.csrf = false)[0]
                .starts_with("security.csrf.enabled: ")
        );
        let trusting = |text: &'static str| {
            problems_of(move |config| {
                config.security.trust_proxy = TrustProxy::parse(text).expect("networks");
            })
        };
        for everybody in [
            "0.0.0.0/0",
            "::/0",
            "0.0.0.0/1,128.0.0.0/1",
            "2000::/3",
            "10.0.0.0/8,0.0.0.0/0",
        ] {
            assert!(
                trusting(everybody)[0].starts_with("security.trustProxy: "),
                "{everybody}"
            );
        }
        for some in [
            "10.0.0.0/8",
            "fc00::/7",
            "172.16.0.0/12,192.0.2.1",
            "1",
            "false",
        ] {
            assert_eq!(trusting(some), Vec::<String>::new(), "{some}");
        }
        let roles = |default: &'static str| {
            problems_of(move |config| {
                config.auth.default_role = Some(default.to_owned());
                config.auth.admin_role = Some("admin".to_owned());
            })
        };
        assert!(roles("admin")[0].starts_with("auth.defaultRole: ") && roles("member").is_empty());
    }
}
