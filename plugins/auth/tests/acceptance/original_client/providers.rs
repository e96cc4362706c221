//! Sign-in by a provider with the client. The issuer is the npm package `oidc-provider`.

use linchpin_auth::Auth;
use serde_json::{Value as Json, json};

use super::{Mode, PAGE, Page, app, both_modes};
use crate::issuer::{APP, Browser, Peer, parameter};
use crate::post::Post;
use crate::server::{GOOD, Server};

both_modes!(the_provider_hooks_work);

pub(super) const HOOKS: &[&str] = &[
    "getLinkUrl",
    "getOAuthUrl",
    "useLogout",
    "useOAuthExchange",
    "useOAuthUnlink",
    "useResendVerification",
    "useSetPassword",
    "useUser",
    "useVerifyEmail",
];

/// Follows an address of the client to a provider, signs in there as `login`, and returns the
/// address to which the browser was redirected.
async fn sign_in_at_provider(page: &mut Page, url: &str, login: &str) -> String {
    let redirect = page.visit(url);
    assert_eq!(redirect["status"], 302, "{redirect}");
    let callback = Browser::new()
        .sign_in(redirect["location"].as_str().unwrap(), login)
        .await;
    let back = page.visit(&callback.replacen(APP, &page.api.clone(), 1));
    assert_eq!(back["status"], 302, "{back}");
    back["location"].as_str().unwrap().to_owned()
}

/// Signs in at the provider, and returns the code that a page at this origin gets.
pub(super) async fn code(page: &mut Page, origin: &str, login: &str) -> Json {
    let url = page.address(
        "getOAuthUrl",
        "work",
        &json!({ "returnTo": format!("{origin}/back") }),
    );
    // The server has its own client, scopes and callback for the provider, so it ignores those of
    // the page.
    for (name, value) in [
        ("client_id", "of-the-page"),
        ("scope", "openid calendar"),
        ("redirect_uri", "/somewhere"),
    ] {
        assert_eq!(parameter(&url, name).as_deref(), Some(value), "{url}");
    }
    let to = sign_in_at_provider(page, &url, login).await;
    assert!(to.starts_with(&format!("{origin}/back?code=")), "{to}");
    json!({ "code": parameter(&to, "code") })
}

fn linked_providers(page: &mut Page) -> Json {
    page.read("useUser")["user"]["providers"].clone()
}

pub(super) async fn with_peer(post: &Post, change: impl FnOnce(Auth) -> Auth) -> Server {
    let returning = |auth: Auth| {
        auth.configure(|config| config.auth.oauth.allowed_redirect_origins = vec![PAGE.to_owned()])
    };
    let app = app(post, |auth| change(Peer::shared().on(returning(auth)))).await;
    app.to_the_present().await;
    app
}

async fn the_provider_hooks_work(mode: Mode) {
    let post = Post::default();
    let app = with_peer(&post, |auth| auth).await;
    let mut page = Page::open(&app, mode);
    let login = if mode == Mode::Token {
        "of-the-client-by-token"
    } else {
        "of-the-client-by-cookie"
    };
    let email = format!("{login}@peer.test");
    let exchange = code(&mut page, PAGE, login).await;
    let api = page.api.clone();
    let exchange = if mode == Mode::Token {
        // In token mode the client sends no cookies to another origin, so the server cannot
        // recognise the browser that was redirected. On the origin of the server the browser sends
        // the cookie by itself.
        page.refused("useOAuthExchange", exchange, 401, "invalid_code");
        page.open_at(&api);
        code(&mut page, PAGE, login).await
    } else {
        exchange
    };
    let (done, state) = page.call("useOAuthExchange", exchange);
    assert_eq!(
        (&done["email"], &state["user"], &state["path"]),
        (&json!(email), &json!(email), &json!("/home"))
    );
    assert_eq!(
        (&state["token"], &state["refresh"]),
        (&json!(mode == Mode::Token), &json!(mode == Mode::Token))
    );
    assert_eq!(linked_providers(&mut page), json!(["peer"]));

    // The last way to sign in cannot be unlinked. If there is another way, a recent sign-in is a
    // sufficient proof; the client can send no other proof.
    page.refused("useOAuthUnlink", json!("peer"), 409, "last_credential");
    page.expect_message(
        "useSetPassword",
        json!({ "password": GOOD }),
        "The password was set.",
    );
    page.expect_message(
        "useOAuthUnlink",
        json!("peer"),
        "The provider was unlinked.",
    );
    assert_eq!(linked_providers(&mut page), json!([]));

    // A link needs a verified address. In cookie mode, the link must be on a page of the server's
    // origin.
    page.call("useResendVerification", json!({ "email": email }));
    page.expect_message(
        "useVerifyEmail",
        json!({ "token": post.token("verify_email", 1).await }),
        "The address is verified.",
    );
    let url = page.address("getLinkUrl", "work", &json!(null));
    if mode == Mode::Cookie {
        let refused = page.visit(&url);
        assert_eq!(refused["status"], 403, "{refused}");
        page.open_at(&api);
    }
    let to = sign_in_at_provider(&mut page, &url, login).await;
    assert_eq!(to, "/?linked=peer");
    assert_eq!(linked_providers(&mut page), json!(["peer"]));
    if mode == Mode::Cookie {
        page.open_at(PAGE);
    }
    page.logout();
    page.assert_called(HOOKS);
}
