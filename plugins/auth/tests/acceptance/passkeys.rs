//! Passkeys without a browser: a software authenticator sends valid and invalid responses.

mod ceremonies;

use linchpin_auth::{Auth, UserVerification};
use serde_json::{Value as Json, json};

use self::ceremonies::{
    assertions_that_break_a_rule_are_refused, every_algorithm_signs_in,
    registrations_that_break_a_rule_are_refused,
};
use crate::authenticator::{Authenticator, PRESENT, SITE};
use crate::cases;
use crate::post::Post;
use crate::server::{Reply, Server, SignedIn, Store};

cases! {
    every_store:
        tokens_are_for_one_purpose, a_counter_that_goes_back_reveals_a_copy,
        the_number_of_passkeys_is_limited,
        users_manage_only_their_own_passkeys, registration_needs_a_recent_and_verified_session,
        suspended_accounts_cannot_sign_in_with_a_passkey,
        passkey_sign_ins_run_hooks_and_are_limited,
        one_of_twenty_concurrent_assertions_signs_in, arbitrary_json_is_refused;
    one_store:
        registrations_that_break_a_rule_are_refused, assertions_that_break_a_rule_are_refused,
        every_algorithm_signs_in,
        registration_options_are_as_configured;
}

pub fn with_passkeys(auth: Auth) -> Auth {
    auth.configure(|config| {
        config.auth.passkeys.enabled = true;
        config.auth.passkeys.rp_id = SITE.into();
        config.auth.passkeys.rp_name = Some("The App".to_owned());
    })
}

const OPTIONS: &str = "/auth/mfa/webauthn/register-options";
const REGISTER: &str = "/auth/mfa/webauthn/register";
const CREDENTIALS: &str = "/auth/mfa/webauthn/credentials";

impl Server {
    /// Returns registration options and their token.
    pub async fn register_options(&self, token: &str) -> (Json, String) {
        // Only the newest options are valid, so the test clock is advanced by 1 ms.
        self.post("/__test/clock", json!({ "advanceSeconds": 0.001 }))
            .await;
        let reply = self.with(token, "POST", OPTIONS, None).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        (
            reply.json()["options"].clone(),
            reply.text("registrationToken"),
        )
    }

    pub async fn register_passkey(&self, token: &str, authenticator: &mut Authenticator) -> String {
        let (options, registration) = self.register_options(token).await;
        let answer = authenticator.register(&options);
        let reply = self
            .with(
                token,
                "POST",
                REGISTER,
                Some(json!({ "registrationToken": registration, "attestationResponse": answer })),
            )
            .await;
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.text("credentialId")
    }

    pub async fn login_options(&self) -> (Json, String) {
        let reply = self.post("/auth/passkey/login-options", json!({})).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        (reply.json()["options"].clone(), reply.text("passkeyToken"))
    }

    pub async fn passkey_login(&self, token: &str, answer: &Json) -> Reply {
        self.post(
            "/auth/passkey/login",
            json!({ "passkeyToken": token, "assertionResponse": answer }),
        )
        .await
    }

    async fn sign_in_with(&self, authenticator: &mut Authenticator) -> Reply {
        let (options, token) = self.login_options().await;
        self.passkey_login(&token, &authenticator.assert(&options))
            .await
    }

    async fn passkeys(&self, token: &str) -> Vec<Json> {
        self.get(token, CREDENTIALS).await.json()["credentials"]
            .as_array()
            .unwrap()
            .clone()
    }
}

