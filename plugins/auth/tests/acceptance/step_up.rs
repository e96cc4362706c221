//! Step-up authentication.

use serde_json::json;

use crate::cases;
use crate::factor::{app, code_at, enrolled, texts, wrong};
use crate::post::Post;
use crate::server::{GOOD, Store, claims};

cases! {
    every_store:
        a_password_steps_up, a_step_up_replaces_the_session_and_its_refresh_tokens,
        a_second_factor_steps_up, a_code_proves_the_user_only_once, a_mailed_code_steps_up,
        step_up_and_set_password_share_one_limit_of_wrong_passwords;
    one_store: missing_step_up_fields_are_reported;
}

const STEP_UP: &str = "/auth/step-up";
const GUARDED: &str = "/__test/protected/step-up";

async fn a_password_steps_up(store: Store) {
    let app = store.app().await;
    let me = app.register("a@x.test").await;
    app.get(&me.token, GUARDED)
        .await
        .refused(403, "step_up_required");
    let methods = app
        .send(&me, "POST", "/auth/reauth/challenge", json!({}))
        .await;
    assert_eq!(
        (methods.status, methods.json()),
        (200, json!({ "availableMethods": ["password"] }))
    );
    app.send(
        &me,
        "POST",
        STEP_UP,
        json!({ "method": "password", "password": "nope-nope-nope" }),
    )
    .await
    .refused(401, "invalid_credentials");
    let done = app
        .send(
            &me,
            "POST",
            STEP_UP,
            json!({ "method": "password", "password": GOOD }),
        )
        .await;
    assert_eq!(
        (done.status, done.json()["ok"].clone()),
        (200, json!(true)),
        "{done:?}"
    );
    assert_eq!(done.json()["stepUpAt"], "2026-03-04T05:06:07.008Z");
    assert!(done.cookie("__Host-token").is_some());
    let stepped_up = done.signed_in();
    app.me(&me.token).await.refused(401, "unauthorized");
    assert_eq!(app.get(&stepped_up.token, GUARDED).await.status, 200);
    app.get(&stepped_up.token, "/__test/protected/mfa")
        .await
        .refused(403, "mfa_required");
    app.advance(300).await;
    assert_eq!(app.get(&stepped_up.token, GUARDED).await.status, 200);
    app.advance(1).await;
    app.get(&stepped_up.token, GUARDED)
        .await
        .refused(403, "step_up_required");
    let events = app.get(&stepped_up.token, "/auth/activity").await.json();
    let events: Vec<&str> = events["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["event"].as_str().unwrap())
        .collect();
    assert!(
        events.contains(&"auth:step_up") && events.contains(&"auth:step_up.failed"),
        "{events:?}"
    );
    app.post(STEP_UP, json!({ "method": "password", "password": GOOD }))
        .await
        .refused(401, "unauthorized");
}

async fn a_step_up_replaces_the_session_and_its_refresh_tokens(store: Store) {
    let app = store.app_with(linchpin_auth::Auth::refresh_tokens).await;
    let me = app.register("a@x.test").await;
    let session = app.me(&me.token).await.text("sessionId");
    app.advance(60).await;
    let body = json!({ "method": "password", "password": GOOD });
    let done = app.send(&me, "POST", STEP_UP, body.clone()).await;
    let stepped_up = done.signed_in();
    assert_ne!(claims(&stepped_up.token)["sid"], claims(&me.token)["sid"]);
    assert_eq!(
        app.me(&stepped_up.token).await.text("sessionId"),
        session,
        "the handle of the session does not change"
    );
    app.send(&me, "POST", STEP_UP, body)
        .await
        .refused(401, "unauthorized");
    app.post("/auth/refresh", json!({ "refreshToken": me.refresh }))
        .await
        .refused(401, "refresh_invalid");
    assert_eq!(
        app.post(
            "/auth/refresh",
            json!({ "refreshToken": stepped_up.refresh })
        )
        .await
        .status,
        200
    );
    // The session keeps its creation time.
    let list = app.get(&stepped_up.token, "/auth/sessions").await.json();
    assert_eq!(list["sessions"][0]["createdAt"], "2026-03-04T05:06:07.008Z");
}

async fn a_second_factor_steps_up(store: Store) {
    let post = Post::default();
    let app = app(&store, &post).await;
    let ada = enrolled(&app, "a@x.test").await;
    let methods = app
        .send(&ada.who, "POST", "/auth/reauth/challenge", json!({}))
        .await;
    assert_eq!(
        texts(&methods.json()["availableMethods"]),
        ["totp", "recovery"]
    );
    app.send(
        &ada.who,
        "POST",
        STEP_UP,
        json!({ "method": "password", "password": GOOD }),
    )
    .await
    .refused(403, "factor_not_allowed");
    app.send(
        &ada.who,
        "POST",
        "/auth/reauth/challenge",
        json!({ "method": "emailOtp" }),
    )
    .await
    .refused(400, "method_unavailable");
    // The set-up of a factor is not a step-up.
    app.get(&ada.who.token, GUARDED)
        .await
        .refused(403, "step_up_required");
    app.advance(30).await;
    let code = code_at(&app, &ada.secret, 0);
    app.send(
        &ada.who,
        "POST",
        STEP_UP,
        json!({ "method": "totp", "code": wrong(&code) }),
    )
    .await
    .refused(401, "invalid_code");
    let done = app
        .send(
            &ada.who,
            "POST",
            STEP_UP,
            json!({ "method": "totp", "code": code }),
        )
        .await;
    assert_eq!(done.status, 200, "{done:?}");
    let stepped_up = done.signed_in();
    assert_eq!(
        (
            app.get(&stepped_up.token, GUARDED).await.status,
            app.get(&stepped_up.token, "/__test/protected/mfa")
                .await
                .status
        ),
        (200, 200)
    );
    // A sign-in with both factors counts as a step-up.
    let again = app.login_with(&ada).await;
    assert_eq!(app.get(&again.token, GUARDED).await.status, 200);
    app.advance(301).await;
    app.get(&again.token, GUARDED)
        .await
        .refused(403, "step_up_required");
}

async fn a_code_proves_the_user_only_once(store: Store) {
    let post = Post::default();
    let app = app(&store, &post).await;
    let ada = enrolled(&app, "a@x.test").await;
    app.advance(30).await;
    let code = code_at(&app, &ada.secret, 0);
    let body = json!({ "method": "totp", "code": code });
    let stepped_up = app
        .send(&ada.who, "POST", STEP_UP, body.clone())
        .await
        .signed_in();
    app.send(&stepped_up, "POST", STEP_UP, body)
        .await
        .refused(401, "invalid_code");
    app.verify(&app.challenged("a@x.test").await, &code)
        .await
        .refused(401, "invalid_code");
    // A recovery code works once, too.
    let body = json!({ "method": "recovery", "code": ada.recovery[0] });
    let stepped_up = app
        .send(&stepped_up, "POST", STEP_UP, body.clone())
        .await
        .signed_in();
    app.send(&stepped_up, "POST", STEP_UP, body)
        .await
        .refused(401, "invalid_code");
    assert_eq!(post.all("recovery_code_used", 1).await[0].vars["left"], "9");
}

async fn a_mailed_code_steps_up(store: Store) {
    let post = Post::default();
    let app = app(&store, &post).await;
    let me = app.register("a@x.test").await;
    let setup = app
        .send(&me, "POST", "/auth/mfa/email-otp/enable", json!({}))
        .await;
    let body = json!({ "setupToken": setup.text("setupToken"), "code": post.code(1).await });
    assert_eq!(
        app.send(&me, "POST", "/auth/mfa/email-otp/verify-setup", body)
            .await
            .status,
        200
    );

    let challenge = async |mailed_codes: usize| {
        app.advance(1).await;
        let challenge = app
            .send(
                &me,
                "POST",
                "/auth/reauth/challenge",
                json!({ "method": "emailOtp" }),
            )
            .await;
        assert_eq!(
            texts(&challenge.json()["availableMethods"]),
            ["emailOtp", "recovery"]
        );
        (challenge.text("reauthToken"), post.code(mailed_codes).await)
    };
    let (token, code) = challenge(2).await;
    // The code is refused in another session of the same user, and for a sign-in.
    let other = app
        .verify(&app.challenged("a@x.test").await, &post.code(3).await)
        .await
        .signed_in();
    let body = |token: &str, code: &str| json!({ "method": "emailOtp", "reauthToken": token, "code": code });
    app.send(&other, "POST", STEP_UP, body(&token, &code))
        .await
        .refused(401, "invalid_challenge");
    app.verify(&token, &code)
        .await
        .refused(401, "invalid_challenge");
    let stepped_up = app.send(&me, "POST", STEP_UP, body(&token, &code)).await;
    assert_eq!(stepped_up.status, 200, "{stepped_up:?}");
    app.send(
        &stepped_up.signed_in(),
        "POST",
        STEP_UP,
        body(&token, &code),
    )
    .await
    .refused(401, "invalid_challenge");

    // Mailed codes are the only factor besides recovery codes, so a request without `method` sends
    // a code. Five wrong codes end the challenge.
    let me = stepped_up.signed_in();
    app.advance(1).await;
    let challenged = app
        .send(&me, "POST", "/auth/reauth/challenge", json!({}))
        .await;
    let (token, code) = (challenged.text("reauthToken"), post.code(4).await);
    for _ in 0..5 {
        app.send(&me, "POST", STEP_UP, body(&token, &wrong(&code)))
            .await
            .refused(401, "invalid_code");
    }
    app.send(&me, "POST", STEP_UP, body(&token, &code))
        .await
        .refused(401, "invalid_challenge");
    // A later challenge, after the windows of the limits (900 s).
    app.advance(901).await;
    let challenged = app
        .send(
            &me,
            "POST",
            "/auth/reauth/challenge",
            json!({ "method": "emailOtp" }),
        )
        .await;
    let (token, code) = (challenged.text("reauthToken"), post.code(5).await);
    // A challenge expires after 300 s.
    app.advance(300).await;
    app.send(&me, "POST", STEP_UP, body(&token, &code))
        .await
        .refused(401, "invalid_challenge");
}

async fn step_up_and_set_password_share_one_limit_of_wrong_passwords(store: Store) {
    let app = store.app().await;
    let me = app.register("a@x.test").await;
    for _ in 0..5 {
        app.send(
            &me,
            "POST",
            STEP_UP,
            json!({ "method": "password", "password": "nope-nope-nope" }),
        )
        .await
        .refused(401, "invalid_credentials");
        let new_password =
            json!({ "password": "amber-walrus-17-dune", "currentPassword": "nope-nope-nope" });
        app.send(&me, "POST", "/auth/set-password", new_password)
            .await
            .refused(401, "invalid_credentials");
    }
    let limited = app
        .send(
            &me,
            "POST",
            STEP_UP,
            json!({ "method": "password", "password": GOOD }),
        )
        .await;
    limited.refused(429, "rate_limited");
    assert_eq!(limited.header("retry-after"), "900");
    app.advance(900).await;
    assert_eq!(
        app.send(
            &me,
            "POST",
            STEP_UP,
            json!({ "method": "password", "password": GOOD })
        )
        .await
        .status,
        200
    );
}

/// A thief's proofs are counted in the stolen session, and never block proofs in the owner's
/// session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proofs_of_a_stolen_session_are_counted_separately() {
    let post = Post::default();
    let app = app(&Store::memory(), &post).await;
    let made = app
        .post(
            "/auth/register",
            json!({ "email": "a@x.test", "password": GOOD }),
        )
        .await;
    let (owner, device) = (made.signed_in(), made.text("deviceToken"));
    let wrong = json!({ "method": "password", "password": "nope-nope-nope" });
    let right = json!({ "method": "password", "password": GOOD });
    let thief = app.login("a@x.test").await;
    for _ in 0..10 {
        app.send(&thief, "POST", STEP_UP, wrong.clone())
            .await
            .refused(401, "invalid_credentials");
    }
    app.send(&thief, "POST", STEP_UP, right.clone())
        .await
        .refused(429, "rate_limited");
    let owner = app
        .send(&owner, "POST", STEP_UP, right.clone())
        .await
        .signed_in();
    assert_ne!(owner.token, "", "the owner's session has a separate limit");
    // All sessions together have a limit, which does not apply to the owner's recognised device.
    for _ in 0..2 {
        let other = app.login("a@x.test").await;
        for _ in 0..10 {
            app.send(&other, "POST", STEP_UP, wrong.clone())
                .await
                .refused(401, "invalid_credentials");
        }
    }
    let other = app.login("a@x.test").await;
    app.send(&other, "POST", STEP_UP, right.clone())
        .await
        .refused(429, "rate_limited");
    let bearer = format!("Bearer {}", owner.token);
    let headers = [
        ("content-type", "application/json"),
        ("authorization", bearer.as_str()),
        ("x-device-token", device.as_str()),
    ];
    let done = app.raw("POST", STEP_UP, &headers, &right.to_string()).await;
    assert_eq!(done.status, 200, "{done:?}");
    // Codes that another session requests do not invalidate the owner's code, and are counted
    // separately.
    let owner = done.signed_in();
    let setup = app
        .send(&owner, "POST", "/auth/mfa/email-otp/enable", json!({}))
        .await
        .text("setupToken");
    let body = json!({ "setupToken": setup, "code": post.code(1).await });
    assert_eq!(
        app.send(&owner, "POST", "/auth/mfa/email-otp/verify-setup", body)
            .await
            .status,
        200
    );
    let reauth_token = app
        .send(&owner, "POST", "/auth/reauth/challenge", json!({}))
        .await
        .text("reauthToken");
    let code = post.code(2).await;
    for _ in 0..10 {
        assert_eq!(
            app.send(&thief, "POST", "/auth/reauth/challenge", json!({}))
                .await
                .status,
            200
        );
    }
    app.send(&thief, "POST", "/auth/reauth/challenge", json!({}))
        .await
        .refused(429, "rate_limited");
    let body =
        json!({ "method": "emailOtp", "reauthToken": reauth_token, "code": code }).to_string();
    let bearer = format!("Bearer {}", owner.token);
    let headers = [
        ("content-type", "application/json"),
        ("authorization", bearer.as_str()),
        ("x-device-token", device.as_str()),
    ];
    assert_eq!(app.raw("POST", STEP_UP, &headers, &body).await.status, 200);
}

