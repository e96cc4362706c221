//! Credentials of connections that live longer than a request.

use std::sync::{Arc, OnceLock};

use futures_util::FutureExt as _;
use linchpin::axum::http::header::{AUTHORIZATION, COOKIE};
use linchpin::axum::http::{HeaderMap, HeaderName, HeaderValue};
use linchpin::http::{CredentialChange, CredentialPlace, CredentialUse, Credentials};
use linchpin::{BoxFuture, Plugin, PostCx, Result};
use serde_json::json;

use crate::cases;
use crate::processes::{TestBus, with_cache};
use crate::server::{Server, Store};

cases! {
    every_store: a_changed_account_is_published_and_reread, an_ended_session_is_no_longer_valid;
    one_store:
        the_bus_publishes_changes_of_other_processes,
        a_check_does_not_extend_an_idle_session,
        the_first_credential_place_of_a_request_is_used;
}

/// A plugin that stores the app's [`Credentials`], like a plugin with sockets.
#[derive(Clone, Default)]
struct Sockets(Arc<OnceLock<Arc<dyn Credentials>>>);

impl Plugin for Sockets {
    fn name(&self) -> &'static str {
        "sockets"
    }

    fn setup_post<'a>(&'a self, cx: &'a mut PostCx) -> BoxFuture<'a, Result<()>> {
        let credentials = cx.credentials().cloned().expect("an auth plugin");
        assert!(self.0.set(credentials).is_ok());
        Box::pin(async { Ok(()) })
    }
}

async fn start(
    store: &Store,
    change: impl FnOnce(linchpin_auth::Auth) -> linchpin_auth::Auth,
) -> (Server, Arc<dyn Credentials>) {
    let sockets = Sockets::default();
    let app = store.with_plugin(sockets.clone(), change).await;
    let credentials = sockets.0.get().cloned().unwrap();
    (app, credentials)
}

async fn a_changed_account_is_published_and_reread(store: Store) {
    let (app, credentials) = start(&store, |auth| auth).await;
    let (ada, bob) = (
        app.register("ada@x.test").await,
        app.register("bob@x.test").await,
    );
    let mut changes = credentials.changes();
    let first = credentials.of_token(&ada.token).await.unwrap().unwrap();
    let bob_credential = credentials.of_token(&bob.token).await.unwrap().unwrap();
    assert_eq!(first.actor.id.as_deref(), Some(&*ada.id));
    assert!(first.actor.session_id.is_some() && first.expires_at.is_some());
    assert!(!first.is_of_same_caller(&bob_credential));
    let same = credentials
        .again(&first, CredentialUse::Activity)
        .await
        .unwrap()
        .unwrap();
    assert!(
        Arc::ptr_eq(&same.actor, &first.actor),
        "nothing has changed"
    );
    assert!(changes.next().now_or_never().is_none());

    app.change(&ada.id, json!({ "roles": ["admin"] })).await;
    assert_eq!(
        changes.next().await,
        CredentialChange::User(ada.id.as_str().into())
    );
    let now = credentials
        .again(&first, CredentialUse::Check)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(now.actor.roles, ["admin"]);
    assert!(now.is_of_same_caller(&first));

    app.change(&ada.id, json!({ "suspended": true })).await;
    assert_eq!(
        changes.next().await,
        CredentialChange::User(ada.id.as_str().into())
    );
    for earlier in [&first, &now] {
        let ended = credentials.again(earlier, CredentialUse::Activity).await;
        assert!(ended.unwrap().is_none());
    }
    assert!(credentials.of_token(&ada.token).await.unwrap().is_none());
    let others = credentials
        .again(&bob_credential, CredentialUse::Activity)
        .await;
    assert!(
        others.unwrap().is_some(),
        "the session of another account stays valid"
    );
}

