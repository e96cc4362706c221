//! The access of hooks to their app.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use linchpin::prelude::*;
use linchpin::store::memory::Memory;
use linchpin::store::{Plan, Reply, Rows, Statement};
use linchpin::{BoxFuture, Error, Value};
use linchpin_auth::{AccountDeletion, AuthHooks, AuthService, HookCx, HookResult, SignIn, SignUp};
use serde_json::{Value as Json, json};

use crate::around::{Around, Watch};
use crate::cases;
use crate::server::{GOOD, Store, claims};
use crate::testbed::{Note, NoteCreate};

cases!(
    claims_that_are_too_long_for_a_cookie_are_left_out_of_it,
    hooks_emit_messages_on_the_bus,
    a_session_that_ends_in_a_hook_returns_no_tokens
);

/// Hooks that record the notes that they read.
#[derive(Clone, Default)]
struct RecordingHooks(Arc<Mutex<Vec<String>>>);

impl RecordingHooks {
    async fn read(&self, cx: &HookCx, turn: &'static str) -> HookResult {
        let notes = cx
            .services
            .get::<Note>()?
            .list(&Cx::system("hook"), ListQuery::new())
            .await?;
        let texts: Vec<String> = notes.items.into_iter().map(|note| note.text).collect();
        self.0
            .lock()
            .unwrap()
            .push(format!("{turn} read {}", texts.join(", ")));
        cx.services
            .events()
            .emit("turn", &json!({ "turn": turn, "requestId": cx.request_id }))?;
        Ok(())
    }
}

impl AuthHooks for RecordingHooks {
    fn pre_register<'a>(&'a self, cx: &'a HookCx, _: &'a SignUp) -> BoxFuture<'a, HookResult> {
        Box::pin(self.read(cx, "pre_register"))
    }

    fn post_login<'a>(
        &'a self,
        cx: &'a HookCx,
        input: &'a SignIn,
    ) -> BoxFuture<'a, HookResult<Json>> {
        Box::pin(async {
            self.read(cx, "post_login").await?;
            // This call fails if the session does not exist yet.
            cx.services
                .provided::<AuthService>()?
                .step_up_session(input.session_id.as_deref().unwrap())
                .await?;
            Ok(
                json!({ "customClaims": { "sub": "eve", "exp": 1, "iss": "https://evil.test", "sid": "mine", "plan": "pro" }, "sub": "eve" }),
            )
        })
    }

    fn post_delete_account<'a>(
        &'a self,
        cx: &'a HookCx,
        _: &'a AccountDeletion,
    ) -> BoxFuture<'a, HookResult> {
        Box::pin(self.read(cx, "post_delete_account"))
    }
}

