//! Crashes during a call: a call that is dropped at any await point has either its full effect or
//! none, and can be repeated.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http_body_util::Full;
use linchpin::axum::body::Bytes;
use linchpin::axum::http::Request;
use serde_json::{Value as Json, json};
use tower_service::Service;

use crate::cases;
use crate::factor::{app_with, code_at, enrolled, texts};
use crate::post::Post;
use crate::server::{Server, Store};

cases!(
    a_dropped_set_up_has_its_full_effect_or_none,
    a_dropped_sign_in_has_its_full_effect_or_none
);

/// A call that is dropped after a number of polls.
struct Dropped<F> {
    call: Pin<Box<F>>,
    polls_left: usize,
}

impl<F: Future> Future for Dropped<F> {
    /// Whether the call had finished before it was dropped.
    type Output = bool;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<bool> {
        if self.polls_left == 0 {
            return Poll::Ready(false);
        }
        self.polls_left -= 1;
        match self.call.as_mut().poll(cx) {
            Poll::Ready(_) => Poll::Ready(true),
            Poll::Pending if self.polls_left == 0 => Poll::Ready(false),
            Poll::Pending => Poll::Pending,
        }
    }
}

/// Calls a route and drops the call after a number of polls; returns whether it had finished.
async fn dropped(app: &Server, polls: usize, token: Option<&str>, path: &str, body: &Json) -> bool {
    let mut request = Request::builder()
        .method("POST")
        .uri(path)
        .header("content-type", "application/json")
        .header("host", "x.test");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let request = request
        .body(Full::new(Bytes::from(body.to_string())))
        .unwrap();
    Dropped {
        call: Box::pin(app.service().call(request)),
        polls_left: polls,
    }
    .await
}

async fn app_without_limits(store: &Store) -> Server {
    let post = Post::default();
    let settings = |auth: linchpin_auth::Auth| {
        auth.configure(|config| {
            config.auth.rate_limit.enabled = false;
            config.auth.mfa.max_attempts = 10;
            config.auth.mfa.recovery_codes = 50;
            config.auth.session.max_per_user = 1000;
        })
    };
    app_with(store, &post, settings).await
}

async fn recovery_codes_left(app: &Server, token: &str) -> usize {
    usize::try_from(
        app.get(token, "/auth/mfa/methods").await.json()["recoveryCodesLeft"]
            .as_i64()
            .unwrap(),
    )
    .unwrap()
}

async fn count_sessions(app: &Server, token: &str) -> usize {
    app.get(token, "/auth/sessions").await.json()["sessions"]
        .as_array()
        .unwrap()
        .len()
}

async fn a_dropped_set_up_has_its_full_effect_or_none(store: Store) {
    let app = app_without_limits(&store).await;
    for polls in 1.. {
        let me = app.register(&format!("a{polls}@x.test")).await;
        let secret = app
            .with(&me.token, "POST", "/auth/mfa/setup", None)
            .await
            .text("secret");
        let body = json!({ "code": code_at(&app, &secret, 0) });
        let ended = dropped(
            &app,
            polls,
            Some(&me.token),
            "/auth/mfa/verify-setup",
            &body,
        )
        .await;
        // A repeated call succeeds, or is refused because the first one had succeeded.
        let again = app.send(&me, "POST", "/auth/mfa/verify-setup", body).await;
        match again.status {
            200 => assert_eq!(texts(&again.json()["recoveryCodes"]).len(), 50, "{polls}"),
            400 => again.refused(400, "setup_not_started"),
            _ => panic!("{polls}: {again:?}"),
        }
        assert!(!ended || again.status == 400, "{polls}: {again:?}");
        let methods = app.get(&me.token, "/auth/mfa/methods").await.json();
        assert_eq!(
            methods,
            json!({ "methods": ["totp"], "recoveryCodesLeft": 50, "required": false }),
            "{polls}"
        );
        // The factor works, and the code of the set-up is used up.
        let token = app.challenged(&format!("a{polls}@x.test")).await;
        app.verify(&token, &code_at(&app, &secret, 0))
            .await
            .refused(401, "invalid_code");
        assert_eq!(
            app.verify(&token, &code_at(&app, &secret, 1)).await.status,
            200,
            "{polls}"
        );
        if ended {
            // The call was dropped at least once. The number of polls depends on the scheduler and
            // the store.
            assert!(polls > 1 || !store.keeps(), "{polls}");
            break;
        }
    }
}

async fn a_dropped_sign_in_has_its_full_effect_or_none(store: Store) {
    let app = app_without_limits(&store).await;
    let mut ada = enrolled(&app, "a@x.test").await;
    let me = ada.who.token.clone();
    let mut unused = ada.recovery.clone();
    for polls in 1.. {
        if unused.len() < 4 {
            app.advance(30).await;
            let proof = json!({ "code": code_at(&app, &ada.secret, 0) });
            unused = texts(
                &app.send(&ada.who, "POST", "/auth/mfa/recovery-codes", proof)
                    .await
                    .json()["recoveryCodes"],
            );
            ada.recovery = unused.clone();
        }
        let (codes_before, sessions_before) = (
            recovery_codes_left(&app, &me).await,
            count_sessions(&app, &me).await,
        );
        let token = app.challenged("a@x.test").await;
        let (first, second) = (unused.pop().unwrap(), unused.pop().unwrap());
        let ended = dropped(
            &app,
            polls,
            None,
            "/auth/mfa/verify",
            &json!({ "mfaToken": token, "code": first }),
        )
        .await;
        // The challenge is used up, or as valid as before.
        let again = app.verify(&token, &second).await;
        match again.status {
            200 => assert!(!ended, "{polls}: one challenge opened two sessions"),
            401 => again.refused(401, "invalid_challenge"),
            _ => panic!("{polls}: {again:?}"),
        }
        // In both cases there is one more session and one code less.
        assert_eq!(
            (
                recovery_codes_left(&app, &me).await,
                count_sessions(&app, &me).await
            ),
            (codes_before - 1, sessions_before + 1),
            "{polls}: {again:?}"
        );
        // The unused code still works, once.
        let unused_code = if again.status == 200 { &first } else { &second };
        assert_eq!(
            app.verify(&app.challenged("a@x.test").await, unused_code)
                .await
                .status,
            200,
            "{polls}"
        );
        if ended {
            // The call was dropped at least once. The number of polls depends on the scheduler and
            // the store.
            assert!(polls > 1 || !store.keeps(), "{polls}");
            break;
        }
    }
}
