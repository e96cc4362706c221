//! Change of the email address, and its undo.

use linchpin_auth::{Auth, PrimaryField};
use serde_json::{Value as Json, json};

use crate::authenticator::Authenticator;
use crate::cases;
use crate::deletion::DeletionHooks;
use crate::factor::{app_with, code_at, enrol, texts};
use crate::issuer::{Browser, StartedFlow};
use crate::oauth;
use crate::passkeys::with_passkeys;
use crate::post::Post;
use crate::server::{GOOD, Reply, Server, SignedIn, Store};

cases!(
    a_change_of_address_needs_proof_and_verification,
    a_change_of_address_can_be_undone_before_it_takes_effect,
    a_change_of_address_can_be_undone_after_it_takes_effect,
    an_address_is_restored_from_an_account_that_signed_up_with_it,
    an_unproved_address_is_not_restored_from_another_account,
    codes_mailed_to_the_other_address_end,
    a_change_to_an_address_in_use_does_not_reveal_it,
    a_second_change_of_address_keeps_the_restore_link,
    a_restore_link_keeps_earlier_ones_valid,
    changing_an_address_back_ends_later_restore_links,
    restoring_an_address_removes_later_factors,
    restoring_an_address_removes_later_codes_and_trust,
    restoring_an_address_cancels_a_deletion,
    restoring_an_address_removes_later_passkeys,
    restoring_an_address_removes_later_providers,
    accounts_with_user_names_change_their_address
);

pub fn changing(auth: Auth, post: &Post) -> Auth {
    post.on(auth)
        .configure(|config| config.auth.email_verification.enabled = true)
}

pub async fn change(app: &Server, who: &SignedIn, email: &str) -> Reply {
    app.with(
        &who.token,
        "POST",
        "/auth/change-email",
        Some(json!({ "email": email, "password": GOOD })),
    )
    .await
}

pub async fn verify(app: &Server, token: &str) -> Reply {
    app.post("/auth/verify-email", json!({ "token": token }))
        .await
}

pub async fn login(app: &Server, email: &str) -> u16 {
    app.post("/auth/login", json!({ "email": email, "password": GOOD }))
        .await
        .status
}

pub fn assert_verified(reply: &Reply) {
    assert_eq!(
        (reply.status, reply.json()),
        (
            200,
            json!({ "ok": true, "message": "The address is verified." })
        ),
        "{reply:?}"
    );
}

async fn a_change_of_address_needs_proof_and_verification(store: Store) {
    let post = Post::default();
    let app = store
        .app_with(|auth| {
            changing(auth, &post).configure(|config| config.auth.magic_link.enabled = true)
        })
        .await;
    let ada = app.register("ada@x.test").await;
    let body = |more: Json| {
        let mut body = json!({ "email": "New@x.test" });
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        body
    };
    let ask = async |more: Json| {
        app.with(&ada.token, "POST", "/auth/change-email", Some(body(more)))
            .await
    };
    ask(json!({})).await.refused(403, "step_up_required");
    ask(json!({ "password": "wrong-otter-91-lamp" }))
        .await
        .refused(401, "invalid_credentials");
    app.with(
        &ada.token,
        "POST",
        "/auth/change-email",
        Some(json!({ "email": "x", "password": GOOD })),
    )
    .await
    .problem("format", "email");
    let asked = ask(json!({ "password": GOOD })).await;
    assert_eq!(
        (asked.status, asked.json()["ok"].clone()),
        (202, json!(true)),
        "{asked:?}"
    );
    assert_eq!(app.me(&ada.token).await.text("email"), "ada@x.test");
    let (to_new, to_old) = (
        post.all("verify_new_email", 1).await,
        post.all("email_changed", 1).await,
    );
    assert_eq!(
        (to_new[0].to.as_str(), to_old[0].to.as_str()),
        ("New@x.test", "ada@x.test")
    );
    app.post(
        "/auth/magic-link/request",
        json!({ "identifier": "ada@x.test" }),
    )
    .await;
    let link = post.token("magic_link", 1).await;
    let token = post.token("verify_new_email", 1).await;
    app.post("/auth/magic-link/verify", json!({ "token": token }))
        .await
        .refused(400, "invalid_token");
    assert_verified(&verify(&app, &token).await);
    let me = app.me(&ada.token).await.json();
    assert_eq!(
        (me["email"].clone(), me["emailVerified"].clone()),
        (json!("New@x.test"), json!(true))
    );
    verify(&app, &token).await.refused(400, "invalid_token");
    assert_eq!(
        (
            login(&app, "ada@x.test").await,
            login(&app, "new@x.test").await
        ),
        (401, 200)
    );
    // A link that was sent to the old mailbox no longer signs in.
    app.post("/auth/magic-link/verify", json!({ "token": link }))
        .await
        .refused(400, "invalid_token");
    // Another person with access to the mailbox can register the address. After that, the address
    // cannot be restored.
    app.register("ada@x.test").await;
    assert_verified(&verify(&app, &post.token("verify_email", 2).await).await);
    let undo = post.token("email_changed", 1).await;
    verify(&app, &undo).await.refused(409, "conflict");
    assert_eq!(app.me(&ada.token).await.text("email"), "New@x.test");
}

