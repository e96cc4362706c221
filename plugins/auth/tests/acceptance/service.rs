//! What the app's own code may do with accounts (contract 4.9), beside the routes.

use std::sync::Arc;

use linchpin::BoxFuture;
use linchpin_auth::{AuthHooks, AuthService, HookCx, HookError, HookResult, NewUser, SignIn};
use serde_json::json;

use crate::cases;
use crate::post::Post;
use crate::server::{GOOD, Server, Store};

cases!(sessions_of_the_app, what_keeps_owners_out, whom_the_app_turns_away, gone_accounts);

fn service(app: &Server) -> Arc<AuthService> {
    app.provided::<AuthService>()
}

/// A session that code opens is one like any other: listed, ended, and under the account's roles. It signs in no device.
async fn sessions_of_the_app(store: Store) {
    let post = Post::default();
    let app = store.app_with(|auth| post.on(auth)).await;
    let service = service(&app);
    let made = service.create_user(NewUser::new("ada@x.test").password(GOOD).roles(["admin"]).verified()).await.unwrap();
    let token = service.sign_in(&made.id).await.unwrap();
    let me = app.me(token.expose()).await;
    assert_eq!((me.status, me.text("id"), &me.json()["roles"]), (200, made.id.clone(), &json!(["admin"])));
    assert_eq!(app.get(token.expose(), "/__test/protected/admin").await.status, 200);
    app.get(token.expose(), "/__test/protected/step-up").await.refused(403, "step_up_required");

    // The owner's first device is no new one, for all that the app has done; the second is.
    app.login("ada@x.test").await;
    let ada = app.login("ada@x.test").await;
    let sessions = app.get(&ada.token, "/auth/sessions").await.json();
    assert_eq!(sessions["sessions"].as_array().map(Vec::len), Some(3), "{sessions}");
    assert_eq!(post.all("new_device_login", 1).await.len(), 1);

    assert_eq!(service.revoke_sessions(&made.id).await.unwrap(), 3);
    app.me(token.expose()).await.refused(401, "unauthorized");
}

async fn what_keeps_owners_out(store: Store) {
    let post = Post::default();
    let app = store
        .app_with(|auth| {
            post.on(auth).configure(|config| {
                config.auth.email_verification.enabled = true;
                config.auth.email_verification.required = true;
            })
        })
        .await;
    let service = service(&app);
    let code = |done: linchpin::Result<_>| done.map(|_| ()).map_err(|error: linchpin::Error| error.code().as_str());
    assert_eq!(code(service.sign_in("nobody").await), Err("not_found"));
    let made = service.create_user(NewUser::new("ada@x.test")).await.unwrap();
    assert_eq!(code(service.sign_in(&made.id).await), Err("email_not_verified"));
    service.set_email_verified(&made.id, true).await.unwrap();
    assert_eq!(code(service.sign_in(&made.id).await), Ok(()));
    service.suspend(&made.id, None).await.unwrap();
    assert_eq!(code(service.sign_in(&made.id).await), Err("account_suspended"));
}

/// Lets nobody in.
struct Banning;

impl AuthHooks for Banning {
    fn pre_login<'a>(&'a self, _: &'a HookCx, input: &'a SignIn) -> BoxFuture<'a, HookResult> {
        let banned = input.method == "service" && input.user_id.is_some();
        Box::pin(async move { if banned { Err(HookError::new("You are banned").status(403).code("banned")) } else { Ok(()) } })
    }
}

/// Whom `pre_login` turns away, the app's own code does not let in either.
async fn whom_the_app_turns_away(store: Store) {
    let app = store.app_with(|auth| auth.hooks(Banning)).await;
    let ada = app.register("ada@x.test").await;
    let refused = service(&app).sign_in(&ada.id).await.unwrap_err();
    assert_eq!((refused.code().as_str(), refused.message()), ("banned", "You are banned"));
    assert_eq!(app.get(&ada.token, "/auth/sessions").await.json()["sessions"].as_array().map(Vec::len), Some(1));
}

/// An account whose deletion is due is gone for code as well, whether or not it has been removed.
async fn gone_accounts(store: Store) {
    let app = store.app().await;
    let service = service(&app);
    let ada = app.register("ada@x.test").await;
    let scheduled = app.with(&ada.token, "DELETE", "/auth/me", Some(json!({ "password": GOOD }))).await;
    assert_eq!(scheduled.status, 202, "{scheduled:?}");
    assert!(service.account(&ada.id).await.unwrap().is_some());
    app.advance(604_800).await;
    assert!(service.account(&ada.id).await.unwrap().is_none() && service.account_by_identifier("ada@x.test").await.unwrap().is_none());
    assert!(service.sign_in(&ada.id).await.is_err());
}
