//! Passkeys in Chromium: options and responses of a real browser.

use linchpin_auth::Auth;
use serde_json::{Value as Json, json};

use crate::cases;
use crate::chromium::Browser;
use crate::server::{GOOD, Server, SignedIn, Store};

cases! {
    every_store: a_copied_authenticator_is_refused;
    one_store:
        a_passkey_is_registered_and_renamed, a_passkey_is_a_second_factor,
        required_user_verification_is_checked, a_passkey_signs_in_without_an_identifier,
        a_removed_passkey_does_not_sign_in;
}

/// An app at `localhost`, which browsers treat as a secure origin.
struct Site {
    app: Server,
    browser: Browser,
    store: Store,
    origin: String,
}

impl Site {
    async fn open(store: Store, change: impl FnOnce(Auth) -> Auth) -> Self {
        let store = store.at_a_free_port();
        let origin = format!("http://localhost:{}", store.port());
        let app = store
            .app_with(|auth| {
                change(auth.configure(|config| {
                    config.auth.passkeys.enabled = true;
                    config.auth.passkeys.rp_id = "localhost".into();
                    config.auth.passkeys.origins = vec![origin.clone()];
                }))
            })
            .await;
        let mut browser = Browser::start().await;
        // Any page of the app has the right origin.
        browser.open(&format!("{origin}/health/live")).await;
        Self {
            app,
            browser,
            store,
            origin,
        }
    }

    async fn close(self) {
        self.browser.stop().await;
        self.app.stop().await;
        drop(self.store);
    }

    async fn post(&mut self, path: &str, body: Json, token: Option<&str>) -> (u64, Json) {
        let mut answer = self.browser.post(path, &body, token).await;
        (answer["status"].as_u64().unwrap(), answer["body"].take())
    }

    async fn register(&mut self, who: &SignedIn, name: &str) -> String {
        let (status, options) = self
            .post(
                "/auth/mfa/webauthn/register-options",
                Json::Null,
                Some(&who.token),
            )
            .await;
        assert_eq!(status, 200, "{options}");
        let attestation = self.browser.create(&options["options"]).await;
        assert!(attestation["error"].is_null(), "{attestation}");
        let body = json!({ "registrationToken": options["registrationToken"], "attestationResponse": attestation, "name": name });
        let (status, body) = self
            .post("/auth/mfa/webauthn/register", body, Some(&who.token))
            .await;
        assert_eq!(status, 200, "{body}");
        body["credentialId"].as_str().unwrap().to_owned()
    }

    async fn sign_in(&mut self) -> (u64, Json) {
        let (status, options) = self
            .post("/auth/passkey/login-options", json!({}), None)
            .await;
        assert_eq!(status, 200, "{options}");
        let assertion = self.browser.get(&options["options"]).await;
        assert!(assertion["error"].is_null(), "{assertion}");
        self.post(
            "/auth/passkey/login",
            json!({ "passkeyToken": options["passkeyToken"], "assertionResponse": assertion }),
            None,
        )
        .await
    }
}

async fn a_passkey_is_registered_and_renamed(store: Store) {
    let mut site = Site::open(store, |auth| auth).await;
    site.browser.plug_in(true).await;
    let ada = site.app.register("ada@example.test").await;
    let id = site.register(&ada, "Laptop").await;
    let listed = site
        .app
        .get(&ada.token, "/auth/mfa/webauthn/credentials")
        .await
        .json();
    let one = &listed["credentials"][0];
    assert_eq!(
        (&one["credentialId"], &one["name"], &one["lastUsedAt"]),
        (&json!(id), &json!("Laptop"), &Json::Null),
        "{listed}"
    );
    assert_eq!(
        (&one["transports"], &one["userVerified"]),
        (&json!(["internal"]), &json!(true))
    );
    site.app.advance(60).await;
    let (status, body) = site.sign_in().await;
    assert_eq!((status, &body["userId"]), (200, &json!(ada.id)), "{body}");
    let token = body["token"].as_str().unwrap();
    assert_eq!(
        site.app
            .get(token, "/__test/protected/step-up")
            .await
            .status,
        200
    );
    assert_eq!(
        site.app.get(token, "/__test/protected/mfa").await.status,
        200
    );
    let listed = site
        .app
        .get(token, "/auth/mfa/webauthn/credentials")
        .await
        .json();
    assert_eq!(
        listed["credentials"][0]["lastUsedAt"],
        json!("2026-03-04T05:07:07.008Z"),
        "{listed}"
    );
    // The browser reports that it already has a passkey of this account.
    let (_, options) = site
        .post(
            "/auth/mfa/webauthn/register-options",
            Json::Null,
            Some(&ada.token),
        )
        .await;
    let attestation = site.browser.create(&options["options"]).await;
    assert!(
        attestation["error"]
            .as_str()
            .unwrap_or_default()
            .starts_with("InvalidStateError"),
        "{attestation}"
    );
    // The browser refuses a page of another origin on the same machine. The module `ceremonies`
    // tests that the app refuses responses of other origins, too.
    let other = site.origin.replace("localhost", "a.localhost");
    site.browser.open(&format!("{other}/health/live")).await;
    let (_, options) = site
        .post("/auth/passkey/login-options", json!({}), None)
        .await;
    let assertion = site.browser.get(&options["options"]).await;
    assert!(
        assertion["error"]
            .as_str()
            .unwrap_or_default()
            .starts_with("SecurityError"),
        "{assertion}"
    );
    site.close().await;
}

