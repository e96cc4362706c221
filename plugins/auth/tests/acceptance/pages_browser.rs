//! The pages in Chromium: with and without scripts, on a large screen and on a phone. With
//! `LINCHPIN_PICTURES=1`, pictures are stored in the target folder (`tmp/pages`).

use linchpin_auth::{Auth, SameSite};
use serde_json::json;

use crate::chromium::Browser;
use crate::factor::code_at;
use crate::issuer::Peer;
use crate::post::Post;
use crate::server::{GOOD, Server, Store};

const NEW: &str = "another-lamp-for-otters";

/// An app with all features that have pages, at `http://localhost`.
async fn app(post: &Post, change: impl FnOnce(Auth) -> Auth) -> (Server, String, Store) {
    app_on(Store::memory().at_a_free_port(), post, change).await
}

async fn app_on(
    store: Store,
    post: &Post,
    change: impl FnOnce(Auth) -> Auth,
) -> (Server, String, Store) {
    let origin = format!("http://localhost:{}", store.port());
    let app = store
        .app_with(|auth| {
            change(post.on(auth).configure(|config| {
                config.auth.app_name = "Acme Notes".into();
                config.auth.passkeys.enabled = true;
                config.auth.passkeys.rp_id = "localhost".into();
                config.auth.passkeys.origins = vec![origin.clone()];
                config.auth.email_verification.enabled = true;
                config.auth.email_verification.link_base_url =
                    Some(format!("{origin}/auth/ui/verify"));
                config.auth.password_reset.link_base_url = Some(format!("{origin}/auth/ui/reset"));
                config.auth.magic_link.enabled = true;
                config.auth.magic_link.link_base_url = Some(format!("{origin}/auth/ui/enter"));
                config.auth.account_deletion.link_base_url = Some(format!("{origin}/auth/ui/keep"));
            }))
        })
        .await;
    (app, origin, store)
}