async fn a_change_of_address_can_be_undone_before_it_takes_effect(store: Store) {
    let post = Post::default();
    let app = store.app_with(|auth| changing(auth, &post)).await;
    let ada = app.register("ada@x.test").await;
    assert_eq!(change(&app, &ada, "new@x.test").await.status, 202);
    let (undo, token) = (
        post.token("email_changed", 1).await,
        post.token("verify_new_email", 1).await,
    );
    assert_verified(&verify(&app, &undo).await);
    verify(&app, &token).await.refused(400, "invalid_token");
    assert_eq!(
        (
            login(&app, "ada@x.test").await,
            login(&app, "new@x.test").await
        ),
        (200, 401)
    );
    app.me(&ada.token).await.refused(401, "unauthorized");
}

async fn a_change_of_address_can_be_undone_after_it_takes_effect(store: Store) {
    let post = Post::default();
    let app = store.app_with(|auth| changing(auth, &post)).await;
    let thief = app.register("ada@x.test").await;
    assert_eq!(change(&app, &thief, "thief@x.test").await.status, 202);
    let (undo, token) = (
        post.token("email_changed", 1).await,
        post.token("verify_new_email", 1).await,
    );
    app.advance(86_000).await;
    assert_verified(&verify(&app, &token).await);
    app.advance(7 * 86_400).await;
    assert_verified(&verify(&app, &undo).await);
    let notice = post.all("email_restored", 1).await.remove(0);
    assert!(
        notice.to == "thief@x.test" && !notice.text.contains("ada@x.test"),
        "{}",
        notice.text
    );
    verify(&app, &undo).await.refused(400, "invalid_token");
    app.me(&thief.token).await.refused(401, "unauthorized");
    let back = app
        .post(
            "/auth/login",
            json!({ "email": "ada@x.test", "password": GOOD }),
        )
        .await;
    assert_eq!(
        (back.status, back.json()["emailVerified"].clone()),
        (200, json!(false)),
        "the former address is unverified, as before the change"
    );
    // The restore link expires after eight days: seven days, plus one day for the lifetime of the
    // link to the new address.
    let ada = back.signed_in();
    assert_eq!(change(&app, &ada, "new@x.test").await.status, 202);
    let (undo, token) = (
        post.token("email_changed", 2).await,
        post.token("verify_new_email", 2).await,
    );
    assert_verified(&verify(&app, &token).await);
    app.advance(8 * 86_400).await;
    verify(&app, &undo).await.refused(400, "invalid_token");
}

/// A person who takes over an account cannot prevent its restoration by registering the old
/// address.
async fn an_address_is_restored_from_an_account_that_signed_up_with_it(store: Store) {
    for primary in [PrimaryField::Email, PrimaryField::Username] {
        let post = Post::default();
        let hooks = DeletionHooks::default();
        let app = store
            .app_with(|auth| {
                changing(auth, &post)
                    .primary_field(primary)
                    .hooks(hooks.clone())
            })
            .await;
        let by_name = primary == PrimaryField::Username;
        let sign_up = async |name: &str, email: &str| {
            let mut body = json!({ "email": email, "password": GOOD });
            if by_name {
                body["username"] = json!(name);
            }
            let made = app.post("/auth/register", body).await;
            assert_eq!(made.status, 201, "{made:?}");
            made.signed_in()
        };
        let address = format!("{}@x.test", primary.name());
        let thief = sign_up("ada", &address).await;
        assert_verified(&verify(&app, &post.token("verify_email", 1).await).await);
        assert_eq!(change(&app, &thief, "thief@x.test").await.status, 202);
        let undo = post.token("email_changed", 1).await;
        assert_verified(&verify(&app, &post.token("verify_new_email", 1).await).await);
        let squatter = sign_up("thief", &address).await;
        let undone = verify(&app, &undo).await;
        assert_verified(&undone);
        // The account is as before; the other account is removed, or has no address any more.
        let body = if by_name {
            json!({ "username": "ada", "password": GOOD })
        } else {
            json!({ "email": address, "password": GOOD })
        };
        let back = app.post("/auth/login", body).await;
        assert_eq!(
            (back.text("userId"), back.text("email")),
            (thief.id.clone(), address),
            "{back:?}"
        );
        let me = app.me(&squatter.token).await;
        if by_name {
            assert_eq!(me.json()["email"], json!(null));
        } else {
            me.refused(401, "unauthorized");
            // The removal of the other account emits the usual events. Their actor is the person
            // who undid the change.
            app.advance(11).await;
            let (_, cx) = hooks.posts(1).await.remove(0);
            assert_eq!(
                (cx.request_id, cx.ip.map(|ip| ip.to_string())),
                (undone.header("x-request-id"), Some("127.0.0.1".to_owned()))
            );
        }
        app.stop().await;
    }
}

