//! Administration, and its audit.

use linchpin_auth::Auth;
use serde_json::{Value as Json, json};

use crate::between::{At, PausingStore};
use crate::cases;
use crate::email::changing;
use crate::post::Post;
use crate::server::{GOOD, Server, SignedIn, Store};

cases!(
    a_suspension_by_route_ends_sessions,
    roles_changed_by_route_take_effect,
    every_event_is_audited,
    admin_routes_need_the_role_and_a_recent_step_up,
    accounts_are_listed,
    sessions_are_ended,
    a_suspension_voids_mailed_links,
    the_admin_role_must_be_declared,
    the_service_creates_accounts,
);

fn administered(auth: Auth) -> Auth {
    auth.configure(|config| config.auth.admin_role = Some("admin".into()))
}

async fn send(
    app: &Server,
    who: &SignedIn,
    method: &str,
    path: &str,
    body: Option<Json>,
) -> crate::server::Reply {
    app.with(&who.token, method, &format!("/auth/admin{path}"), body)
        .await
}

/// All items, read in pages of two.
async fn pages(app: &Server, who: &SignedIn, path: &str) -> Vec<Json> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    let separator = if path.contains('?') { '&' } else { '?' };
    loop {
        let page = app
            .get(&who.token, &format!("{path}{separator}limit=2{cursor}"))
            .await;
        assert_eq!(page.status, 200, "{page:?}");
        let page = page.json();
        let items = page["items"].as_array().cloned().unwrap();
        assert!(
            items.len() <= 2 && page["hasMore"] == page["nextCursor"].is_string(),
            "{page}"
        );
        all.extend(items);
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return all,
        }
    }
}

fn texts(rows: &[Json], member: &str) -> Vec<String> {
    rows.iter()
        .map(|row| row[member].as_str().unwrap_or_default().to_owned())
        .collect()
}

async fn a_suspension_by_route_ends_sessions(store: Store) {
    let app = store.app_with(administered).await;
    let (root, ada) = (
        app.admin("root@x.test").await,
        app.register("ada@x.test").await,
    );
    assert_eq!(app.me(&ada.token).await.status, 200);
    let path = format!("/users/{}/suspend", ada.id);
    let done = send(
        &app,
        &root,
        "POST",
        &path,
        Some(json!({ "reason": "spam" })),
    )
    .await;
    assert_eq!(
        (done.status, done.json()),
        (
            200,
            json!({ "ok": true, "message": "The account is suspended." })
        )
    );
    app.me(&ada.token).await.refused(401, "unauthorized");
    let login = |password: &str| {
        app.post(
            "/auth/login",
            json!({ "email": "ada@x.test", "password": password }),
        )
    };
    login(GOOD).await.refused(403, "account_suspended");
    login("wrong-otter-91-lamp")
        .await
        .refused(401, "invalid_credentials");
    let listed = pages(&app, &root, "/auth/admin/users?suspended=true").await;
    assert_eq!(
        (
            listed.len(),
            &listed[0]["suspendedReason"],
            &listed[0]["suspended"]
        ),
        (1, &json!("spam"), &json!(true))
    );
    assert!(listed[0]["suspendedAt"].is_string());
    assert_eq!(
        send(
            &app,
            &root,
            "POST",
            &format!("/users/{}/unsuspend", ada.id),
            None
        )
        .await
        .status,
        200
    );
    assert_eq!(login(GOOD).await.status, 200);
    app.me(&ada.token).await.refused(401, "unauthorized");
    // Administrators cannot suspend themselves. A reason is optional and has a maximum length.
    send(
        &app,
        &root,
        "POST",
        &format!("/users/{}/suspend", root.id),
        None,
    )
    .await
    .refused(409, "conflict");
    send(
        &app,
        &root,
        "POST",
        &path,
        Some(json!({ "reason": "x".repeat(501) })),
    )
    .await
    .problem("max_length", "reason");
    send(&app, &root, "POST", "/users/nobody/suspend", None)
        .await
        .refused(404, "not_found");
    send(&app, &root, "POST", "/users/nobody/unsuspend", None)
        .await
        .refused(404, "not_found");
    assert_eq!(send(&app, &root, "POST", &path, None).await.status, 200);
}

