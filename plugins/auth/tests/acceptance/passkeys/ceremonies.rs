//! Rules for registrations and assertions, member by member.

use serde_json::{Value as Json, json};

use super::{REGISTER, with_passkeys};
use crate::authenticator::{Authenticator, BACKED_UP, Draft, ELIGIBLE, ORIGIN, PRESENT, VERIFIED};
use crate::post::Post;
use crate::server::Store;

/// A change of a response.
type Change = Box<dyn FnOnce(&mut Draft)>;

pub(super) async fn every_algorithm_signs_in(store: Store) {
    let post = Post::default();
    let app = store.app_with(|auth| post.on(with_passkeys(auth))).await;
    let ada = app.register("ada@example.test").await;
    for mut authenticator in [
        Authenticator::p256(),
        Authenticator::ed25519(),
        Authenticator::rsa(),
    ] {
        let id = app.register_passkey(&ada.token, &mut authenticator).await;
        let reply = app.sign_in_with(&mut authenticator).await;
        assert_eq!(
            (reply.status, reply.text("userId")),
            (200, ada.id.clone()),
            "{reply:?}"
        );
        assert!(reply.cookie("__Host-token").is_some());
        let token = reply.text("token");
        assert_eq!(app.me(&token).await.status, 200);
        // The passkey has verified its user, so it counts as two factors and as a step-up.
        assert_eq!(app.get(&token, "/__test/protected/mfa").await.status, 200);
        assert_eq!(
            app.get(&token, "/__test/protected/step-up").await.status,
            200
        );
        let passkey = app
            .passkeys(&token)
            .await
            .into_iter()
            .find(|one| one["credentialId"] == json!(id))
            .unwrap();
        assert_eq!(
            (&passkey["transports"], &passkey["userVerified"]),
            (&json!(["hybrid", "internal"]), &json!(true))
        );
    }
    let names: Vec<String> = post
        .all("passkey_added", 3)
        .await
        .iter()
        .map(|mail| mail.vars["name"].clone())
        .collect();
    assert_eq!(names, ["Passkey", "Passkey", "Passkey"]);
    let events = app.get(&ada.token, "/auth/activity").await.json()["items"].to_string();
    assert_eq!(events.matches("auth:passkey.added").count(), 3, "{events}");
}

