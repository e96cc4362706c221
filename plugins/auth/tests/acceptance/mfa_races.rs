//! Second factors in races: of many concurrent calls with one code or challenge, exactly one has an
//! effect.

use std::sync::Arc;

use serde_json::json;

use crate::cases;
use crate::factor::{app, app_with, code_at, enrolled, texts, wrong};
use crate::post::Post;
use crate::server::{GOOD, Reply, Server, Store};

cases!(
    concurrent_answers_open_one_session,
    one_code_opens_one_of_many_challenges,
    a_recovery_code_works_once_in_concurrent_sign_ins,
    concurrent_guesses_are_limited_to_five,
    concurrent_set_ups_leave_one_set_of_recovery_codes,
    a_code_steps_up_one_of_many_sessions,
    a_concurrent_password_change_ends_the_sign_in,
);

/// Sends all bodies concurrently and returns the replies.
async fn send_concurrently(
    app: &Arc<Server>,
    path: &'static str,
    bodies: Vec<serde_json::Value>,
) -> Vec<Reply> {
    let calls = bodies.into_iter().map(|body| {
        let app = Arc::clone(app);
        tokio::spawn(async move { app.post(path, body).await })
    });
    let mut out = Vec::new();
    for call in calls.collect::<Vec<_>>() {
        out.push(call.await.unwrap());
    }
    out
}

fn count_succeeded(replies: &[Reply]) -> usize {
    assert!(
        replies
            .iter()
            .all(|reply| matches!(reply.status, 200 | 401 | 429)),
        "{replies:?}"
    );
    replies.iter().filter(|reply| reply.status == 200).count()
}

/// An app without rate limits, so that the result depends on the factors only.
async fn unlimited(store: &Store, post: &Post) -> Arc<Server> {
    let app = app_with(store, post, |auth| {
        auth.configure(|config| {
            config.auth.rate_limit.enabled = false;
            config.auth.mfa.max_attempts = 10;
        })
    });
    Arc::new(app.await)
}

async fn concurrent_answers_open_one_session(store: Store) {
    let post = Post::default();
    let app = unlimited(&store, &post).await;
    let ada = enrolled(&app, "a@x.test").await;
    // Each recovery code is correct. Only the challenge can ensure that a single call succeeds.
    let token = app.challenged("a@x.test").await;
    let bodies = (0..50)
        .map(|n| json!({ "mfaToken": token, "code": ada.recovery[n % 10] }))
        .collect();
    assert_eq!(
        count_succeeded(&send_concurrently(&app, "/auth/mfa/verify", bodies).await),
        1
    );
    let sessions = app.get(&ada.who.token, "/auth/sessions").await.json();
    assert_eq!(sessions["sessions"].as_array().unwrap().len(), 2);
    // Refused codes are unused.
    assert_eq!(
        app.get(&ada.who.token, "/auth/mfa/methods").await.json()["recoveryCodesLeft"],
        9
    );
}

async fn one_code_opens_one_of_many_challenges(store: Store) {
    let post = Post::default();
    let app = unlimited(&store, &post).await;
    let ada = enrolled(&app, "a@x.test").await;
    app.advance(30).await;
    let code = code_at(&app, &ada.secret, 0);
    let mut bodies = Vec::new();
    for _ in 0..12 {
        bodies.push(json!({ "mfaToken": app.challenged("a@x.test").await, "code": code }));
    }
    assert_eq!(
        count_succeeded(&send_concurrently(&app, "/auth/mfa/verify", bodies).await),
        1
    );
    let sessions = app.get(&ada.who.token, "/auth/sessions").await.json();
    assert_eq!(sessions["sessions"].as_array().unwrap().len(), 2);
}

async fn a_recovery_code_works_once_in_concurrent_sign_ins(store: Store) {
    let post = Post::default();
    let app = unlimited(&store, &post).await;
    let ada = enrolled(&app, "a@x.test").await;
    let mut bodies = Vec::new();
    for _ in 0..12 {
        bodies
            .push(json!({ "mfaToken": app.challenged("a@x.test").await, "code": ada.recovery[0] }));
    }
    assert_eq!(
        count_succeeded(&send_concurrently(&app, "/auth/mfa/verify", bodies).await),
        1
    );
    post.only("recovery_code_used", 1).await;
    assert_eq!(
        app.get(&ada.who.token, "/auth/mfa/methods").await.json()["recoveryCodesLeft"],
        9
    );
}