async fn a_passkey_is_a_second_factor(store: Store) {
    let mut site = Site::open(store, |auth| {
        auth.configure(|config| config.auth.mfa.enabled = true)
    })
    .await;
    site.browser.plug_in(true).await;
    let ada = site.app.register("ada@example.test").await;
    site.register(&ada, "Laptop").await;
    let challenge = site.app.try_login("ada@example.test").await.json();
    assert_eq!(challenge["mfaMethods"], json!(["webauthn"]), "{challenge}");
    let assertion = site.browser.get(&challenge["webauthnOptions"]).await;
    assert!(assertion["error"].is_null(), "{assertion}");
    let body = json!({ "mfaToken": challenge["mfaToken"], "webauthnResponse": assertion });
    let (status, body) = site.post("/auth/mfa/verify", body, None).await;
    assert_eq!((status, &body["userId"]), (200, &json!(ada.id)), "{body}");
    assert_eq!(
        site.app
            .get(body["token"].as_str().unwrap(), "/__test/protected/mfa")
            .await
            .status,
        200
    );
    site.close().await;
}

/// The app checks the flag of the authenticator, even if the page gave the browser weaker options.
async fn required_user_verification_is_checked(store: Store) {
    let mut site = Site::open(store, |auth| auth).await;
    site.browser.plug_in(false).await;
    let ada = site.app.register("ada@example.test").await;
    let (_, mut options) = site
        .post(
            "/auth/mfa/webauthn/register-options",
            Json::Null,
            Some(&ada.token),
        )
        .await;
    // The page weakens the requested user verification.
    options["options"]["authenticatorSelection"]["userVerification"] = json!("discouraged");
    options["options"]["authenticatorSelection"]["residentKey"] = json!("discouraged");
    options["options"]["authenticatorSelection"]["requireResidentKey"] = json!(false);
    let attestation = site.browser.create(&options["options"]).await;
    assert!(attestation["error"].is_null(), "{attestation}");
    let body = json!({ "registrationToken": options["registrationToken"], "attestationResponse": attestation });
    let (status, body) = site
        .post("/auth/mfa/webauthn/register", body, Some(&ada.token))
        .await;
    assert_eq!((status, &body["code"]), (401, &json!("webauthn_failed")));
    site.close().await;
}

async fn a_passkey_signs_in_without_an_identifier(store: Store) {
    let mut site = Site::open(store, |auth| auth).await;
    site.browser.plug_in(true).await;
    let ada = site.app.register("ada@example.test").await;
    site.register(&ada, "Laptop").await;
    let mut shapes = Vec::new();
    for body in [
        json!({}),
        json!({ "identifier": "ada@example.test" }),
        json!({ "identifier": "nobody@example.test" }),
    ] {
        let (status, mut body) = site.post("/auth/passkey/login-options", body, None).await;
        assert_eq!(
            (status, &body["options"]["allowCredentials"]),
            (200, &json!([]))
        );
        let random = [
            body["options"]["challenge"].take(),
            body["passkeyToken"].take(),
        ];
        assert!(
            random
                .iter()
                .all(|random| random.as_str().unwrap().len() == 43)
        );
        shapes.push(body);
    }
    assert!(shapes.iter().all(|shape| *shape == shapes[0]), "{shapes:?}");
    let (_, options) = site
        .post("/auth/passkey/login-options", json!({}), None)
        .await;
    let assertion = site.browser.get(&options["options"]).await;
    let body = json!({ "passkeyToken": options["passkeyToken"], "assertionResponse": assertion });
    assert_eq!(
        site.post("/auth/passkey/login", body.clone(), None).await.0,
        200
    );
    let (status, body) = site.post("/auth/passkey/login", body, None).await;
    assert_eq!((status, &body["code"]), (401, &json!("invalid_challenge")));
    site.close().await;
}

/// A removed passkey no longer signs in; the browser still has it.
async fn a_removed_passkey_does_not_sign_in(store: Store) {
    let mut site = Site::open(store, |auth| auth).await;
    site.browser.plug_in(true).await;
    let ada = site.app.register("ada@example.test").await;
    let id = site.register(&ada, "Laptop").await;
    let proof = json!({ "password": GOOD });
    let removed = site
        .app
        .with(
            &ada.token,
            "DELETE",
            &format!("/auth/mfa/webauthn/credentials/{id}"),
            Some(proof),
        )
        .await;
    assert_eq!(removed.status, 200, "{removed:?}");
    let (status, body) = site.sign_in().await;
    assert_eq!(
        (status, &body["code"]),
        (401, &json!("webauthn_failed")),
        "{body}"
    );
    assert_eq!(
        site.app
            .get(&ada.token, "/auth/mfa/webauthn/credentials")
            .await
            .json()["credentials"],
        json!([])
    );
    site.close().await;
}

/// A copy of an authenticator with a signature counter.
async fn a_copied_authenticator_is_refused(store: Store) {
    let mut site = Site::open(store, |auth| auth).await;
    let authenticator = site.browser.plug_in(true).await;
    let ada = site.app.register("ada@example.test").await;
    site.register(&ada, "Laptop").await;
    let copy = site.browser.credentials(&authenticator).await;
    for _ in 0..2 {
        assert_eq!(site.sign_in().await.0, 200);
    }
    site.browser.copy_back(&authenticator, &copy).await;
    let (status, body) = site.sign_in().await;
    assert_eq!(
        (status, &body["code"]),
        (401, &json!("webauthn_failed")),
        "{body}"
    );
    let events = site.app.get(&ada.token, "/auth/activity").await.json()["items"].to_string();
    assert!(
        events.contains("auth:passkey.counter_regression"),
        "{events}"
    );
    site.close().await;
}
