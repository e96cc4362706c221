//! Revoking a session cancels the email change requested in it; logging out does not.

use serde_json::json;

#[cfg(feature = "postgres")]
use crate::between::{At, PausingStore};
use crate::email::{assert_verified, change, changing, login, verify};
use crate::post::Post;
use crate::server::{GOOD, Store};

/// The link to the new address is invalid after the session is revoked, its refresh token is used
/// twice, or the account is scheduled for deletion. It stays valid after a logout.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn revoking_the_session_cancels_its_email_change() {
    let post = Post::default();
    let app = Store::memory()
        .app_with(|auth| changing(auth, &post).refresh_tokens())
        .await;
    app.register("ada@x.test").await;
    let mut requests = 0;
    let mut email_change = async || {
        // Advance past the rate limit of the account.
        app.advance(3700).await;
        let mine = app.login("ada@x.test").await;
        let other = app.login("ada@x.test").await;
        requests += 1;
        assert_eq!(change(&app, &other, "new@x.test").await.status, 202);
        (mine, other, post.token("verify_new_email", requests).await)
    };
    let (mine, _, token) = email_change().await;
    app.with(&mine.token, "POST", "/auth/sessions/revoke-others", None)
        .await;
    verify(&app, &token).await.refused(400, "invalid_token");
    // The session was logged out before the others were revoked.
    let (mine, other, token) = email_change().await;
    app.with(&other.token, "POST", "/auth/logout", None).await;
    app.with(&mine.token, "DELETE", "/auth/sessions", None)
        .await;
    verify(&app, &token).await.refused(400, "invalid_token");
    let (mine, other, token) = email_change().await;
    let id = app.me(&other.token).await.text("sessionId");
    app.with(&mine.token, "DELETE", &format!("/auth/sessions/{id}"), None)
        .await;
    verify(&app, &token).await.refused(400, "invalid_token");
    // A refresh token is used twice.
    let (_, other, token) = email_change().await;
    for _ in 0..2 {
        app.advance(11).await;
        app.post("/auth/refresh", json!({ "refreshToken": other.refresh }))
            .await;
    }
    verify(&app, &token).await.refused(400, "invalid_token");
    // The account is scheduled for deletion, and the deletion is cancelled.
    let (mine, _, token) = email_change().await;
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
    let (_, other, token) = email_change().await;
    app.with(&other.token, "POST", "/auth/logout", None).await;
    assert_verified(&verify(&app, &token).await);
    assert_eq!(login(&app, "new@x.test").await, 200);
}

/// An email change that is requested while another process revokes the session is invalid.
#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_email_change_requested_during_a_revocation_is_invalid() {
    let (store, post) = (Store::postgres(), Post::default());
    let (app, between) = PausingStore::app(&store, |auth| changing(auth, &post)).await;
    let other = store.app_with(|auth| changing(auth, &post)).await;
    app.register("ada@x.test").await;
    for (n, revoke_one_session) in [(1, false), (2, true)] {
        let (mine, thief) = (app.login("ada@x.test").await, app.login("ada@x.test").await);
        let id = app.me(&thief.token).await.text("sessionId");
        let revocation = async {
            let (method, path) = if revoke_one_session {
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
        let requested = between
            .meanwhile(
                At::insert("OneTime", 2),
                change(&app, &thief, "new@x.test"),
                revocation,
            )
            .await;
        assert_eq!(requested.status, 202, "{requested:?}");
        other.me(&thief.token).await.refused(401, "unauthorized");
        verify(&other, &post.token("verify_new_email", n).await)
            .await
            .refused(400, "invalid_token");
    }
}
