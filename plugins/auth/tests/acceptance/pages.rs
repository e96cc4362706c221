//! Tests of the HTML pages without a browser: the effect of each form.

use linchpin::Environment;
use linchpin_auth::{Auth, Transport};
use serde_json::json;

use crate::authenticator::Authenticator;
use crate::cases;
use crate::pages_forged::everything;
use crate::passkeys::with_passkeys;
use crate::post::Post;
use crate::server::{GOOD, Store};
use crate::visitor::{Visitor, hidden, text};

cases! {
    every_store:
        users_sign_up_in_and_out_by_forms, mailed_codes_work_in_forms,
        sessions_and_the_password_are_managed_by_forms;
    one_store:
        accounts_are_deleted_and_restored_by_forms, pages_report_limits,
        passkeys_are_managed_by_forms,
        pages_are_mounted_as_configured,
        return_targets_of_pages_are_restricted;
}

async fn users_sign_up_in_and_out_by_forms(store: Store) {
    let app = store.app().await;
    let mut ada = Visitor::new(&app);
    // A visitor without a session is asked to sign in, and then returns to the page.
    let asked = ada.get("/sessions").await;
    assert_eq!(
        (asked.status, asked.header("location").as_str()),
        (303, "/auth/ui/sign-in?returnTo=%2Fauth%2Fui%2Fsessions")
    );
    ada.sign_up("ada@example.test").await;
    let page = text(&ada.get("/security").await);
    assert!(
        page.contains("<strong>ada@example.test</strong>") && page.contains("Change password"),
        "{page}"
    );
    let out = ada.fill("/security", "/sign-out", &[]).await;
    assert_eq!(
        (out.status, out.header("location").as_str()),
        (303, "/auth/ui/sign-in?done=signed-out")
    );
    assert!(!ada.is_signed_in().await && !ada.cookies.contains_key("__Host-token"));
    assert!(text(&ada.get("/sign-in?done=signed-out").await).contains("You are signed out."));
    // Problems are shown on the page. The input is kept, except for the password.
    let wrong = ada.sign_in("ada@example.test", "not the password").await;
    assert_eq!(wrong.status, 401);
    let page = text(&wrong);
    assert!(
        page.contains("role=\"alert\">The email address or the password is wrong.")
            && page.contains("value=\"ada@example.test\""),
        "{page}"
    );
    assert!(!page.contains("not the password"));
    let malformed = ada.sign_in("no address", "x").await;
    assert!(
        malformed.status == 400 && text(&malformed).contains("aria-invalid=\"true\""),
        "{}",
        text(&malformed)
    );
    let right = ada.sign_in("ada@example.test", GOOD).await;
    assert_eq!(
        (right.status, right.header("location").as_str()),
        (303, "/auth/ui/security")
    );
    assert!(ada.is_signed_in().await);
    assert_eq!(
        ada.get("/sign-in").await.header("location"),
        "/auth/ui/security"
    );
    assert_eq!(ada.get("").await.header("location"), "/auth/ui/security");
    // A sign-up with an address in use, or with an invalid password, is refused.
    let mut eve = Visitor::new(&app);
    let taken = eve
        .fill(
            "/register",
            "/register",
            &[("identifier", "ada@example.test"), ("password", GOOD)],
        )
        .await;
    assert!(
        taken.status == 409 && text(&taken).contains("An account already exists."),
        "{}",
        text(&taken)
    );
    let weak = eve
        .fill(
            "/register",
            "/register",
            &[
                ("identifier", "eve@example.test"),
                ("password", "password123"),
            ],
        )
        .await;
    assert!(
        weak.status == 400 && text(&weak).contains("aria-invalid=\"true\""),
        "{}",
        text(&weak)
    );
    let empty = eve.fill("/register", "/register", &[]).await;
    assert_eq!(empty.status, 400);
}

