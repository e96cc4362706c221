//! Forged forms, and texts that contain markup, have no effect on pages.

use linchpin_auth::Auth;
use serde_json::json;

use crate::authenticator::Authenticator;
use crate::cases;
use crate::issuer::Peer;
use crate::passkeys::with_passkeys;
use crate::post::Post;
use crate::server::{GOOD, Store};
use crate::visitor::{UI, Visitor, form, hidden, text};

cases! {
    one_store:
        forms_without_their_token_are_refused, a_form_of_another_origin_is_refused,
        texts_are_never_markup;
}

/// The paths of all forms, and whether the sender is signed in.
const FORMS: [(&str, bool); 34] = [
    ("/sign-in", false),
    ("/register", false),
    ("/passkey", false),
    ("/forgot", false),
    ("/reset", false),
    ("/verify", false),
    ("/verify/resend", false),
    ("/link", false),
    ("/enter", false),
    ("/sign-out", true),
    ("/sessions/end", true),
    ("/sessions/end-others", true),
    ("/security/password", true),
    ("/passkeys/add", true),
    ("/passkeys/rename", true),
    ("/sign-in", true),
    ("/second", false),
    ("/second/send", false),
    ("/second/passkey", false),
    ("/passkeys/remove", true),
    ("/factors/app", true),
    ("/factors/app/verify", true),
    ("/factors/email", true),
    ("/factors/sent/verify", true),
    ("/factors/remove", true),
    ("/factors/recovery", true),
    ("/confirm", true),
    ("/delete", true),
    ("/keep", true),
    ("/confirm/send", true),
    ("/confirm/passkey", true),
    ("/keep", false),
    ("/email", true),
    ("/provider/unlink", true),
];

/// Enables every feature that adds a form to a page.
pub fn everything(post: &Post, auth: Auth) -> Auth {
    Peer::shared()
        .on(post.on(with_passkeys(auth)))
        .configure(|config| {
            config.auth.email_verification.enabled = true;
            config.auth.magic_link.enabled = true;
            config.auth.mfa.enabled = true;
            config.auth.mfa.email_otp.enabled = true;
        })
}

async fn forms_without_their_token_are_refused(store: Store) {
    let post = Post::default();
    let app = store.app_with(|auth| everything(&post, auth)).await;
    let (mut ada, mut eve, mut nobody, mut other) = (
        Visitor::new(&app),
        Visitor::new(&app),
        Visitor::new(&app),
        Visitor::new(&app),
    );
    ada.sign_up("ada@example.test").await;
    eve.sign_up("eve@example.test").await;
    let (eve_token, other_token) = (eve.csrf("/security").await, other.csrf("/sign-in").await);
    let own = nobody.csrf("/sign-in").await;
    for (path, signed_in) in FORMS {
        let visitor = if signed_in { &mut ada } else { &mut nobody };
        for csrf in [
            None,
            Some(""),
            Some("x"),
            Some("a.b"),
            Some(eve_token.as_str()),
            Some(other_token.as_str()),
        ] {
            let mut fields = vec![
                ("identifier", "ada@example.test"),
                ("password", GOOD),
                ("currentPassword", GOOD),
                ("email", "ada@example.test"),
            ];
            fields.extend(csrf.map(|csrf| ("csrf", csrf)));
            let reply = visitor.post(path, &fields).await;
            // If a request has no session, its form token may belong to the user's earlier session.
            // So the app asks the user to sign in, and ignores the form.
            if !signed_in && csrf == Some(eve_token.as_str()) {
                assert!(
                    reply.status == 303
                        && reply.header("location").starts_with("/auth/ui/sign-in?"),
                    "{path}: {reply:?}"
                );
                continue;
            }
            assert_eq!(reply.status, 403, "{path} with {csrf:?}: {}", text(&reply));
        }
        // A body that is not a form or is too large is refused too.
        let json = [
            ("content-type", "application/json"),
            ("origin", "http://localhost"),
        ];
        assert_eq!(
            visitor
                .send("POST", &format!("{UI}{path}"), &json, "{}")
                .await
                .status,
            415
        );
        let large = format!("csrf={}", "x".repeat(70_000));
        let headers = [("content-type", "application/x-www-form-urlencoded")];
        assert_eq!(
            visitor
                .send("POST", &format!("{UI}{path}"), &headers, &large)
                .await
                .status,
            413
        );
    }
    // A form token from outside a session is refused in a session. Without a session, the form
    // token of a session leads to a redirect and signs nobody in.
    assert_eq!(ada.post("/sign-out", &[("csrf", &own)]).await.status, 403);
    assert_eq!(
        nobody
            .post("/sign-in", &[("csrf", &eve_token)])
            .await
            .status,
        303
    );
    assert!(!nobody.is_signed_in().await);
    assert!(ada.is_signed_in().await && eve.is_signed_in().await);
    assert_eq!(
        post.count("password_reset") + post.count("magic_link") + post.count("password_changed"),
        0
    );
    // A browser without cookies has no valid form token.
    let mut bare = Visitor::new(&app);
    assert_eq!(
        bare.post(
            "/sign-in",
            &[
                ("csrf", &own),
                ("identifier", "ada@example.test"),
                ("password", GOOD)
            ]
        )
        .await
        .status,
        403
    );
}

