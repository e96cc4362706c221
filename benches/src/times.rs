//! Measures whether response times reveal that an account exists.
//!
//! It sends the same request for a known and for an unknown email address, alternately. The
//! benchmark and the test of authentication use it.

use std::sync::Arc;
use std::time::Duration;

use linchpin::BoxFuture;
use linchpin_auth::{Auth, Limit, Mail, Mailer};
use serde_json::{Value as Json, json};

use super::line::Line;

/// The allowed difference of the medians: 2 ms or 5 % of the larger median, whichever is larger.
const MIN_ALLOWED_DIFFERENCE: Duration = Duration::from_millis(2);
const ALLOWED_SHARE: f64 = 0.05;
/// The number of unmeasured requests at the start.
const WARM_UP_REQUESTS: usize = 10;

/// There are 32 users of each class. We query all equally often, so their rate counters have the
/// same age.
///
/// The classes: account with a password, account without a password, no account.
pub const USERS: usize = 32;
/// The password of the accounts with a password.
pub const PASSWORD: &str = "violet-otter-91-lamp";
const WRONG: &str = "wrong-otter-91-lamp";

/// A result with any error.
pub type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// A mailer that drops each mail.
struct DropMails;

impl Mailer for DropMails {
    fn send(&self, _: Mail) -> BoxFuture<'_, linchpin::Result<()>> {
        Box::pin(async { Ok(()) })
    }
}

/// Enables all measured features and raises the rate limits.
pub fn with_measured_features(auth: Auth, concealed: bool) -> Auth {
    auth.configure(|config| {
        let auth = &mut config.auth;
        auth.mailer = Some(Arc::new(DropMails));
        auth.email_verification.enabled = true;
        auth.conceal_registration = concealed;
        auth.magic_link.enabled = true;
        for page in [
            &mut auth.email_verification.link_base_url,
            &mut auth.magic_link.link_base_url,
            &mut auth.password_reset.link_base_url,
        ] {
            *page = Some("https://app.test/page".into());
        }
        // The plugin still counts attempts, but the limits are higher than the measured calls.
        for bucket in [
            "register",
            "login",
            "loginIp",
            "loginSpread",
            "loginIdentifier",
            "passwordLockout",
            "forgot",
            "forgotIdentifier",
            "resend",
            "resendIdentifier",
            "magicRequest",
            "magicRequestIdentifier",
        ] {
            auth.rate_limit.buckets.insert(
                bucket.to_owned(),
                Limit {
                    max: 1_000_000,
                    window_seconds: 3600,
                },
            );
        }
    })
}

/// A request to measure, for a known and for an unknown address.
#[derive(Debug)]
pub struct Pair {
    /// The name in the report.
    pub name: &'static str,
    status: u16,
    known: fn(usize) -> Vec<u8>,
    unknown: fn(usize) -> Vec<u8>,
}

/// The requests to an app without concealed registration.
pub const OPEN: [Pair; 5] = [
    Pair {
        name: "sign-in, wrong password",
        status: 401,
        known: |n| login(&known(n)),
        unknown: |n| login(&unknown(n)),
    },
    Pair {
        name: "sign-in, account without a password",
        status: 401,
        known: |n| login(&without(n)),
        unknown: |n| login(&unknown(n)),
    },
    Pair {
        name: "forgotten password",
        status: 200,
        known: |n| forgot(&known(n)),
        unknown: |n| forgot(&unknown(n)),
    },
    Pair {
        name: "verification, again",
        status: 200,
        known: |n| resend(&known(n)),
        unknown: |n| resend(&unknown(n)),
    },
    Pair {
        name: "link to sign in",
        status: 200,
        known: |n| magic(&known(n)),
        unknown: |n| magic(&unknown(n)),
    },
];

/// The requests to an app with concealed registration. A sign-up creates an account, so each
/// sign-up uses a new address.
pub const CONCEALED: [Pair; 1] = [Pair {
    name: "concealed sign-up",
    status: 202,
    known: |n| register(&known(n)),
    unknown: |n| register(&format!("new{n}@x.test")),
}];

/// The median response times.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// The median for known addresses.
    pub known: Duration,
    /// The median for unknown addresses.
    pub unknown: Duration,
}

impl Times {
    /// Returns the difference of the medians.
    pub fn apart(self) -> Duration {
        self.known.abs_diff(self.unknown)
    }

    /// Returns the allowed difference.
    pub fn bound(self) -> Duration {
        self.known
            .max(self.unknown)
            .mul_f64(ALLOWED_SHARE)
            .max(MIN_ALLOWED_DIFFERENCE)
    }

    /// Whether the difference is smaller than allowed.
    pub fn holds(self) -> bool {
        self.apart() < self.bound()
    }
}

impl Pair {
    /// Sends requests for known and unknown users alternately. `from` is the number of the first
    /// user.
    ///
    /// # Errors
    /// If the connection fails, or if a response has another status.
    pub fn ask(&self, line: &mut Line, from: usize, tries: usize) -> Outcome<Times> {
        let (mut known, mut unknown) = (Vec::with_capacity(tries), Vec::with_capacity(tries));
        for n in 0..tries + WARM_UP_REQUESTS {
            // The order alternates, so that neither class always finds warm caches.
            for turn in 0..2 {
                let of_known = (n + turn) % 2 == 0;
                let request = if of_known {
                    (self.known)(from + n)
                } else {
                    (self.unknown)(from + n)
                };
                let (status, body, took) = line.ask(&request)?;
                if status != self.status {
                    return Err(format!(
                        "{}: {status} {}",
                        self.name,
                        String::from_utf8_lossy(body)
                    )
                    .into());
                }
                if n >= WARM_UP_REQUESTS {
                    if of_known {
                        known.push(took);
                    } else {
                        unknown.push(took);
                    }
                }
            }
        }
        Ok(Times {
            known: median(&mut known),
            unknown: median(&mut unknown),
        })
    }
}

fn median(of: &mut [Duration]) -> Duration {
    of.sort_unstable();
    of[of.len() / 2]
}

/// Builds a POST request with a JSON body.
pub fn post(path: &str, body: &Json) -> Vec<u8> {
    let body = body.to_string();
    format!("POST {path} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len())
        .into_bytes()
}

/// Returns the address of a user with an account.
pub fn known(n: usize) -> String {
    format!("known{}@x.test", n % USERS)
}

/// Returns the address of a user with an account without a password.
pub fn without(n: usize) -> String {
    format!("without{}@x.test", n % USERS)
}

fn unknown(n: usize) -> String {
    format!("unknown{}@x.test", n % USERS)
}

/// Builds a sign-up request.
pub fn register(email: &str) -> Vec<u8> {
    post(
        "/auth/register",
        &json!({ "email": email, "password": PASSWORD }),
    )
}

fn login(email: &str) -> Vec<u8> {
    post("/auth/login", &json!({ "email": email, "password": WRONG }))
}

fn forgot(email: &str) -> Vec<u8> {
    post("/auth/forgot-password", &json!({ "email": email }))
}

fn resend(email: &str) -> Vec<u8> {
    post("/auth/resend-verification", &json!({ "email": email }))
}

fn magic(email: &str) -> Vec<u8> {
    post("/auth/magic-link/request", &json!({ "identifier": email }))
}