/// The last administrator keeps the role, because nobody else could assign it again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_administrator_keeps_the_role() {
    let app = Store::memory().app_with(administered).await;
    let (root, ada) = (
        app.admin("root@x.test").await,
        app.register("ada@x.test").await,
    );
    let put = async |by: &SignedIn, target: &SignedIn, roles: Json| {
        send(
            &app,
            by,
            "PUT",
            &format!("/users/{}/roles", target.id),
            Some(json!({ "roles": roles })),
        )
        .await
    };
    put(&root, &root, json!(["member"]))
        .await
        .refused(409, "conflict");
    assert_eq!(
        put(&root, &ada, json!([])).await.status,
        200,
        "the roles of an account that is not an administrator may be removed"
    );
    assert_eq!(
        app.get(&root.token, "/__test/protected/admin").await.status,
        200
    );
    // A suspended account does not count as another administrator.
    assert_eq!(put(&root, &ada, json!(["admin"])).await.status, 200);
    app.change(&ada.id, json!({ "suspended": true })).await;
    put(&root, &root, json!([])).await.refused(409, "conflict");
    app.change(&ada.id, json!({ "suspended": false })).await;
    let ada = app.login("ada@x.test").await;
    app.prove(&ada).await;
    // Two administrators remove each other's role concurrently: one of them keeps it.
    let (one, other) =
        futures_util::future::join(put(&root, &ada, json!([])), put(&ada, &root, json!([]))).await;
    let statuses = [one.status, other.status];
    assert!(
        statuses.iter().filter(|status| **status == 200).count() == 1,
        "{statuses:?}"
    );
    let statuses_after = [&root, &ada]
        .map(|who| async { app.get(&who.token, "/__test/protected/admin").await.status });
    let statuses_after = futures_util::future::join_all(statuses_after).await;
    assert_eq!(
        statuses_after
            .iter()
            .filter(|status| **status == 200)
            .count(),
        1,
        "{statuses_after:?}"
    );
}

/// The last administrator cannot delete their own account. If two administrators suspend each other
/// concurrently, one of them remains. An administrator with an unverified address does not count.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_administrator_who_can_sign_in_remains() {
    let post = Post::default();
    let (app, between) = PausingStore::app(&Store::memory(), |auth| {
        administered(changing(auth, &post))
            .configure(|config| config.auth.email_verification.required = true)
    })
    .await;
    let admin = async |name: &str| {
        let email = format!("{name}@x.test");
        let seed = json!({ "identifier": email, "password": GOOD, "roles": ["admin"], "emailVerified": true });
        assert_eq!(app.post("/__test/users", seed).await.status, 200);
        let who = app.login(&email).await;
        app.prove(&who).await;
        who
    };
    let (root, ada) = (admin("root").await, admin("ada").await);
    app.change(&ada.id, json!({ "emailVerified": false })).await;
    send(
        &app,
        &root,
        "PUT",
        &format!("/users/{}/roles", root.id),
        Some(json!({ "roles": [] })),
    )
    .await
    .refused(409, "conflict");
    let proof = json!({ "password": GOOD });
    app.send(&root, "DELETE", "/auth/me", proof.clone())
        .await
        .refused(409, "conflict");
    assert_eq!(
        app.me(&root.token).await.json()["deletionScheduledFor"],
        json!(null)
    );
    app.change(&ada.id, json!({ "emailVerified": true })).await;
    let ada = app.login("ada@x.test").await;
    app.prove(&ada).await;
    let suspends = async |by: &SignedIn, target: &SignedIn| {
        send(
            &app,
            by,
            "POST",
            &format!("/users/{}/suspend", target.id),
            None,
        )
        .await
    };
    // Two administrators suspend each other concurrently.
    app.me(&root.token).await;
    let first = async { assert_eq!(suspends(&ada, &root).await.status, 200) };
    between
        .meanwhile(At::any("User", 1), suspends(&root, &ada), first)
        .await
        .refused(409, "conflict");
    assert_eq!(
        app.get(&ada.token, "/__test/protected/admin").await.status,
        200
    );
    app.send(&ada, "DELETE", "/auth/me", proof.clone())
        .await
        .refused(409, "conflict");
    // If there is another administrator, the account may be deleted.
    admin("eve").await;
    assert_eq!(
        app.send(&ada, "DELETE", "/auth/me", proof).await.status,
        202
    );
}