async fn return_targets_of_pages_are_restricted(store: Store) {
    let app = store.app().await;
    Visitor::new(&app).sign_up("ada@example.test").await;
    for (asked, target) in [
        ("/app?x=1#y", "/app?x=1#y"),
        ("//evil.test", "/auth/ui/security"),
        ("https://evil.test", "/auth/ui/security"),
        ("/\\evil.test", "/auth/ui/security"),
        ("/a\r\nset-cookie: x=y", "/auth/ui/security"),
        ("/ü", "/%C3%BC"),
        ("", "/auth/ui/security"),
        ("/auth/ui/sessions", "/auth/ui/sessions"),
        ("/authors", "/authors"),
        // Routes of the plugin are refused as return targets: one of them would start a link to a
        // provider.
        ("/auth", "/auth/ui/security"),
        ("/auth/stand/link", "/auth/ui/security"),
        ("/auth/stand/link?x#y", "/auth/ui/security"),
        ("/auth/ui/../stand/link", "/auth/ui/security"),
        ("/x/%2e%2E/auth/stand/link", "/auth/ui/security"),
        ("/./auth/stand/link", "/auth/ui/security"),
        ("/x/..\\auth/stand/link", "/auth/ui/security"),
        ("/%61uth/stand/link", "/auth/ui/security"),
        ("/Auth/stand/link", "/auth/ui/security"),
        ("/x//../../auth/stand/link", "/auth/ui/security"),
        ("/auth/ui/%2e%2e%2fstand/link", "/auth/ui/security"),
    ] {
        let mut ada = Visitor::new(&app);
        let fields = [
            ("identifier", "ada@example.test"),
            ("password", GOOD),
            ("returnTo", asked),
        ];
        let reply = ada.fill("/sign-in", "/sign-in", &fields).await;
        assert_eq!(
            (reply.status, reply.header("location").as_str()),
            (303, target),
            "{asked}"
        );
        assert!(!reply.headers.contains_key("x"));
    }
    // The pages keep the return target until the sign-in is complete.
    let mut ada = Visitor::new(&app);
    let page = text(&ada.get("/sign-in?returnTo=/auth/stand/link").await);
    assert!(!page.contains("stand"), "{page}");
    let page = text(&ada.get("/sign-in?returnTo=/app").await);
    assert!(
        page.contains("name=\"returnTo\" value=\"/app\"")
            && page.contains("/auth/ui/register?returnTo=%2Fapp"),
        "{page}"
    );
    app.stop().await;
    let app = store
        .app_with(|auth| auth.configure(|config| config.auth.pages.home = Some("/home".to_owned())))
        .await;
    let mut bob = Visitor::new(&app);
    let reply = bob
        .fill(
            "/register",
            "/register",
            &[("identifier", "bob@example.test"), ("password", GOOD)],
        )
        .await;
    assert_eq!(reply.header("location"), "/home");
}

async fn mailed_codes_work_in_forms(store: Store) {
    let post = Post::default();
    let app = store.app_with(|auth| everything(&post, auth)).await;
    let mut ada = Visitor::new(&app);
    ada.sign_up("ada@example.test").await;
    assert!(text(&ada.get("/security").await).contains("Send confirmation email"));
    // The address is verified by the token alone.
    let code = post.token("verify_email", 1).await;
    let wrong = ada.fill("/verify", "/verify", &[("token", "x")]).await;
    assert!(
        wrong.status == 400 && text(&wrong).contains("is no longer valid"),
        "{}",
        text(&wrong)
    );
    assert_eq!(
        ada.fill("/verify", "/verify", &[("token", &code)])
            .await
            .header("location"),
        "/auth/ui/security?done=verified"
    );
    assert!(text(&ada.get("/security").await).contains("Confirmed"));
    // A forgotten password: the response is the same for known and unknown addresses.
    let mut nobody = Visitor::new(&app);
    for email in ["ada@example.test", "nobody@example.test"] {
        let reply = nobody.fill("/forgot", "/forgot", &[("email", email)]).await;
        assert_eq!(
            (reply.status, reply.header("location").as_str()),
            (303, "/auth/ui/reset?done=asked")
        );
    }
    let code = post.token("password_reset", 1).await;
    // A refused password does not use up the code. The form also accepts the whole link.
    let link = format!("https://app.test/reset#token={code}");
    let weak = nobody
        .fill(
            "/reset",
            "/reset",
            &[("token", &link), ("password", "password123")],
        )
        .await;
    assert!(
        weak.status == 400 && text(&weak).contains("https://app.test/reset#token="),
        "{}",
        text(&weak)
    );
    let done = nobody
        .fill(
            "/reset",
            "/reset",
            &[("token", &link), ("password", "another-lamp-for-otters")],
        )
        .await;
    assert_eq!(done.header("location"), "/auth/ui/sign-in?done=reset");
    assert!(!ada.is_signed_in().await, "all sessions end");
    assert_eq!(ada.sign_in("ada@example.test", GOOD).await.status, 401);
    assert_eq!(
        ada.sign_in("ada@example.test", "another-lamp-for-otters")
            .await
            .status,
        303
    );
    // A sign-in by a mailed link.
    let asked = nobody
        .fill(
            "/link?returnTo=/app",
            "/link",
            &[("identifier", "ada@example.test"), ("returnTo", "/app")],
        )
        .await;
    assert_eq!(
        asked.header("location"),
        "/auth/ui/enter?returnTo=%2Fapp&done=asked"
    );
    let code = post.token("magic_link", 1).await;
    let entered = nobody
        .fill(
            "/enter?returnTo=/app",
            "/enter",
            &[("token", &code), ("returnTo", "/app")],
        )
        .await;
    assert_eq!(
        (entered.status, entered.header("location").as_str()),
        (303, "/app")
    );
    assert!(nobody.is_signed_in().await);
    let mut again = Visitor::new(&app);
    assert_eq!(
        again
            .fill("/enter", "/enter", &[("token", &code)])
            .await
            .status,
        400
    );
}

