//! Step-up authentication.

use serde_json::json;

use crate::cases;
use crate::factor::{app, code_at, enrolled, texts, wrong};
use crate::post::Post;
use crate::server::{GOOD, Store, claims};

cases! {
    every_store:
        a_step_up_by_password, a_step_up_replaces_the_session_and_its_refresh_tokens,
        a_step_up_with_a_second_factor, a_code_proves_once, a_step_up_by_mailed_code,
        proofs_are_counted_together;
    one_store: what_a_step_up_lacks_is_told;
}

const STEP_UP: &str = "/auth/step-up";
const GUARDED: &str = "/__test/protected/step-up";

async fn a_step_up_by_password(store: Store) {
    let app = store.app().await;
    let me = app.register("a@x.test").await;
    app.get(&me.token, GUARDED)
        .await
        .refused(403, "step_up_required");
    let ways = app
        .send(&me, "POST", "/auth/reauth/challenge", json!({}))
        .await;
    assert_eq!(
        (ways.status, ways.json()),
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
    let fresh = done.signed_in();
    app.me(&me.token).await.refused(401, "unauthorized");
    assert_eq!(app.get(&fresh.token, GUARDED).await.status, 200);
    app.get(&fresh.token, "/__test/protected/mfa")
        .await
        .refused(403, "mfa_required");
    app.advance(300).await;
    assert_eq!(app.get(&fresh.token, GUARDED).await.status, 200);
    app.advance(1).await;
    app.get(&fresh.token, GUARDED)
        .await
        .refused(403, "step_up_required");
    let events = app.get(&fresh.token, "/auth/activity").await.json();
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
    let fresh = done.signed_in();
    assert_ne!(claims(&fresh.token)["sid"], claims(&me.token)["sid"]);
    assert_eq!(
        app.me(&fresh.token).await.text("sessionId"),
        session,
        "the handle stays"
    );
    app.send(&me, "POST", STEP_UP, body)
        .await
        .refused(401, "unauthorized");
    app.post("/auth/refresh", json!({ "refreshToken": me.refresh }))
        .await
        .refused(401, "refresh_invalid");
    assert_eq!(
        app.post("/auth/refresh", json!({ "refreshToken": fresh.refresh }))
            .await
            .status,
        200
    );
    // Its beginning and its end stay.
    let list = app.get(&fresh.token, "/auth/sessions").await.json();
    assert_eq!(list["sessions"][0]["createdAt"], "2026-03-04T05:06:07.008Z");
}

async fn a_step_up_with_a_second_factor(store: Store) {
    let post = Post::default();
    let app = app(&store, &post).await;
    let ada = enrolled(&app, "a@x.test").await;
    let ways = app
        .send(&ada.who, "POST", "/auth/reauth/challenge", json!({}))
        .await;
    assert_eq!(
        texts(&ways.json()["availableMethods"]),
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
    // Enrolling is no step-up.
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
    let fresh = done.signed_in();
    assert_eq!(
        (
            app.get(&fresh.token, GUARDED).await.status,
            app.get(&fresh.token, "/__test/protected/mfa").await.status
        ),
        (200, 200)
    );
    // A sign-in with both factors is one as well.
    let again = app.login_with(&ada).await;
    assert_eq!(app.get(&again.token, GUARDED).await.status, 200);
    app.advance(301).await;
    app.get(&again.token, GUARDED)
        .await
        .refused(403, "step_up_required");
}

async fn a_code_proves_once(store: Store) {
    let post = Post::default();
    let app = app(&store, &post).await;
    let ada = enrolled(&app, "a@x.test").await;
    app.advance(30).await;
    let code = code_at(&app, &ada.secret, 0);
    let body = json!({ "method": "totp", "code": code });
    let fresh = app
        .send(&ada.who, "POST", STEP_UP, body.clone())
        .await
        .signed_in();
    app.send(&fresh, "POST", STEP_UP, body)
        .await
        .refused(401, "invalid_code");
    app.verify(&app.challenged("a@x.test").await, &code)
        .await
        .refused(401, "invalid_code");
    // A recovery code as well.
    let body = json!({ "method": "recovery", "code": ada.recovery[0] });
    let fresh = app
        .send(&fresh, "POST", STEP_UP, body.clone())
        .await
        .signed_in();
    app.send(&fresh, "POST", STEP_UP, body)
        .await
        .refused(401, "invalid_code");
    assert_eq!(post.all("recovery_code_used", 1).await[0].vars["left"], "9");
}

async fn a_step_up_by_mailed_code(store: Store) {
    let post = Post::default();
    let app = app(&store, &post).await;
    let me = app.register("a@x.test").await;
    let begun = app
        .send(&me, "POST", "/auth/mfa/email-otp/enable", json!({}))
        .await;
    let body = json!({ "setupToken": begun.text("setupToken"), "code": post.code(1).await });
    assert_eq!(
        app.send(&me, "POST", "/auth/mfa/email-otp/verify-setup", body)
            .await
            .status,
        200
    );

    let challenge = async |least: usize| {
        app.advance(1).await;
        let asked = app
            .send(
                &me,
                "POST",
                "/auth/reauth/challenge",
                json!({ "method": "emailOtp" }),
            )
            .await;
        assert_eq!(
            texts(&asked.json()["availableMethods"]),
            ["emailOtp", "recovery"]
        );
        (asked.text("reauthToken"), post.code(least).await)
    };
    let (token, code) = challenge(2).await;
    // Another session of the same user, and a sign-in, have no use for it.
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
    let fresh = app.send(&me, "POST", STEP_UP, body(&token, &code)).await;
    assert_eq!(fresh.status, 200, "{fresh:?}");
    app.send(&fresh.signed_in(), "POST", STEP_UP, body(&token, &code))
        .await
        .refused(401, "invalid_challenge");

    // By itself, since it is the only one; five wrong answers end it.
    let me = fresh.signed_in();
    app.advance(1).await;
    let asked = app
        .send(&me, "POST", "/auth/reauth/challenge", json!({}))
        .await;
    let (token, code) = (asked.text("reauthToken"), post.code(4).await);
    for _ in 0..5 {
        app.send(&me, "POST", STEP_UP, body(&token, &wrong(&code)))
            .await
            .refused(401, "invalid_code");
    }
    app.send(&me, "POST", STEP_UP, body(&token, &code))
        .await
        .refused(401, "invalid_challenge");
    // Its time ends.
    app.advance(901).await;
    let asked = app
        .send(
            &me,
            "POST",
            "/auth/reauth/challenge",
            json!({ "method": "emailOtp" }),
        )
        .await;
    let (token, code) = (asked.text("reauthToken"), post.code(5).await);
    app.advance(300).await;
    app.send(&me, "POST", STEP_UP, body(&token, &code))
        .await
        .refused(401, "invalid_challenge");
}

async fn proofs_are_counted_together(store: Store) {
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
        let set =
            json!({ "password": "amber-walrus-17-dune", "currentPassword": "nope-nope-nope" });
        app.send(&me, "POST", "/auth/set-password", set)
            .await
            .refused(401, "invalid_credentials");
    }
    let full = app
        .send(
            &me,
            "POST",
            STEP_UP,
            json!({ "method": "password", "password": GOOD }),
        )
        .await;
    full.refused(429, "rate_limited");
    assert_eq!(full.header("retry-after"), "900");
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

/// A thief's proofs are counted in the stolen session, and never block the owner's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proofs_of_a_stolen_session_are_counted_apart() {
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
    assert_ne!(owner.token, "", "the owner's session has its own");
    // Many sessions together have a bound, which the owner's device is not part of.
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
    // Codes that are asked for elsewhere take none away, and count apart as well.
    let owner = done.signed_in();
    let begun = app
        .send(&owner, "POST", "/auth/mfa/email-otp/enable", json!({}))
        .await
        .text("setupToken");
    let body = json!({ "setupToken": begun, "code": post.code(1).await });
    assert_eq!(
        app.send(&owner, "POST", "/auth/mfa/email-otp/verify-setup", body)
            .await
            .status,
        200
    );
    let asked = app
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
    let body = json!({ "method": "emailOtp", "reauthToken": asked, "code": code }).to_string();
    let bearer = format!("Bearer {}", owner.token);
    let headers = [
        ("content-type", "application/json"),
        ("authorization", bearer.as_str()),
        ("x-device-token", device.as_str()),
    ];
    assert_eq!(app.raw("POST", STEP_UP, &headers, &body).await.status, 200);
}

async fn what_a_step_up_lacks_is_told(store: Store) {
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