/// An address that was never verified is not restored from another account, because that account
/// may belong to the owner of the address.
async fn an_unproved_address_is_not_restored_from_another_account(store: Store) {
    let post = Post::default();
    let app = store.app_with(|auth| changing(auth, &post)).await;
    let stranger = app.register("ada@x.test").await;
    assert_eq!(change(&app, &stranger, "eve@x.test").await.status, 202);
    let undo = post.token("email_changed", 1).await;
    assert_verified(&verify(&app, &post.token("verify_new_email", 1).await).await);
    let ada = app.register("ada@x.test").await;
    verify(&app, &undo).await.refused(409, "conflict");
    assert_eq!(
        (
            app.me(&ada.token).await.text("email"),
            app.login("ada@x.test").await.id
        ),
        ("ada@x.test".to_owned(), ada.id)
    );
    assert_eq!(app.me(&stranger.token).await.text("email"), "eve@x.test");
}

/// Codes that were mailed to the other mailbox do not complete a sign-in after the address was
/// restored.
async fn codes_mailed_to_the_other_address_end(store: Store) {
    let post = Post::default();
    let with_codes = |auth: Auth| {
        changing(auth, &post).configure(|config| {
            config.auth.mfa.enabled = true;
            config.auth.mfa.email_otp.enabled = true;
        })
    };
    let app = store.app_with(with_codes).await;
    let ada = app.register("ada@x.test").await;
    assert_verified(&verify(&app, &post.token("verify_email", 1).await).await);
    assert_eq!(change(&app, &ada, "thief@x.test").await.status, 202);
    let undo = post.token("email_changed", 1).await;
    assert_verified(&verify(&app, &post.token("verify_new_email", 1).await).await);
    let setup = app
        .with(
            &ada.token,
            "POST",
            "/auth/mfa/email-otp/enable",
            Some(json!({})),
        )
        .await;
    let body = json!({ "setupToken": setup.text("setupToken"), "code": post.code(1).await });
    assert_eq!(
        app.with(
            &ada.token,
            "POST",
            "/auth/mfa/email-otp/verify-setup",
            Some(body)
        )
        .await
        .status,
        200
    );
    let challenge = app.challenged("thief@x.test").await;
    let code = post.code(2).await;
    assert_verified(&verify(&app, &undo).await);
    app.verify(&challenge, &code)
        .await
        .refused(401, "invalid_challenge");
    let challenge = app.challenged("ada@x.test").await;
    assert_eq!(post.all("email_otp", 3).await[2].to, "ada@x.test");
    assert_eq!(
        app.verify(&challenge, &post.code(3).await).await.status,
        200
    );
}

