//! Access of the app's code to accounts, by `AuthService`.

use std::sync::Arc;

use linchpin::BoxFuture;
use linchpin_auth::{
    AccountQuery, AuditQuery, AuthHooks, AuthService, HookCx, HookError, HookResult, NewUser,
    SignIn,
};
use serde_json::json;

use crate::cases;
use crate::post::Post;
use crate::server::{GOOD, Server, Store};

cases!(
    the_service_reads_accounts_sessions_and_the_audit,
    app_metadata_is_invisible_to_users,
    the_service_opens_sessions,
    the_service_opens_no_session_for_a_restricted_account,
    the_service_obeys_a_refusal_of_pre_login,
    accounts_that_are_due_for_deletion_are_not_returned
);

fn service(app: &Server) -> Arc<AuthService> {
    app.provided::<AuthService>()
}

/// The service returns everything that administrators can read by routes.
async fn the_service_reads_accounts_sessions_and_the_audit(store: Store) {
    let app = store.app().await;
    let service = service(&app);
    for name in ["a", "b", "c"] {
        app.register(&format!("{name}@x.test")).await;
    }
    let ada = service
        .account_by_identifier("a@x.test")
        .await
        .unwrap()
        .unwrap();
    service.suspend(&ada.id, None).await.unwrap();
    let emails = async |query: AccountQuery| {
        let page = service.accounts(query).await.unwrap();
        let mut emails: Vec<String> = page
            .items
            .into_iter()
            .filter_map(|account| account.email)
            .collect();
        emails.sort();
        (emails.join(" "), page.next_cursor)
    };
    assert_eq!(
        emails(AccountQuery::default()).await,
        ("a@x.test b@x.test c@x.test".to_owned(), None)
    );
    assert_eq!(
        emails(AccountQuery {
            suspended: Some(true),
            ..Default::default()
        })
        .await
        .0,
        "a@x.test"
    );
    assert_eq!(
        emails(AccountQuery {
            suspended: Some(false),
            ..Default::default()
        })
        .await
        .0,
        "b@x.test c@x.test"
    );
    assert_eq!(
        emails(AccountQuery {
            email: Some("B@x.test".into()),
            ..Default::default()
        })
        .await
        .0,
        "b@x.test"
    );
    assert_eq!(
        emails(AccountQuery {
            role: Some("admin".into()),
            ..Default::default()
        })
        .await
        .0,
        ""
    );
    let (first, cursor) = emails(AccountQuery {
        limit: Some(2),
        ..Default::default()
    })
    .await;
    let (last, end) = emails(AccountQuery {
        cursor,
        ..Default::default()
    })
    .await;
    assert_eq!(
        (first.split(' ').count() + last.split(' ').count(), end),
        (3, None)
    );
    assert_eq!(
        service
            .accounts(AccountQuery {
                email: Some("x".into()),
                ..Default::default()
            })
            .await
            .unwrap_err()
            .details()[0]
            .path,
        "email"
    );
    assert_eq!(
        service
            .accounts(AccountQuery {
                cursor: Some("x".into()),
                ..Default::default()
            })
            .await
            .unwrap_err()
            .code()
            .status(),
        400
    );

    let bob = app.login("b@x.test").await;
    let sessions = service.sessions(&bob.id).await.unwrap();
    assert_eq!(
        (sessions.len(), sessions[0].ip.as_deref(), &sessions[0].amr),
        (2, Some("127.0.0.1"), &vec!["pwd".to_owned()])
    );
    let own = app.get(&bob.token, "/auth/sessions").await.json()["sessions"]
        .as_array()
        .unwrap()
        .clone();
    let own = own
        .iter()
        .find(|session| session["current"] == true)
        .unwrap()["sessionId"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        service.revoke_session(&ada.id, &own).await.is_err(),
        "the session belongs to another account"
    );
    service.revoke_session(&bob.id, &own).await.unwrap();
    app.me(&bob.token).await.refused(401, "unauthorized");
    assert_eq!(
        service
            .revoke_session(&bob.id, &own)
            .await
            .unwrap_err()
            .code(),
        linchpin::Code::NotFound
    );
    assert!(service.sessions(&ada.id).await.unwrap().is_empty());

    let ada_query = AuditQuery {
        user_id: Some(ada.id.clone()),
        ..Default::default()
    };
    let events: Vec<String> = service
        .audit(ada_query.clone())
        .await
        .unwrap()
        .items
        .into_iter()
        .map(|entry| entry.event)
        .collect();
    assert!(
        events.contains(&"auth:account.suspended".to_owned())
            && events.contains(&"auth:user.created".to_owned()),
        "{events:?}"
    );
    let made = service
        .audit(AuditQuery {
            event: Some("auth:user.created".into()),
            ..ada_query.clone()
        })
        .await
        .unwrap()
        .items;
    assert_eq!(
        (made.len(), &made[0].details),
        (1, &Some(json!({ "method": "password" })))
    );
    assert!(
        service
            .audit(AuditQuery {
                to: Some(made[0].at),
                ..ada_query.clone()
            })
            .await
            .unwrap()
            .items
            .is_empty()
    );
    assert_eq!(
        service
            .audit(AuditQuery {
                from: Some(made[0].at),
                limit: Some(1),
                ..ada_query
            })
            .await
            .unwrap()
            .items
            .len(),
        1
    );
}