async fn sessions_and_the_password_are_managed_by_forms(store: Store) {
    let app = store.app().await;
    let (mut ada, mut phone, mut third) =
        (Visitor::new(&app), Visitor::new(&app), Visitor::new(&app));
    phone.agent = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Version/18.0 Mobile/15E148 Safari/604.1";
    ada.sign_up("ada@example.test").await;
    for other in [&mut phone, &mut third] {
        assert_eq!(other.sign_in("ada@example.test", GOOD).await.status, 303);
    }
    let page = ada.get("/sessions").await;
    let list = text(&page);
    assert!(
        list.contains("Safari on iPhone")
            && list.contains("Chrome on Linux")
            && list.matches("This device").count() == 1,
        "{list}"
    );
    let mut eve = Visitor::new(&app);
    eve.sign_up("eve@example.test").await;
    let id = hidden(&page, "id").unwrap();
    let foreign = eve.fill("/sessions", "/sessions/end", &[("id", &id)]).await;
    assert_eq!(foreign.status, 404);
    assert_eq!(
        ada.fill("/sessions", "/sessions/end", &[("id", &id)])
            .await
            .header("location"),
        "/auth/ui/sessions?done=session"
    );
    let signed_in = [phone.is_signed_in().await, third.is_signed_in().await];
    assert_eq!(signed_in.iter().filter(|signed_in| **signed_in).count(), 1);
    assert_eq!(
        ada.fill("/sessions", "/sessions/end-others", &[])
            .await
            .header("location"),
        "/auth/ui/sessions?done=sessions"
    );
    assert!(!phone.is_signed_in().await && !third.is_signed_in().await && ada.is_signed_in().await);
    // A change of the password.
    assert_eq!(phone.sign_in("ada@example.test", GOOD).await.status, 303);
    let wrong = ada
        .fill(
            "/security",
            "/security/password",
            &[
                ("currentPassword", "wrong"),
                ("password", "another-lamp-for-otters"),
            ],
        )
        .await;
    assert_eq!(wrong.status, 401);
    let weak = ada
        .fill(
            "/security",
            "/security/password",
            &[("currentPassword", GOOD), ("password", "short")],
        )
        .await;
    assert!(
        weak.status == 400 && text(&weak).contains("class=\"problem\""),
        "{}",
        text(&weak)
    );
    let done = ada
        .fill(
            "/security",
            "/security/password",
            &[
                ("currentPassword", GOOD),
                ("password", "another-lamp-for-otters"),
            ],
        )
        .await;
    assert_eq!(
        (done.status, done.header("location").as_str()),
        (303, "/auth/ui/security?done=password")
    );
    assert!(ada.is_signed_in().await && !phone.is_signed_in().await);
    // The end of the current session is a sign-out.
    let page = text(&ada.get("/security").await);
    assert!(page.contains("Security"));
    let mut own = Visitor::new(&app);
    own.sign_in("ada@example.test", "another-lamp-for-otters")
        .await;
    let me = app.me(&own.cookies["__Host-token"]).await.text("sessionId");
    assert_eq!(
        own.fill("/sessions", "/sessions/end", &[("id", &me)])
            .await
            .header("location"),
        "/auth/ui/sign-in?done=signed-out"
    );
    assert!(!own.is_signed_in().await);
}

