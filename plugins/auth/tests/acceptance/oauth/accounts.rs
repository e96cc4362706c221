//! The account of a provider sign-in, and linking and unlinking of providers.

use linchpin_auth::Linking;
use serde_json::json;

use super::{app, app_with, unique_number};
use crate::issuer::{Browser, Peer, StartedFlow, callback_parameter, enter};
use crate::post::Post;
use crate::server::{GOOD, Reply, Server, Store};

pub(super) async fn a_provider_does_not_take_over_an_existing_account(store: Store) {
    let post = Post::default();
    let peer = Peer::shared();
    let id = format!("ex{}", unique_number());
    let email = format!("{id}@x.test");
    peer.account(&id, Some(&email), true).await;
    let app = app_with(&store, |auth| post.on(auth)).await;
    let owner = app.register(&email).await;
    let flow = StartedFlow::from(&app, "/auth/peer").await;
    let callback = Browser::new().sign_in(&flow.url, &id).await;
    assert_eq!(
        flow.back(&app, &callback).await.header("location"),
        "/?error=account_exists"
    );
    assert_eq!(app.me(&owner.token).await.json()["providers"], json!([]));
    assert_eq!(post.all("existing_account", 1).await[0].to, email);
    // The account is unchanged.
    assert_eq!(app.login(&email).await.id, owner.id);
    // An unverified address is not used, whether or not an account has it.
    peer.account(&id, Some(&email), false).await;
    for _ in 0..2 {
        let flow = StartedFlow::from(&app, "/auth/peer").await;
        let callback = Browser::new().sign_in(&flow.url, &id).await;
        assert_eq!(
            flow.back(&app, &callback).await.header("location"),
            "/?error=email_not_verified"
        );
        peer.account(&id, Some(&format!("new-{email}")), false)
            .await;
    }
    peer.account(&id, None, false).await;
    let flow = StartedFlow::from(&app, "/auth/peer").await;
    let callback = Browser::new().sign_in(&flow.url, &id).await;
    assert_eq!(
        flow.back(&app, &callback).await.header("location"),
        "/?error=email_required"
    );
}

pub(super) async fn verified_linking_needs_two_verified_addresses(store: Store) {
    let post = Post::default();
    let peer = Peer::shared();
    let (id, new_id) = (
        format!("li{}", unique_number()),
        format!("pl{}", unique_number()),
    );
    let email = format!("{id}@peer.test");
    let app = store
        .app_with(|auth| {
            let auth = peer.with(post.on(auth), "peer", |mut provider| {
                provider.trust_email = Some(true);
                provider
            });
            peer.with(auth, "other", |provider| provider)
                .configure(|config| config.auth.oauth.linking = Linking::Verified)
        })
        .await;
    app.to_the_present().await;
    let owner = app.register(&email).await;
    let arrive = async |provider: &str, login: &str| {
        let flow = StartedFlow::from(&app, &format!("/auth/{provider}")).await;
        let callback = Browser::new().sign_in(&flow.url, login).await;
        flow.back(&app, &callback).await
    };
    // A provider is not linked to an account whose address is unverified in the app. A provider
    // whose addresses are not trusted is not linked either.
    assert_eq!(
        callback_parameter(&arrive("peer", &id).await, "error"),
        "account_exists"
    );
    app.change(&owner.id, json!({ "emailVerified": true }))
        .await;
    assert_eq!(
        callback_parameter(&arrive("other", &id).await, "error"),
        "account_exists"
    );
    peer.account(&id, Some(&email), false).await;
    assert_eq!(
        callback_parameter(&arrive("peer", &id).await, "error"),
        "email_not_verified"
    );
    peer.account(&id, Some(&email), true).await;
    let done = enter(&app, "peer", &id).await;
    assert_eq!((done.status, done.text("userId")), (200, owner.id.clone()));
    assert_eq!(
        app.me(&owner.token).await.json()["providers"],
        json!(["peer"])
    );
    let mail = &post.all("provider_linked", 1).await[0];
    assert!(
        mail.to == email && mail.text.contains("with peer"),
        "{mail:?}"
    );
    assert_eq!(post.count("provider_linked"), 1);
    // An address that a trusted provider has verified counts as verified in the new account.
    assert_eq!(
        enter(&app, "peer", &new_id).await.json()["emailVerified"],
        json!(true)
    );
}