async fn hooks_emit_messages_on_the_bus(store: Store) {
    let plain = store.app().await;
    let plain_claims = claims(&plain.register("plain@x.test").await.token);
    plain.stop().await;

    let hooks = RecordingHooks::default();
    let app = store.app_with(|auth| auth.hooks(hooks.clone())).await;
    app.adapters()
        .get::<Note>()
        .unwrap()
        .create(
            &Cx::system("test"),
            NoteCreate {
                text: "kept".into(),
            },
        )
        .await
        .unwrap();
    let mut turns = app.adapters().events().listen("turn").unwrap();
    app.register("a@x.test").await;
    let login = app
        .post(
            "/auth/login",
            json!({ "email": "a@x.test", "password": GOOD }),
        )
        .await;
    let ada = login.signed_in();
    for turn in ["pre_register", "post_login", "post_login"] {
        let event = turns.next().await.unwrap().unwrap();
        assert_eq!(
            (event.name.as_str(), &event.payload["turn"]),
            ("turn", &json!(turn))
        );
    }
    let read = hooks.0.lock().unwrap().clone();
    assert_eq!(
        read,
        [
            "pre_register read kept",
            "post_login read kept",
            "post_login read kept"
        ]
    );

    // The token contains the plan; no other claim is changed.
    let changed = claims(&ada.token);
    let names = |claims: &Json| {
        claims
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(changed["plan"], "pro");
    assert_eq!(
        names(&changed)
            .into_iter()
            .filter(|name| name != "plan")
            .collect::<Vec<_>>(),
        names(&plain_claims)
    );
    assert_eq!(
        (&changed["sub"], changed.get("iss")),
        (&json!(ada.id), plain_claims.get("iss"))
    );
    let lifetime =
        |claims: &Json| claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap();
    assert_eq!(lifetime(&changed), lifetime(&plain_claims));
    assert_ne!(changed["sid"], "mine");
    let actor = app.get(&ada.token, "/__test/actor").await.json();
    assert_eq!(
        (&actor["claims"]["plan"], &actor["id"]),
        (&json!("pro"), &json!(ada.id))
    );
    // The session existed when the hook ran: the hook set its step-up.
    assert_eq!(
        app.get(&ada.token, "/__test/protected/step-up")
            .await
            .status,
        200
    );

    // The removal runs long after its request.
    let scheduled = app
        .with(
            &ada.token,
            "DELETE",
            "/auth/me",
            Some(json!({ "password": GOOD })),
        )
        .await;
    assert_eq!(scheduled.status, 202, "{scheduled:?}");
    app.advance(604_801).await;
    let event = tokio::time::timeout(std::time::Duration::from_mins(1), turns.next())
        .await
        .expect("the message arrives within a minute")
        .unwrap()
        .unwrap();
    assert_eq!(
        event.payload,
        json!({ "turn": "post_delete_account", "requestId": scheduled.header("x-request-id") })
    );
    assert_eq!(
        hooks.0.lock().unwrap().last().unwrap(),
        "post_delete_account read kept"
    );
}

/// Adds claims of a given size to every session.
struct LargeClaims(usize);

impl AuthHooks for LargeClaims {
    fn post_login<'a>(&'a self, _: &'a HookCx, _: &'a SignIn) -> BoxFuture<'a, HookResult<Json>> {
        Box::pin(async { Ok(json!({ "customClaims": { "plan": "p".repeat(self.0 - 11) } })) })
    }
}

/// Browsers silently drop a cookie that is too long. The user is then signed in without the claims.
async fn claims_that_are_too_long_for_a_cookie_are_left_out_of_it(store: Store) {
    for (bytes, fits) in [(2_500, true), (4_096, false)] {
        let app = store.app_with(|auth| auth.hooks(LargeClaims(bytes))).await;
        let email = format!("{bytes}@x.test");
        app.register(&email).await;
        let login = app
            .post("/auth/login", json!({ "email": email, "password": GOOD }))
            .await;
        let (token, cookie) = (login.text("token"), login.cookie_value("__Host-token"));
        assert_eq!(
            claims(&token)["plan"].as_str().map(str::len),
            Some(bytes - 11)
        );
        assert_eq!(
            (token == cookie, claims(&cookie)["plan"].is_string()),
            (fits, fits)
        );
        assert!(
            "__Host-token".len() + cookie.len() <= 4096,
            "{bytes}: {}",
            cookie.len()
        );
        let cookies = format!("__Host-token={cookie}");
        let me = app
            .raw("GET", "/auth/me", &[("cookie", &cookies)], "")
            .await;
        assert_eq!((me.status, me.text("email")), (200, email));
        // Both tokens identify the same caller.
        let by_cookie = app
            .raw("GET", "/__test/actor", &[("cookie", &cookies)], "")
            .await
            .json();
        assert_eq!(
            by_cookie["claims"]["plan"],
            app.get(&token, "/__test/actor").await.json()["claims"]["plan"]
        );
        assert_eq!(
            by_cookie["claims"]["plan"].as_str().map(str::len),
            Some(bytes - 11)
        );
        app.stop().await;
    }
}