async fn roles_changed_by_route_take_effect(store: Store) {
    let app = store.app_with(administered).await;
    let (root, ada) = (
        app.admin("root@x.test").await,
        app.register("ada@x.test").await,
    );
    app.get(&ada.token, "/__test/protected/admin")
        .await
        .refused(403, "forbidden");
    let path = format!("/users/{}/roles", ada.id);
    let put =
        async |roles: Json| send(&app, &root, "PUT", &path, Some(json!({ "roles": roles }))).await;
    let done = put(json!(["admin", "member"])).await;
    assert_eq!(
        (done.status, done.json()),
        (200, json!({ "roles": ["admin", "member"] }))
    );
    assert_eq!(
        app.get(&ada.token, "/__test/protected/admin").await.status,
        200
    );
    put(json!(["admin", "owner"]))
        .await
        .problem("enum", "roles[1]");
    put(json!(["admin", "admin"]))
        .await
        .problem("duplicate", "roles[1]");
    send(&app, &root, "PUT", &path, Some(json!({})))
        .await
        .problem("required", "roles");
    send(&app, &root, "PUT", &path, None)
        .await
        .problem("required", "roles");
    assert_eq!(
        app.get(&ada.token, "/__test/protected/admin").await.status,
        200,
        "a refused request changes nothing"
    );
    assert_eq!(put(json!([])).await.json(), json!({ "roles": [] }));
    app.get(&ada.token, "/__test/protected/admin")
        .await
        .refused(403, "forbidden");
    send(
        &app,
        &root,
        "PUT",
        "/users/nobody/roles",
        Some(json!({ "roles": [] })),
    )
    .await
    .refused(404, "not_found");
}

async fn every_event_is_audited(store: Store) {
    let post = Post::default();
    let app = store
        .app_with(|auth| administered(post.on(auth)).refresh_tokens())
        .await;
    let (root, ada) = (
        app.admin("root@x.test").await,
        app.register("ada@x.test").await,
    );
    let mut secrets = vec![
        GOOD.to_owned(),
        ada.token.clone(),
        ada.refresh.clone(),
        root.token.clone(),
    ];
    app.post(
        "/auth/login",
        json!({ "email": "ada@x.test", "password": "wrong-otter-91-lamp" }),
    )
    .await
    .refused(401, "invalid_credentials");
    secrets.push("wrong-otter-91-lamp".to_owned());
    let again = app.login("ada@x.test").await;
    let renewed = app
        .post("/auth/refresh", json!({ "refreshToken": again.refresh }))
        .await;
    secrets.extend([
        again.token.clone(),
        again.refresh.clone(),
        renewed.text("token"),
        renewed.text("refreshToken"),
    ]);
    assert_eq!(
        app.post("/auth/forgot-password", json!({ "email": "ada@x.test" }))
            .await
            .status,
        200
    );
    let link = post.token("password_reset", 1).await;
    app.advance(1).await;
    let reset = app
        .post(
            "/auth/reset-password",
            json!({ "token": link, "password": "violet-otter-92-lamp" }),
        )
        .await;
    assert_eq!(reset.status, 200, "{reset:?}");
    secrets.extend([link, "violet-otter-92-lamp".to_owned()]);
    app.me(&ada.token).await.refused(401, "unauthorized");
    let ada = app
        .post(
            "/auth/login",
            json!({ "email": "ada@x.test", "password": "violet-otter-92-lamp" }),
        )
        .await
        .signed_in();

    let own = pages(&app, &ada, "/auth/activity").await;
    let at = texts(&own, "at");
    assert!(at.is_sorted_by(|a, b| a >= b), "{at:?}");
    let mut ids = texts(&own, "id");
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), own.len(), "no row is listed twice");
    let events = texts(&own, "event");
    for event in [
        "auth:user.created",
        "auth:login",
        "auth:login.failed",
        "auth:session.created",
        "auth:session.revoked",
        "auth:password.reset",
    ] {
        assert!(events.iter().any(|e| e == event), "{event} in {events:?}");
    }
    let mut members: Vec<&String> = own[0].as_object().unwrap().keys().collect();
    members.sort();
    assert_eq!(
        members,
        [
            "at",
            "event",
            "id",
            "ipAddress",
            "outcome",
            "sessionId",
            "userAgent"
        ]
    );
    assert!(
        own.iter()
            .any(|row| row["ipAddress"] == "127.0.0.1" && row["outcome"] == "invalid_credentials")
    );
    // A user sees the events of their own account; administrators see the events of all accounts.
    let root_activity = pages(&app, &root, "/auth/activity").await;
    assert!(
        root_activity
            .iter()
            .all(|row| !ids.contains(&row["id"].as_str().unwrap().to_owned()))
    );
    app.prove(&root).await;
    let all = pages(&app, &root, "/auth/admin/audit").await;
    let ada_entries = pages(&app, &root, &format!("/auth/admin/audit?userId={}", ada.id)).await;
    assert_eq!(
        (ada_entries.len(), all.len()),
        (own.len(), own.len() + root_activity.len())
    );
    let failed = pages(&app, &root, "/auth/admin/audit?event=auth:login.failed").await;
    assert_eq!((failed.len(), &failed[0]["userId"]), (1, &json!(ada.id)));
    let (first, last) = (at.last().unwrap(), at.first().unwrap());
    assert_ne!(first, last);
    let before = pages(
        &app,
        &root,
        &format!("/auth/admin/audit?userId={}&to={last}", ada.id),
    )
    .await;
    let since = pages(
        &app,
        &root,
        &format!("/auth/admin/audit?userId={}&from={last}", ada.id),
    )
    .await;
    assert_eq!(before.len() + since.len(), own.len());
    assert!(
        before.iter().all(|row| row["at"] != json!(last))
            && since.iter().all(|row| row["at"] == json!(last))
    );
    let changed = pages(&app, &root, "/auth/admin/audit?event=auth:role.changed").await;
    assert_eq!(
        (changed.len(), &changed[0]["details"]["roles"]),
        (1, &json!(["admin"]))
    );
    let text = json!(all).to_string();
    for secret in secrets.iter().filter(|secret| !secret.is_empty()) {
        assert!(!text.contains(secret.as_str()), "{secret} in {text}");
    }
    app.get(&ada.token, "/auth/activity?cursor=made-up")
        .await
        .refused(400, "invalid_cursor");
    app.get(&ada.token, "/auth/activity?limit=0")
        .await
        .problem("range", "query:limit");
    app.get(&ada.token, "/auth/activity?userId=x")
        .await
        .refused(400, "unknown_parameter");
    app.raw("GET", "/auth/activity", &[], "")
        .await
        .refused(401, "unauthorized");
}

