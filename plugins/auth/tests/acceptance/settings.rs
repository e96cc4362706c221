//! AUTH-20 and what else start-up says of settings; the hooks that may refuse (AUTH-77, as far as there are routes).

use linchpin::{BoxFuture, Environment};
use linchpin_auth::{Auth, AuthConfig, AuthHooks, HookCx, HookError, HookResult, SecretText, SignIn, SignUp};
use serde_json::json;

use crate::cases;
use crate::server::{GOOD, Store};

cases!(auth_20, auth_77, production, described);

const OLD: &str = "an-old-secret-of-at-least-32-bytes";
const NEW: &str = "a-new-secret-of-at-least-32-bytes!";

async fn auth_20(store: Store) {
    let secrets = |list: &'static [&str]| {
        move |auth: Auth| auth.configure(|config| config.security.secrets = list.iter().map(|s| SecretText::new(*s)).collect())
    };
    let app = store.app_with(secrets(&[OLD])).await;
    let ada = app.register("ada@example.test").await;
    app.stop().await;
    let app = store.app_with(secrets(&[NEW, OLD])).await;
    let kept = app.me(&ada.token).await.status;
    // What memory had is gone with the first app; a file still has the session.
    assert_eq!(kept, if store.keeps() { 200 } else { 401 });
    app.stop().await;
    let app = store.app_with(secrets(&[NEW])).await;
    app.me(&ada.token).await.refused(401, "unauthorized");
    app.stop().await;

    let file = json!({
        "security": { "signing": { "secret": "31 bytes are not quite enough!!" } },
        "auth": { "roles": ["member"], "defaultRole": "owner", "session": { "idle": 5 } },
    });
    let error = match store.try_app(|_| Auth::from_config(AuthConfig::from_json(&file))).await {
        Ok(_) => panic!("the app started"),
        Err(error) => error.to_string(),
    };
    for key in ["security.signing.secret", "auth.defaultRole", "auth.session.idle"] {
        assert!(error.contains(key), "{key} in {error}");
    }
    assert!(!error.contains("31 bytes are"), "{error}");
}

struct Refusing;

impl AuthHooks for Refusing {
    fn pre_register<'a>(&'a self, _: &'a HookCx, input: &'a SignUp) -> BoxFuture<'a, HookResult> {
        Box::pin(async {
            match input.identifier.as_str() {
                "blocked@example.test" => Err(HookError::new("not you").status(403).code("blocked")),
                "panic@example.test" => panic!("a hook of tests"),
                "no@example.test" => Err(HookError::new("no")),
                _ => Ok(()),
            }
        })
    }

    fn post_register<'a>(&'a self, _: &'a HookCx, _: &'a SignUp) -> BoxFuture<'a, HookResult> {
        Box::pin(async { panic!("a hook of tests") })
    }

    fn pre_login<'a>(&'a self, _: &'a HookCx, _: &'a SignIn) -> BoxFuture<'a, HookResult> {
        Box::pin(async { Err(std::io::Error::other("no").into()) })
    }
}

async fn auth_77(store: Store) {
    let app = store.app_with(|auth| auth.hooks(Refusing)).await;
    let register = |email: &str| app.post("/auth/register", json!({ "email": email, "password": GOOD }));
    let refused = register("no@example.test").await;
    refused.refused(400, "hook_rejected");
    assert_eq!(refused.text("error"), "no");
    register("blocked@example.test").await.refused(403, "blocked");
    assert_eq!(register("ada@example.test").await.status, 201, "what post hooks do changes nothing");
    let login = app.post("/auth/login", json!({ "email": "ada@example.test", "password": GOOD })).await;
    login.refused(400, "hook_rejected");
    app.stop().await;
    // Nothing came of what was refused.
    let app = store.app().await;
    for email in ["no@example.test", "blocked@example.test"] {
        assert_eq!(app.post("/auth/register", json!({ "email": email, "password": GOOD })).await.status, 201, "{email}");
    }
}

async fn production(store: Store) {
    let refused = async |change: fn(&mut AuthConfig)| {
        let started = store.try_app_in(Environment::Production, |auth| auth.configure(change)).await;
        started.err().map(|error| error.to_string()).unwrap_or_default()
    };
    let error = refused(|config| config.auth.cookies.secure = false).await;
    assert!(error.contains("security.signing.issuer") && error.contains("auth.cookies.secure"), "{error}");
    assert_eq!(refused(|config| config.security.issuer = Some("https://me.test".into())).await, "");
}

/// Every route is in the document, and what a policy names is known.
async fn described(store: Store) {
    let app = store.app_with(Auth::refresh_tokens).await;
    let document = app.raw("GET", "/openapi.json", &[], "").await.json();
    for (path, method, public) in [
        ("/auth/register", "post", true),
        ("/auth/login", "post", true),
        ("/auth/logout", "post", true),
        ("/auth/me", "get", false),
        ("/auth/me", "patch", false),
        ("/auth/sessions", "get", false),
        ("/auth/sessions", "delete", false),
        ("/auth/sessions/{sessionId}", "delete", false),
        ("/auth/sessions/revoke-others", "post", false),
        ("/auth/refresh", "post", true),
    ] {
        let operation = &document["paths"][path][method];
        assert_eq!(operation["security"] == json!([]), public, "{method} {path}: {operation}");
        assert!(operation["responses"]["200"].is_object() || operation["responses"]["201"].is_object(), "{operation}");
    }
    assert!(document["paths"].get("/auth/users").is_none() && document["components"]["schemas"].get("User").is_none());
}

/// App and plugin read one environment; each says what is wrong with its own part of it.
#[tokio::test]
async fn one_environment() {
    let start = async |name: &str, value: &str| {
        let variables = [("LINCHPIN_PORT", "0"), ("LINCHPIN_DATABASE_URL", "memory:"), ("LINCHPIN_SIGNING_SECRET", NEW), (name, value)];
        let owned = || variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let auth = Auth::from_config(AuthConfig::from_vars(owned()));
        linchpin::App::new(linchpin::Config::from_vars(owned()).unwrap()).plugin(auth).start().await
    };
    let running = start("LINCHPIN_AUTH_SESSION_IDLE_SECONDS", "60").await.unwrap();
    running.stop().await.unwrap();
    for (name, value) in
        [("LINCHPIN_AUTH_SESSION_IDLE", "60"), ("LINCHPIN_SECURITY_TRUST_PROXY", "everybody"), ("LINCHPIN_AUHT_MOUNT", "/a")]
    {
        let error = start(name, value).await.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains(name) || error.contains("security.trustProxy"), "{name}: {error}");
    }
}