async fn link(post: &Post, kind: &str, least: usize) -> String {
    post.all(kind, least).await.last().unwrap().vars["link"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_pages_work_with_javascript() {
    let post = Post::default();
    let (app, origin, _store) = app(&post, |auth| auth).await;
    let mut browser = Browser::start().await;
    browser.plug_in(true).await;
    let at = |path: &str| format!("{origin}/auth/ui{path}");
    browser.open(&at("/register")).await;
    browser.picture("register").await;
    browser
        .submit(
            "main form",
            &[
                ("identifier", "ada@example.test"),
                ("password", "password123"),
            ],
        )
        .await;
    browser.picture("register-refused").await;
    assert!(browser.seen().await.contains("too easy to guess"));
    browser
        .submit(
            "main form",
            &[("identifier", "ada@example.test"), ("password", GOOD)],
        )
        .await;
    assert_eq!(browser.path().await, "/auth/ui/security");
    browser.picture("security").await;
    // Sends the mail again, for a user who has lost the first.
    browser.submit("form[action$='/verify/resend']", &[]).await;
    assert_eq!(
        browser.path().await,
        "/auth/ui/security?done=sent",
        "{}",
        browser.seen().await
    );
    link(&post, "verify_email", 2).await;
    // The link in the mail: the script removes the token from the address at once.
    browser.open(&link(&post, "verify_email", 1).await).await;
    assert_eq!(browser.run("location.hash").await, "");
    browser.picture("verify").await;
    browser.submit("main form", &[]).await;
    assert_eq!(browser.path().await, "/auth/ui/security?done=verified");
    // A passkey is added, and signs in.
    browser
        .submit("form[data-passkey=add]", &[("name", "My laptop")])
        .await;
    assert_eq!(
        browser.path().await,
        "/auth/ui/security?done=passkey",
        "{}",
        browser.seen().await
    );
    assert!(browser.seen().await.contains("My laptop"));
    browser.picture("security-passkey").await;
    browser.open(&at("/sessions")).await;
    browser.picture("sessions").await;
    browser.submit("header form", &[]).await;
    assert_eq!(browser.path().await, "/auth/ui/sign-in?done=signed-out");
    browser.picture("sign-in").await;
    browser.submit("form[data-passkey=sign-in]", &[]).await;
    assert_eq!(
        browser.path().await,
        "/auth/ui/security",
        "{}",
        browser.seen().await
    );
    // The passkey is removed.
    browser
        .submit("form[action$='/passkeys/remove']", &[])
        .await;
    assert_eq!(
        browser.path().await,
        "/auth/ui/security?done=passkey-removed",
        "{}",
        browser.seen().await
    );
    assert!(!browser.seen().await.contains("My laptop"));
    browser.submit("header form", &[]).await;
    browser.submit("form[data-passkey=sign-in]", &[]).await;
    assert!(
        browser
            .seen()
            .await
            .contains("The passkey could not be verified."),
        "{}",
        browser.seen().await
    );
    browser.picture("passkey-removed").await;
    browser
        .submit(
            "form[action$='/sign-in']",
            &[("identifier", "ada@example.test"), ("password", "wrong")],
        )
        .await;
    browser.picture("sign-in-refused").await;
    assert_eq!(browser.run("document.activeElement.id").await, "identifier");
    // A forgotten password.
    browser.open(&at("/forgot")).await;
    browser.picture("forgot").await;
    browser
        .submit("main form", &[("email", "ada@example.test")])
        .await;
    browser.picture("forgot-sent").await;
    browser.open(&link(&post, "password_reset", 1).await).await;
    browser.picture("reset").await;
    browser.submit("main form", &[("password", NEW)]).await;
    assert_eq!(browser.path().await, "/auth/ui/sign-in?done=reset");
    browser
        .submit(
            "form[action$='/sign-in']",
            &[("identifier", "ada@example.test"), ("password", NEW)],
        )
        .await;
    assert_eq!(browser.path().await, "/auth/ui/security");
    browser.submit("header form", &[]).await;
    // A sign-in by a mailed link.
    browser.open(&at("/link")).await;
    browser.picture("link").await;
    browser
        .submit("main form", &[("identifier", "ada@example.test")])
        .await;
    browser.open(&link(&post, "magic_link", 1).await).await;
    browser.picture("enter").await;
    browser.submit("main form", &[]).await;
    assert_eq!(browser.path().await, "/auth/ui/security");
    assert_eq!(browser.complaints().await, Vec::<String>::new());
    // An injected script does not run: the content security policy of the page forbids it.
    let injected = "(() => { const tag = document.createElement('script'); tag.textContent = 'window.injected = true'; document.body.append(tag); return !!window.injected; })()";
    assert_eq!(browser.run(injected).await, json!(false));
    browser.stop().await;
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_pages_work_with_two_factors() {
    let post = Post::default();
    let with_factors = |auth: Auth| {
        auth.configure(|config| {
            config.auth.email_verification.enabled = false;
            config.auth.mfa.enabled = true;
            config.auth.mfa.email_otp.enabled = true;
        })
    };
    let (app, origin, _store) = app(&post, with_factors).await;
    let mut browser = Browser::start().await;
    browser.plug_in(true).await;
    let at = |path: &str| format!("{origin}/auth/ui{path}");
    browser.open(&at("/register")).await;
    browser
        .submit(
            "main form",
            &[("identifier", "ada@example.test"), ("password", GOOD)],
        )
        .await;
    browser.submit("form[action$='/factors/app']", &[]).await;
    browser.picture("factor-app").await;
    let secret = browser
        .run("document.querySelector('[name=secret]').value")
        .await
        .as_str()
        .unwrap()
        .to_owned();
    browser
        .submit("main form", &[("code", &code_at(&app, &secret, 0))])
        .await;
    browser.picture("recovery-codes").await;
    assert!(browser.seen().await.contains("Recovery codes"));
    browser.open(&at("/security")).await;
    browser
        .submit("form[data-passkey=add]", &[("name", "My laptop")])
        .await;
    assert_eq!(
        browser.path().await,
        "/auth/ui/security?done=passkey",
        "{}",
        browser.seen().await
    );
    browser.picture("security-two-factors").await;
    browser.submit("header form", &[]).await;
    browser
        .submit(
            "form[action$='/sign-in']",
            &[("identifier", "ada@example.test"), ("password", GOOD)],
        )
        .await;
    assert_eq!(browser.path().await, "/auth/ui/second");
    browser.picture("second").await;
    browser.submit("main form", &[("code", "000000")]).await;
    browser.picture("second-refused").await;
    browser.submit("form[data-passkey=second]", &[]).await;
    assert_eq!(
        browser.path().await,
        "/auth/ui/security",
        "{}",
        browser.seen().await
    );
    // An action that needs a recent proof continues after the proof.
    app.advance(301).await;
    browser.open(&at("/confirm")).await;
    browser.picture("confirm").await;
    browser.submit("form[data-passkey=confirm]", &[]).await;
    assert_eq!(
        browser.path().await,
        "/auth/ui/security",
        "{}",
        browser.seen().await
    );
    browser
        .submit("form[action$='/factors/recovery']", &[])
        .await;
    assert!(browser.seen().await.contains("Recovery codes"));
    assert_eq!(browser.complaints().await, Vec::<String>::new());
    browser.stop().await;
    app.stop().await;
}

/// The provider is another site with its own pages; only browser redirects connect both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_pages_work_with_a_provider() {
    for (script, strict) in [(true, false), (false, false), (true, true)] {
        with_a_provider(script, strict).await;
    }
}

async fn with_a_provider(script: bool, strict: bool) {
    let post = Post::default();
    let store = Store::memory().at_a_free_port();
    let origin = format!("http://localhost:{}", store.port());
    let peer = Peer::start_for(&format!("{origin}/auth/acme/callback"));
    let (app, origin, _store) = app_on(store, &post, |auth| {
        peer.with(auth, "acme", |mut provider| {
            provider.name = Some("Acme ID".to_owned());
            provider
        })
        .configure(|config| {
            config.auth.public_url = Some(origin.clone());
            config.auth.cookies.same_site = if strict {
                SameSite::Strict
            } else {
                SameSite::Lax
            };
        })
    })
    .await;
    app.to_the_present().await;
    let mut browser = Browser::start().await;
    browser
        .call(
            "Emulation.setScriptExecutionDisabled",
            json!({ "value": !script }),
        )
        .await;
    let at = |path: &str| format!("{origin}/auth/ui{path}");
    browser
        .open(&at("/sign-in?returnTo=/auth/ui/sessions"))
        .await;
    if script && !strict {
        browser.picture("sign-in-with-provider").await;
        browser.open(&at("/register")).await;
        browser.picture("register-with-provider").await;
        browser
            .open(&at("/sign-in?returnTo=/auth/ui/sessions"))
            .await;
    }
    browser
        .follow("a[href*='/provider?']", &origin, "grace")
        .await;
    browser.arrive("/auth/ui/sessions").await;
    browser.open(&at("/security")).await;
    assert!(browser.seen().await.contains("grace@peer.test"));
    // Without a password, the provider is the last way to sign in.
    browser
        .submit("form[action$='/provider/unlink']", &[])
        .await;
    assert!(
        browser
            .seen()
            .await
            .contains("Set a password or add a passkey first."),
        "{}",
        browser.seen().await
    );
    browser
        .submit("form[action$='/security/password']", &[("password", GOOD)])
        .await;
    assert_eq!(
        browser.path().await,
        "/auth/ui/security?done=password",
        "{}",
        browser.seen().await
    );
    // After five minutes, unlinking needs a proof.
    app.advance(301).await;
    browser
        .submit("form[action$='/provider/unlink']", &[])
        .await;
    assert_eq!(
        browser.path().await,
        "/auth/ui/confirm?returnTo=%2Fauth%2Fui%2Fsecurity"
    );
    browser.submit("main form", &[("password", GOOD)]).await;
    browser
        .submit("form[action$='/provider/unlink']", &[])
        .await;
    assert_eq!(browser.path().await, "/auth/ui/security?done=unlinked");
    // Links a provider after the address was confirmed. The provider still has a session, so it
    // does not ask the user again.
    browser.open(&at("/provider/link?id=acme")).await;
    assert!(
        browser
            .seen()
            .await
            .contains("Confirm your email address first"),
        "{}",
        browser.seen().await
    );
    let token = post.token("verify_email", 1).await;
    browser.open(&link(&post, "verify_email", 1).await).await;
    browser.submit("main form", &[("token", &token)]).await;
    assert_eq!(
        browser.path().await,
        "/auth/ui/security?done=verified",
        "{}",
        browser.seen().await
    );
    browser.open(&at("/provider/link?id=acme")).await;
    if script && !strict {
        browser.picture("link-a-provider").await;
    }
    browser
        .follow("a[href*='/auth/acme/link']", &origin, "grace")
        .await;
    browser.arrive("/auth/ui/security?done=linked").await;
    if script && !strict {
        browser.picture("security-with-provider").await;
    }
    // Changes the address: the page, and the link in the mail.
    browser.open(&at("/email")).await;
    if script && !strict {
        browser.picture("email").await;
    }
    browser
        .submit("main form", &[("email", "hopper@example.test")])
        .await;
    assert_eq!(browser.path().await, "/auth/ui/security?done=email-asked");
    if script && !strict {
        browser.picture("email-asked").await;
    }
    browser
        .open(&link(&post, "verify_new_email", 1).await)
        .await;
    let token = post.token("verify_new_email", 1).await;
    browser.submit("main form", &[("token", &token)]).await;
    assert_eq!(browser.path().await, "/auth/ui/security?done=email");
    assert!(browser.seen().await.contains("hopper@example.test"));
    // The deletion is scheduled, and the mailed link cancels it.
    browser.open(&at("/delete")).await;
    if script && !strict {
        browser.picture("delete").await;
    }
    browser.submit("main form", &[]).await;
    if script && !strict {
        browser.picture("to-be-deleted").await;
    }
    browser.open(&link(&post, "cancel_deletion", 1).await).await;
    if script && !strict {
        browser.picture("keep").await;
    }
    let token = post.token("cancel_deletion", 1).await;
    browser.submit("main form", &[("token", &token)]).await;
    assert_eq!(browser.path().await, "/auth/ui/security?done=kept");
    // A failure is shown on the first page.
    browser.submit("header form", &[]).await;
    browser.open(&at("/sign-in?failed=account_exists")).await;
    if script && !strict {
        browser.picture("sign-in-refused-by-provider").await;
        assert_eq!(browser.complaints().await, Vec::<String>::new());
    }
    browser.stop().await;
    app.stop().await;
}

/// The session expires while a page is open. The script renews it before a request, and the server
/// renews it when a form is sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_pages_renew_an_expired_session() {
    let post = Post::default();
    let renewing = |auth: Auth| {
        auth.refresh_tokens()
            .configure(|config| config.auth.email_verification.enabled = false)
    };
    let (app, origin, _store) = app(&post, renewing).await;
    let mut browser = Browser::start().await;
    browser.plug_in(true).await;
    browser.open(&format!("{origin}/auth/ui/register")).await;
    browser
        .submit(
            "main form",
            &[("identifier", "ada@example.test"), ("password", GOOD)],
        )
        .await;
    assert_eq!(browser.path().await, "/auth/ui/security");
    app.advance(960).await;
    browser
        .submit("form[data-passkey=add]", &[("name", "My laptop")])
        .await;
    assert_eq!(
        browser.path().await,
        "/auth/ui/confirm",
        "{}",
        browser.seen().await
    );
    app.advance(960).await;
    browser.submit("main form", &[("password", GOOD)]).await;
    assert_eq!(
        browser.path().await,
        "/auth/ui/security",
        "{}",
        browser.seen().await
    );
    browser
        .submit("form[data-passkey=add]", &[("name", "My laptop")])
        .await;
    assert_eq!(
        browser.path().await,
        "/auth/ui/security?done=passkey",
        "{}",
        browser.seen().await
    );
    // Another site navigates the browser to the app. The browser does not send the
    // `SameSite=Strict` cookie until a page of the app sends the request.
    app.advance(960).await;
    browser
        .open(&format!(
            "{}/auth/ui/assets/pages.css",
            origin.replace("localhost", "127.0.0.1")
        ))
        .await;
    browser
        .run(&format!(
            "location.assign({})",
            json!(format!("{origin}/auth/ui/sessions"))
        ))
        .await;
    browser.arrive("/auth/ui/sessions").await;
    assert!(
        browser.seen().await.contains("This device"),
        "{}",
        browser.seen().await
    );
    browser.stop().await;
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_pages_work_without_javascript() {
    let post = Post::default();
    let (app, origin, _store) = app(&post, |auth| auth).await;
    let mut browser = Browser::start().await;
    browser
        .call(
            "Emulation.setScriptExecutionDisabled",
            json!({ "value": true }),
        )
        .await;
    let at = |path: &str| format!("{origin}/auth/ui{path}");
    browser.open(&at("/sessions")).await;
    assert_eq!(
        browser.path().await,
        "/auth/ui/sign-in?returnTo=%2Fauth%2Fui%2Fsessions"
    );
    browser.picture("sign-in-without-script").await;
    assert!(!browser.seen().await.contains("passkey"));
    browser
        .open(&at("/register?returnTo=/auth/ui/sessions"))
        .await;
    browser
        .submit(
            "main form",
            &[("identifier", "ada@example.test"), ("password", GOOD)],
        )
        .await;
    assert_eq!(browser.path().await, "/auth/ui/sessions");
    browser.open(&at("/security")).await;
    browser.picture("security-without-script").await;
    browser
        .submit(
            "form[action$='/security/password']",
            &[("currentPassword", GOOD), ("password", NEW)],
        )
        .await;
    assert_eq!(browser.path().await, "/auth/ui/security?done=password");
    browser.submit("header form", &[]).await;
    assert_eq!(browser.path().await, "/auth/ui/sign-in?done=signed-out");
    // Without a script, the user pastes the link into the form.
    browser.open(&at("/forgot")).await;
    browser
        .submit("main form", &[("email", "ada@example.test")])
        .await;
    let link = link(&post, "password_reset", 1).await;
    browser
        .submit("main form", &[("token", &link), ("password", GOOD)])
        .await;
    assert_eq!(browser.path().await, "/auth/ui/sign-in?done=reset");
    browser
        .submit(
            "form[action$='/sign-in']",
            &[("identifier", "ada@example.test"), ("password", GOOD)],
        )
        .await;
    assert_eq!(browser.path().await, "/auth/ui/security");
    browser.stop().await;
    app.stop().await;
}