async fn admin_routes_need_the_role_and_a_recent_step_up(store: Store) {
    let app = store.app_with(administered).await;
    let (root, ada) = (
        app.admin("root@x.test").await,
        app.register("ada@x.test").await,
    );
    app.prove(&ada).await;
    let id = &ada.id;
    let routes = [
        ("GET", "/users".to_owned(), None),
        ("GET", "/audit".to_owned(), None),
        ("GET", format!("/users/{id}/sessions"), None),
        ("POST", format!("/users/{id}/unsuspend"), None),
        (
            "PUT",
            format!("/users/{id}/roles"),
            Some(json!({ "roles": ["member"] })),
        ),
        ("POST", format!("/users/{id}/suspend"), Some(json!({}))),
        ("DELETE", format!("/users/{id}/sessions/unknown"), None),
        ("DELETE", format!("/users/{id}/sessions"), None),
    ];
    for (method, path, body) in &routes {
        send(&app, &ada, method, path, body.clone())
            .await
            .refused(403, "forbidden");
        let text = body.as_ref().map(Json::to_string).unwrap_or_default();
        let path = format!("/auth/admin{path}");
        app.raw(
            method,
            &path,
            &[("content-type", "application/json")],
            &text,
        )
        .await
        .refused(401, "unauthorized");
    }
    assert_eq!(
        app.me(&ada.token).await.status,
        200,
        "the account is not suspended"
    );
    // The step-up of an administrator expires; a login alone is not a step-up.
    app.advance(301).await;
    let again = app.login("root@x.test").await;
    for (method, path, body) in &routes {
        send(&app, &root, method, path, body.clone())
            .await
            .refused(403, "step_up_required");
        send(&app, &again, method, path, body.clone())
            .await
            .refused(403, "step_up_required");
    }
    app.stop().await;
    // Without a role for administrators, these routes do not exist.
    let app = store.app().await;
    let eve = app.admin("eve@x.test").await;
    for (method, path, body) in &routes {
        send(&app, &eve, method, path, body.clone())
            .await
            .refused(404, "not_found");
    }
}