async fn tokens_are_for_one_purpose(store: Store) {
    let app = store.app_with(with_passkeys).await;
    let ada = app.register("ada@example.test").await;
    let mut authenticator = Authenticator::p256();
    let (options, registration) = app.register_options(&ada.token).await;
    let answer = authenticator.register(&options);
    let register = async |who: &SignedIn, token: &str| {
        app.with(
            &who.token,
            "POST",
            REGISTER,
            Some(json!({ "registrationToken": token, "attestationResponse": answer })),
        )
        .await
    };
    let (login_options, passkey) = app.login_options().await;
    let eve = app.register("eve@example.test").await;
    for (who, token) in [
        (&ada, passkey.as_str()),
        (&ada, ""),
        (&ada, "x"),
        (&eve, &registration),
    ] {
        register(who, token).await.refused(401, "invalid_challenge");
    }
    // The token belongs to the session that requested it.
    let other = app.login("ada@example.test").await;
    register(&other, &registration)
        .await
        .refused(401, "invalid_challenge");
    assert_eq!(register(&ada, &registration).await.status, 200);
    let answer = authenticator.assert(&login_options);
    for token in [registration.as_str(), "", "x"] {
        app.passkey_login(token, &answer)
            .await
            .refused(401, "invalid_challenge");
    }
    assert_eq!(app.passkey_login(&passkey, &answer).await.status, 200);
    app.passkey_login(&passkey, &answer)
        .await
        .refused(401, "invalid_challenge");
    // Tokens expire: after two minutes for a sign-in, after five minutes for a registration. A
    // newer token ends the earlier one.
    let (options, token) = app.login_options().await;
    app.advance(121).await;
    app.passkey_login(&token, &authenticator.assert(&options))
        .await
        .refused(401, "invalid_challenge");
    let (first, earlier) = app.register_options(&ada.token).await;
    let (options, later) = app.register_options(&ada.token).await;
    let body = |token: &str, options: &Json| json!({ "registrationToken": token, "attestationResponse": Authenticator::p256().register(options) });
    app.with(&ada.token, "POST", REGISTER, Some(body(&earlier, &first)))
        .await
        .refused(401, "invalid_challenge");
    app.advance(301).await;
    app.with(&ada.token, "POST", REGISTER, Some(body(&later, &options)))
        .await
        .refused(401, "invalid_challenge");
}

async fn a_counter_that_goes_back_reveals_a_copy(store: Store) {
    let app = store.app_with(with_passkeys).await;
    let ada = app.register("ada@example.test").await;
    let mut authenticator = Authenticator::p256();
    authenticator.count = 10;
    let id = app.register_passkey(&ada.token, &mut authenticator).await;
    assert_eq!(app.sign_in_with(&mut authenticator).await.status, 200);
    for stale in [11, 10, 0] {
        let (options, token) = app.login_options().await;
        let answer = authenticator.assert_changed(&options, |d| d.count = stale);
        app.passkey_login(&token, &answer)
            .await
            .refused(401, "webauthn_failed");
    }
    let events = app.get(&ada.token, "/auth/activity").await.json()["items"].to_string();
    assert_eq!(
        events.matches("auth:passkey.counter_regression").count(),
        3,
        "{events}"
    );
    // The authenticator with the higher count works; a lower count is refused.
    assert_eq!(app.sign_in_with(&mut authenticator).await.status, 200);
    // An authenticator without a counter always sends 0 and is accepted.
    let mut uncounted = Authenticator::ed25519();
    app.register_passkey(&ada.token, &mut uncounted).await;
    for _ in 0..2 {
        assert_eq!(app.sign_in_with(&mut uncounted).await.status, 200);
    }
    let used = app
        .passkeys(&ada.token)
        .await
        .into_iter()
        .find(|one| one["credentialId"] == json!(id))
        .unwrap();
    assert!(used["lastUsedAt"].is_string(), "{used}");
}

async fn the_number_of_passkeys_is_limited(store: Store) {
    let app = store.app_with(with_passkeys).await;
    let ada = app.register("ada@example.test").await;
    for _ in 0..25 {
        app.register_passkey(&ada.token, &mut Authenticator::ed25519())
            .await;
    }
    app.with(&ada.token, "POST", OPTIONS, None)
        .await
        .refused(409, "limit_reached");
    assert_eq!(app.passkeys(&ada.token).await.len(), 25);
}