async fn concurrent_guesses_are_limited_to_five(store: Store) {
    let post = Post::default();
    let app = Arc::new(app(&store, &post).await);
    let ada = enrolled(&app, "a@x.test").await;
    app.advance(30).await;
    let (token, code) = (
        app.challenged("a@x.test").await,
        code_at(&app, &ada.secret, 0),
    );
    let bodies = (0..50)
        .map(|_| json!({ "mfaToken": token, "code": wrong(&code) }))
        .collect();
    let replies = send_concurrently(&app, "/auth/mfa/verify", bodies).await;
    assert_eq!(count_succeeded(&replies), 0);
    assert_eq!(
        replies
            .iter()
            .filter(|reply| reply.text("code") == "invalid_code")
            .count(),
        5
    );
    let late = app.verify(&token, &code).await;
    assert!(
        matches!(
            late.text("code").as_str(),
            "invalid_challenge" | "rate_limited"
        ),
        "{late:?}"
    );
}

async fn concurrent_set_ups_leave_one_set_of_recovery_codes(store: Store) {
    let post = Post::default();
    let app = unlimited(&store, &post).await;
    let me = app.register("a@x.test").await;
    let secret = app
        .with(&me.token, "POST", "/auth/mfa/setup", None)
        .await
        .text("secret");
    let mail = app
        .send(&me, "POST", "/auth/mfa/email-otp/enable", json!({}))
        .await
        .text("setupToken");
    let (code, mailed) = (code_at(&app, &secret, 0), post.code(1).await);
    let totp = app.send(
        &me,
        "POST",
        "/auth/mfa/verify-setup",
        json!({ "code": code }),
    );
    let email = app.send(
        &me,
        "POST",
        "/auth/mfa/email-otp/verify-setup",
        json!({ "setupToken": mail, "code": mailed }),
    );
    let (totp, email) = tokio::join!(totp, email);
    // If one call loses the race, it gets an error and changes nothing. If the calls do not
    // overlap, the second one is refused: the account then has a factor, which must be proved
    // first.
    let lost_race = |reply: &Reply| reply.status == 409 || reply.text("code") == "step_up_required";
    let done: Vec<&Reply> = [&totp, &email]
        .into_iter()
        .filter(|reply| reply.status == 200)
        .collect();
    assert!(
        !done.is_empty()
            && [&totp, &email]
                .iter()
                .all(|reply| reply.status == 200 || lost_race(reply)),
        "{totp:?} {email:?}"
    );
    let code_count: usize = done
        .iter()
        .map(|reply| texts(&reply.json()["recoveryCodes"]).len())
        .sum();
    let methods = app.get(&me.token, "/auth/mfa/methods").await.json();
    assert_eq!(
        (code_count, methods["recoveryCodesLeft"].clone()),
        (10, json!(10))
    );
    assert_eq!(methods["methods"].as_array().unwrap().len(), done.len());
}

async fn a_code_steps_up_one_of_many_sessions(store: Store) {
    let post = Post::default();
    let app = unlimited(&store, &post).await;
    let ada = enrolled(&app, "a@x.test").await;
    app.advance(30).await;
    let others = [
        app.login_with(&ada).await,
        app.login_with(&ada).await,
        app.login_with(&ada).await,
    ];
    app.advance(30).await;
    let code = code_at(&app, &ada.secret, 0);
    let calls = others.iter().chain([&ada.who]).cycle().take(24).map(|who| {
        let (app, token, body) = (
            Arc::clone(&app),
            who.token.clone(),
            json!({ "method": "totp", "code": code }),
        );
        tokio::spawn(async move { app.with(&token, "POST", "/auth/step-up", Some(body)).await })
    });
    let mut replies = Vec::new();
    for call in calls.collect::<Vec<_>>() {
        replies.push(call.await.unwrap());
    }
    assert_eq!(count_succeeded(&replies), 1);
}

// In either order of the two calls, only the session that changes the password remains.
async fn a_concurrent_password_change_ends_the_sign_in(store: Store) {
    let (store, post) = (store.hashing_slowly(), Post::default());
    let app = unlimited(&store, &post).await;
    let ada = enrolled(&app, "a@x.test").await;
    let mut password = GOOD;
    for code in ada.recovery.iter().take(8) {
        let asked = app
            .post(
                "/auth/login",
                json!({ "email": "a@x.test", "password": password }),
            )
            .await;
        let token = asked.text("mfaToken");
        let next = if password == GOOD {
            "amber-walrus-17-dune"
        } else {
            GOOD
        };
        let change = json!({ "password": next, "currentPassword": password });
        let (changed, answered) = tokio::join!(
            app.send(&ada.who, "POST", "/auth/set-password", change),
            app.verify(&token, code),
        );
        assert_eq!(changed.status, 200, "{changed:?}");
        password = next;
        match answered.status {
            // The sign-in came first, and the change of the password ended its session.
            200 => app
                .me(&answered.signed_in().token)
                .await
                .refused(401, "unauthorized"),
            _ => answered.refused(401, "invalid_challenge"),
        }
        let sessions = app.get(&ada.who.token, "/auth/sessions").await.json();
        assert_eq!(sessions["sessions"].as_array().unwrap().len(), 1);
    }
}
