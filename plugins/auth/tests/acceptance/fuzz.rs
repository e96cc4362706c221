//! Schemathesis calls every route of `/openapi.json`, including the app's own, with valid and
//! invalid input, anonymously and signed in. No response may be a server error. The document must
//! describe the status, content type and schema of every response.
//!
//! The seed is 7 and each route gets 12 random calls; `LINCHPIN_FUZZ_SEED` and
//! `LINCHPIN_FUZZ_CALLS` set other numbers.

use std::path::Path;
use std::process::Command;

use linchpin_auth::{Auth, Limit, PrimaryField, ProviderSection, Transport};
use serde_json::{Value as Json, json};

use crate::factor::Phone;
use crate::post::Post;
use crate::server::{GOOD, Server, SignedIn, Store};

/// Each case runs on one store only, because a run makes many calls.
/// [`schemathesis_finds_no_fault_with_other_settings`] runs on the store in memory.
mod sqlite {
    crate::case!(schemathesis_finds_no_fault_as_an_anonymous_caller, sqlite);
    #[cfg(not(feature = "postgres"))]
    crate::case!(schemathesis_finds_no_fault_as_an_administrator, sqlite);
}
/// An administrator reaches all stored data, and Postgres refuses more values than other stores.
#[cfg(feature = "postgres")]
mod postgres {
    crate::case!(schemathesis_finds_no_fault_as_an_administrator, postgres);
}

/// Enables every route except those for text messages.
pub fn everything(auth: Auth, post: &Post) -> Auth {
    post.on(auth).refresh_tokens().configure(|config| {
        let auth = &mut config.auth;
        auth.admin_role = Some("admin".into());
        auth.conceal_registration = false;
        auth.email_verification.enabled = true;
        auth.magic_link.enabled = true;
        auth.magic_link.allow_sign_up = true;
        auth.mfa.enabled = true;
        auth.mfa.email_otp.enabled = true;
        let provider = ProviderSection::new("an-app").secret("a-secret".to_owned());
        auth.oauth.providers.insert("github".into(), provider);
        auth.public_url = Some("https://me.test".into());
        auth.passkeys.enabled = true;
        auth.passkeys.rp_id = "me.test".into();
        auth.passkeys.origins = vec!["https://me.test".into()];
        // These limits allow all calls that Schemathesis makes from one address. Other limits still
        // refuse some calls.
        for bucket in [
            "register",
            "login",
            "loginIp",
            "loginSpread",
            "verifyEmail",
            "resetPassword",
            "magicVerify",
            "proof",
            "mfaVerifyIp",
            "oauthStart",
            "oauthCallback",
            "oauthExchange",
            "link",
        ] {
            auth.rate_limit.buckets.insert(
                bucket.to_owned(),
                Limit {
                    max: 100_000,
                    window_seconds: 900,
                },
            );
        }
    })
}

/// The routes to a provider and back, with the documented statuses of success.
const TO_PROVIDER: [(&str, &str, &[u64]); 5] = [
    ("GET", "/auth/providers", &[200]),
    ("GET", "/auth/github", &[302]),
    ("POST", "/auth/github", &[200, 303]),
    ("POST", "/auth/github/callback", &[303]),
    // The state in this call is unknown, so the expected status is 400.
    ("GET", "/auth/github/callback", &[400]),
];
/// The routes that link a provider to a signed-in user, with the expected statuses. A GET is
/// refused because it needs the cookie of a session. A valid DELETE finds no link, because no test
/// user has linked a provider.
const LINKS: [(&str, &str, &[u64]); 3] = [
    ("POST", "/auth/github/link", &[200, 303]),
    ("GET", "/auth/github/link", &[403]),
    ("DELETE", "/auth/github/link", &[400, 404]),
];

/// Deletes the account of the caller.
const DELETE_ACCOUNT: &str = "DELETE /auth/me";

/// Schemathesis reads ids from responses and sends them in other requests, so it may end its own
/// session or remove its own role. This hook checks its token before each call; if needed, it
/// restores the role, signs in and steps up.
const ADMINISTRATOR: &str = r#"
import json, os, urllib.error, urllib.request
import schemathesis