pub(super) async fn an_account_links_a_provider(store: Store) {
    let post = Post::default();
    let app = app_with(&store, |auth| {
        post.on(auth)
            .configure(|config| config.auth.admin_role = Some("admin".into()))
    })
    .await;
    let ada = app.register("ada@x.test").await;
    let (first, second) = (
        format!("l1{}", unique_number()),
        format!("l2{}", unique_number()),
    );
    let link = async |token: &str| {
        app.with(token, "POST", "/auth/peer/link?returnTo=/settings", None)
            .await
    };
    app.raw("POST", "/auth/peer/link", &[], "")
        .await
        .refused(401, "unauthorized");
    let flow = StartedFlow::of(&link(&ada.token).await);
    let callback = Browser::new().sign_in(&flow.url, &first).await;
    assert_eq!(
        flow.back(&app, &callback).await.header("location"),
        "/settings?linked=peer"
    );
    assert_eq!(
        app.me(&ada.token).await.json()["providers"],
        json!(["peer"])
    );
    assert_eq!(post.all("provider_linked", 1).await[0].to, "ada@x.test");
    // A repetition gets the same response and changes nothing. Another account of the same provider
    // is refused.
    let again = async |token: &str, login: &str| {
        let flow = StartedFlow::of(&link(token).await);
        let callback = Browser::new().sign_in(&flow.url, login).await;
        flow.back(&app, &callback).await.header("location")
    };
    assert_eq!(again(&ada.token, &first).await, "/settings?linked=peer");
    assert_eq!(
        again(&ada.token, &second).await,
        "/settings?error=already_linked"
    );
    let bob = app.register("bob@x.test").await;
    assert_eq!(
        again(&bob.token, &first).await,
        "/settings?error=already_linked"
    );
    assert_eq!(app.me(&bob.token).await.json()["providers"], json!([]));
    assert_eq!(post.count("provider_linked"), 1);
    // Administrators see the linked providers.
    let root = app.admin("root@x.test").await;
    let listed = app
        .get(&root.token, "/auth/admin/users?role=member")
        .await
        .json();
    let providers = |of: &str| {
        listed["items"]
            .as_array()
            .unwrap()
            .iter()
            .find(|account| account["id"] == of)
            .unwrap()["providers"]
            .clone()
    };
    assert_eq!(
        (providers(&ada.id), providers(&bob.id)),
        (json!(["peer"]), json!([]))
    );
    // The provider signs in to the linked account, although its address is different.
    assert_eq!(enter(&app, "peer", &first).await.text("userId"), ada.id);
    // The link is refused if its session has ended or its user was suspended.
    let flow = StartedFlow::of(&link(&bob.token).await);
    let callback = Browser::new().sign_in(&flow.url, &second).await;
    assert_eq!(
        app.with(&bob.token, "POST", "/auth/logout", None)
            .await
            .status,
        200
    );
    flow.back(&app, &callback)
        .await
        .refused(400, "invalid_state");
    let bob = app.login("bob@x.test").await;
    let flow = StartedFlow::of(&link(&bob.token).await);
    let callback = Browser::new().sign_in(&flow.url, &second).await;
    app.change(&bob.id, json!({ "suspended": true })).await;
    flow.back(&app, &callback)
        .await
        .refused(400, "invalid_state");
    app.change(&bob.id, json!({ "suspended": false })).await;
    // A link needs a recent sign-in.
    app.advance(901).await;
    link(&ada.token).await.refused(403, "step_up_required");
}

pub(super) async fn the_last_way_to_sign_in_is_not_unlinked(store: Store) {
    let post = Post::default();
    let peer = Peer::shared();
    let app = store
        .app_with(|auth| {
            peer.with(
                peer.with(post.on(auth), "peer", |peer| peer),
                "other",
                |other| other,
            )
        })
        .await;
    app.to_the_present().await;
    let id = format!("un{}", unique_number());
    let unlink = async |token: &str, provider: &str, body: serde_json::Value| {
        app.with(
            token,
            "DELETE",
            &format!("/auth/{provider}/link"),
            Some(body),
        )
        .await
    };
    // The provider is the only way to sign in. A recent sign-in is a sufficient proof, but the last
    // way to sign in cannot be removed.
    let only = enter(&app, "peer", &id).await.text("token");
    unlink(&only, "other", json!({}))
        .await
        .refused(404, "not_found");
    unlink(&only, "peer", json!({}))
        .await
        .refused(409, "last_credential");
    app.advance(301).await;
    unlink(&only, "peer", json!({}))
        .await
        .refused(403, "step_up_required");
    assert_eq!(set_password(&app, &only).await.status, 200);
    // An account with a password needs the password as the proof.
    unlink(&only, "peer", json!({}))
        .await
        .refused(403, "step_up_required");
    unlink(&only, "peer", json!({ "password": "wrong-wrong-wrong" }))
        .await
        .refused(401, "invalid_credentials");
    unlink(&only, "peer", json!({ "passwords": GOOD }))
        .await
        .problem("unknown_field", "passwords");
    app.raw("DELETE", "/auth/peer/link", &[], "")
        .await
        .refused(401, "unauthorized");
    assert_eq!(app.me(&only).await.json()["providers"], json!(["peer"]));
    let done = unlink(&only, "peer", json!({ "password": GOOD })).await;
    assert_eq!(
        (done.status, done.json()),
        (
            200,
            json!({ "ok": true, "message": "The provider was unlinked." })
        )
    );
    assert_eq!(app.me(&only).await.json()["providers"], json!([]));
    let mail = &post.all("provider_unlinked", 1).await[0];
    assert!(
        mail.to == format!("{id}@peer.test") && mail.text.contains("with peer"),
        "{mail:?}"
    );
    unlink(&only, "peer", json!({ "password": GOOD }))
        .await
        .refused(404, "not_found");
    let flow = StartedFlow::from(&app, "/auth/peer").await;
    let callback = Browser::new().sign_in(&flow.url, &id).await;
    assert_eq!(
        callback_parameter(&flow.back(&app, &callback).await, "error"),
        "account_exists"
    );
    let events = app.get(&only, "/auth/activity").await.json();
    assert!(
        events["items"]
            .as_array()
            .unwrap()
            .iter()
            .any(|event| event["event"] == "auth:oauth.unlinked"),
        "{events}"
    );
}