async fn a_form_of_another_origin_is_refused(store: Store) {
    let app = store.app().await;
    let mut ada = Visitor::new(&app);
    ada.sign_up("ada@example.test").await;
    let csrf = ada.csrf("/security").await;
    for origin in ["https://evil.test", "null", "http://localhost"] {
        let reply = ada.post_from(origin, "/sign-out", &[("csrf", &csrf)]).await;
        assert_eq!(reply.status, 403, "{origin}");
    }
    assert!(ada.is_signed_in().await);
    let headers = [
        ("content-type", "application/x-www-form-urlencoded"),
        ("sec-fetch-site", "cross-site"),
    ];
    assert_eq!(
        ada.send(
            "POST",
            "/auth/ui/sign-out",
            &headers,
            &form(&[("csrf", &csrf)])
        )
        .await
        .status,
        403
    );
    // JSON routes need their own CSRF token. They refuse the token of a page.
    let origin = format!("http://{}", app.host());
    for token in [None, Some(("x-csrf-token", csrf.as_str()))] {
        let mut headers = vec![("origin", origin.as_str())];
        headers.extend(token);
        let reply = ada.send("DELETE", "/auth/sessions", &headers, "").await;
        reply.refused(403, "csrf_failed");
    }
}

async fn texts_are_never_markup(store: Store) {
    const HOSTILE: &str = "\"><script>alert(1)</script><img src=x onerror=\"alert(1)\">'&";
    let app = store
        .app_with(|auth| {
            with_passkeys(auth).configure(|config| config.auth.app_name = format!("Acme {HOSTILE}"))
        })
        .await;
    let mut ada = Visitor::new(&app);
    ada.agent = "<script>alert(1)</script>";
    ada.sign_up("ada@example.test").await;
    let token = ada.cookies["__Host-token"].clone();
    app.with(
        &token,
        "PATCH",
        "/auth/me",
        Some(json!({ "displayName": HOSTILE })),
    )
    .await;
    app.register_passkey(&token, &mut Authenticator::p256())
        .await;
    let id = ada.get("/security").await;
    let id = hidden(&id, "id").unwrap();
    let renamed = ada
        .fill(
            "/security",
            "/passkeys/rename",
            &[("id", &id), ("name", "</strong><script>alert(1)")],
        )
        .await;
    assert_eq!(renamed.status, 303);
    let mut pages = Vec::new();
    for path in ["/security", "/sessions"] {
        pages.push(text(&ada.get(path).await));
    }
    assert!(
        pages[0].contains("&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;")
            && pages[0].contains("&lt;/strong&gt;&lt;script&gt;"),
        "{}",
        pages[0]
    );
    assert!(
        pages[1].contains("&lt;script&gt;alert(1)&lt;/script&gt;"),
        "{}",
        pages[1]
    );
    let mut nobody = Visitor::new(&app);
    for query in [
        "done=%3Cscript%3Ealert(1)%3C/script%3E",
        "returnTo=/%22%3E%3Cscript%3Ealert(1)%3C/script%3E",
        "returnTo=javascript:alert(1)",
    ] {
        pages.push(text(&nobody.get(&format!("/sign-in?{query}")).await));
        pages.push(text(&nobody.get(&format!("/register?{query}")).await));
    }
    let fields = [
        ("identifier", HOSTILE),
        ("password", HOSTILE),
        ("email", HOSTILE),
        ("token", HOSTILE),
        ("response", HOSTILE),
        ("returnTo", HOSTILE),
    ];
    for path in ["/sign-in", "/register", "/passkey"] {
        pages.push(text(&nobody.fill("/sign-in", path, &fields).await));
    }
    for page in pages {
        assert!(
            !page.contains("<script>") && !page.contains("<img") && !page.contains("\"javascript:"),
            "{page}"
        );
    }
}