async fn passkeys_are_managed_by_forms(store: Store) {
    let app = store.app_with(with_passkeys).await;
    let mut ada = Visitor::new(&app);
    ada.sign_up("ada@example.test").await;
    let token = ada.cookies["__Host-token"].clone();
    let (options, registration) = app.register_options(&token).await;
    let mut authenticator = Authenticator::p256();
    let answer = authenticator.register(&options).to_string();
    for response in ["", "{", "null", "[]"] {
        let (_, registration) = app.register_options(&token).await;
        let reply = ada
            .fill(
                "/security",
                "/passkeys/add",
                &[("token", &registration), ("response", response)],
            )
            .await;
        assert_eq!(reply.status, 401, "{response}");
    }
    // Only the newest options are valid.
    let stale = ada
        .fill(
            "/security",
            "/passkeys/add",
            &[("token", &registration), ("response", &answer)],
        )
        .await;
    assert_eq!(stale.status, 401);
    let (options, registration) = app.register_options(&token).await;
    let answer = authenticator.register(&options).to_string();
    let fields = [
        ("token", registration.as_str()),
        ("response", &answer),
        ("name", "My phone"),
    ];
    assert_eq!(
        ada.fill("/security", "/passkeys/add", &fields)
            .await
            .header("location"),
        "/auth/ui/security?done=passkey"
    );
    assert!(text(&ada.get("/security").await).contains("<strong>My phone</strong>"));
    let mut other = Visitor::new(&app);
    assert!(text(&other.get("/sign-in").await).contains("data-passkey=\"sign-in\""));
    let (options, passkey) = app.login_options().await;
    let answer = authenticator.assert(&options).to_string();
    let fields = [
        ("token", passkey.as_str()),
        ("response", &answer),
        ("returnTo", "/app"),
    ];
    let reply = other.fill("/sign-in", "/passkey", &fields).await;
    assert_eq!(
        (reply.status, reply.header("location").as_str()),
        (303, "/app"),
        "{}",
        text(&reply)
    );
    assert!(other.is_signed_in().await);
    let mut again = Visitor::new(&app);
    let reply = again.fill("/sign-in", "/passkey", &fields).await;
    assert!(
        reply.status == 401 && text(&reply).contains("Please start again"),
        "{}",
        text(&reply)
    );
}

async fn pages_report_limits(store: Store) {
    let app = store.app().await;
    let mut ada = Visitor::new(&app);
    ada.sign_up("ada@example.test").await;
    let mut eve = Visitor::new(&app);
    for _ in 0..10 {
        assert_eq!(eve.sign_in("ada@example.test", "wrong").await.status, 401);
    }
    let refused = eve.sign_in("ada@example.test", GOOD).await;
    assert!(
        refused.status == 429 && !refused.header("retry-after").is_empty(),
        "{refused:?}"
    );
    assert!(
        text(&refused).contains("Please try again in 15 minutes."),
        "{}",
        text(&refused)
    );
    // A suspended account is reported after the correct password.
    let me = app.me(&ada.cookies["__Host-token"]).await.text("id");
    app.change(&me, json!({ "suspended": true })).await;
    let mut bob = Visitor::new(&app);
    app.advance(901).await;
    let reply = bob.sign_in("ada@example.test", GOOD).await;
    assert!(
        reply.status == 403 && text(&reply).contains("This account is suspended."),
        "{}",
        text(&reply)
    );
}

