//! The settings.

use std::ffi::OsString;

use linchpin::Problem;
use linchpin::settings::{self, Reader, flag, list, number, set};
use linchpin_safe_client::{IpNet, Roots};

use crate::crypto::{VapidKey, is_subject};

/// The prefix of the variables of the plugin.
pub(crate) const VARIABLES: [&str; 1] = ["LINCHPIN_PUSH_"];
/// The push services of the known browsers.
const HOSTS: [&str; 4] = [
    "fcm.googleapis.com",
    "*.push.services.mozilla.com",
    "*.notify.windows.com",
    "*.push.apple.com",
];

/// Settings of [`Push`](crate::Push), as `push.*`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PushConfig {
    /// `vapid`: the keys that identify the app, newest first. Messages to a browser are signed with
    /// the key that the browser used to subscribe. At least one key is required.
    pub vapid: Vec<VapidKey>,
    /// `subject`: a contact of the operator for push services: a `mailto:` address or an `https://`
    /// page. Required.
    pub subject: String,
    /// `hosts`: the allowed hosts of push services: names, or patterns such as `*.example.com`.
    /// `any` allows all public hosts. The default is the push services of the known browsers.
    pub hosts: Vec<String>,
    /// `require_live_session`: whether an expired session suspends its subscriptions. The default
    /// is `false`: only the end of a session (such as a sign-out) suspends them.
    pub require_live_session: bool,
    /// `allow_http`: whether push services may have the scheme `http`, for tests. The default is
    /// `false`.
    pub allow_http: bool,
    /// `allow_private`: whether `allow_cidrs` is allowed in production. The default is `false`.
    pub allow_private: bool,
    /// `allow_cidrs`: private networks in which push services may be. The default is none.
    pub allow_cidrs: Vec<IpNet>,
    /// `workers`: the maximum number of subscriptions that this process serves concurrently. The
    /// default is 32.
    pub workers: usize,
    /// The trusted root certificates for connections to push services. The default is those of the
    /// operating system.
    pub roots: Roots,
    /// Invalid environment variables.
    problems: Vec<Problem>,
    /// Whether the environment variables were read.
    pub(crate) of_environment: bool,
}

impl Default for PushConfig {
    fn default() -> Self {
        Self {
            vapid: Vec::new(),
            subject: String::new(),
            hosts: HOSTS.map(str::to_owned).to_vec(),
            require_live_session: false,
            allow_http: false,
            allow_private: false,
            allow_cidrs: Vec::new(),
            workers: 32,
            roots: Roots::default(),
            problems: Vec::new(),
            of_environment: false,
        }
    }
}

const READERS: &[(&str, Reader<PushConfig>)] = &[
    ("VAPID", |config, text| {
        set(
            &mut config.vapid,
            list(
                text,
                "VAPID private keys from the command `push keys`, separated by commas",
            ),
        )
    }),
    ("SUBJECT", |config, text| {
        text.clone_into(&mut config.subject);
        Ok(())
    }),
    ("HOSTS", |config, text| {
        set(&mut config.hosts, list(text, "hosts, separated by commas"))
    }),
    ("REQUIRE_LIVE_SESSION", |config, text| {
        set(&mut config.require_live_session, flag(text))
    }),
    ("ALLOW_HTTP", |config, text| {
        set(&mut config.allow_http, flag(text))
    }),
    ("ALLOW_PRIVATE", |config, text| {
        set(&mut config.allow_private, flag(text))
    }),
    ("ALLOW_CIDRS", |config, text| {
        set(
            &mut config.allow_cidrs,
            list(text, "networks such as 10.0.0.0/8"),
        )
    }),
    ("WORKERS", |config, text| {
        set(&mut config.workers, number(text))
    }),
];

impl PushConfig {
    /// Reads the settings from environment variables: `LINCHPIN_PUSH_SUBJECT` is `push.subject`.
    /// Lists are separated by commas. Invalid values are errors at start-up.
    pub fn from_env() -> Self {
        Self::of(std::env::vars_os())
    }

    fn of(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let mut config = Self {
            of_environment: true,
            ..Self::default()
        };
        config.problems = settings::read(VARIABLES[0], READERS, &mut config, variables);
        config
    }