async fn registration_options_are_as_configured(store: Store) {
    let app = store.app_with(with_passkeys).await;
    let ada = app.register("ada@example.test").await;
    let mut authenticator = Authenticator::p256();
    let (options, token) = app.register_options(&ada.token).await;
    assert_eq!(token.len(), 43);
    let handle = options["user"]["id"].as_str().unwrap().to_owned();
    assert!(
        handle.len() == 43
            && !handle.contains(&ada.id)
            && options["challenge"].as_str().unwrap().len() == 43
    );
    assert_eq!(
        (
            &options["rp"],
            &options["user"]["name"],
            &options["attestation"],
            &options["timeout"],
            &options["excludeCredentials"]
        ),
        (
            &json!({ "id": SITE, "name": "The App" }),
            &json!("ada@example.test"),
            &json!("none"),
            &json!(60_000),
            &json!([])
        )
    );
    let algorithms: Vec<&Json> = options["pubKeyCredParams"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["alg"])
        .collect();
    assert_eq!(algorithms, [&json!(-7), &json!(-8), &json!(-257)]);
    assert_eq!(
        options["authenticatorSelection"],
        json!({ "residentKey": "required", "requireResidentKey": true, "userVerification": "required" })
    );
    let id = app.register_passkey(&ada.token, &mut authenticator).await;
    let (again, _) = app.register_options(&ada.token).await;
    assert_eq!(
        (&again["user"]["id"], &again["excludeCredentials"][0]["id"]),
        (&json!(handle), &json!(id))
    );
    assert_ne!(again["challenge"], options["challenge"]);
    // The response is the same for every identifier.
    for body in [
        json!({}),
        json!({ "identifier": "ada@example.test" }),
        json!({ "identifier": "nobody@example.test" }),
    ] {
        let reply = app.post("/auth/passkey/login-options", body).await;
        let options = reply.json()["options"].clone();
        assert_eq!(
            (
                reply.status,
                &options["allowCredentials"],
                &options["rpId"],
                &options["userVerification"]
            ),
            (200, &json!([]), &json!(SITE), &json!("required"))
        );
    }
    assert_eq!(
        app.raw("POST", "/auth/passkey/login-options", &[], "")
            .await
            .status,
        200
    );
    app.post("/auth/passkey/login-options", json!({ "who": 1 }))
        .await
        .problem("unknown_field", "who");
    app.stop().await;
    let second = store
        .app_with(|auth| {
            with_passkeys(auth).configure(|config| config.auth.passkeys.primary = false)
        })
        .await;
    assert_eq!(
        second
            .raw("POST", "/auth/passkey/login-options", &[], "")
            .await
            .status,
        404
    );
    let eve = second.register("eve@example.test").await;
    assert_eq!(
        second.register_options(&eve.token).await.0["authenticatorSelection"]["residentKey"],
        "preferred"
    );
    second.stop().await;
    let without = store.app().await;
    let bob = without.register("bob@example.test").await;
    assert_eq!(
        without.with(&bob.token, "POST", OPTIONS, None).await.status,
        404
    );
    assert_eq!(
        without
            .raw("POST", "/auth/passkey/login", &[], "")
            .await
            .status,
        404
    );
}

async fn users_manage_only_their_own_passkeys(store: Store) {
    let app = store.app_with(with_passkeys).await;
    let (ada, eve) = (
        app.register("ada@example.test").await,
        app.register("eve@example.test").await,
    );
    let id = app
        .register_passkey(&ada.token, &mut Authenticator::p256())
        .await;
    let path = format!("{CREDENTIALS}/{id}");
    let rename = async |who: &str, path: &str, name: &str| {
        app.with(who, "PATCH", path, Some(json!({ "name": name })))
            .await
    };
    assert_eq!(
        rename(&ada.token, &path, " Phone ").await.text("name"),
        "Phone"
    );
    rename(&eve.token, &path, "Mine")
        .await
        .refused(404, "not_found");
    rename(&ada.token, &format!("{CREDENTIALS}/unknown"), "x")
        .await
        .refused(404, "not_found");
    rename(&ada.token, &path, "")
        .await
        .problem("min_length", "name");
    rename(&ada.token, &path, "   ")
        .await
        .problem("required", "name");
    rename(&ada.token, &path, &"x".repeat(65))
        .await
        .problem("max_length", "name");
    assert!(app.passkeys(&eve.token).await.is_empty());
    assert_eq!(app.passkeys(&ada.token).await[0]["name"], "Phone");
    for (method, path) in [
        ("POST", OPTIONS),
        ("POST", REGISTER),
        ("GET", CREDENTIALS),
        ("PATCH", &path),
    ] {
        app.raw(method, path, &[], "")
            .await
            .refused(401, "unauthorized");
    }
}