async fn a_change_to_an_address_in_use_does_not_reveal_it(store: Store) {
    let post = Post::default();
    let app = store.app_with(|auth| changing(auth, &post)).await;
    let (ada, _) = (
        app.register("ada@x.test").await,
        app.register("bob@x.test").await,
    );
    let (free, used) = (
        change(&app, &ada, "free@x.test").await,
        change(&app, &ada, "BOB@x.test").await,
    );
    assert_eq!((free.status, &free.body), (used.status, &used.body));
    assert_eq!(post.all("existing_account", 1).await[0].to, "bob@x.test");
    // The owner of the session sees no difference either.
    post.all("email_changed", 2).await;
    post.all("verify_new_email", 1).await;
    assert_eq!(
        (
            post.count("verify_new_email"),
            post.count("existing_account")
        ),
        (1, 1)
    );
    // Each request ends the links of earlier ones, also if the new address is in use.
    verify(&app, &post.token("verify_new_email", 1).await)
        .await
        .refused(400, "invalid_token");
    // The address is taken between the mail and the link.
    assert_eq!(change(&app, &ada, "free@x.test").await.status, 202);
    let token = post.token("verify_new_email", 2).await;
    app.register("free@x.test").await;
    verify(&app, &token).await.refused(409, "conflict");
    assert_eq!(app.me(&ada.token).await.text("email"), "ada@x.test");
    let limited = async || change(&app, &ada, "more@x.test").await.status;
    for _ in 0..7 {
        assert_eq!(limited().await, 202);
    }
    assert_eq!(limited().await, 429);
}

async fn a_second_change_of_address_keeps_the_restore_link(store: Store) {
    let post = Post::default();
    let app = store.app_with(|auth| changing(auth, &post)).await;
    let thief = app.register("ada@x.test").await;
    for (n, email) in ["one@x.test", "two@x.test"].into_iter().enumerate() {
        assert_eq!(change(&app, &thief, email).await.status, 202);
        assert_verified(&verify(&app, &post.token("verify_new_email", n + 1).await).await);
        app.advance(1).await;
    }
    let mails = post.all("email_changed", 2).await;
    let undo = |to: &str| {
        let mail = mails.iter().find(|mail| mail.to == to).unwrap();
        mail.vars["link"]
            .split_once("#token=")
            .unwrap()
            .1
            .to_owned()
    };
    assert_verified(&verify(&app, &undo("ada@x.test")).await);
    assert_eq!(
        (
            login(&app, "ada@x.test").await,
            login(&app, "two@x.test").await
        ),
        (200, 401)
    );
    verify(&app, &undo("one@x.test"))
        .await
        .refused(400, "invalid_token");
}

/// After the owner has changed the address back, the restore links that were mailed since the
/// thief's change no longer work. Otherwise the thief's link would undo later changes of the owner.
async fn changing_an_address_back_ends_later_restore_links(store: Store) {
    let post = Post::default();
    let app = app_with(&store, &post, |auth| changing(auth, &post)).await;
    let ada = app.register("ada@x.test").await;
    assert_verified(&verify(&app, &post.token("verify_email", 1).await).await);
    assert_eq!(change(&app, &ada, "thief@x.test").await.status, 202);
    assert_verified(&verify(&app, &post.token("verify_new_email", 1).await).await);
    let first = post.token("email_changed", 1).await;
    app.advance(60).await;
    assert_eq!(change(&app, &ada, "Ada@x.test").await.status, 202);
    let thief_link = post
        .all("email_changed", 2)
        .await
        .into_iter()
        .find(|mail| mail.to == "thief@x.test")
        .unwrap();
    let thief_link = thief_link.vars["link"]
        .split_once("#token=")
        .unwrap()
        .1
        .to_owned();
    assert_verified(&verify(&app, &post.token("verify_new_email", 2).await).await);
    let (secret, _) = enrol(&app, &ada).await;
    verify(&app, &thief_link)
        .await
        .refused(400, "invalid_token");
    verify(&app, &first).await.refused(400, "invalid_token");
    let challenge = app.challenged("ada@x.test").await;
    app.advance(30).await;
    assert_eq!(
        app.verify(&challenge, &code_at(&app, &secret, 0))
            .await
            .status,
        200
    );
}

/// The use of a restore link does not invalidate earlier ones, because the thief may have used a
/// later one.
async fn a_restore_link_keeps_earlier_ones_valid(store: Store) {
    let post = Post::default();
    let app = store.app_with(|auth| changing(auth, &post)).await;
    let thief = app.register("ada@x.test").await;
    assert_eq!(change(&app, &thief, "thief@x.test").await.status, 202);
    let undo = post.token("email_changed", 1).await;
    assert_verified(&verify(&app, &post.token("verify_new_email", 1).await).await);
    app.advance(1).await;
    assert_eq!(change(&app, &thief, "more@x.test").await.status, 202);
    let mails = post.all("email_changed", 2).await;
    assert_eq!(mails[1].to, "thief@x.test");
    assert_verified(&verify(&app, &post.token("email_changed", 2).await).await);
    assert_verified(&verify(&app, &undo).await);
    assert_eq!(
        (
            login(&app, "ada@x.test").await,
            login(&app, "thief@x.test").await
        ),
        (200, 401)
    );
}