/// While the first field is true, `post_login` first ends the session. It returns a plan, or `null`
/// if the second field is true.
#[derive(Clone, Default)]
struct EndingHooks(Arc<AtomicBool>, bool);

impl AuthHooks for EndingHooks {
    fn post_login<'a>(
        &'a self,
        cx: &'a HookCx,
        input: &'a SignIn,
    ) -> BoxFuture<'a, HookResult<Json>> {
        Box::pin(async {
            if self.0.load(Ordering::SeqCst) {
                let (user, session) = (
                    input.user_id.as_deref().unwrap(),
                    input.session_id.as_deref().unwrap(),
                );
                cx.services
                    .provided::<AuthService>()?
                    .revoke_session(user, session)
                    .await?;
            }
            Ok(if self.1 {
                json!(null)
            } else {
                json!({ "customClaims": { "plan": "pro" } })
            })
        })
    }
}

/// A session that has ended returns no tokens, and the error is not `not_found`.
async fn a_session_that_ends_in_a_hook_returns_no_tokens(store: Store) {
    for without_claims in [false, true] {
        ended_by_a_hook(&store, without_claims).await;
    }
}

async fn ended_by_a_hook(store: &Store, without_claims: bool) {
    let hooks = EndingHooks(Arc::default(), without_claims);
    let app = store.app_with(|auth| auth.hooks(hooks.clone())).await;
    let (a, b) = if without_claims {
        ("c@x.test", "d@x.test")
    } else {
        ("a@x.test", "b@x.test")
    };
    let ada = app.register(a).await;
    hooks.0.store(true, Ordering::SeqCst);
    let refused = app
        .post("/auth/login", json!({ "email": a, "password": GOOD }))
        .await;
    refused.refused(401, "invalid_credentials");
    assert_eq!(refused.headers.get("set-cookie"), None);
    app.post("/auth/register", json!({ "email": b, "password": GOOD }))
        .await
        .refused(401, "invalid_credentials");
    hooks.0.store(false, Ordering::SeqCst);
    let plan = claims(&app.login(a).await.token).get("plan").cloned();
    assert_eq!(plan, (!without_claims).then(|| json!("pro")));
    assert_eq!(
        app.get(&ada.token, "/auth/sessions").await.json()["sessions"]
            .as_array()
            .map(Vec::len),
        Some(2)
    );
    app.stop().await;
}

/// Wraps a store: refuses updates of sessions while the first field is true.
impl Watch for EndingHooks {
    fn run<'a>(
        &'a self,
        store: &'a dyn linchpin::store::Store,
        to: &'a Arc<Statement>,
        args: Vec<Value>,
        rows: Rows,
    ) -> Reply<'a> {
        let changes = to.entity.name == "Session"
            && !matches!(
                to.plan,
                Plan::Insert | Plan::Select { .. } | Plan::Delete { .. }
            );
        if changes && self.0.load(Ordering::SeqCst) {
            return Reply::Ready(Err(Error::unavailable("the test makes this write fail")));
        }
        store.run(to, args, rows)
    }
}

/// Claims that cannot be stored do not prevent a sign-in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_that_cannot_be_stored_do_not_prevent_sign_in() {
    let (broken, hooks) = (EndingHooks::default(), EndingHooks::default());
    let around = Around::new(Arc::new(Memory::new()), broken.clone());
    let app = Store::memory().on(around, |auth| auth.hooks(hooks)).await;
    assert_eq!(claims(&app.register("a@x.test").await.token)["plan"], "pro");
    broken.0.store(true, Ordering::SeqCst);
    let login = app
        .raw_any(
            "/auth/login",
            json!({ "email": "a@x.test", "password": GOOD }),
        )
        .await;
    broken.0.store(false, Ordering::SeqCst);
    assert_eq!(login.status, 200, "{login:?}");
    assert_eq!(claims(&login.text("token")).get("plan"), None);
    assert_eq!(app.me(&login.text("token")).await.status, 200);
}
