//! Hooks that refuse a sign-in or a password, and later hooks that fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use linchpin::BoxFuture;
use linchpin_auth::{
    Auth, AuthHooks, HookCx, HookError, HookResult, PasswordChange, SignIn, SignUp,
};
use serde_json::{Value as Json, json};

use crate::cases;
use crate::post::Post;
use crate::server::{GOOD, Server, Store};

cases!(
    hooks_may_refuse_a_sign_in,
    hooks_may_refuse_a_password,
    failures_of_later_hooks_are_ignored
);

const NEW: &str = "amber-walrus-17-dune";

/// Refuses sign-ins and changes of the password while its flag is set.
#[derive(Clone, Default)]
struct RefusingHooks(Arc<AtomicBool>);

impl RefusingHooks {
    fn set(&self, on: bool) {
        self.0.store(on, Ordering::SeqCst);
    }

    fn answer(&self) -> HookResult {
        if self.0.load(Ordering::SeqCst) {
            Err(std::io::Error::other("no").into())
        } else {
            Ok(())
        }
    }
}

impl AuthHooks for RefusingHooks {
    fn pre_login<'a>(&'a self, _: &'a HookCx, _: &'a SignIn) -> BoxFuture<'a, HookResult> {
        Box::pin(async { self.answer() })
    }

    fn pre_password_change<'a>(
        &'a self,
        _: &'a HookCx,
        _: &'a PasswordChange,
    ) -> BoxFuture<'a, HookResult> {
        Box::pin(async { self.answer() })
    }
}

async fn login(app: &Server, password: &str) -> crate::server::Reply {
    app.post(
        "/auth/login",
        json!({ "email": "a@x.test", "password": password }),
    )
    .await
}

/// A refusal by a hook does not count as a wrong password, and opens no session.
async fn hooks_may_refuse_a_sign_in(store: Store) {
    let hooks = RefusingHooks::default();
    let app = store.app_with(|auth| auth.hooks(hooks.clone())).await;
    let ada = app.register("a@x.test").await;
    hooks.set(true);
    for _ in 0..8 {
        let refused = login(&app, GOOD).await;
        refused.refused(400, "hook_rejected");
        assert_eq!(refused.text("error"), "no");
        assert_eq!(refused.headers.get("set-cookie"), None);
    }
    hooks.set(false);
    let sessions = app.get(&ada.token, "/auth/sessions").await.json();
    assert_eq!(
        sessions["sessions"].as_array().map(Vec::len),
        Some(1),
        "{sessions}"
    );
    // Nine wrong passwords are still allowed: none of the refusals above was counted.
    for _ in 0..9 {
        login(&app, NEW).await.refused(401, "invalid_credentials");
    }
    assert_eq!(login(&app, GOOD).await.status, 200);
}

/// If a hook refuses a new password, the current password, the sessions and the mailed token stay
/// valid.
async fn hooks_may_refuse_a_password(store: Store) {
    let (post, hooks) = (Post::default(), RefusingHooks::default());
    let app = store
        .app_with(|auth: Auth| post.on(auth).hooks(hooks.clone()))
        .await;
    let (ada, other) = (app.register("a@x.test").await, app.login("a@x.test").await);
    hooks.set(true);
    let change = json!({ "password": NEW, "currentPassword": GOOD });
    let refused = app
        .with(
            &ada.token,
            "POST",
            "/auth/set-password",
            Some(change.clone()),
        )
        .await;
    refused.refused(400, "hook_rejected");
    assert_eq!(refused.text("error"), "no");
    app.post("/auth/forgot-password", json!({ "email": "a@x.test" }))
        .await;
    let token = post.token("password_reset", 1).await;
    let reset = json!({ "token": token, "password": NEW });
    app.post("/auth/reset-password", reset.clone())
        .await
        .refused(400, "hook_rejected");
    hooks.set(false);
    assert_eq!(
        app.me(&other.token).await.status,
        200,
        "other sessions stay valid"
    );
    assert_eq!(
        (
            login(&app, NEW).await.status,
            login(&app, GOOD).await.status
        ),
        (401, 200)
    );
    assert_eq!(
        post.count("password_changed") + post.count("password_reset_done"),
        0
    );
    // The token is still valid.
    assert_eq!(app.post("/auth/reset-password", reset).await.status, 200);
    assert_eq!(
        (
            login(&app, GOOD).await.status,
            login(&app, NEW).await.status
        ),
        (401, 200)
    );
}

/// A hook that always fails.
struct Failing;

impl AuthHooks for Failing {
    fn post_register<'a>(&'a self, _: &'a HookCx, _: &'a SignUp) -> BoxFuture<'a, HookResult> {
        Box::pin(async { Err(HookError::new("no").status(403)) })
    }

    fn post_login<'a>(
        &'a self,
        _: &'a HookCx,
        input: &'a SignIn,
    ) -> BoxFuture<'a, HookResult<Json>> {
        Box::pin(async {
            if input.method == "password" {
                panic!("a hook of tests")
            } else {
                Err(HookError::new("no"))
            }
        })
    }

    fn post_password_change<'a>(
        &'a self,
        _: &'a HookCx,
        _: &'a PasswordChange,
    ) -> BoxFuture<'a, HookResult> {
        Box::pin(async { panic!("a hook of tests") })
    }
}

async fn failures_of_later_hooks_are_ignored(store: Store) {
    let post = Post::default();
    let app = store
        .app_with(|auth| {
            post.on(auth)
                .hooks(Failing)
                .configure(|config| config.auth.magic_link.enabled = true)
        })
        .await;
    app.register("a@x.test").await;
    let signed_in = login(&app, GOOD).await;
    assert_eq!(signed_in.status, 200);
    let change = json!({ "password": NEW, "currentPassword": GOOD });
    assert_eq!(
        app.with(
            &signed_in.text("token"),
            "POST",
            "/auth/set-password",
            Some(change)
        )
        .await
        .status,
        200
    );
    assert_eq!(login(&app, NEW).await.status, 200);
    app.post(
        "/auth/magic-link/request",
        json!({ "identifier": "a@x.test" }),
    )
    .await;
    let token = post.token("magic_link", 1).await;
    assert_eq!(
        app.post("/auth/magic-link/verify", json!({ "token": token }))
            .await
            .status,
        200
    );
}