/// A factor that was set up after the change would keep the owner out and let the thief in, so it
/// is removed.
async fn restoring_an_address_removes_later_factors(store: Store) {
    let post = Post::default();
    let app = app_with(&store, &post, |auth| changing(auth, &post)).await;
    let thief = app.register("ada@x.test").await;
    assert_eq!(change(&app, &thief, "thief@x.test").await.status, 202);
    let undo = post.token("email_changed", 1).await;
    assert_verified(&verify(&app, &post.token("verify_new_email", 1).await).await);
    app.advance(1).await;
    enrol(&app, &thief).await;
    app.challenged("thief@x.test").await;
    assert_verified(&verify(&app, &undo).await);
    let back = app
        .post(
            "/auth/login",
            json!({ "email": "ada@x.test", "password": GOOD }),
        )
        .await;
    assert_eq!(
        (back.status, back.json()["mfaRequired"].clone()),
        (200, json!(null)),
        "{back:?}"
    );
    let ada = back.signed_in();
    let methods = app.get(&ada.token, "/auth/mfa/methods").await.json();
    assert_eq!(
        methods,
        json!({ "methods": [], "recoveryCodesLeft": 0, "required": false })
    );
    assert_eq!(post.all("mfa_disabled", 1).await[0].to, "ada@x.test");
    let events = app.get(&ada.token, "/auth/activity").await.json();
    assert!(
        events["items"]
            .as_array()
            .unwrap()
            .iter()
            .any(|row| row["event"] == "auth:mfa.disabled"),
        "{events}"
    );
}

/// A thief has seen a recovery code or created new codes, and has a trusted device. Neither the
/// codes nor the trust work after the restoration.
async fn restoring_an_address_removes_later_codes_and_trust(store: Store) {
    let post = Post::default();
    let app = app_with(&store, &post, |auth| {
        changing(auth, &post).configure(|config| config.auth.mfa.trust_device_seconds = 86_400)
    })
    .await;
    let ada = app.register("ada@x.test").await;
    assert_verified(&verify(&app, &post.token("verify_email", 1).await).await);
    let (secret, _) = enrol(&app, &ada).await;
    let code = async || {
        app.advance(30).await;
        code_at(&app, &secret, 0)
    };
    let body = json!({ "email": "thief@x.test", "password": GOOD, "code": code().await });
    assert_eq!(
        app.send(&ada, "POST", "/auth/change-email", body)
            .await
            .status,
        202
    );
    let undo = post.token("email_changed", 1).await;
    assert_verified(&verify(&app, &post.token("verify_new_email", 1).await).await);
    let renewed = app
        .send(
            &ada,
            "POST",
            "/auth/mfa/recovery-codes",
            json!({ "code": code().await }),
        )
        .await;
    let thief_codes = texts(&renewed.json()["recoveryCodes"]);
    let body = json!({ "mfaToken": app.challenged("thief@x.test").await, "code": code().await, "trustDevice": true });
    let device = app.post("/auth/mfa/verify", body).await.text("deviceToken");
    let login_on_device = async |email: &str| {
        let headers = [
            ("content-type", "application/json"),
            ("x-device-token", device.as_str()),
        ];
        app.raw(
            "POST",
            "/auth/login",
            &headers,
            &json!({ "email": email, "password": GOOD }).to_string(),
        )
        .await
        .json()
    };
    assert_eq!(
        login_on_device("thief@x.test").await["mfaRequired"],
        json!(null)
    );

    assert_verified(&verify(&app, &undo).await);
    assert_eq!(
        login_on_device("ada@x.test").await["mfaRequired"],
        json!(true)
    );
    app.verify(&app.challenged("ada@x.test").await, &thief_codes[0])
        .await
        .refused(401, "invalid_code");
    let back = app
        .verify(&app.challenged("ada@x.test").await, &code().await)
        .await;
    assert_eq!(back.status, 200, "{back:?}");
    let methods = app
        .get(&back.signed_in().token, "/auth/mfa/methods")
        .await
        .json();
    assert_eq!(
        (&methods["methods"], &methods["recoveryCodesLeft"]),
        (&json!(["totp"]), &json!(0))
    );
}

