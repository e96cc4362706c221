//! Keys for data at rest, and imported password hashes.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use linchpin_auth::{Auth, AuthConfig, AuthService, DataKey, LegacyVerifier, SecretText};
use serde_json::json;

use crate::cases;
use crate::post::Post;
use crate::server::{GOOD, Server, Store};

cases! {
    every_store:
        data_is_encrypted_with_the_new_key, a_missing_data_key_is_a_start_up_error,
        recovery_codes_end_with_their_key,
        imported_hashes_are_verified_and_replaced;
    one_store: data_keys_are_validated;
}

fn keys(auth: Auth, names: &[&str]) -> Auth {
    let key = |name: &&str| DataKey {
        kid: (*name).to_owned(),
        key: SecretText::new(STANDARD.encode([name.as_bytes()[0]; 32])),
    };
    let keys = names.iter().map(key).collect();
    auth.configure(|config| config.security.data_keys = keys)
}

/// The plugin with mailed links that verify an address and are valid for a day.
fn mailing(auth: Auth, post: &Post) -> Auth {
    post.on(auth)
        .configure(|config| config.auth.email_verification.enabled = true)
}

fn service(app: &Server) -> Arc<AuthService> {
    app.provided::<AuthService>()
}

async fn data_is_encrypted_with_the_new_key(store: Store) {
    if !store.keeps() {
        return;
    }
    let post = Post::default();
    // The first key is derived from the secret; the next two are configured.
    let app = store.app_with(|auth| mailing(auth, &post)).await;
    app.register("ada@x.test").await;
    let token = post.token("verify_email", 1).await;
    app.stop().await;
    let app = store
        .app_with(|auth| mailing(keys(auth, &["a"]), &post))
        .await;
    app.register("bob@x.test").await;
    let second = post.token("verify_email", 2).await;
    app.stop().await;
    let app = store
        .app_with(|auth| mailing(keys(auth, &["b", "a"]), &post))
        .await;
    let done = service(&app).rekey().await.unwrap();
    assert!(done.rewritten >= 2 && done.needed.is_empty(), "{done:?}");
    assert_eq!(service(&app).rekey().await.unwrap().rewritten, 0);
    app.stop().await;
    let app = store
        .app_with(|auth| mailing(keys(auth, &["b"]), &post))
        .await;
    for token in [token, second] {
        let done = app
            .post("/auth/verify-email", json!({ "token": token }))
            .await;
        assert_eq!(done.status, 200, "{done:?}");
    }
}

async fn a_missing_data_key_is_a_start_up_error(store: Store) {
    if !store.keeps() {
        return;
    }
    let post = Post::default();
    let app = store
        .app_with(|auth| mailing(keys(auth, &["a"]), &post))
        .await;
    app.register("ada@x.test").await;
    let token = post.token("verify_email", 1).await;
    app.stop().await;
    let started = store
        .try_app(|auth| mailing(keys(auth, &["b"]), &post))
        .await;
    let error = started
        .err()
        .expect("the app started without the key of a mailed link")
        .to_string();
    assert!(
        error.contains("`a`") && error.contains("security.dataKeys"),
        "{error}"
    );
    let app = store
        .app_with(|auth| mailing(keys(auth, &["b", "a"]), &post))
        .await;
    assert_eq!(
        app.post("/auth/verify-email", json!({ "token": token }))
            .await
            .status,
        200
    );
    app.advance(86_401).await;
    app.stop().await;
    // The former key is not needed any more.
    store
        .app_with(|auth| mailing(keys(auth, &["b"]), &post))
        .await
        .stop()
        .await;
}