async fn pages_are_mounted_as_configured(store: Store) {
    let production = |auth: Auth| {
        auth.configure(|config| config.security.issuer = Some("https://app.test".to_owned()))
    };
    let app = store
        .try_app_in(Environment::Production, production)
        .await
        .unwrap();
    assert_eq!(
        app.any("GET", "/auth/ui/sign-in", &[], "").await.status,
        404
    );
    app.stop().await;
    let enabled =
        |auth: Auth| production(auth).configure(|config| config.auth.pages.enabled = Some(true));
    let app = store
        .try_app_in(Environment::Production, enabled)
        .await
        .unwrap();
    assert_eq!(
        app.any("GET", "/auth/ui/sign-in", &[], "").await.status,
        200
    );
    for first in ["/auth/ui", "/auth/ui/"] {
        let redirect = app.any("GET", first, &[], "").await;
        assert_eq!(
            (redirect.status, redirect.header("location").as_str()),
            (303, "/auth/ui/sign-in"),
            "{first}"
        );
    }
    // The pages are not part of the OpenAPI document.
    let document = app.any("GET", "/openapi.json", &[], "").await;
    assert!(!text(&document).contains("/auth/ui"));
    app.stop().await;
    let app = store
        .app_with(|auth| auth.transport(Transport::Bearer))
        .await;
    assert_eq!(
        app.any("GET", "/auth/ui/sign-in", &[], "").await.status,
        404
    );
    app.stop().await;
    let refused = store
        .try_app(|auth| {
            auth.transport(Transport::Bearer)
                .configure(|config| config.auth.pages.enabled = Some(true))
        })
        .await;
    assert!(refused.is_err());
    let themed = |auth: Auth| {
        auth.configure(|config| {
            config
                .auth
                .pages
                .theme
                .insert("accent".to_owned(), "#0a7d55".to_owned());
        })
    };
    let app = store.app_with(themed).await;
    let mut nobody = Visitor::new(&app);
    let theme = nobody.get("/assets/theme.css").await;
    assert_eq!(
        (text(&theme).as_str(), theme.header("content-type").as_str()),
        (
            ":root {\n  --accent: #0a7d55;\n}\n",
            "text/css; charset=utf-8"
        )
    );
    assert_eq!(
        nobody.get("/assets/pages.js").await.header("content-type"),
        "text/javascript; charset=utf-8"
    );
    assert_eq!(nobody.get("/assets/other").await.status, 404);
    for path in [
        "/forgot",
        "/verify",
        "/link",
        "/passkey",
        "/email",
        "/provider",
        "/provider/back",
        "/provider/link",
    ] {
        assert_eq!(nobody.get(path).await.status, 404, "{path}");
    }
    let unknown = nobody.get("/nothing/here").await;
    assert!(
        unknown.status == 404 && text(&unknown).contains("There is no page at this address."),
        "{}",
        text(&unknown)
    );
    let method = nobody.send("DELETE", "/auth/ui/sign-in", &[], "").await;
    assert!(
        method.status == 405 && text(&method).contains("does not support that request method."),
        "{}",
        text(&method)
    );
    assert_eq!(method.header("allow"), "GET, HEAD, POST, OPTIONS");
}

async fn accounts_are_deleted_and_restored_by_forms(store: Store) {
    let post = Post::default();
    let app = store.app_with(|auth| post.on(auth)).await;
    let mut ada = Visitor::new(&app);
    ada.sign_up("ada@example.test").await;
    // The user must confirm their identity first.
    let asked = ada.fill("/delete", "/delete", &[]).await;
    assert_eq!(
        asked.header("location"),
        "/auth/ui/confirm?returnTo=%2Fauth%2Fui%2Fdelete",
        "{}",
        text(&asked)
    );
    let fields = [("password", GOOD), ("returnTo", "/auth/ui/delete")];
    let confirmed = ada
        .fill("/confirm?returnTo=/auth/ui/delete", "/confirm", &fields)
        .await;
    assert_eq!(
        confirmed.header("location"),
        "/auth/ui/delete",
        "{}",
        text(&confirmed)
    );
    let deleted = ada.fill("/delete", "/delete", &[]).await;
    assert_eq!(
        (deleted.status, deleted.header("location").as_str()),
        (303, "/auth/ui/security"),
        "{}",
        text(&deleted)
    );
    let page = text(&ada.get("/security").await);
    assert!(
        page.contains("Your account will be deleted") && !page.contains("Change password"),
        "{page}"
    );
    let refused = ada
        .fill(
            "/security",
            "/security/password",
            &[
                ("currentPassword", GOOD),
                ("password", "another-lamp-for-otters"),
            ],
        )
        .await;
    assert_eq!(refused.status, 403);
    assert_eq!(
        ada.fill("/security", "/keep", &[]).await.header("location"),
        "/auth/ui/security?done=kept"
    );
    assert!(text(&ada.get("/security").await).contains("Change password"));
    app.stop().await;
    let app = store
        .app_with(|auth| auth.configure(|config| config.auth.account_deletion.grace_seconds = 0))
        .await;
    let mut bob = Visitor::new(&app);
    bob.sign_up("bob@example.test").await;
    bob.fill("/confirm", "/confirm", &[("password", GOOD)])
        .await;
    let deleted = bob.fill("/delete", "/delete", &[]).await;
    assert_eq!(
        deleted.header("location"),
        "/auth/ui/sign-in?done=deleted",
        "{}",
        text(&deleted)
    );
    assert_eq!(bob.sign_in("bob@example.test", GOOD).await.status, 401);
}