    /// Checks the settings. Each problem names its setting.
    pub(crate) fn check(&self, production: bool) -> Vec<Problem> {
        let mut problems = self.problems.clone();
        let mut wrong = |key: &str, code: &'static str, text: &str| {
            problems.push(Problem::new(format!("push.{key}"), code, text));
        };
        if self.vapid.is_empty() {
            wrong(
                "vapid",
                "required",
                "needs a key: run the command `push keys`, and set `LINCHPIN_PUSH_VAPID`",
            );
        }
        let ids = self.vapid.iter().map(VapidKey::id);
        if ids.collect::<std::collections::BTreeSet<_>>().len() < self.vapid.len() {
            wrong("vapid", "duplicate", "contains the same key twice");
        }
        if !is_subject(&self.subject) {
            wrong(
                "subject",
                "format",
                "must be a contact for push services, such as `mailto:ops@example.com` or `https://example.com/contact`: set `LINCHPIN_PUSH_SUBJECT`",
            );
        }
        let is_host = |host: &String| {
            let name = host.strip_prefix("*.").unwrap_or(host);
            let label =
                |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-_[]:".contains(c);
            !name.is_empty() && name.chars().all(label)
        };
        if self.hosts.is_empty() || !self.hosts.iter().all(is_host) {
            wrong(
                "hosts",
                "format",
                "must be `any`, or host names in lower case such as `push.example.com` and `*.example.com`",
            );
        }
        if production && !self.allow_cidrs.is_empty() && !self.allow_private {
            wrong(
                "allow_cidrs",
                "range",
                "allows callers to reach private networks: remove it, or set `push.allow_private` to `true`",
            );
        }
        if !(1..=1_000).contains(&self.workers) {
            wrong("workers", "range", "must be 1 to 1000");
        }
        problems
    }

    /// Whether every public host may be a push service.
    pub(crate) fn is_open(&self) -> bool {
        self.hosts.iter().any(|host| host == "any")
    }

    /// Whether a host is an allowed push service.
    pub(crate) fn is_service(&self, host: &str) -> bool {
        let names = |pattern: &String| match pattern.strip_prefix("*.") {
            Some(domain) => host
                .strip_suffix(domain)
                .and_then(|rest| rest.strip_suffix('.'))
                .is_some_and(|label| !label.is_empty()),
            None => pattern == host,
        };
        self.is_open() || self.hosts.iter().any(names)
    }

    /// Returns the key with this id, which subscriptions store.
    pub(crate) fn key(&self, id: &str) -> Option<&VapidKey> {
        self.vapid.iter().find(|key| key.id() == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> PushConfig {
        PushConfig::of(variables.iter().map(|(name, value)| {
            let name = format!("LINCHPIN_PUSH_{name}");
            (OsString::from(name), OsString::from(value))
        }))
    }

    fn paths(problems: &[Problem]) -> Vec<&str> {
        problems.iter().map(|one| one.path.as_str()).collect()
    }

    #[test]
    fn every_setting_is_read() {
        let (new, old) = (VapidKey::generate(), VapidKey::generate());
        let keys = format!("{}, {}", *new.private_text(), *old.private_text());
        let config = of(&[
            ("VAPID", &keys),
            ("SUBJECT", "mailto:ops@example.com"),
            ("HOSTS", "push.example.com"),
            ("REQUIRE_LIVE_SESSION", "true"),
            ("ALLOW_HTTP", "true"),
            ("ALLOW_PRIVATE", "true"),
            ("ALLOW_CIDRS", "10.0.0.0/8"),
            ("WORKERS", "4"),
        ]);
        assert!(config.check(true).is_empty(), "{:?}", config.check(true));
        assert_eq!(config.vapid.len(), 2);
        assert_eq!(
            config.key(old.id()).unwrap().public_text(),
            old.public_text()
        );
        assert!(config.require_live_session && config.allow_http && config.workers == 4);
    }

    #[test]
    fn all_invalid_settings_are_reported_at_once() {
        let config = of(&[
            ("VAPID", "x"),
            ("SUBJEKT", "x"),
            ("WORKERS", "0"),
            ("HOSTS", "A,b c"),
        ]);
        assert_eq!(
            paths(&config.check(false)),
            [
                "LINCHPIN_PUSH_SUBJEKT",
                "LINCHPIN_PUSH_VAPID",
                "push.vapid",
                "push.subject",
                "push.hosts",
                "push.workers",
            ]
        );
        let open = of(&[("ALLOW_CIDRS", "10.0.0.0/8")]);
        assert!(paths(&open.check(true)).contains(&"push.allow_cidrs"));
    }

    #[test]
    fn hosts_that_resemble_an_allowed_host_are_refused() {
        let config = PushConfig::default();
        for good in [
            "fcm.googleapis.com",
            "updates.push.services.mozilla.com",
            "a.b.notify.windows.com",
            "web.push.apple.com",
        ] {
            assert!(config.is_service(good), "{good}");
        }
        for bad in [
            "fcm.googleapis.com.evil.example",
            "xfcm.googleapis.com",
            "sub.fcm.googleapis.com",
            "push.apple.com",
            ".push.apple.com",
            "evilpush.apple.com",
            "push.apple.com.evil.example",
            "any",
        ] {
            assert!(!config.is_service(bad), "{bad}");
        }
    }
}