async fn accounts_are_listed(store: Store) {
    let app = store.app_with(administered).await;
    let root = app.admin("root@x.test").await;
    for name in ["a", "b", "c", "d"] {
        app.advance(1).await;
        app.register(&format!("{name}@x.test")).await;
    }
    let all = pages(&app, &root, "/auth/admin/users").await;
    assert_eq!(
        texts(&all, "email"),
        [
            "d@x.test",
            "c@x.test",
            "b@x.test",
            "a@x.test",
            "root@x.test"
        ],
        "the newest account is listed first"
    );
    let text = json!(all).to_string();
    assert!(
        !text.contains("argon2")
            && !text.contains("appMetadata")
            && !text.contains("password_hash"),
        "{text}"
    );
    let emails = async |query: &str| {
        texts(
            &pages(&app, &root, &format!("/auth/admin/users?{query}")).await,
            "email",
        )
    };
    assert_eq!(emails("email=B@X.test").await, ["b@x.test"]);
    assert_eq!(emails("role=admin").await, ["root@x.test"]);
    assert_eq!(
        emails("role=member&suspended=false&email=c@x.test").await,
        ["c@x.test"]
    );
    assert!(emails("suspended=true").await.is_empty() && emails("role=nobody").await.is_empty());
    app.get(&root.token, "/auth/admin/users?email=x")
        .await
        .refused(400, "validation_failed");
    app.get(&root.token, "/auth/admin/users?suspended=perhaps")
        .await
        .refused(400, "validation_failed");
}

async fn sessions_are_ended(store: Store) {
    let app = store.app_with(administered).await;
    let (root, ada) = (
        app.admin("root@x.test").await,
        app.register("ada@x.test").await,
    );
    let (one, two) = (app.login("ada@x.test").await, app.login("ada@x.test").await);
    let path = format!("/users/{}/sessions", ada.id);
    let list = send(&app, &root, "GET", &path, None).await.json()["sessions"]
        .as_array()
        .cloned()
        .unwrap();
    assert_eq!(list.len(), 3);
    assert!(list.iter().all(|session| session["current"] == false));
    let first_session = app.me(&one.token).await.text("sessionId");
    let root_session = app.me(&root.token).await.text("sessionId");
    let end =
        async |session: &str| send(&app, &root, "DELETE", &format!("{path}/{session}"), None).await;
    end(&root_session).await.refused(404, "not_found");
    assert_eq!(
        end(&first_session).await.json(),
        json!({ "ok": true, "revoked": 1 })
    );
    end(&first_session).await.refused(404, "not_found");
    app.me(&one.token).await.refused(401, "unauthorized");
    assert_eq!(app.me(&two.token).await.status, 200);
    assert_eq!(
        send(&app, &root, "DELETE", &path, None).await.json(),
        json!({ "ok": true, "revoked": 2 })
    );
    app.me(&two.token).await.refused(401, "unauthorized");
    app.me(&ada.token).await.refused(401, "unauthorized");
    assert_eq!(app.me(&root.token).await.status, 200);
    send(&app, &root, "GET", "/users/nobody/sessions", None)
        .await
        .refused(404, "not_found");
    send(&app, &root, "DELETE", "/users/nobody/sessions", None)
        .await
        .refused(404, "not_found");
}

