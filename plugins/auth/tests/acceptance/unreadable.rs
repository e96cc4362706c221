//! Records that another program or another version of the plugin wrote, and that cannot be read,
//! are treated as absent; they cause no internal error.

use serde_json::json;

use crate::email::{change, changing, done, verify};
use crate::factor::{app_with, code_at};
use crate::post::Post;
use crate::server::{Server, Store};

/// Writes into the file of a store what cannot be read, in place of what is kept with all tokens of
/// a purpose.
fn scrawl(store: &Store, purpose: &str) {
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

/// An app that is stopped while its store is written into.
async fn beside<A: AsyncFn() -> Server>(
    app: Server,
    store: &Store,
    purpose: &str,
    start: &A,
) -> Server {
    app.stop().await;
    scrawl(store, purpose);
    start().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_set_up_that_cannot_be_read() {
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
    let app = beside(app, &store, "totp_setup", &start).await;
    let body = json!({ "code": code_at(&app, &secret, 0) });
    app.send(&ada, "POST", "/auth/mfa/verify-setup", body)
        .await
        .refused(400, "setup_not_started");
    // The newest counts, also of those that cannot be read; and the clock stands still.
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
async fn a_way_back_that_cannot_be_read() {
    let (store, post) = (Store::sqlite(), Post::default());
    let start = async || store.app_with(|auth| changing(auth, &post)).await;
    let app = start().await;
    let ada = app.register("ada@x.test").await;
    assert_eq!(change(&app, &ada, "new@x.test").await.status, 202);
    let (undo, token) = (
        post.token("email_changed", 1).await,
        post.token("verify_new_email", 1).await,
    );
    let app = beside(app, &store, "undo_email", &start).await;
    done(&verify(&app, &token).await);
    assert_eq!(app.me(&ada.token).await.text("email"), "new@x.test");
    verify(&app, &undo).await.refused(400, "invalid_token");
}

/// A stored link that cannot be read counts as absent, so a new one can be mailed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_that_cannot_be_read() {
    let (store, post) = (Store::sqlite(), Post::default());
    let start = async || store.app_with(|auth| post.on(auth)).await;
    let app = start().await;
    app.register("ada@x.test").await;
    for n in 1..=3 {
        app.post("/auth/forgot-password", json!({ "email": "ada@x.test" }))
            .await;
        post.all("password_reset", n).await;
    }
    let app = beside(app, &store, "reset_password", &start).await;
    app.post("/auth/forgot-password", json!({ "email": "ada@x.test" }))
        .await;
    post.only("password_reset", 4).await;
}