/// Only a MAC of a recovery code is stored, so the code cannot be re-encrypted. The old key is
/// needed until `rekey --end-recovery-codes` deletes the codes.
async fn recovery_codes_end_with_their_key(store: Store) {
    if !store.keeps() {
        return;
    }
    let (post, with) = (Post::default(), |names: &'static [&'static str]| {
        move |auth: Auth| keys(auth, names).configure(|config| config.auth.mfa.enabled = true)
    });
    let app = store.app_with(|auth| with(&["a"])(post.on(auth))).await;
    for email in ["ada@x.test", "bob@x.test"] {
        crate::factor::enrolled(&app, email).await;
    }
    app.stop().await;
    let app = store
        .app_with(|auth| with(&["b", "a"])(post.on(auth)))
        .await;
    // The codes of this account use the new key and stay valid.
    let eve = crate::factor::enrolled(&app, "eve@x.test").await;
    let mut found = service(&app).rekey().await.unwrap();
    found.accounts.sort_unstable();
    assert_eq!(
        (found.needed, found.codes, found.ended),
        (vec!["a".to_owned()], 20, 0)
    );
    assert_eq!(found.accounts, ["ada@x.test", "bob@x.test"]);
    let done = service(&app).rekey_ending_codes().await.unwrap();
    assert_eq!(
        (done.needed.len(), done.codes, done.ended),
        (0, 0, 20),
        "{done:?}"
    );
    let mut mailed_to: Vec<String> = post
        .only("recovery_codes_ended", 2)
        .await
        .into_iter()
        .map(|mail| mail.to)
        .collect();
    mailed_to.sort_unstable();
    assert_eq!(mailed_to, ["ada@x.test", "bob@x.test"]);
    app.stop().await;
    // The former key can be removed.
    let app = store.app_with(|auth| with(&["b"])(post.on(auth))).await;
    let challenge = app.try_login("eve@x.test").await;
    let answered = json!({ "mfaToken": challenge.text("mfaToken"), "code": eve.recovery[0] });
    assert_eq!(app.post("/auth/mfa/verify", answered).await.status, 200);
}

async fn data_keys_are_validated(store: Store) {
    let file = json!({ "security": { "dataKeys": [
        { "kid": "", "key": STANDARD.encode([1; 32]) },
        { "kid": "a", "key": STANDARD.encode([1; 31]) },
        { "kid": "a", "key": "not base64 at all" },
        { "kid": "b" },
    ] } });
    let error = match store
        .try_app(|_| Auth::from_config(AuthConfig::from_json(&file)))
        .await
    {
        Ok(_) => panic!("the app started"),
        Err(error) => error.to_string(),
    };
    for what in [
        "security.dataKeys",
        "1 to 64 letters",
        "32 bytes in base64",
        "twice",
        "{ kid, key }",
    ] {
        assert!(error.contains(what), "{what} in {error}");
    }
    let written =
        json!({ "security": { "dataKeys": [{ "kid": "a", "key": STANDARD.encode([1; 32]) }] } });
    let debug = format!("{:?}", AuthConfig::from_json(&written));
    assert!(
        debug.contains("\"a\"") && !debug.contains(&STANDARD.encode([1; 32])),
        "{debug}"
    );
}

/// The weak password hash of the system from which the users are imported.
struct Reversed;

impl LegacyVerifier for Reversed {
    fn recognises(&self, stored: &str) -> bool {
        stored.starts_with("reversed:")
    }

    fn verify(&self, password: &str, stored: &str) -> bool {
        stored
            .strip_prefix("reversed:")
            .is_some_and(|hash| hash.chars().rev().eq(password.chars()))
    }
}

async fn status(app: &Server, password: &str) -> u16 {
    app.post(
        "/auth/login",
        json!({ "email": "ada@x.test", "password": password }),
    )
    .await
    .status
}

async fn imported_hashes_are_verified_and_replaced(store: Store) {
    let hash = format!("reversed:{}", GOOD.chars().rev().collect::<String>());
    let app = store
        .app_with(|auth| {
            auth.configure(|config| config.auth.password.legacy = vec![Arc::new(Reversed)])
        })
        .await;
    let mut new = linchpin_auth::NewUser::new("ada@x.test");
    new.password_hash = Some(SecretText::new(hash));
    service(&app).create_user(new).await.unwrap();
    assert_eq!(status(&app, "wrong-otter-91-lamp").await, 401);
    assert_eq!(status(&app, GOOD).await, 200);
    let mut unknown_hash = linchpin_auth::NewUser::new("bob@x.test");
    unknown_hash.password_hash = Some(SecretText::new("rot13:secret"));
    assert_eq!(
        service(&app)
            .create_user(unknown_hash)
            .await
            .unwrap_err()
            .code()
            .as_str(),
        "validation_failed"
    );
    app.stop().await;
    if store.keeps() {
        // The hash was replaced, so the legacy verifier is no longer needed.
        let app = store.app().await;
        assert_eq!(status(&app, GOOD).await, 200);
        assert_eq!(status(&app, "wrong-otter-91-lamp").await, 401);
    }
}