/// The app's own data of an account is invisible to users.
async fn app_metadata_is_invisible_to_users(store: Store) {
    let app = store.app().await;
    let service = service(&app);
    let mut new = NewUser::new("ada@x.test").password(GOOD);
    new.app_metadata = Some(json!({ "customer": "c-17" }));
    let made = service.create_user(new).await.unwrap();
    assert_eq!(made.app_metadata, Some(json!({ "customer": "c-17" })));
    let ada = app.login("ada@x.test").await;
    assert!(!app.me(&ada.token).await.json().to_string().contains("c-17"));
    app.with(
        &ada.token,
        "PATCH",
        "/auth/me",
        Some(json!({ "appMetadata": {} })),
    )
    .await
    .problem("unknown_field", "appMetadata");
    service
        .set_app_metadata(&ada.id, Some(json!({ "customer": "c-18" })))
        .await
        .unwrap();
    assert_eq!(
        service
            .account(&ada.id)
            .await
            .unwrap()
            .unwrap()
            .app_metadata,
        Some(json!({ "customer": "c-18" }))
    );
    assert_eq!(
        service
            .set_app_metadata(&ada.id, None)
            .await
            .unwrap()
            .app_metadata,
        None
    );
    assert!(service.set_app_metadata("nobody", None).await.is_err());
}

/// A session that the service opens is listed, can be ended, and has the account's roles, like any
/// other session. It does not count as a sign-in of a device.
async fn the_service_opens_sessions(store: Store) {
    let post = Post::default();
    let app = store.app_with(|auth| post.on(auth)).await;
    let service = service(&app);
    let made = service
        .create_user(
            NewUser::new("ada@x.test")
                .password(GOOD)
                .roles(["admin"])
                .verified(),
        )
        .await
        .unwrap();
    let token = service.sign_in(&made.id).await.unwrap();
    let me = app.me(token.expose()).await;
    assert_eq!(
        (me.status, me.text("id"), &me.json()["roles"]),
        (200, made.id.clone(), &json!(["admin"]))
    );
    assert_eq!(
        app.get(token.expose(), "/__test/protected/admin")
            .await
            .status,
        200
    );
    app.get(token.expose(), "/__test/protected/step-up")
        .await
        .refused(403, "step_up_required");

    // Only the second of these two sign-ins causes a mail about a new device. The session of the
    // service does not count as a device.
    app.login("ada@x.test").await;
    let ada = app.login("ada@x.test").await;
    let sessions = app.get(&ada.token, "/auth/sessions").await.json();
    assert_eq!(
        sessions["sessions"].as_array().map(Vec::len),
        Some(3),
        "{sessions}"
    );
    post.only("new_device_login", 1).await;

    assert_eq!(service.revoke_sessions(&made.id).await.unwrap(), 3);
    app.me(token.expose()).await.refused(401, "unauthorized");
}

async fn the_service_opens_no_session_for_a_restricted_account(store: Store) {
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
    let code = |done: linchpin::Result<_>| {
        done.map(|_| ())
            .map_err(|error: linchpin::Error| error.code().as_str())
    };
    assert_eq!(code(service.sign_in("nobody").await), Err("not_found"));
    let made = service
        .create_user(NewUser::new("ada@x.test"))
        .await
        .unwrap();
    assert_eq!(
        code(service.sign_in(&made.id).await),
        Err("email_not_verified")
    );
    service.set_email_verified(&made.id, true).await.unwrap();
    assert_eq!(code(service.sign_in(&made.id).await), Ok(()));
    service.suspend(&made.id, None).await.unwrap();
    assert_eq!(
        code(service.sign_in(&made.id).await),
        Err("account_suspended")
    );
}

/// Refuses every sign-in by the service.
struct BanningHooks;

impl AuthHooks for BanningHooks {
    fn pre_login<'a>(&'a self, _: &'a HookCx, input: &'a SignIn) -> BoxFuture<'a, HookResult> {
        let banned = input.method == "service" && input.user_id.is_some();
        Box::pin(async move {
            if banned {
                Err(HookError::new("You are banned").status(403).code("banned"))
            } else {
                Ok(())
            }
        })
    }
}

/// The service opens no session if `pre_login` refuses it.
async fn the_service_obeys_a_refusal_of_pre_login(store: Store) {
    let app = store.app_with(|auth| auth.hooks(BanningHooks)).await;
    let ada = app.register("ada@x.test").await;
    let refused = service(&app).sign_in(&ada.id).await.unwrap_err();
    assert_eq!(
        (refused.code().as_str(), refused.message()),
        ("banned", "You are banned")
    );
    assert_eq!(
        app.get(&ada.token, "/auth/sessions").await.json()["sessions"]
            .as_array()
            .map(Vec::len),
        Some(1)
    );
}

/// The service does not return an account whose deletion is due, even if it is not removed yet.
async fn accounts_that_are_due_for_deletion_are_not_returned(store: Store) {
    let app = store.app().await;
    let service = service(&app);
    let ada = app.register("ada@x.test").await;
    let scheduled = app
        .with(
            &ada.token,
            "DELETE",
            "/auth/me",
            Some(json!({ "password": GOOD })),
        )
        .await;
    assert_eq!(scheduled.status, 202, "{scheduled:?}");
    assert!(service.account(&ada.id).await.unwrap().is_some());
    app.advance(604_800).await;
    assert!(
        service.account(&ada.id).await.unwrap().is_none()
            && service
                .account_by_identifier("ada@x.test")
                .await
                .unwrap()
                .is_none()
    );
    assert!(service.sign_in(&ada.id).await.is_err());
}