pub(super) async fn registrations_that_break_a_rule_are_refused(store: Store) {
    let app = store.app_with(with_passkeys).await;
    let ada = app.register("ada@example.test").await;
    let wrong: Vec<(&str, Change)> = vec![
        (
            "origin",
            Box::new(|d| d.client_data["origin"] = json!("https://evil.test")),
        ),
        (
            "subdomain that is not listed",
            Box::new(|d| d.client_data["origin"] = json!("https://www.app.test")),
        ),
        (
            "scheme",
            Box::new(|d| d.client_data["origin"] = json!("http://app.test")),
        ),
        (
            "type",
            Box::new(|d| d.client_data["type"] = json!("webauthn.get")),
        ),
        (
            "challenge",
            Box::new(|d| d.client_data["challenge"] = json!("AAAA")),
        ),
        (
            "empty challenge",
            Box::new(|d| d.client_data["challenge"] = json!("")),
        ),
        (
            "crossOrigin",
            Box::new(|d| d.client_data["crossOrigin"] = json!(true)),
        ),
        (
            "topOrigin",
            Box::new(|d| d.client_data["topOrigin"] = json!(ORIGIN)),
        ),
        ("site", Box::new(|d| d.site = "evil.test".into())),
        ("nobody present", Box::new(|d| d.flags &= !PRESENT)),
        ("not verified", Box::new(|d| d.flags &= !VERIFIED)),
        ("no credential", Box::new(|d| d.flags &= !(1 << 6))),
        (
            "extensions that are not there",
            Box::new(|d| d.flags |= 1 << 7),
        ),
        (
            "backed up but not eligible",
            Box::new(|d| d.flags |= BACKED_UP),
        ),
        (
            "bytes after the data",
            Box::new(|d| d.trailing = vec![0xa0]),
        ),
        (
            "another unsigned id",
            Box::new(|d| d.outer_id = vec![7; 32]),
        ),
        ("no id", Box::new(|d| d.credential_id = Vec::new())),
        (
            "an id too long",
            Box::new(|d| (d.credential_id, d.outer_id) = (vec![7; 1024], vec![7; 1024])),
        ),
        ("a key of another algorithm", Box::new(|d| d.key = es384())),
        ("no key", Box::new(|d| d.key = vec![0xa0])),
        (
            "a certificate",
            Box::new(|d| {
                (d.format, d.statement) = ("packed", vec![0xa1, 0x63, b'x', b'5', b'c', 0x80]);
            }),
        ),
        ("another format", Box::new(|d| d.format = "tpm")),
        (
            "an unknown member in the statement",
            Box::new(|d| d.statement = vec![0xa1, 0x61, b'x', 0]),
        ),
        (
            "spoilt self-attestation",
            Box::new(|d| (d.format, d.statement, d.spoil_signature) = ("packed", Vec::new(), true)),
        ),
    ];
    for (what, change) in wrong {
        let (options, token) = app.register_options(&ada.token).await;
        let mut authenticator = Authenticator::p256();
        let answer = authenticator.register_changed(&options, change);
        let body = json!({ "registrationToken": token, "attestationResponse": answer });
        let reply = app.with(&ada.token, "POST", REGISTER, Some(body)).await;
        assert_eq!(
            (reply.status, reply.text("code").as_str()),
            (401, "webauthn_failed"),
            "{what}: {reply:?}"
        );
        // The challenge is used up.
        let body = json!({ "registrationToken": token, "attestationResponse": authenticator.register(&options) });
        app.with(&ada.token, "POST", REGISTER, Some(body))
            .await
            .refused(401, "invalid_challenge");
    }
    assert!(app.passkeys(&ada.token).await.is_empty());
    // Self-attestation and backup flags are accepted.
    let mut authenticator = Authenticator::p256();
    authenticator.flags |= ELIGIBLE | BACKED_UP;
    let (options, token) = app.register_options(&ada.token).await;
    let answer = authenticator.register_changed(&options, |d| {
        (d.format, d.statement) = ("packed", Vec::new());
    });
    let body = json!({ "registrationToken": token, "attestationResponse": answer, "name": "  <b>Key</b>  " });
    let made = app
        .with(&ada.token, "POST", REGISTER, Some(body.clone()))
        .await;
    assert_eq!(
        (made.status, &made.json()["recoveryCodes"]),
        (200, &json!([])),
        "{made:?}"
    );
    app.with(&ada.token, "POST", REGISTER, Some(body))
        .await
        .refused(401, "invalid_challenge");
    let passkey = &app.passkeys(&ada.token).await[0];
    assert_eq!(
        (
            &passkey["name"],
            &passkey["backedUp"],
            &passkey["lastUsedAt"]
        ),
        (&json!("<b>Key</b>"), &json!(true), &Json::Null)
    );
    // A second registration of the same credential is refused, for the same or another user.
    let eve = app.register("eve@example.test").await;
    for who in [&ada, &eve] {
        let (options, token) = app.register_options(&who.token).await;
        let body = json!({ "registrationToken": token, "attestationResponse": authenticator.register(&options) });
        app.with(&who.token, "POST", REGISTER, Some(body))
            .await
            .refused(409, "conflict");
    }
}

/// ECDSA on P-384, which was not requested.
fn es384() -> Vec<u8> {
    let mut out = minicbor::Encoder::new(Vec::new());
    out.map(5)
        .unwrap()
        .i64(1)
        .unwrap()
        .i64(2)
        .unwrap()
        .i64(3)
        .unwrap()
        .i64(-35)
        .unwrap()
        .i64(-1)
        .unwrap()
        .i64(2)
        .unwrap();
    out.i64(-2)
        .unwrap()
        .bytes(&[1; 48])
        .unwrap()
        .i64(-3)
        .unwrap()
        .bytes(&[1; 48])
        .unwrap();
    out.into_writer()
}

