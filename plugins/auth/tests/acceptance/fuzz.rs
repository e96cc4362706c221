//! What another program makes of `/openapi.json`: Schemathesis calls every route of the plugin with what fits its description and what
//! does not, as nobody and as somebody. No answer may be a failure of the server, and each must be one that the document names.

use std::process::Command;

use linchpin_auth::{Auth, Limit, ProviderSection};

use crate::cases;
use crate::post::Post;
use crate::server::{Server, Store};

cases!(schemathesis_as_nobody, schemathesis_as_an_administrator);

/// Every route there is.
fn everything(auth: Auth, post: &Post) -> Auth {
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
        // As many calls as it makes from one address, but some are refused for being too many.
        for bucket in ["register", "login", "loginIp", "loginSpread", "verifyEmail", "resetPassword", "magicVerify", "proof", "mfaVerifyIp"]
        {
            auth.rate_limit.buckets.insert(bucket.to_owned(), Limit { max: 100_000, window_seconds: 900 });
        }
    })
}

/// Sends whoever follows it to somebody else's server.
const LEAVES: [&str; 4] = ["GET /auth/github", "POST /auth/github", "GET /auth/github/link", "POST /auth/github/link"];

/// Runs it over the routes of the plugin, with a token or without; `without` are left out.
async fn run(app: &Server, token: Option<&str>, without: &[&str]) {
    let host = app.host();
    let mut command = Command::new("python3");
    command.args(["-m", "schemathesis.cli", "run", &format!("http://{host}/openapi.json"), "--include-path-regex", "^/auth/"]);
    command.args(["--checks", "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"]);
    command.args(["--phases", "examples,coverage,fuzzing", "--max-examples", "12", "--seed", "7", "--generation-deterministic"]);
    command.args(["--generation-allow-x00", "true", "--continue-on-failure", "--no-shrink"]);
    command.args(["--suppress-health-check", "all", "--request-timeout", "60", "--warnings", "off", "--no-color"]);
    if let Some(token) = token {
        command.args(["--header", &format!("authorization: Bearer {token}")]);
    }
    for path in without {
        command.args(["--exclude-name", path]);
    }
    let folder = tempfile::tempdir().unwrap();
    command.current_dir(folder.path());
    let ran = tokio::task::spawn_blocking(move || command.output().expect("python3 with schemathesis is needed")).await.unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{said}\n{}", String::from_utf8_lossy(&ran.stderr));
    assert!(said.contains("Test cases"), "it ran nothing: {said}");
}

async fn schemathesis_as_nobody(store: Store) {
    let post = Post::default();
    let app = store.app_with(|auth| everything(auth, &post)).await;
    run(&app, None, &LEAVES).await;
    assert_eq!(app.raw("GET", "/openapi.json", &[], "").await.status, 200, "it still answers");
}

async fn schemathesis_as_an_administrator(store: Store) {
    let post = Post::default();
    let app = store.app_with(|auth| everything(auth, &post)).await;
    let root = app.admin("root@x.test").await;
    // What ends the session that it calls with.
    let without: Vec<&str> = ["POST /auth/logout", "DELETE /auth/me"].into_iter().chain(LEAVES).collect();
    run(&app, Some(&root.token), &without).await;
    // It may have found its own session among those that there are, and ended it.
    assert_eq!(app.raw("GET", "/openapi.json", &[], "").await.status, 200, "it still answers");
}