async fn an_ended_session_is_no_longer_valid(store: Store) {
    let (app, credentials) = start(&store, linchpin_auth::Auth::refresh_tokens).await;
    let ada = app.register("ada@x.test").await;
    let other_login = app.login("ada@x.test").await;
    let one = credentials.of_token(&ada.token).await.unwrap().unwrap();
    let other = credentials
        .of_token(&other_login.token)
        .await
        .unwrap()
        .unwrap();

    // The token expires before its session does.
    let left = one.expires_at.unwrap().millis() / 1000 - app.now_seconds();
    app.advance(left + 60).await;
    assert!(credentials.of_token(&ada.token).await.unwrap().is_none());
    let still_valid = credentials.again(&one, CredentialUse::Check).await.unwrap();
    assert!(still_valid.is_some_and(|again| again.expires_at == one.expires_at));

    let renewed = app
        .post("/auth/refresh", json!({ "refreshToken": ada.refresh }))
        .await
        .signed_in();
    let newer = credentials.of_token(&renewed.token).await.unwrap().unwrap();
    assert!(newer.is_of_same_caller(&one) && newer.expires_at > one.expires_at);
    let mut changes = credentials.changes();
    let out = app.with(&renewed.token, "POST", "/auth/logout", None).await;
    assert!(out.status < 300, "{out:?}");
    assert_eq!(
        changes.next().await,
        CredentialChange::User(ada.id.as_str().into())
    );
    for ended in [&one, &newer] {
        let again = credentials.again(ended, CredentialUse::Check).await;
        assert!(again.unwrap().is_none());
    }
    let still_valid = credentials.again(&other, CredentialUse::Check).await;
    assert!(
        still_valid.unwrap().is_some(),
        "the other session stays valid"
    );
}

async fn the_bus_publishes_changes_of_other_processes(store: Store) {
    let test_bus = TestBus::new();
    let with_bus = |auth| with_cache(auth, Some(Arc::new(test_bus.clone())));
    let one = store.app_with(with_bus).await;
    let (_two, credentials) = start(&store, with_bus).await;
    test_bus.wait_for_listeners(2).await;
    let ada = one.register("ada@x.test").await;
    let first = credentials.of_token(&ada.token).await.unwrap().unwrap();
    let mut changes = credentials.changes();
    let out = one.with(&ada.token, "POST", "/auth/logout", None).await;
    assert!(out.status < 300, "{out:?}");
    assert_eq!(
        changes.next().await,
        CredentialChange::User(ada.id.as_str().into())
    );
    let ended = credentials.again(&first, CredentialUse::Check).await;
    assert!(ended.unwrap().is_none());
}

async fn a_check_does_not_extend_an_idle_session(store: Store) {
    let (app, credentials) = start(&store, |auth| {
        auth.configure(|config| config.auth.session.idle_seconds = 60)
    })
    .await;
    for (used, still_valid) in [
        (CredentialUse::Check, false),
        (CredentialUse::Activity, true),
    ] {
        let email = format!("{still_valid}@x.test");
        let who = app.register(&email).await;
        let first = credentials.of_token(&who.token).await.unwrap().unwrap();
        app.advance(40).await;
        assert!(credentials.again(&first, used).await.unwrap().is_some());
        app.advance(40).await;
        let later = credentials.again(&first, CredentialUse::Check).await;
        assert_eq!(later.unwrap().is_some(), still_valid, "{used:?}");
    }
}

async fn the_first_credential_place_of_a_request_is_used(store: Store) {
    let (app, credentials) = start(&store, |auth| auth).await;
    let ada = app.register("ada@x.test").await;
    let good = format!("Bearer {}", ada.token);
    let cookie = format!("__Host-token={}", ada.token);
    const USER_TOKEN: HeaderName = HeaderName::from_static("x-user-token");
    let header = Some(CredentialPlace::Header);
    for (sent, place, is_good) in [
        (vec![], None, false),
        (vec![(AUTHORIZATION, &*good)], header, true),
        (vec![(USER_TOKEN, &*ada.token)], header, true),
        (
            vec![(COOKIE, &*cookie)],
            Some(CredentialPlace::Cookie),
            true,
        ),
        (
            vec![(COOKIE, &*cookie), (COOKIE, &*cookie)],
            Some(CredentialPlace::Cookie),
            false,
        ),
        (
            vec![(AUTHORIZATION, "Bearer bad"), (COOKIE, &*cookie)],
            header,
            false,
        ),
        (
            vec![(AUTHORIZATION, &*good), (AUTHORIZATION, &*good)],
            header,
            false,
        ),
    ] {
        let mut headers = HeaderMap::new();
        for (name, value) in &sent {
            headers.append(name, HeaderValue::from_str(value).unwrap());
        }
        assert_eq!(credentials.presented(&headers), place, "{sent:?}");
        let found = credentials.of_headers(&headers).await.unwrap();
        assert_eq!(found.is_some(), is_good, "{sent:?}");
    }
    // The credential of a program does not expire.
    let program = credentials
        .of_token("what-removes-the-notes-of-this-testbed")
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (program.actor.id.as_deref(), program.expires_at),
        (Some("remover"), None)
    );
    let again = credentials.again(&program, CredentialUse::Activity).await;
    assert!(
        again
            .unwrap()
            .is_some_and(|again| again.is_of_same_caller(&program))
    );
}