pub(super) async fn assertions_that_break_a_rule_are_refused(store: Store) {
    let app = store
        .app_with(|auth| {
            with_passkeys(auth).configure(|config| config.auth.rate_limit.enabled = false)
        })
        .await;
    let (ada, eve) = (
        app.register("ada@example.test").await,
        app.register("eve@example.test").await,
    );
    let (mut ada_key, mut eve_key) = (Authenticator::p256(), Authenticator::p256());
    app.register_passkey(&ada.token, &mut ada_key).await;
    app.register_passkey(&eve.token, &mut eve_key).await;
    let handle = {
        let (options, _) = app.register_options(&eve.token).await;
        options["user"]["id"].as_str().unwrap().to_owned()
    };
    let eve_id = eve_key.credential_id.clone();
    let wrong: Vec<(&str, Change)> = vec![
        (
            "origin",
            Box::new(|d| d.client_data["origin"] = json!("https://app.test.evil.test")),
        ),
        (
            "type",
            Box::new(|d| d.client_data["type"] = json!("webauthn.create")),
        ),
        (
            "challenge",
            Box::new(|d| {
                d.client_data["challenge"] = json!("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
            }),
        ),
        (
            "crossOrigin",
            Box::new(|d| d.client_data["crossOrigin"] = json!(true)),
        ),
        ("site", Box::new(|d| d.site = "evil.test".into())),
        ("nobody present", Box::new(|d| d.flags &= !PRESENT)),
        ("not verified", Box::new(|d| d.flags &= !VERIFIED)),
        (
            "backed up but not eligible",
            Box::new(|d| d.flags |= BACKED_UP),
        ),
        (
            "changed backup eligibility",
            Box::new(|d| d.flags |= ELIGIBLE),
        ),
        ("credential data flag", Box::new(|d| d.flags |= 1 << 6)),
        (
            "extensions that are not there",
            Box::new(|d| d.flags |= 1 << 7),
        ),
        ("bytes after the data", Box::new(|d| d.trailing = vec![0])),
        ("a spoilt signature", Box::new(|d| d.spoil_signature = true)),
        ("unknown credential", Box::new(|d| d.outer_id = vec![9; 32])),
        (
            "another user's credential",
            Box::new(move |d| d.outer_id = eve_id),
        ),
        (
            "another user's handle",
            Box::new(move |d| d.user_handle = Some(handle)),
        ),
        ("no handle", Box::new(|d| d.user_handle = None)),
        (
            "no handle",
            Box::new(|d| d.user_handle = Some(String::new())),
        ),
    ];
    for (what, change) in wrong {
        let (options, token) = app.login_options().await;
        let answer = ada_key.assert_changed(&options, change);
        let reply = app.passkey_login(&token, &answer).await;
        assert_eq!(
            (reply.status, reply.text("code").as_str()),
            (401, "webauthn_failed"),
            "{what}: {reply:?}"
        );
        assert!(!reply.headers.contains_key("set-cookie"));
        // The challenge is used up.
        app.passkey_login(&token, &ada_key.assert(&options))
            .await
            .refused(401, "invalid_challenge");
    }
    // Extensions are ignored.
    let (options, token) = app.login_options().await;
    let answer = ada_key.assert_changed(&options, |d| {
        (d.flags, d.trailing) = (d.flags | 1 << 7, vec![0xa1, 0x61, b'x', 0xf5]);
    });
    assert_eq!(app.passkey_login(&token, &answer).await.status, 200);
    let failed = app.get(&ada.token, "/auth/activity").await.json()["items"].to_string();
    assert!(
        failed.contains("auth:login.failed") && failed.contains("webauthn_failed"),
        "{failed}"
    );
}
