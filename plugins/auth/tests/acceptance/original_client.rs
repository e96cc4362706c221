//! Tests with the npm package `@lastshotlabs/snapshot`, the client of the system whose routes this
//! plugin implements. It runs on a page of a simulated browser. Each of its auth hooks is called
//! against a server, with sessions in cookies and with tokens.

mod account;
mod differences;
mod factors;
mod passkeys;
mod providers;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use linchpin_auth::Auth;
use serde_json::{Value as Json, json};

use crate::post::Post;
use crate::server::{GOOD, Server, Store};

/// The folder of the client. `cargo xtask test` installs its npm packages there.
const PEER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/snapshot");
/// A page of the app on another origin than the server, as with a development server.
const PAGE: &str = "http://localhost:5173";
const EMAIL: &str = "ada@example.test";

/// The way in which the client sends its session.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Cookie,
    Token,
}

/// Runs a case in both modes.
macro_rules! both_modes {
    ($($name:ident),* $(,)?) => {
        mod cookie {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(crate::original_client::Mode::Cookie).await;
            })*
        }
        mod token {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(crate::original_client::Mode::Token).await;
            })*
        }
    };
}
use both_modes;

/// A page that runs the client.
struct Page {
    mode: Mode,
    api: String,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// Hooks that were called.
    called: BTreeSet<String>,
    /// The hooks that the client has.
    hooks: Vec<String>,
}

impl Page {
    /// Opens a page on another origin than the server.
    fn open(app: &Server, mode: Mode) -> Self {
        let mut child = Command::new("node")
            .arg("client.mjs")
            .current_dir(PEER)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("node is needed: `cargo xtask test` prints how to install it");
        let (input, output) = (
            child.stdin.take().unwrap(),
            BufReader::new(child.stdout.take().unwrap()),
        );
        let api = format!(
            "http://localhost:{}",
            app.host().rsplit_once(':').unwrap().1
        );
        let mut page = Self {
            mode,
            api,
            child,
            input,
            output,
            called: BTreeSet::new(),
            hooks: Vec::new(),
        };
        page.open_at(PAGE);
        page
    }

    /// Opens another page in the same browser, at this origin.
    fn open_at(&mut self, origin: &str) {
        // Members that the client sends and that the server ignores, because it has its own
        // settings.
        let providers = json!({ "work": {
            "type": "custom", "name": "peer", "clientId": "of-the-page", "scopes": ["openid", "calendar"], "callbackPath": "/somewhere",
        } });
        let open = json!({
            "mode": if self.mode == Mode::Token { "token" } else { "cookie" },
            "api": self.api,
            "page": format!("{origin}/"),
            "providers": providers,
            "mfa": { "issuer": "The page", "period": 60, "methods": ["totp"] },
            "webauthn": { "rpId": "page.test", "rpName": "The page", "attestation": "direct" },
        });
        let answer = self.send_command(&json!({ "open": open }));
        self.hooks = serde_json::from_value(answer["data"].clone())
            .unwrap_or_else(|e| panic!("{e} in {answer}"));
    }

    fn send_command(&mut self, order: &Json) -> Json {
        tokio::task::block_in_place(|| {
            writeln!(self.input, "{order}").unwrap();
            let mut line = String::new();
            self.output.read_line(&mut line).unwrap();
            serde_json::from_str(&line).unwrap_or_else(|e| {
                panic!("{e}: {line:?} to {order}; cargo xtask test installs the client")
            })
        })
    }

    /// Calls a hook; returns its result and the state of the client.
    fn call(&mut self, hook: &str, with: Json) -> (Json, Json) {
        self.called.insert(hook.to_owned());
        let answer = self.send_command(&json!({ "call": hook, "with": with }));
        assert_eq!(answer.get("error"), None, "{hook}");
        (answer["data"].clone(), answer["state"].clone())
    }

    /// Calls a hook that only reads.
    fn read(&mut self, hook: &str) -> Json {
        self.call(hook, Json::Null).0
    }

    /// Calls a hook, checks the message of its result, and returns the result.
    #[track_caller]
    fn expect_message(&mut self, hook: &str, with: Json, message: &str) -> Json {
        let (data, state) = self.call(hook, with);
        assert_eq!(
            (&data["ok"], &data["message"]),
            (&json!(true), &json!(message)),
            "{hook}"
        );
        assert_eq!(state["callbacks"], json!([]), "{hook}");
        data
    }