async fn a_suspension_voids_mailed_links(store: Store) {
    let post = Post::default();
    let app = store
        .app_with(|auth| {
            administered(post.on(auth)).configure(|config| config.auth.magic_link.enabled = true)
        })
        .await;
    let (root, ada) = (
        app.admin("root@x.test").await,
        app.register("ada@x.test").await,
    );
    assert_eq!(
        app.post(
            "/auth/magic-link/request",
            json!({ "identifier": "ada@x.test" })
        )
        .await
        .status,
        200
    );
    let enter = json!({ "token": post.token("magic_link", 1).await });
    assert_eq!(
        app.post("/auth/forgot-password", json!({ "email": "ada@x.test" }))
            .await
            .status,
        200
    );
    let link = post.token("password_reset", 1).await;
    // Unsuspending an account that is not suspended ends nothing.
    assert_eq!(
        send(
            &app,
            &root,
            "POST",
            &format!("/users/{}/unsuspend", ada.id),
            None
        )
        .await
        .status,
        200
    );
    assert_eq!(app.me(&ada.token).await.status, 200);
    let checked = json!({ "token": link, "password": "x" });
    assert_ne!(
        app.post("/auth/reset-password", checked).await.json()["code"],
        "invalid_token"
    );
    assert_eq!(
        send(
            &app,
            &root,
            "POST",
            &format!("/users/{}/suspend", ada.id),
            None
        )
        .await
        .status,
        200
    );
    let suspended_account = async || {
        pages(&app, &root, "/auth/admin/users?suspended=true")
            .await
            .remove(0)
    };
    let suspended_at = suspended_account().await["suspendedAt"].clone();
    // A second suspension changes only the reason: the date stays, and the owner gets no second
    // mail.
    app.advance(60).await;
    app.prove(&root).await;
    for reason in [json!({ "reason": "spam" }), json!({})] {
        assert_eq!(
            send(
                &app,
                &root,
                "POST",
                &format!("/users/{}/suspend", ada.id),
                Some(reason)
            )
            .await
            .status,
            200
        );
        assert_eq!(
            (
                &suspended_account().await["suspendedAt"],
                &suspended_account().await["suspendedReason"]
            ),
            (&suspended_at, &json!("spam"))
        );
    }
    let entries = pages(&app, &root, &format!("/auth/admin/audit?userId={}", ada.id)).await;
    let count_of = |event: &str| entries.iter().filter(|row| row["event"] == event).count();
    assert_eq!(
        (
            count_of("auth:account.suspended"),
            count_of("auth:account.unsuspended")
        ),
        (1, 0)
    );
    let notices = post.all("account_suspended", 1).await;
    assert_eq!((notices.len(), notices[0].to.as_str()), (1, "ada@x.test"));
    let reset = json!({ "token": link, "password": "violet-otter-92-lamp" });
    app.post("/auth/reset-password", reset.clone())
        .await
        .refused(400, "invalid_token");
    app.post("/auth/magic-link/verify", enter.clone())
        .await
        .refused(403, "account_suspended");
    assert_eq!(
        send(
            &app,
            &root,
            "POST",
            &format!("/users/{}/unsuspend", ada.id),
            None
        )
        .await
        .status,
        200
    );
    app.post("/auth/magic-link/verify", enter)
        .await
        .refused(400, "invalid_token");
    app.post("/auth/reset-password", reset)
        .await
        .refused(400, "invalid_token");
}

async fn the_admin_role_must_be_declared(store: Store) {
    let error = store
        .try_app(|auth| auth.configure(|config| config.auth.admin_role = Some("owner".into())))
        .await;
    assert!(
        error
            .err()
            .is_some_and(|error| error.to_string().contains("auth.admin.role"))
    );
}

async fn the_service_creates_accounts(store: Store) {
    let app = store.app_with(administered).await;
    let seed = |body: Json| app.post("/__test/users", body);
    let root = json!({ "identifier": " Root@X.test ", "password": GOOD, "roles": ["admin"], "emailVerified": true });
    let made = seed(root.clone()).await.json();
    assert_eq!(
        (&made["roles"], &made["verified"]),
        (&json!(["admin"]), &json!(true))
    );
    let signed_in = app.login("root@x.test").await;
    assert_eq!(
        (
            json!(signed_in.id),
            app.me(&signed_in.token).await.json()["emailVerified"].clone()
        ),
        (made["id"].clone(), json!(true))
    );
    assert_eq!(
        app.get(&signed_in.token, "/__test/protected/admin")
            .await
            .status,
        200
    );
    seed(root).await.refused(409, "conflict");
    let plain = seed(json!({ "identifier": "ada@x.test", "emailVerified": false }))
        .await
        .json();
    assert_eq!(
        (&plain["roles"], &plain["verified"]),
        (&json!(["member"]), &json!(false))
    );
    // An account without a password refuses every password.
    app.post(
        "/auth/login",
        json!({ "email": "ada@x.test", "password": GOOD }),
    )
    .await
    .refused(401, "invalid_credentials");
    let refused = |password: &str, roles: Json| {
        seed(
            json!({ "identifier": "b@x.test", "password": password, "roles": roles, "emailVerified": false }),
        )
    };
    refused(GOOD, json!(["owner"]))
        .await
        .problem("enum", "roles[0]");
    refused("password123", json!([]))
        .await
        .refused(400, "password_too_common");
    refused("short", json!([]))
        .await
        .problem("min_length", "password");
    seed(json!({ "identifier": "nobody", "emailVerified": false }))
        .await
        .refused(400, "validation_failed");
}