def call(method, path, body=None, token=None):
    headers = {"content-type": "application/json"} | ({"authorization": "Bearer " + token} if token else {})
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(os.environ["APP"] + path, data, headers, method=method)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)

@schemathesis.auth(refresh_interval=None)
class Administrator:
    token = None

    def get(self, case, context):
        try:
            call("GET", "/auth/admin/users?limit=1", token=self.token)
        except urllib.error.HTTPError as refused:
            assert refused.code in (401, 403), refused
            call("POST", "/__test/users/" + os.environ["ROOT"], {"roles": ["admin"]})
            self.token = call("POST", "/auth/login", json.loads(os.environ["LOGIN"]))["token"]
            session = call("GET", "/auth/me", token=self.token)["sessionId"]
            call("POST", "/__test/sessions/" + session + "/step-up", {})
        return self.token

    def set(self, case, data, context):
        case.headers["authorization"] = "Bearer " + data
"#;

/// A call that Schemathesis made.
struct Called {
    method: String,
    /// The parts of the path.
    path: Vec<String>,
    status: u64,
}

/// Runs Schemathesis as an administrator or anonymously. It calls all routes except those of tests
/// and those in `without`. Returns the calls in order.
async fn run(app: &Server, root: Option<&SignedIn>, without: &[&str]) -> Vec<Called> {
    let (host, folder) = (app.host(), tempfile::tempdir().unwrap());
    let mut command = Command::new("python3");
    command.args([
        "-m",
        "schemathesis.cli",
        "run",
        &format!("http://{host}/openapi.json"),
        "--exclude-path-regex",
        "^/__test",
    ]);
    command.args(["--checks", "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"]);
    let number = |name: &str, usual: &str| std::env::var(name).unwrap_or_else(|_| usual.to_owned());
    let (calls, seed) = (
        number("LINCHPIN_FUZZ_CALLS", "12"),
        number("LINCHPIN_FUZZ_SEED", "7"),
    );
    command.args([
        "--phases",
        "examples,coverage,fuzzing",
        "--max-examples",
        &calls,
        "--seed",
        &seed,
        "--generation-deterministic",
    ]);
    command.args([
        "--generation-allow-x00",
        "true",
        "--continue-on-failure",
        "--no-shrink",
    ]);
    // Redirects to providers are checked, and not followed.
    command.args(["--max-redirects", "0"]);
    command.args([
        "--suppress-health-check",
        "all",
        "--request-timeout",
        "60",
        "--warnings",
        "off",
        "--no-color",
    ]);
    command.args(["--report", "har", "--report-har-path", "calls.json"]);
    // Hypothesis caches tables of Unicode here, which take seconds to compute.
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hypothesis");
    command.env("HYPOTHESIS_STORAGE_DIRECTORY", cache);
    if let Some(root) = root {
        std::fs::write(folder.path().join("administrator.py"), ADMINISTRATOR).unwrap();
        // Otherwise Schemathesis would also send generated credentials.
        command.args(["--generation-with-security-parameters", "false"]);
        command
            .env("SCHEMATHESIS_HOOKS", "administrator")
            .env("PYTHONPATH", folder.path());
        command
            .env("APP", format!("http://{host}"))
            .env("ROOT", &root.id);
        command.env(
            "LOGIN",
            json!({ "email": "root@x.test", "password": GOOD }).to_string(),
        );
    }
    for path in without {
        command.args(["--exclude-name", path]);
    }
    command.current_dir(folder.path());
    let finished = tokio::task::spawn_blocking(move || {
        command
            .output()
            .expect("python3 with schemathesis is needed")
    })
    .await
    .unwrap();
    let output = String::from_utf8_lossy(&finished.stdout);
    assert!(
        finished.status.success(),
        "{output}\n{}",
        String::from_utf8_lossy(&finished.stderr)
    );
    let calls: Json =
        serde_json::from_slice(&std::fs::read(folder.path().join("calls.json")).unwrap()).unwrap();
    let calls: Vec<Called> = calls["log"]["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(called)
        .collect();
    assert!(
        calls.len() > 500 && calls.iter().all(|call| call.status < 500),
        "{} calls: {output}",
        calls.len()
    );
    calls
}

/// The statuses that a route has returned.
fn answers(calls: &[Called], method: &str, path: &str) -> Vec<u64> {
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let matches_route = |call: &&Called| {
        let same = |(part, sent): (&&str, &String)| part.starts_with('{') || part == sent;
        call.method.eq_ignore_ascii_case(method)
            && call.path.len() == parts.len()
            && parts.iter().zip(&call.path).all(same)
    };
    calls
        .iter()
        .filter(matches_route)
        .map(|call| call.status)
        .collect()
}

/// Checks that each of these routes was called at least three times and returned an expected
/// status.
fn check_answers(calls: &[Called], routes: &[(&str, &str, &[u64])]) {
    for (method, path, expected) in routes {
        let answers = answers(calls, method, path);
        assert!(
            answers.len() >= 3 && answers.iter().any(|status| expected.contains(status)),
            "{method} {path}: {answers:?}"
        );
    }
}

fn called(entry: &Json) -> Called {
    let url = url::Url::parse(entry["request"]["url"].as_str().unwrap()).unwrap();
    let path = url.path_segments().unwrap().map(str::to_owned).collect();
    Called {
        method: entry["request"]["method"].as_str().unwrap().to_owned(),
        path,
        status: entry["response"]["status"].as_u64().unwrap(),
    }
}

async fn schemathesis_finds_no_fault_as_an_anonymous_caller(store: Store) {
    let post = Post::default();
    let app = store.app_with(|auth| everything(auth, &post)).await;
    let calls = run(&app, None, &[]).await;
    check_answers(&calls, &TO_PROVIDER);
    check_answers(&calls, &[("POST", "/auth/oauth/exchange", &[401])]);
    assert_eq!(
        app.raw("GET", "/openapi.json", &[], "").await.status,
        200,
        "the app still responds"
    );
}

/// Routes and schemas of other settings: user names instead of addresses, text messages, cookie
/// sessions only, concealed sign-ups, no grace period.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schemathesis_finds_no_fault_with_other_settings() {
    let (post, phone) = (Post::default(), Phone::default());
    let with_everything = |auth: Auth| everything(auth, &post);
    let with_user_names = |auth: Auth| {
        let auth = phone
            .on(with_everything(auth))
            .primary_field(PrimaryField::Username);
        auth.transport(Transport::Cookie).configure(|config| {
            config.auth.magic_link.allow_sign_up = false;
            config.auth.mfa.required = true;
            config.auth.account_deletion.grace_seconds = 0;
        })
    };
    let app = Store::memory().app_with(with_user_names).await;
    check_answers(&run(&app, None, &[]).await, &TO_PROVIDER);
    app.stop().await;
    let app = Store::memory()
        .app_with(|auth| {
            with_everything(auth).configure(|config| config.auth.conceal_registration = true)
        })
        .await;
    check_answers(&run(&app, None, &[]).await, &TO_PROVIDER);
}