async fn registration_needs_a_recent_and_verified_session(store: Store) {
    let post = Post::default();
    let app = store
        .app_with(|auth| {
            post.on(with_passkeys(auth))
                .configure(|config| config.auth.email_verification.enabled = true)
        })
        .await;
    let ada = app.register("ada@example.test").await;
    app.with(&ada.token, "POST", OPTIONS, None)
        .await
        .refused(403, "email_not_verified");
    app.change(&ada.id, json!({ "emailVerified": true })).await;
    let (options, token) = app.register_options(&ada.token).await;
    app.change(&ada.id, json!({ "emailVerified": false })).await;
    let body = json!({ "registrationToken": token, "attestationResponse": Authenticator::p256().register(&options) });
    app.with(&ada.token, "POST", REGISTER, Some(body.clone()))
        .await
        .refused(403, "email_not_verified");
    app.change(&ada.id, json!({ "emailVerified": true })).await;
    assert_eq!(
        app.with(&ada.token, "POST", REGISTER, Some(body))
            .await
            .status,
        200
    );
    // A sign-in is recent for 15 minutes.
    app.advance(901).await;
    app.with(&ada.token, "POST", OPTIONS, None)
        .await
        .refused(403, "step_up_required");
}

async fn suspended_accounts_cannot_sign_in_with_a_passkey(store: Store) {
    let app = store.app_with(with_passkeys).await;
    let ada = app.register("ada@example.test").await;
    let mut authenticator = Authenticator::p256();
    app.register_passkey(&ada.token, &mut authenticator).await;
    app.change(&ada.id, json!({ "suspended": true })).await;
    app.sign_in_with(&mut authenticator)
        .await
        .refused(403, "account_suspended");
    // The suspension is not reported to a caller without a valid assertion.
    let (options, token) = app.login_options().await;
    let answer = authenticator.assert_changed(&options, |d| d.spoil_signature = true);
    app.passkey_login(&token, &answer)
        .await
        .refused(401, "webauthn_failed");
    app.change(&ada.id, json!({ "suspended": false })).await;
    assert_eq!(app.sign_in_with(&mut authenticator).await.status, 200);
    app.stop().await;
    // A passkey that does not verify its user is one factor.
    let app = store
        .app_with(|auth| {
            with_passkeys(auth).configure(|config| {
                config.auth.passkeys.user_verification = UserVerification::Preferred;
            })
        })
        .await;
    let bob = app.register("bob@example.test").await;
    let mut touch = Authenticator::p256();
    touch.flags = PRESENT;
    app.register_passkey(&bob.token, &mut touch).await;
    let reply = app.sign_in_with(&mut touch).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    app.get(&reply.text("token"), "/__test/protected/mfa")
        .await
        .refused(403, "mfa_required");
    app.get(&reply.text("token"), "/__test/protected/step-up")
        .await
        .refused(403, "step_up_required");
}

struct Refusing;

impl linchpin_auth::AuthHooks for Refusing {
    fn pre_login<'a>(
        &'a self,
        _: &'a linchpin_auth::HookCx,
        sign_in: &'a linchpin_auth::SignIn,
    ) -> linchpin::BoxFuture<'a, linchpin_auth::HookResult> {
        let passkey = sign_in.method == "passkey" && sign_in.user_id.is_some();
        Box::pin(async move {
            if passkey {
                Err(linchpin_auth::HookError::new("no"))
            } else {
                Ok(())
            }
        })
    }
}

async fn passkey_sign_ins_run_hooks_and_are_limited(store: Store) {
    let app = store
        .app_with(|auth| with_passkeys(auth).hooks(Refusing))
        .await;
    let ada = app.register("ada@example.test").await;
    let mut authenticator = Authenticator::p256();
    app.register_passkey(&ada.token, &mut authenticator).await;
    let (options, token) = app.login_options().await;
    let answer = authenticator.assert(&options);
    // A sign-in that a hook refuses keeps its token and is not counted.
    for _ in 0..40 {
        app.passkey_login(&token, &answer)
            .await
            .refused(400, "hook_rejected");
    }
    for _ in 0..30 {
        app.passkey_login("x", &answer)
            .await
            .refused(401, "invalid_challenge");
    }
    app.passkey_login("x", &answer)
        .await
        .refused(429, "rate_limited");
    for _ in 0..59 {
        app.login_options().await;
    }
    app.post("/auth/passkey/login-options", json!({}))
        .await
        .refused(429, "rate_limited");
    // A page of another origin cannot sign in.
    let body = json!({ "passkeyToken": token, "assertionResponse": answer }).to_string();
    let foreign = [
        ("content-type", "application/json"),
        ("origin", "https://evil.test"),
    ];
    app.raw("POST", "/auth/passkey/login", &foreign, &body)
        .await
        .refused(403, "csrf_failed");
}