async fn missing_step_up_fields_are_reported(store: Store) {
    let app = store.app().await;
    let me = app.register("a@x.test").await;
    app.send(&me, "POST", STEP_UP, json!({ "password": GOOD }))
        .await
        .problem("required", "method");
    app.send(
        &me,
        "POST",
        STEP_UP,
        json!({ "method": "magic", "password": GOOD }),
    )
    .await
    .problem("enum", "method");
    app.send(&me, "POST", STEP_UP, json!({ "method": "password" }))
        .await
        .problem("required", "password");
    app.send(&me, "POST", STEP_UP, json!({ "method": "totp" }))
        .await
        .problem("required", "code");
    app.send(
        &me,
        "POST",
        STEP_UP,
        json!({ "method": "emailOtp", "code": "1" }),
    )
    .await
    .problem("required", "reauthToken");
    // A factor that the account lacks is not checked, and does not count as an attempt.
    app.send(
        &me,
        "POST",
        STEP_UP,
        json!({ "method": "totp", "code": "123456" }),
    )
    .await
    .refused(403, "factor_not_allowed");
    app.send(
        &me,
        "POST",
        STEP_UP,
        json!({ "method": "recovery", "code": "ABCD-EFGH-2345" }),
    )
    .await
    .refused(403, "factor_not_allowed");
    app.send(
        &me,
        "POST",
        "/auth/reauth/challenge",
        json!({ "method": "totp" }),
    )
    .await
    .refused(400, "method_unavailable");
}