    /// Calls a hook that is refused; returns the state of the client.
    #[track_caller]
    fn refused(&mut self, hook: &str, with: Json, status: u16, code: &str) -> Json {
        self.called.insert(hook.to_owned());
        let answer = self.send_command(&json!({ "call": hook, "with": with }));
        let error = &answer["error"];
        assert_eq!(
            (&error["status"], &error["code"]),
            (&json!(status), &json!(code)),
            "{hook}: {answer}"
        );
        assert!(
            error["message"]
                .as_str()
                .is_some_and(|text| !text.is_empty() && !text.starts_with("HTTP")),
            "{hook}: {answer}"
        );
        assert_eq!(error["shown"], error["message"], "{hook}");
        answer["state"].clone()
    }

    /// Returns an address that the client builds.
    fn address(&mut self, of: &str, provider: &str, with: &Json) -> String {
        self.called.insert(of.to_owned());
        self.send_command(&json!({ "url": of, "of": provider, "with": with }))["data"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// Opens an address; returns the response to the browser.
    fn visit(&mut self, url: &str) -> Json {
        self.send_command(&json!({ "visit": url }))["data"].clone()
    }

    /// The refresh token that the client stores.
    fn stored_refresh(&mut self) -> Json {
        self.send_command(&json!({ "stored": "getRefreshToken" }))["data"].clone()
    }

    /// Signs up with the client, and verifies the address.
    async fn register(&mut self, post: &Post) {
        let (user, state) = self.call("useRegister", json!({ "email": EMAIL, "password": GOOD }));
        assert_eq!(
            (&user["email"], &user["emailVerified"]),
            (&json!(EMAIL), &json!(false)),
            "{user}"
        );
        self.assert_signed_in(&state, "/home");
        let token = post.token("verify_email", 1).await;
        self.expect_message(
            "useVerifyEmail",
            json!({ "token": token }),
            "The address is verified.",
        );
    }

    /// Checks the state of the client after a sign-in.
    #[track_caller]
    fn assert_signed_in(&self, state: &Json, path: &str) {
        let keeps = self.mode == Mode::Token;
        let expected = json!({ "user": EMAIL, "pending": null, "token": keeps, "refresh": keeps, "path": path, "callbacks": [] });
        assert_eq!(*state, expected);
    }

    /// Signs out with the client.
    fn logout(&mut self) {
        let (_, state) = self.call("useLogout", json!({}));
        assert_eq!(state, signed_out(&["logout"]));
    }

    /// Checks that exactly these hooks were called.
    #[track_caller]
    fn assert_called(&self, expected: &[&str]) {
        let called: Vec<&str> = self.called.iter().map(String::as_str).collect();
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        assert_eq!(called, expected);
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The state of the client after a sign-out.
fn signed_out(callbacks: &[&str]) -> Json {
    json!({ "user": null, "pending": null, "token": false, "refresh": false, "path": "/login", "callbacks": callbacks })
}

/// An app with all features that the client supports.
async fn app(post: &Post, change: impl FnOnce(Auth) -> Auth) -> Server {
    let with = |auth: Auth| {
        change(
            crate::passkeys::with_passkeys(post.on(auth))
                .refresh_tokens()
                .configure(|config| {
                    config.security.allowed_origins = vec![PAGE.to_owned()];
                    config.auth.email_verification.enabled = true;
                    config.auth.mfa.enabled = true;
                    config.auth.mfa.email_otp.enabled = true;
                    config.auth.app_name = "Acme".into();
                }),
        )
    };
    Store::memory().app_with(with).await
}

/// Every authentication hook of the client is called by one of the cases.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_auth_hook_of_the_client_is_called() {
    let app = app(&Post::default(), |auth| auth).await;
    let page = Page::open(&app, Mode::Cookie);
    let called: BTreeSet<&str> = [
        account::HOOKS,
        factors::HOOKS,
        passkeys::HOOKS,
        providers::HOOKS,
    ]
    .concat()
    .into_iter()
    .collect();
    // The state in every response contains the result of this hook.
    let state_hook = "usePendingMfaChallenge";
    let subjects = [
        "User",
        "Login",
        "Logout",
        "Register",
        "Password",
        "Mfa",
        "Email",
        "Verification",
        "Account",
        "Deletion",
        "Token",
        "Session",
        "OAuth",
        "WebAuthn",
        "Passkey",
    ];
    let is_auth_hook = |hook: &&str| subjects.iter().any(|subject| hook.contains(subject));
    let has: BTreeSet<&str> = page
        .hooks
        .iter()
        .map(String::as_str)
        .filter(is_auth_hook)
        .filter(|hook| *hook != state_hook)
        .collect();
    let hooks: BTreeSet<&str> = called
        .into_iter()
        .filter(|name| name.starts_with("use"))
        .collect();
    assert_eq!(hooks, has);
    assert!(
        page.hooks.iter().any(|hook| hook == state_hook) && hooks.len() == 33,
        "{}",
        hooks.len()
    );
}