async fn one_of_twenty_concurrent_assertions_signs_in(store: Store) {
    let app = store.app_with(with_passkeys).await;
    let ada = app.register("ada@example.test").await;
    let mut authenticator = Authenticator::p256();
    authenticator.count = 1;
    app.register_passkey(&ada.token, &mut authenticator).await;
    let (options, token) = app.login_options().await;
    let answer = authenticator.assert(&options);
    let all = (0..20).map(|_| app.passkey_login(&token, &answer));
    let statuses: Vec<u16> = futures_util::future::join_all(all)
        .await
        .iter()
        .map(|reply| reply.status)
        .collect();
    assert_eq!(
        statuses.iter().filter(|status| **status == 200).count(),
        1,
        "{statuses:?}"
    );
    assert!(
        statuses.iter().all(|status| matches!(status, 200 | 401)),
        "{statuses:?}"
    );
    let sessions = app.get(&ada.token, "/auth/sessions").await.json()["sessions"]
        .as_array()
        .unwrap()
        .len();
    assert_eq!(sessions, 2);
    // An authenticator without a counter works any number of times.
    let mut uncounted = Authenticator::p256();
    app.register_passkey(&ada.token, &mut uncounted).await;
    let mut answers = Vec::new();
    for _ in 0..8 {
        let (options, token) = app.login_options().await;
        answers.push((token, uncounted.assert(&options)));
    }
    let all = answers
        .iter()
        .map(|(token, answer)| app.passkey_login(token, answer));
    let statuses: Vec<u16> = futures_util::future::join_all(all)
        .await
        .iter()
        .map(|reply| reply.status)
        .collect();
    assert_eq!(statuses, [200; 8]);
}

/// Any JSON in place of a response is refused without a server error.
async fn arbitrary_json_is_refused(store: Store) {
    let app = store
        .app_with(|auth| {
            with_passkeys(auth).configure(|config| config.auth.rate_limit.enabled = false)
        })
        .await;
    let ada = app.register("ada@example.test").await;
    let mut authenticator = Authenticator::p256();
    app.register_passkey(&ada.token, &mut authenticator).await;
    let (options, _) = app.login_options().await;
    let good = authenticator.assert(&options);
    let mut malformed = vec![
        json!({}),
        json!([]),
        json!("x"),
        json!(7),
        json!(true),
        json!({ "response": {} }),
        json!([[[[]]]]),
    ];
    for path in [
        "/id",
        "/rawId",
        "/type",
        "/response",
        "/response/clientDataJSON",
        "/response/authenticatorData",
        "/response/signature",
        "/response/userHandle",
    ] {
        for value in [
            json!(null),
            json!(1),
            json!(""),
            json!("="),
            json!("A"),
            json!("AAAA"),
            json!({}),
            json!([]),
            json!("é\u{0}"),
            json!("A".repeat(30_000)),
        ] {
            let mut changed = good.clone();
            *changed.pointer_mut(path).unwrap() = value;
            if changed != good {
                malformed.push(changed);
            }
        }
    }
    for answer in malformed {
        let (_, token) = app.login_options().await;
        let reply = app.passkey_login(&token, &answer).await;
        assert!(matches!(reply.status, 400 | 401), "{answer}: {reply:?}");
        let (_, token) = app.register_options(&ada.token).await;
        let reply = app
            .with(
                &ada.token,
                "POST",
                REGISTER,
                Some(json!({ "registrationToken": token, "attestationResponse": answer })),
            )
            .await;
        assert!(matches!(reply.status, 400 | 401), "{answer}: {reply:?}");
    }
}
