//! The second factors of a user: an authenticator app and a phone.

use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use linchpin::{BoxFuture, Result};
use linchpin_auth::{Auth, E164, SmsProvider};
use serde_json::{Value as Json, json};

use crate::post::Post;
use crate::server::{GOOD, Reply, Server, SignedIn, Store};

/// The code of an authenticator app for a secret, a number of steps from now.
pub fn code_at(app: &Server, secret: &str, steps: i64) -> String {
    code_of(app, secret, steps, 6)
}

/// Like [`code_at`], with a number of digits.
pub fn code_of(app: &Server, secret: &str, steps: i64, digits: u64) -> String {
    let (at, digits) = (
        format!("--now=@{}", app.now_seconds() + 30 * steps),
        format!("--digits={digits}"),
    );
    let made = Command::new("oathtool")
        .args(["--totp", "-b", &digits, &at, secret])
        .output()
        .expect("oathtool: cargo xtask test installs it");
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    String::from_utf8(made.stdout).unwrap().trim().to_owned()
}

/// A code that differs from this one.
pub fn wrong(code: &str) -> String {
    let last = code.chars().last().and_then(|c| c.to_digit(10)).unwrap();
    format!("{}{}", &code[..code.len() - 1], (last + 1) % 10)
}

/// An app with second factors and mail.
pub async fn app(store: &Store, post: &Post) -> Server {
    app_with(store, post, |auth| auth).await
}

pub async fn app_with(store: &Store, post: &Post, change: impl FnOnce(Auth) -> Auth) -> Server {
    let with = |auth: Auth| {
        change(post.on(auth).configure(|config| {
            config.auth.mfa.enabled = true;
            config.auth.mfa.email_otp.enabled = true;
            config.auth.magic_link.enabled = true;
            config.auth.app_name = "Acme".into();
        }))
    };
    store.app_with(with).await
}

/// A user with an authenticator app.
pub struct Enrolled {
    pub who: SignedIn,
    pub email: String,
    pub secret: String,
    pub recovery: Vec<String>,
}

/// Signs a user up and sets up an authenticator app. The set-up uses up the code of the current
/// step.
pub async fn enrolled(app: &Server, email: &str) -> Enrolled {
    let who = app.register(email).await;
    let (secret, recovery) = enrol(app, &who).await;
    Enrolled {
        who,
        email: email.to_owned(),
        secret,
        recovery,
    }
}

pub async fn enrol(app: &Server, who: &SignedIn) -> (String, Vec<String>) {
    let setup = app.with(&who.token, "POST", "/auth/mfa/setup", None).await;
    assert_eq!(setup.status, 200, "{setup:?}");
    let secret = setup.text("secret");
    let done = app
        .with(
            &who.token,
            "POST",
            "/auth/mfa/verify-setup",
            Some(json!({ "code": code_at(app, &secret, 0) })),
        )
        .await;
    assert_eq!(done.status, 200, "{done:?}");
    (secret, texts(&done.json()["recoveryCodes"]))
}

pub fn texts(json: &Json) -> Vec<String> {
    json.as_array()
        .into_iter()
        .flatten()
        .map(|text| text.as_str().unwrap().to_owned())
        .collect()
}

impl Server {
    pub async fn try_login(&self, email: &str) -> Reply {
        self.post("/auth/login", json!({ "email": email, "password": GOOD }))
            .await
    }

    /// Signs in up to the second factor.
    pub async fn challenged(&self, email: &str) -> String {
        let reply = self.try_login(email).await;
        assert_eq!(
            (reply.status, reply.json()["mfaRequired"].clone()),
            (200, json!(true)),
            "{reply:?}"
        );
        reply.text("mfaToken")
    }

    pub async fn verify(&self, token: &str, code: &str) -> Reply {
        self.post(
            "/auth/mfa/verify",
            json!({ "mfaToken": token, "code": code }),
        )
        .await
    }

    /// Signs in with both factors, in a later step.
    pub async fn login_with(&self, who: &Enrolled) -> SignedIn {
        self.advance(30).await;
        let done = self
            .verify(
                &self.challenged(&who.email).await,
                &code_at(self, &who.secret, 0),
            )
            .await;
        assert_eq!(done.status, 200, "{done:?}");
        done.signed_in()
    }

    /// Sends a request with an access token and a body.
    pub async fn send(&self, who: &SignedIn, method: &str, path: &str, body: Json) -> Reply {
        self.with(&who.token, method, path, Some(body)).await
    }
}

impl Post {
    /// Waits until this number of codes was mailed, and returns the latest.
    pub async fn code(&self, least: usize) -> String {
        self.all("email_otp", least).await.last().unwrap().vars["code"].clone()
    }
}

/// Keeps text messages instead of sending them.
#[derive(Clone, Default)]
pub struct Phone(Arc<Mutex<Vec<(String, String)>>>);

impl SmsProvider for Phone {
    fn send<'a>(&'a self, to: &'a E164, text: &'a str) -> BoxFuture<'a, Result<()>> {
        self.0
            .lock()
            .unwrap()
            .push((to.as_str().to_owned(), text.to_owned()));
        Box::pin(async { Ok(()) })
    }
}

impl Phone {
    pub fn on(&self, auth: Auth) -> Auth {
        let phone = self.clone();
        auth.configure(|config| {
            config.auth.mfa.sms.enabled = true;
            config.auth.mfa.sms.host = Some("app.test".to_owned());
            config.auth.mfa.sms.provider = Some(Arc::new(phone));
        })
    }

    /// Waits for this number of messages. Returns the phone number and the code of the latest one.
    pub async fn code(&self, least: usize) -> (String, String) {
        for _ in 0..3000 {
            let now = self.0.lock().unwrap().clone();
            if now.len() >= least {
                let (to, text) = now.last().unwrap().clone();
                let code = text
                    .rsplit_once("\n@app.test #")
                    .expect("the last line binds the code to the host")
                    .1
                    .to_owned();
                assert!(
                    text.starts_with(&format!("{code} is your Acme code.")),
                    "{text}"
                );
                return (to, code);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{least} messages were expected");
    }

    pub fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}
