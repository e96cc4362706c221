//! Records that another program or another version of the plugin wrote, and that cannot be read,
//! are treated as absent; they cause no internal error.

use serde_json::json;

use crate::email::{assert_verified, change, changing, verify};
use crate::factor::{app_with, code_at};
use crate::post::Post;
use crate::server::{Server, Store};

/// Replaces the encrypted payload of all tokens of a purpose by unreadable text, in the file of a
/// store.
fn make_unreadable(store: &Store, purpose: &str) {
    let script = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); \
                  done = db.execute('UPDATE auth_one_times SET sealed = ? WHERE purpose = ?', ('scrawl', sys.argv[2])); db.commit(); \
                  assert done.rowcount > 0, db.execute('SELECT purpose FROM auth_one_times').fetchall()";
    let done = std::process::Command::new("python3")
        .args(["-c", script])
        .arg(store.file().unwrap())
        .arg(purpose)
        .output()
        .unwrap();
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
}

/// Stops an app, makes the tokens of a purpose unreadable, and starts the app again.
async fn restart_with_unreadable_tokens<A: AsyncFn() -> Server>(
    app: Server,
    store: &Store,
    purpose: &str,
    start: &A,
) -> Server {
    app.stop().await;
    make_unreadable(store, purpose);
    start().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreadable_factor_set_up_counts_as_absent() {
    let (store, post) = (Store::sqlite(), Post::default());
    let start = async || app_with(&store, &post, |auth| auth).await;
    let app = start().await;
    let ada = app.register("ada@x.test").await;
    let setup = async |app: &Server| {
        app.with(&ada.token, "POST", "/auth/mfa/setup", None)
            .await
            .text("secret")
    };
    let secret = setup(&app).await;
    let app = restart_with_unreadable_tokens(app, &store, "totp_setup", &start).await;
    let body = json!({ "code": code_at(&app, &secret, 0) });
    app.send(&ada, "POST", "/auth/mfa/verify-setup", body)
        .await
        .refused(400, "setup_not_started");
    // Only the newest set-up counts, even among unreadable ones. So the clock must advance.
    app.advance(1).await;
    let secret = setup(&app).await;
    let body = json!({ "code": code_at(&app, &secret, 0) });
    assert_eq!(
        app.send(&ada, "POST", "/auth/mfa/verify-setup", body)
            .await
            .status,
        200
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreadable_undo_link_counts_as_absent() {
    let (store, post) = (Store::sqlite(), Post::default());
    let start = async || store.app_with(|auth| changing(auth, &post)).await;
    let app = start().await;
    let ada = app.register("ada@x.test").await;
    assert_eq!(change(&app, &ada, "new@x.test").await.status, 202);
    let (undo, token) = (
        post.token("email_changed", 1).await,
        post.token("verify_new_email", 1).await,
    );
    let app = restart_with_unreadable_tokens(app, &store, "undo_email", &start).await;
    assert_verified(&verify(&app, &token).await);
    assert_eq!(app.me(&ada.token).await.text("email"), "new@x.test");
    verify(&app, &undo).await.refused(400, "invalid_token");
}

/// A stored link that cannot be read counts as absent, so a new one can be mailed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreadable_link_counts_as_absent() {
    let (store, post) = (Store::sqlite(), Post::default());
    let start = async || store.app_with(|auth| post.on(auth)).await;
    let app = start().await;
    app.register("ada@x.test").await;
    for n in 1..=3 {
        app.post("/auth/forgot-password", json!({ "email": "ada@x.test" }))
            .await;
        post.all("password_reset", n).await;
    }
    let app = restart_with_unreadable_tokens(app, &store, "reset_password", &start).await;
    app.post("/auth/forgot-password", json!({ "email": "ada@x.test" }))
        .await;
    post.only("password_reset", 4).await;
}