/// The mail about the deletion was sent to the other address, so the restore link also cancels the
/// deletion.
async fn restoring_an_address_cancels_a_deletion(store: Store) {
    let post = Post::default();
    let app = store.app_with(|auth| changing(auth, &post)).await;
    let thief = app.register("ada@x.test").await;
    assert_eq!(change(&app, &thief, "thief@x.test").await.status, 202);
    let undo = post.token("email_changed", 1).await;
    assert_verified(&verify(&app, &post.token("verify_new_email", 1).await).await);
    app.advance(1).await;
    assert_eq!(
        app.send(&thief, "DELETE", "/auth/me", json!({ "password": GOOD }))
            .await
            .status,
        202
    );
    assert_verified(&verify(&app, &undo).await);
    assert_eq!(post.all("deletion_cancelled", 1).await[0].to, "ada@x.test");
    let ada = app.login("ada@x.test").await;
    assert_eq!(
        app.me(&ada.token).await.json()["deletionScheduledFor"],
        json!(null)
    );
    app.advance(2 * 604_800).await;
    assert_eq!(login(&app, "ada@x.test").await, 200);
}

/// An earlier passkey is kept; a later one is removed.
async fn restoring_an_address_removes_later_passkeys(store: Store) {
    let post = Post::default();
    let app = store
        .app_with(|auth| with_passkeys(changing(auth, &post)))
        .await;
    let ada = app.register("ada@x.test").await;
    assert_verified(&verify(&app, &post.token("verify_email", 1).await).await);
    let before = app
        .register_passkey(&ada.token, &mut Authenticator::p256())
        .await;
    app.advance(1).await;
    assert_eq!(change(&app, &ada, "thief@x.test").await.status, 202);
    let undo = post.token("email_changed", 1).await;
    assert_verified(&verify(&app, &post.token("verify_new_email", 1).await).await);
    app.register_passkey(&ada.token, &mut Authenticator::p256())
        .await;
    assert_verified(&verify(&app, &undo).await);
    let ada = app.login("ada@x.test").await;
    let kept = app
        .get(&ada.token, "/auth/mfa/webauthn/credentials")
        .await
        .json();
    assert!(
        kept["credentials"]
            .as_array()
            .is_some_and(|all| all.len() == 1)
            && kept.to_string().contains(&before),
        "{kept}"
    );
    assert_eq!(post.all("passkey_removed", 1).await[0].to, "ada@x.test");
}

async fn restoring_an_address_removes_later_providers(store: Store) {
    let post = Post::default();
    let app = oauth::app_with(&store, |auth| changing(auth, &post)).await;
    let thief = app.register("ada@x.test").await;
    assert_eq!(change(&app, &thief, "thief@x.test").await.status, 202);
    let undo = post.token("email_changed", 1).await;
    assert_verified(&verify(&app, &post.token("verify_new_email", 1).await).await);
    app.advance(1).await;
    let flow = StartedFlow::of(
        &app.with(&thief.token, "POST", "/auth/peer/link", None)
            .await,
    );
    let callback = Browser::new().sign_in(&flow.url, "undone").await;
    flow.back(&app, &callback).await;
    assert_eq!(
        app.me(&thief.token).await.json()["providers"],
        json!(["peer"])
    );
    assert_verified(&verify(&app, &undo).await);
    let ada = app.login("ada@x.test").await;
    assert_eq!(app.me(&ada.token).await.json()["providers"], json!([]));
    let events = app.get(&ada.token, "/auth/activity").await.json();
    assert!(
        events["items"]
            .as_array()
            .unwrap()
            .iter()
            .any(|row| row["event"] == "auth:oauth.unlinked"),
        "{events}"
    );
    assert_eq!(post.all("provider_unlinked", 1).await[0].to, "ada@x.test");
}

async fn accounts_with_user_names_change_their_address(store: Store) {
    let post = Post::default();
    let app = store
        .app_with(|auth| changing(auth, &post).primary_field(PrimaryField::Username))
        .await;
    let made = app
        .post(
            "/auth/register",
            json!({ "username": "ada", "email": "ada@x.test", "password": GOOD }),
        )
        .await
        .signed_in();
    assert_eq!(change(&app, &made, "new@x.test").await.status, 202);
    assert_verified(&verify(&app, &post.token("verify_new_email", 1).await).await);
    let me = app.me(&made.token).await;
    assert_eq!(
        (me.text("username"), me.text("email")),
        ("ada".to_owned(), "new@x.test".to_owned())
    );
    assert_eq!(
        app.post(
            "/auth/login",
            json!({ "username": "ada", "password": GOOD })
        )
        .await
        .status,
        200
    );
}
