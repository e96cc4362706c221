//! A request for another address ends with the session that it was made in.

use serde_json::json;

#[cfg(feature = "postgres")]
use crate::between::{At, Between};
use crate::email::{change, changing, done, login, verify};
use crate::post::Post;
use crate::server::{GOOD, Store};

/// A person who may not be the owner requests another address, and the session is ended: the link
/// no longer works. Signing out does not end the request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wish_ends_with_what_it_was_asked_in() {
    let post = Post::default();
    let app = Store::memory()
        .app_with(|auth| changing(auth, &post).refresh_tokens())
        .await;
    app.register("ada@x.test").await;
    let mut asked = 0;
    let mut wish = async || {
        // Within the limits of one account.
        app.advance(3700).await;
        let mine = app.login("ada@x.test").await;
        let other = app.login("ada@x.test").await;
        asked += 1;
        assert_eq!(change(&app, &other, "new@x.test").await.status, 202);
        (mine, other, post.token("verify_new_email", asked).await)
    };
    let (mine, _, token) = wish().await;
    app.with(&mine.token, "POST", "/auth/sessions/revoke-others", None)
        .await;
    verify(&app, &token).await.refused(400, "invalid_token");
    // The session was signed out before the others were ended.
    let (mine, other, token) = wish().await;
    app.with(&other.token, "POST", "/auth/logout", None).await;
    app.with(&mine.token, "DELETE", "/auth/sessions", None)
        .await;
    verify(&app, &token).await.refused(400, "invalid_token");
    let (mine, other, token) = wish().await;
    let id = app.me(&other.token).await.text("sessionId");
    app.with(&mine.token, "DELETE", &format!("/auth/sessions/{id}"), None)
        .await;
    verify(&app, &token).await.refused(400, "invalid_token");
    // A refresh token is used twice.
    let (_, other, token) = wish().await;
    for _ in 0..2 {
        app.advance(11).await;
        app.post("/auth/refresh", json!({ "refreshToken": other.refresh }))
            .await;
    }
    verify(&app, &token).await.refused(400, "invalid_token");
    // The account is scheduled for deletion, and the deletion is cancelled.
    let (mine, _, token) = wish().await;
    assert_eq!(
        app.with(
            &mine.token,
            "DELETE",
            "/auth/me",
            Some(json!({ "password": GOOD }))
        )
        .await
        .status,
        202
    );
    verify(&app, &token).await.refused(400, "invalid_token");
    assert_eq!(
        app.with(
            &mine.token,
            "POST",
            "/auth/cancel-deletion",
            Some(json!({}))
        )
        .await
        .status,
        200
    );
    verify(&app, &token).await.refused(400, "invalid_token");
    assert_eq!(app.me(&mine.token).await.text("email"), "ada@x.test");
    let (_, other, token) = wish().await;
    app.with(&other.token, "POST", "/auth/logout", None).await;
    done(&verify(&app, &token).await);
    assert_eq!(login(&app, "new@x.test").await, 200);
}

/// A request that is made while another process ends the session is invalid afterwards.
#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wish_beside_the_end_of_its_session() {
    let (store, post) = (Store::postgres(), Post::default());
    let (app, between) = Between::app(&store, |auth| changing(auth, &post)).await;
    let other = store.app_with(|auth| changing(auth, &post)).await;
    app.register("ada@x.test").await;
    for (n, one) in [(1, false), (2, true)] {
        let (mine, thief) = (app.login("ada@x.test").await, app.login("ada@x.test").await);
        let id = app.me(&thief.token).await.text("sessionId");
        let ends = async {
            let (method, path) = if one {
                ("DELETE", format!("/auth/sessions/{id}"))
            } else {
                ("POST", "/auth/sessions/revoke-others".into())
            };
            assert_eq!(
                other.with(&mine.token, method, &path, None).await.status,
                200
            );
        };
        // The second token is the link to the new address. The session was checked before.
        let asked = between
            .meanwhile(
                At::insert("OneTime", 2),
                change(&app, &thief, "new@x.test"),
                ends,
            )
            .await;
        assert_eq!(asked.status, 202, "{asked:?}");
        other.me(&thief.token).await.refused(401, "unauthorized");
        verify(&other, &post.token("verify_new_email", n).await)
            .await
            .refused(400, "invalid_token");
    }
}