pub(super) async fn an_account_of_a_provider_sets_its_first_password(store: Store) {
    let app = app(&store).await;
    let (id, late) = (
        format!("pw{}", unique_number()),
        format!("pw{}", unique_number()),
    );
    let done = enter(&app, "peer", &id).await;
    let late = enter(&app, "peer", &late).await.text("token");
    app.post(
        "/auth/login",
        json!({ "email": format!("{id}@peer.test"), "password": GOOD }),
    )
    .await
    .refused(401, "invalid_credentials");
    app.advance(900).await;
    assert_eq!(set_password(&app, &done.text("token")).await.status, 200);
    assert_eq!(
        app.login(&format!("{id}@peer.test")).await.id,
        done.text("userId")
    );
    app.advance(1).await;
    set_password(&app, &late)
        .await
        .refused(403, "step_up_required");
}

pub(super) async fn a_provider_does_not_replace_the_second_factor(store: Store) {
    let app = app_with(&store, |auth| {
        auth.configure(|config| config.auth.mfa.enabled = true)
    })
    .await;
    let id = format!("mf{}", unique_number());
    let first = enter(&app, "peer", &id).await.signed_in();
    let (secret, _) = crate::factor::enrol(&app, &first).await;
    app.advance(30).await;
    let challenged = enter(&app, "peer", &id).await;
    let body = challenged.json();
    assert_eq!(
        (challenged.status, &body["token"], &body["mfaRequired"]),
        (200, &json!(""), &json!(true)),
        "{body}"
    );
    assert_eq!(
        (&body["mfaMethods"], challenged.headers.get("set-cookie")),
        (&json!(["totp"]), None)
    );
    let code = crate::factor::code_at(&app, &secret, 0);
    let done = app
        .post(
            "/auth/mfa/verify",
            json!({ "mfaToken": body["mfaToken"], "code": code }),
        )
        .await;
    assert_eq!((done.status, done.text("userId")), (200, first.id));
    let sessions = app.get(&done.text("token"), "/auth/sessions").await.json();
    let own = sessions["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .find(|session| session["current"] == true)
        .unwrap();
    assert_eq!(own["amr"], json!(["fed", "otp", "mfa"]));
}

/// After an account is deleted, a sign-in with the same provider identity creates a new account,
/// without any link of the deleted one.
pub(super) async fn a_deleted_account_leaves_no_link(store: Store) {
    let app = app_with(&store, |auth| {
        auth.configure(|config| config.auth.account_deletion.grace_seconds = 120)
    })
    .await;
    let id = format!("de{}", unique_number());
    let first = enter(&app, "peer", &id).await;
    let scheduled = app
        .with(&first.text("token"), "DELETE", "/auth/me", Some(json!({})))
        .await;
    assert_eq!(scheduled.status, 202, "{scheduled:?}");
    // Before the deletion, the user signs in to the account that is scheduled for deletion.
    let again = enter(&app, "peer", &id).await;
    assert_eq!(
        (
            again.text("userId"),
            again.json()["deletionScheduledFor"].is_string()
        ),
        (first.text("userId"), true)
    );
    app.with(&again.text("token"), "POST", "/auth/peer/link", None)
        .await
        .refused(403, "deletion_scheduled");
    app.advance(121).await;
    let new = enter(&app, "peer", &id).await;
    assert_eq!(new.status, 200, "{new:?}");
    assert_ne!(new.text("userId"), first.text("userId"));
    assert_eq!(
        app.me(&new.text("token")).await.json()["providers"],
        json!(["peer"])
    );
}

pub(super) async fn set_password(app: &Server, token: &str) -> Reply {
    app.with(
        token,
        "POST",
        "/auth/set-password",
        Some(json!({ "password": GOOD })),
    )
    .await
}