async fn schemathesis_finds_no_fault_as_an_administrator(store: Store) {
    let post = Post::default();
    let app = store.app_with(|auth| everything(auth, &post)).await;
    let root = app.admin("root@x.test").await;
    for n in 0..3 {
        app.register(&format!("user{n}@x.test")).await;
    }
    // Linking a provider needs a verified address.
    app.change(&root.id, json!({ "emailVerified": true })).await;
    let calls = run(&app, Some(&root), &[DELETE_ACCOUNT]).await;
    check_answers(&calls, &LINKS);
    // Every admin route was called, and no call was refused because of its caller.
    let document = app.raw("GET", "/openapi.json", &[], "").await.json();
    let (mut routes, mut succeeded) = (0, 0);
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in item
            .as_object()
            .unwrap()
            .keys()
            .filter(|_| path.starts_with("/auth/admin/"))
        {
            routes += 1;
            let answers = answers(&calls, method, path);
            // Schemathesis decides the number of calls: it generates few pairs for a path with
            // two ids.
            assert!(
                !answers.is_empty() && !answers.iter().any(|status| matches!(status, 401 | 403)),
                "{method} {path}: {answers:?}"
            );
            succeeded += usize::from(answers.contains(&200));
        }
    }
    // No user has a second factor to remove, and session ids cannot be guessed.
    assert!(
        routes == 9 && succeeded >= 6,
        "{succeeded} of {routes} routes succeeded"
    );
}
